"""Condenses the framework's OpenAPI document by turning shared parts into components.

The descriptions of individual paths are in `routes/` and `shapes/`. Operation IDs are built in `routing`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from fairpost.api.answers import CODES_KEY, EVERYWHERE, failure_schemas
from fairpost.api.errors import CODES

JSON = dict[str, Any]
SHARED_MIN = 2  # parameters used at least this often are shared
READING = ("get", "head")
CSRF_HEADER = "X-CSRF-Token"  # required only for changes


def condensed(document: JSON) -> JSON:
    """Returns the same document with shared parameters and failures as components, and without titles that repeat a
    name.
    """
    document = _with_plain_names(document)
    components = document["components"]
    components["schemas"] = _untitled(components["schemas"] | failure_schemas())
    components["responses"] = {}
    for _, operation in _operations(document):
        for status, answer in operation["responses"].items():
            if CODES_KEY in answer:
                name = _failure_name(int(status), answer[CODES_KEY])
                components["responses"][name] = answer
                operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
    components["parameters"] = _share_parameters(document)
    return document


def _with_plain_names(document: JSON) -> JSON:
    """Renames schemas, for example from `Answer_Page_EmailLine__` to `EmailLinePageAnswer`."""
    written = _written(document)
    for name in document["components"]["schemas"]:
        if "_" in name:
            parts = [part[0].upper() + part[1:] for part in name.split("_") if part]
            written = written.replace(f'schemas/{name}"', f'schemas/{"".join(reversed(parts))}"')
            written = written.replace(f'"{name}": {{', f'"{"".join(reversed(parts))}": {{')
    plain: JSON = json.loads(written)
    return plain


def _operations(document: JSON) -> Iterator[tuple[str, JSON]]:
    for methods in document["paths"].values():
        yield from methods.items()


def _failure_name(status: int, codes: Sequence[str]) -> str:
    usual = [code for code in EVERYWHERE if CODES[code].status == status]
    return _camel(usual[0]) if codes == usual else "Or".join(map(_camel, codes))


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.replace("-", "_").split("_"))


def _share_parameters(document: JSON) -> JSON:
    """Moves parameters into components. If parameters with the same name differ, only the most common one is shared."""
    variants: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for method, operation in _operations(document):
        said = [_parameter(each) for each in operation.get("parameters", ())]
        operation["parameters"] = [each for each in said if not (method in READING and each["name"] == CSRF_HEADER)]
        for each in operation["parameters"]:
            variants[each["name"], each["in"]][_written(each)] += 1
    shared: dict[str, str] = {}
    for (name, place), counts in variants.items():
        (text, uses), *_ = counts.most_common(1)
        if uses >= SHARED_MIN and uses * 2 > counts.total():
            is_alone = len({where for other, where in variants if other == name}) == 1
            shared[text] = _camel(name) if is_alone else _camel(f"{name}_{place}")
    for _, operation in _operations(document):
        operation["parameters"] = [
            {"$ref": f"#/components/parameters/{shared[_written(each)]}"} if _written(each) in shared else each
            for each in operation["parameters"]
        ]
        if not operation["parameters"]:
            del operation["parameters"]
    return {name: json.loads(text) for text, name in shared.items()}


def _parameter(parameter: JSON) -> JSON:
    """Returns the parameter without the second copy of the description that the framework adds."""
    schema = {key: value for key, value in parameter["schema"].items() if key not in ("title", "description")}
    return {**parameter, "schema": schema}


def _written(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _untitled(schemas: JSON) -> JSON:
    return {name: _without_title(schema) for name, schema in schemas.items()}


def _without_title(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_title(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _untitled(value) if key == "properties" else _without_title(value)
        for key, value in schema.items()
        if key != "title"
    }
