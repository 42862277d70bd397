"""The OpenAPI document is readable for people and usable for generating clients."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, get_args

from pydantic import BaseModel

from fairpost.api.answers import RequestModel, ResponseModel
from tests.api.served import document

BYTES_MAX = 400_000
IDENTIFIER = re.compile(r"[a-z]+([A-Z][a-z]*)+")  # a verb and a noun


def test_every_subject_in_a_request_has_the_bound_of_an_emails() -> None:
    found = {}
    for name, schema in document()["components"]["schemas"].items():
        fields = schema.get("properties", {})
        if name.endswith(("In", "Step")) and {"subject", "text"} <= set(fields):
            written = fields["subject"].get("anyOf", [fields["subject"]])
            found[name] = [each.get("maxLength") for each in written if each["type"] == "string"]
    assert found == {name: [998] for name in ("EmailIn", "TemplateIn", "CampaignStep", "WordsIn")}


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def test_it_is_small_enough_for_tools_to_load() -> None:
    assert len(json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()) < BYTES_MAX


def test_every_operation_has_a_name_that_is_an_identifier_and_its_own() -> None:
    names = [operation["operationId"] for _, operation in _operations()]
    assert [name for name in names if not IDENTIFIER.fullmatch(name)] == []
    assert [name for name, uses in Counter(names).items() if uses > 1] == []


def test_shapes_are_named_by_identifiers() -> None:
    for kind in ("schemas", "responses", "parameters"):
        assert [name for name in document()["components"][kind] if not name.isalnum()] == []


def test_every_reference_leads_somewhere_and_every_component_is_used() -> None:
    used = set(_references(document()))
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses", "parameters")
        for name in document()["components"][kind]
    }
    assert used == there


def test_common_errors_are_documented_once_for_all_paths() -> None:
    inline = [
        f"{name} {status}"
        for name, operation in _operations()
        for status, answer in operation["responses"].items()
        if status >= "400" and "$ref" not in answer
    ]
    assert inline == []


def test_summaries_begin_like_a_sentence_and_say_something_of_their_own() -> None:
    summaries = [operation["summary"] for _, operation in _operations()]
    assert [each for each in summaries if not each[0].isupper() or each.endswith(".")] == []
    for methods in document()["paths"].values():
        assert len({operation["summary"] for operation in methods.values()}) == len(methods)


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in base.__subclasses__():
        yield each
        yield from _models(each)


def _has(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(_has(each, kind) for each in get_args(annotation))


def test_every_moment_says_that_it_is_one() -> None:
    document()
    checked = 0
    for model in {*_models(RequestModel), *_models(ResponseModel)}:
        mode = "validation" if issubclass(model, RequestModel) else "serialization"
        properties = model.model_json_schema(mode=mode, by_alias=True).get("properties", {})  # type: ignore[arg-type]
        for name, field in model.model_fields.items():
            said = properties.get(field.serialization_alias or field.alias or name, {})
            if _has(field.annotation, datetime):
                assert "date-time" in json.dumps(said), f"{model.__name__}.{name}"
                checked += 1
            elif _has(field.annotation, date):
                assert '"date"' in json.dumps(said), f"{model.__name__}.{name}"
    assert checked > 50
