"""Validation errors per field, in our own wording. Only this module depends on the validator's error types.

Fields are named as in the request. If a field accepts several types, only errors for types that the value resembles
are reported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

from fairpost.api.answers import MOMENT_WORDS, NO_NUL
from fairpost.model.email_fields import EMAIL_TYPE, HEADER_NAME, INLINE_ID, MEDIA_TYPE, TAG_NAME
from fairpost.model.names import NAME

JSON = Any
Error = Mapping[str, Any]  # an error as reported by the validator
Path = tuple[str | int, ...]

LOOKED_AT_MAX = 200
WORDS_CHARS_MAX = 300
EXPECTED: Mapping[str, str] = {
    "string_type": "a string",
    "string_sub_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "null",
    "date_type": "a date such as 2030-01-31",
    "date_parsing": "a date such as 2030-01-31",
    "date_from_datetime_parsing": "a date such as 2030-01-31",
    "date_from_datetime_inexact": "a date such as 2030-01-31",
    "datetime_type": MOMENT_WORDS,
    "datetime_parsing": MOMENT_WORDS,
    "datetime_from_date_parsing": MOMENT_WORDS,
    "datetime_object_invalid": MOMENT_WORDS,
    "timezone_aware": MOMENT_WORDS,
}
PATTERNS: Mapping[str, str] = {
    NO_NUL: "must not contain NUL characters",
    f"^{NAME.pattern}$": "must be 1 to 100 letters, digits, dots, dashes and underscores, starting with a letter or digit",
    f"^{HEADER_NAME}$": "must be a header name of at most 100 ASCII characters",
    f"^{MEDIA_TYPE}$": "must be a media type such as image/png",
    f"^{INLINE_ID}$": "must be at most 200 letters, digits and ._@+-",
    f"^{EMAIL_TYPE}$": "must be 1 to 150 letters, digits and _.:- and start with a letter or digit",
    f"^{TAG_NAME}$": "must be a tag name: 1 to 50 letters, digits and _.-",
}
COUNTED = {"to": "recipients", "cc": "recipients", "bcc": "recipients", "": "items"}


def _count(error: Error) -> str:
    given = error.get("input")
    return f", got {len(given):,}" if isinstance(given, Sized) else ""


def _items(error: Error) -> str:
    name = next((str(part) for part in reversed(error["loc"]) if str(part).isidentifier()), "")
    return COUNTED.get(name) or (name.replace("_", " ") if name.endswith("s") else "items")


def _pattern(error: Error) -> str:
    pattern = error["ctx"]["pattern"]
    return PATTERNS.get(pattern, f"must match {pattern}")


def _choices(error: Error) -> str:
    return f"must be {error['ctx']['expected']}".replace("'", "")


def _too_short(error: Error) -> str:
    least = error["ctx"]["min_length"]
    return "must not be empty" if least == 1 else f"at least {least:,} characters{_count(error)}"


def _too_few(error: Error) -> str:
    least = error["ctx"]["min_length"]
    return "must not be empty" if least == 1 else f"at least {least:,} {_items(error)}{_count(error)}"


WORDS: Mapping[str, Callable[[Error], str]] = {
    "missing": lambda _: "is required",
    "extra_forbidden": lambda _: "is not a known field",
    "string_too_long": lambda error: f"at most {error['ctx']['max_length']:,} characters{_count(error)}",
    "string_too_short": _too_short,
    "too_long": lambda error: f"at most {error['ctx']['max_length']:,} {_items(error)}{_count(error)}",
    "too_short": _too_few,
    "string_pattern_mismatch": _pattern,
    "string_unicode": lambda _: "must be valid Unicode",
    "enum": _choices,
    "literal_error": _choices,
    "greater_than_equal": lambda error: f"must be at least {error['ctx']['ge']:,}",
    "less_than_equal": lambda error: f"must be at most {error['ctx']['le']:,}",
    "finite_number": lambda _: "must be a finite number",
    "int_parsing_size": lambda _: "is too large",
    "value_error": lambda error: str(error["ctx"]["error"]),
}


def mistakes(errors: Sequence[Error], body: JSON, model: Any = None) -> list[dict[str, str]]:
    """Describes each error by field.

    `body` is the request as sent; `model` is its expected type, used to suggest names.
    """
    found = [(_path(error, body), error) for error in errors[:LOOKED_AT_MAX]]
    told: dict[Path, list[str]] = {}
    for path, error in found:
        if not (error["type"] in EXPECTED and _is_settled(path, found)):
            told.setdefault(path, []).append(_suggested(error, path, model))
    return [{"field": _written(path), "message": _joined(words)} for path, words in told.items()]


def _written(path: Path) -> str:
    """Returns the path as text, such as `to[1].address`. The database uses the same form."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _path(error: Error, body: JSON) -> Path:
    """Returns the path in the request, without the parts that the validator adds for the members of a union."""
    place, *rest = error["loc"]
    if place != "body":
        return tuple(rest[:1])
    path: list[str | int] = []
    value = body
    for number, part in enumerate(rest, 1):
        is_last = number == len(rest)
        if isinstance(value, Mapping) and (part in value or (is_last and error["type"] == "missing")):
            path.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            path.append(part)
            value = value[part] if part < len(value) else None
    return tuple(path)


def _is_settled(path: Path, found: Sequence[tuple[Path, Error]]) -> bool:
    """Returns whether another member of the union fits better, because its error is deeper or is not about the type."""
    return any(
        other[: len(path)] == path and (len(other) > len(path) or error["type"] not in EXPECTED)
        for other, error in found
    )


def words_for(error: Error) -> str:
    """Describes an error in words that follow the field's name."""
    kind = error["type"]
    if kind in EXPECTED:
        return f"must be {EXPECTED[kind]}"
    return WORDS[kind](error)[:WORDS_CHARS_MAX] if kind in WORDS else "is not valid"


def _suggested(error: Error, path: Path, model: Any) -> str:
    words = words_for(error)
    if error["type"] != "extra_forbidden" or not path:
        return words
    near = get_close_matches(str(path[-1])[:100], sorted(_names(model, path[:-1])), n=1)
    return f"{words}; did you mean `{near[0]}`?" if near else words


def _names(model: Any, path: Path) -> set[str]:
    models = set(_models(model))
    for part in path:
        if isinstance(part, str):
            fields = {field.alias or name: field for each in models for name, field in each.model_fields.items()}
            models = set(_models(fields[part].annotation)) if part in fields else set()
    return {field.alias or name for each in models for name, field in each.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


def _joined(words: Sequence[str]) -> str:
    """Returns one message that lists all types that the value could have."""
    unique = list(dict.fromkeys(words))
    kinds = [each.removeprefix("must be ") for each in unique if each.startswith("must be ")]
    if len(kinds) < len(unique):
        return unique[0]
    return f"must be {', '.join(kinds[:-1])} or {kinds[-1]}" if len(kinds) > 1 else unique[0]
