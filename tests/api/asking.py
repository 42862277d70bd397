"""Requests made from the OpenAPI document: for every path and method that there is, and those that will be."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
from hypothesis import strategies as st

NDJSON = "application/x-ndjson"
JSON_TYPE = "application/json"
DEPTH_MAX = 6
MOMENTS = ("2031-02-03T04:05:06Z", "2026-01-01T00:00:00+02:00")

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    parameters: Sequence[JSON]
    body: JSON | None  # its schema
    media_type: str | None
    is_body_required: bool
    responses: JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Asked:
    """One request, with every word of it still to be seen."""

    operation: Operation
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def content(self) -> bytes | None:
        if self.operation.body is None or self.body is None:
            return None
        if self.operation.media_type == NDJSON:
            return "\n".join(json.dumps(line) for line in self.body).encode()
        if self.operation.media_type == JSON_TYPE:
            return json.dumps(self.body).encode()
        return str(self.body).encode()


def operations(document: JSON) -> list[Operation]:
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {})
            contents: dict[str | None, JSON] = body.get("content", {})
            media_type = JSON_TYPE if JSON_TYPE in contents else next(iter(contents), None)
            content = contents.get(media_type, {})
            schema = content.get("schema")
            if media_type == NDJSON:  # a line each, as the path of a single one takes it
                single = document["paths"][path.rpartition("/")[0]]["post"]["requestBody"]["content"]
                schema = {"type": "array", "items": single["application/json"]["schema"], "maxItems": 3}
            found.append(
                Operation(
                    method.upper(),
                    path,
                    _resolved(operation.get("parameters", []), document),
                    _resolved(schema, document) if schema else None,
                    media_type,
                    bool(body.get("required")),
                    operation["responses"],
                )
            )
    return found


def _resolved(schema: Any, document: JSON, depth: int = 0) -> Any:
    """Without references."""
    if isinstance(schema, list):
        return [_resolved(each, document, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        if depth > DEPTH_MAX:
            return {"type": "null"}
        name = schema["$ref"].rpartition("/")[2]
        return _resolved(document["components"]["schemas"][name], document, depth + 1)
    return {key: _resolved(value, document, depth) for key, value in schema.items()}


def requests(operation: Operation, words: Sequence[str]) -> st.SearchStrategy[Asked]:
    """Bodies as the document wants them, with these words wherever a string, a name or an id can stand."""

    @st.composite
    def asked(draw: st.DrawFn) -> Asked:
        it = Asked(operation)
        for parameter in operation.parameters:
            if not parameter.get("required") and not draw(st.booleans()):
                continue
            place = {"path": it.path, "query": it.query, "header": it.headers}.get(parameter["in"])
            if place is None:
                continue
            value = draw(
                _in_path(parameter, words) if parameter["in"] == "path" else values(parameter["schema"], words)
            )
            if value is None:
                continue
            if parameter["in"] == "header":
                value = str(value).encode("ascii", "ignore").decode() or "k"
            place[parameter["name"]] = value
        if operation.body is not None and (operation.is_body_required or draw(st.booleans())):
            it.body = draw(values(operation.body, words))
        return it

    return asked()


ODD: tuple[Any, ...] = (None, True, -1, 1.5, "", "x" * 70_000, [], {}, [[]], {"a": []})


def wrong_bodies(schema: JSON, *, each: int) -> list[Any]:
    """Bodies that the schema does not allow: of another kind, with a property too many or too few, and with odd values
    in every property, `each` of them."""
    good = smallest(schema)
    bodies: list[Any] = list(ODD)
    if isinstance(good, dict):
        bodies.append({**good, "no_such_property": 1})
        bodies += [{name: value for name, value in good.items() if name != left_out} for left_out in good]
        for place, name in enumerate(_object(schema).get("properties", {})):
            bodies += [{**good, name: ODD[(place + n) % len(ODD)]} for n in range(each)]
    is_allowed = jsonschema_rs.validator_for(schema).is_valid
    return [body for body in bodies if not is_allowed(body)]


def smallest(schema: JSON) -> Any:
    """A value with what is required and no more."""
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return smallest(next((one for one in choices if one.get("type") == "object"), choices[0]))
    match schema.get("type"):
        case "object":
            return {name: smallest(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [smallest(schema["items"])] * schema.get("minItems", 0)
        case "string":
            return "x" * schema.get("minLength", 1)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    return None


def _object(schema: JSON) -> JSON:
    choices: list[JSON] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return next((one for one in choices if one.get("type") == "object"), {})


def _in_path(parameter: JSON, words: Sequence[str]) -> st.SearchStrategy[Any]:
    """Any word can be tried, also where a number is wanted; an address or a domain more often where one is."""
    mark = {"address": "@", "domain": "."}.get(parameter["name"])
    if mark and (fitting := [word for word in words if mark in word and (mark == "@" or "@" not in word)]):
        return st.sampled_from(fitting) | st.sampled_from(words)
    schema = parameter["schema"]
    return st.sampled_from(words) if schema.get("type") in ("integer", "number") else values(schema, words)


def values(schema: Any, words: Sequence[str]) -> st.SearchStrategy[Any]:
    if schema is True or schema == {} or not isinstance(schema, dict):
        return st.sampled_from(words)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return st.one_of([values(each, words) for each in schema[choice]])
    if "allOf" in schema:
        return values({k: v for each in schema["allOf"] for k, v in each.items()}, words)
    match schema.get("type"):
        case "string" if schema.get("format") in ("date-time", "date", "time"):
            return st.sampled_from(MOMENTS).map(
                {"date": lambda m: m[:10], "time": lambda m: m[11:16]}.get(schema["format"], str)
            )
        case "string" if schema.get("contentMediaType") or schema.get("format") == "binary":
            return st.sampled_from(words)
        case "string":
            return st.sampled_from(words).map(
                lambda word: word.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
            )
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            return st.integers(low, max(low, min(int(schema.get("maximum", low + 1000)), low + 1000)))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            most = min(schema.get("maxItems", 3), 3)
            return st.lists(
                values(schema.get("items", {}), words),
                min_size=schema.get("minItems", 0),
                max_size=max(most, schema.get("minItems", 0)),
            )
        case _:
            return _objects(schema, words)


def _objects(schema: JSON, words: Sequence[str]) -> st.SearchStrategy[JSON]:
    """What is required, and a few things more: with all of them at once, one would always be wrong."""
    addresses = [word for word in words if "@" in word] or words
    properties = {
        name: values(each, addresses if name in ("to", "address", "addresses", "email") else words)
        for name, each in schema.get("properties", {}).items()
    }
    required = set(schema.get("required", ()))
    others = [name for name in properties if name not in required]

    @st.composite
    def made(draw: st.DrawFn) -> JSON:
        chosen = draw(st.lists(st.sampled_from(others), max_size=3, unique=True)) if others else []
        it: JSON = {}
        if isinstance(schema.get("additionalProperties"), dict) or not properties:
            inner = values(schema.get("additionalProperties", {}), words)
            it = draw(st.dictionaries(st.sampled_from(words), inner, max_size=2))
        return it | {name: draw(each) for name, each in properties.items() if name in required or name in chosen}

    return made()
