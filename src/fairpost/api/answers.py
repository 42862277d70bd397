"""The shape of every response: `{success, data}`, or `{success: false, error: {code, message, details}}`."""

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Path
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from starlette.responses import JSONResponse

from fairpost.api.errors import CODES, ApiError
from fairpost.model.names import NAME
from fairpost.model.public_ids import SIGNS
from fairpost.model.reason import Reason
from fairpost.reasons.rendering import brief, coded

T = TypeVar("T")

KEYS_MAX = 10_000

# Responses contain only public IDs. An unconverted number does not match the pattern, so the response is not sent.
Id = Annotated[str, StringConstraints(pattern=rf"^[a-z]{{2}}_[0-9a-f][{SIGNS}]{{12}}$")]
# A number that only admins see. The number is sent as a string, because many JSON parsers round numbers above 2^53.
Number = Annotated[
    int,
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,19}$"}, mode="serialization"),
]
Moment = Annotated[
    datetime,
    AfterValidator(lambda moment: _in_utc(moment)),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]


def _in_utc(moment: datetime) -> datetime:
    """Converts a time to UTC. The framework then formats it with a trailing Z."""
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)  # values from the database are already in UTC


def _is_text(value: object) -> object:
    """Rejects numbers, which would otherwise be read as seconds since 1970."""
    if not isinstance(value, str) or not MOMENT.match(value):
        raise ValueError(f"must be {MOMENT_WORDS}")
    return value


def _within_reason(moment: datetime) -> datetime:
    if not EARLIEST <= moment <= LATEST:
        raise ValueError("must be between the years 1970 and 2200")
    return moment


def _storable(given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Rejects text anywhere in the object that PostgreSQL cannot store."""
    left: list[Any] = [given]
    while left:
        match left.pop():
            case str(text) if "\0" in text:
                raise ValueError("must not contain NUL characters")
            case str(text):
                require_unicode(text)
            case dict(fields):
                left += [*fields, *fields.values()]
            case list(items):
                left += items
    return given


def require_unicode(text: str) -> None:
    """Rejects lone surrogates, which JSON can contain but UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode") from None


EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
MOMENT_WORDS = "a time with a time zone, such as 2030-01-31T09:00:00Z"
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")
When = Annotated[AwareDatetime, BeforeValidator(_is_text), AfterValidator(_within_reason)]  # a time in a request
# PostgreSQL cannot store NUL in text.
NO_NUL = r"^[^\x00]*$"
Text = Annotated[str, StringConstraints(pattern=NO_NUL)]
Name = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(lambda given: _storable(given))]
INTEGER_MAX = 2_147_483_647  # the maximum of PostgreSQL's type `integer`
Count = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
ReasonCode = Annotated[
    str,
    Field(description="A stable code, described in docs/conditions.md. The text may change, but the code does not."),
]
ReasonParams = Annotated[dict[str, Any], Field(description="The code's parameters.")]
AddressPath = Annotated[Text, Path(max_length=500, description="The e-mail address, which is not case-sensitive.")]


class ResponseModel(BaseModel):
    """The base of all response models."""

    model_config = ConfigDict(from_attributes=True, defer_build=True)


class RequestModel(BaseModel):
    """The base of all request models. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, given: Any) -> Any:
        """Rejects objects with too many keys.

        A million unknown keys would produce a million errors and block the process for several seconds.
        """
        if isinstance(given, dict):
            for each in (given, *given.values()):
                if isinstance(each, dict) and len(each) > KEYS_MAX:
                    raise ValueError(f"an object can have at most {KEYS_MAX:,} keys")
        return given


class Answer(BaseModel, Generic[T]):
    model_config = ConfigDict(defer_build=True)

    success: Literal[True] = True
    data: T


class Page(BaseModel, Generic[T]):
    """A page of a list. `next` is the cursor for the next page, or null on the last page."""

    model_config = ConfigDict(defer_build=True)

    items: list[T]
    next: str | None


class ReasonIn(RequestModel):
    reason: Annotated[Text | None, Field(max_length=500)] = None


StopKind = Annotated[
    Literal["held", "throttled", "closed"],
    Field(
        description="Why the sender is stopped: `held` by a person or along with its campaign, `throttled` because of its score, or `closed` because a campaign's window is closed."
    ),
]


class Reasoned(ResponseModel):
    """A response with a reason, as text and as a code with parameters."""

    reason: str | None
    reason_code: ReasonCode | None = None
    reason_params: ReasonParams | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_words(cls, given: Any) -> Any:
        reason = given.get("reason") if isinstance(given, dict) else getattr(given, "reason", None)
        if not isinstance(reason, Reason):
            return given
        facts = (
            given
            if isinstance(given, dict)
            else {name: getattr(given, name) for name in cls.model_fields if hasattr(given, name)}
        )
        return {**facts, **coded(reason)}


ReasonsInWords = Annotated[list[str], BeforeValidator(lambda reasons: [brief(each) for each in reasons])]


class Removed(ResponseModel):
    """Confirms a removal."""

    removed: Annotated[bool, Field(description="Whether the object was removed. False if it did not exist.")] = True


class ErrorBody(BaseModel):
    model_config = ConfigDict(defer_build=True)

    code: Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(CODES)})]
    message: str
    details: Any = None


class Failure(BaseModel):
    model_config = ConfigDict(defer_build=True)

    success: Literal[False]
    error: ErrorBody


def as_dict(value: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass, so a response can override some of them."""
    kind: Any = type(value)
    names, values_of = _reader_of(kind)
    return dict(zip(names, values_of(value), strict=True))


@cache
def _reader_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Returns the field names and a function that reads all fields at once, which is faster for long lists."""
    names = tuple(field.name for field in fields(kind))
    return names, attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)


def failure(error: ApiError) -> JSONResponse:
    fault = {"code": error.code, "message": error.message, "details": error.details}
    return JSONResponse({"success": False, "error": fault}, status_code=error.status, headers=error.headers)


CODES_KEY = "x-codes"  # the OpenAPI key that lists the codes of an error response
_FAILURE = {"$ref": "#/components/schemas/Failure"}


def failure_schemas() -> dict[str, Any]:
    """Returns the schemas that `failures` refers to.

    If these schemas were declared as a model, the framework would rebuild the model for each status of each path.
    """
    schema = Failure.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Failure": schema}


def failures(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Returns a path's errors for the OpenAPI document, including those that every path can return."""
    found: dict[int | str, dict[str, Any]] = {}
    for code in dict.fromkeys((*codes, *EVERYWHERE)):
        kind = CODES[code]
        known = found.setdefault(
            kind.status, {"description": "", "content": {"application/json": {"schema": _FAILURE}}, CODES_KEY: []}
        )
        known[CODES_KEY].append(code)
        known["description"] = f"{known['description']}\n\n`{code}`: {kind.meaning}".strip()
    return found


EVERYWHERE = (
    "bad_request",
    "unauthenticated",
    "forbidden",
    "csrf",
    "workspace_suspended",
    "too_slow",
    "too_large",
    "unsupported_media_type",
    "invalid",
    "rate_limited",
    "internal",
    "unavailable",
)
