"""Requests made from the OpenAPI document, for every path and method, including future ones."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import jsonschema_rs

from tests.thorough import IS_FREE

NDJSON = "application/x-ndjson"
JSON_TYPE = "application/json"
DEPTH_MAX = 6
ADDRESSES = frozenset({"to", "address", "addresses", "email"})
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
    """A request whose text is complete and unencoded."""

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
            if media_type == NDJSON:  # one item per line, each as for the path of a single one
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
    """Resolves references."""
    if isinstance(schema, list):
        return [_resolved(each, document, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        if depth > DEPTH_MAX:
            return {"type": "null"}
        kind, name = schema["$ref"].split("/")[2:]
        return _resolved(document["components"][kind][name], document, depth + 1)
    return {key: _resolved(value, document, depth) for key, value in schema.items()}


def requests(operation: Operation, words: Sequence[str], *, examples: int) -> Iterator[Asked]:
    """Bodies that match the document, with these words wherever a string, a name or an id may occur.

    They are the same each time, unless they are generated at random.
    """
    for n in range(examples):
        yield _request(operation, words, Random() if IS_FREE else Random(f"{operation} {n}"))


def _request(operation: Operation, words: Sequence[str], dice: Random) -> Asked:
    it = Asked(operation)
    places = {"path": it.path, "query": it.query, "header": it.headers}
    for parameter in operation.parameters:
        place = places.get(parameter["in"])
        if place is None or not (parameter.get("required") or _perhaps(dice)):
            continue
        value = _in_path(parameter, words, dice) if place is it.path else value_of(parameter["schema"], words, dice)
        if value is None:
            continue
        if place is it.headers:
            value = str(value).encode("ascii", "ignore").decode() or "k"
        place[parameter["name"]] = value
    if operation.body is not None and (operation.is_body_required or _perhaps(dice)):
        it.body = value_of(operation.body, words, dice)
    return it


def _perhaps(dice: Random) -> bool:
    return dice.random() < 0.5


ODD: tuple[Any, ...] = (None, True, -1, 1.5, "", "x" * 70_000, [], {}, [[]], {"a": []})


def wrong_bodies(schema: JSON, *, each: int) -> list[Any]:
    """Bodies that the schema forbids: of another type, with a property too many or too few, and with odd values in
    every property, `each` of them."""
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
    """A value with only the required properties."""
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


def _in_path(parameter: JSON, words: Sequence[str], dice: Random) -> Any:
    """Any word may be used, even for a number; an address or a domain is more likely where one is expected."""
    mark = {"address": "@", "domain": "."}.get(parameter["name"])
    fitting = [word for word in words if mark in word and (mark == "@" or "@" not in word)] if mark else []
    if mark and fitting:
        return dice.choice(fitting if _perhaps(dice) else words)
    schema = parameter["schema"]
    return dice.choice(words) if schema.get("type") in ("integer", "number") else value_of(schema, words, dice)


def value_of(schema: Any, words: Sequence[str], dice: Random) -> Any:
    if schema is True or schema == {} or not isinstance(schema, dict):
        return dice.choice(words)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return value_of(dice.choice(_with_words(schema[choice])), words, dice)
    if "allOf" in schema:
        return value_of({k: v for each in schema["allOf"] for k, v in each.items()}, words, dice)
    match schema.get("type"):
        case "string":
            return _string(schema, words, dice)
        case "integer" | "number":
            low = int(schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1))
            return dice.randint(low, max(low, min(int(schema.get("maximum", low + 1000)), low + 1000)))
        case "boolean":
            return _perhaps(dice)
        case "null":
            return None
        case "array":
            fewest = schema.get("minItems", 0)
            most = max(min(schema.get("maxItems", 3), 3), fewest)
            return [value_of(schema.get("items", {}), words, dice) for _ in range(dice.randint(fewest, most))]
        case _:
            return _object_of(schema, words, dice)


def _with_words(choices: Sequence[Any]) -> Sequence[Any]:
    """A number that could also be a name is not used as a word."""
    is_name = any(one.get("type") == "string" for one in choices)
    return [one for one in choices if one.get("type") != "integer"] if is_name else choices


def _string(schema: JSON, words: Sequence[str], dice: Random) -> str:
    match schema.get("format"):
        case "date-time":
            return dice.choice(MOMENTS)
        case "date":
            return dice.choice(MOMENTS)[:10]
        case "time":
            return dice.choice(MOMENTS)[11:16]
    word = dice.choice(words)
    if schema.get("contentMediaType") or schema.get("format") == "binary":
        return word
    return word.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _object_of(schema: JSON, words: Sequence[str], dice: Random) -> JSON:
    """The required properties and a few optional ones: with all of them at once, one would always be invalid."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    addresses = [word for word in words if "@" in word] or words
    others = [name for name in properties if name not in required]
    chosen = {*required, *dice.sample(others, dice.randint(0, min(3, len(others))))}
    it: JSON = {}
    if isinstance(schema.get("additionalProperties"), dict) or not properties:
        inner = schema.get("additionalProperties", {})
        it = {dice.choice(words): value_of(inner, words, dice) for _ in range(dice.randint(0, 2))}
    for name, each in properties.items():
        if name in chosen:
            it[name] = value_of(each, addresses if name in ADDRESSES else words, dice)
    return it
