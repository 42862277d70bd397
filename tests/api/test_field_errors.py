"""Validation errors use our own wording, and name each field as the client does."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from pydantic import TypeAdapter, ValidationError

from fairpost import InvalidEmail, enqueue
from fairpost.api.answers import RequestModel
from fairpost.api.field_errors import EXPECTED, WORDS, mistakes, words_for
from fairpost.api.shapes.emails import EmailIn
from tests.api.conftest import Api
from tests.api.served import document

ODD: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 10**30, float("nan"), float("inf"), "", "\0", "\ud800", "x" * 1_001, "x" * 200_000),
    *("x", "2030-01-31", "2030-01-31T09:00:00", "9999-01-31T09:00:00Z", "2030-13-31T09:00:00Z", "12"),
    *([], ["x"] * 2_001, [None], [{}], [[]], {}, {"a": []}, {"bad name": "x"}, {f"x{n}": "v" for n in range(300)}),
)
INNER = ("name", "address", "filename", "data", "kind", "delay", "start", "key", "days", "nonsense")
GOOD = {"to": "a@b.example", "subject": "s", "text": "t"}


def _models(base: type[RequestModel] = RequestModel) -> Iterator[type[RequestModel]]:
    for each in base.__subclasses__():
        yield each
        yield from _models(each)


def _errors(model: type[RequestModel], body: Any) -> list[Any]:
    try:
        model.model_validate(body)
    except ValidationError as error:
        return [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
    return []


def _bodies(model: type[RequestModel]) -> Iterator[Any]:
    names = [field.alias or name for name, field in model.model_fields.items()]
    yield from ODD
    yield {"no_such_field": 1}
    yield {f"x{n}": 1 for n in range(10_001)}
    for name in names:
        yield from ({name: value} for value in ODD)
        for inner in INNER:
            yield {name: {inner: ODD[0]}}
            yield {name: [{inner: value} for value in ODD[:14]]}
        for value in ODD[:14]:
            yield {name: dict.fromkeys(INNER, value)}


def test_every_kind_of_error_that_a_request_can_make_has_words_of_ours() -> None:
    document()  # builds every model
    seen = set()
    for model in set(_models()):
        for body in _bodies(model):
            errors = _errors(model, body)
            seen |= {each["type"] for each in errors}
            for each in errors:
                said = words_for(each)
                assert said != each["msg"], each["type"]
                for theirs in ("Input", "input", "Value error", "Field required", "valid ", "not permitted"):
                    assert theirs not in said.replace("valid Unicode", ""), (each["type"], said)
            for told in mistakes(errors, body, model):
                parts = re.split(r"\.|\[\d+\]", told["field"])
                assert not {"str", "Mailbox", "int", "float"} & set(parts), told
                assert not any("[" in part or part.isdigit() for part in parts), told
    assert seen <= set(EXPECTED) | set(WORDS)
    assert len(seen) > 20


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({**GOOD, "to": ["a@b.example"] * 51}, "to", ("50 recipients", "51")),
        ({**GOOD, "to": 5}, "to", ("a string", "an object", "a list")),
        ({**GOOD, "to": {"address": 5}}, "to.address", ("a string",)),
        ({**GOOD, "to": ["a@b.example", {"address": 5}]}, "to[1].address", ("a string",)),
        ({**GOOD, "to": ["a@b.example", 5]}, "to[1]", ("a string", "an object")),
        ({**GOOD, "subjcet": "s"}, "subjcet", ("`subject`",)),
        ({**GOOD, "to": {"adress": "a@b.example"}}, "to.address", ("required",)),
        ({**GOOD, "attachments": [{"filename": "f", "data": "", "file": 1}]}, "attachments[0].file", ("`filename`",)),
        ({**GOOD, "zzz": 1}, "zzz", ("known",)),
        ({"to": "a@b.example", "text": "t"}, "subject", ("required",)),
        ({**GOOD, "subject": "s" * 1_200}, "subject", ("998", "1,200")),
        ({**GOOD, "class": "slow"}, "class", ("urgent or bulk",)),
        ({**GOOD, "due_at": 5}, "due_at", ("2030-01-31T09:00:00Z",)),
        ({**GOOD, "due_at": "2030-01-31T09:00:00"}, "due_at", ("zone",)),
        ({**GOOD, "attempts_max": 51}, "attempts_max", ("at most 50",)),
        ({**GOOD, "headers": {"bad name": "x"}}, "headers.bad name", ("header name",)),
    ],
)
def test_a_mistake_is_named_where_it_is(body: Any, field: str, words: tuple[str, ...]) -> None:
    told = {each["field"]: each["message"] for each in mistakes(_errors(EmailIn, body), body, EmailIn)}
    assert field in told
    for word in words:
        assert word in told[field]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"to": ["a@b.example", "nobody"]}, "to[1]"),
        ({"to": ["a@b.example", {"address": "nobody"}]}, "to[1].address"),
        ({"to": ["a@b.example", {"address": 5}]}, "to[1].address"),
        ({"to": ["a@b.example", {"address": "c@d.example", "name": "a\nb"}]}, "to[1].name"),
        ({"cc": [{"address": "c@d.example", "nickname": "Ann"}]}, "cc[0].nickname"),
        ({"to": {"address": "nobody"}}, "to.address"),
        ({"reply_to": {"address": "nobody"}}, "reply_to.address"),
        ({"headers": {"X-Order": "a\nb"}}, "headers.X-Order"),
        ({"attachments": [{"filename": "a/b", "data": ""}]}, "attachments[0].filename"),
        ({"attachments": [{"filename": "f", "data": "%"}]}, "attachments[0].data"),
    ],
)
async def test_a_field_has_the_same_path_over_http_in_python_and_in_sql(
    api: Api, client: httpx.AsyncClient, wrong: Any, field: str
) -> None:
    email = {**GOOD, **wrong}
    answer = (await client.post("/v1/emails", json=email)).json()["error"]
    assert (answer["details"][0]["field"], answer["message"].partition(":")[0]) == (field, field)
    by_line = {"Content-Type": "application/x-ndjson"}
    lines = (await client.post("/v1/emails/bulk", content=json.dumps(email), headers=by_line)).json()["data"]["results"]
    assert [each["error"]["field"] for each in lines] == [field]
    async with api.store.connection() as conn:
        with pytest.raises(InvalidEmail) as refused:
            await enqueue(conn, **email)
        assert refused.value.field == field
        judged = await conn.fetchval("SELECT fairpost.check_email($1::text::jsonb, now())", json.dumps(email))
        assert json.loads(judged)["field"] == field


def test_a_mistake_is_reported_once() -> None:
    body = {**GOOD, "to": ["a@b.example"] * 51}
    assert [each["field"] for each in mistakes(_errors(EmailIn, body), body, EmailIn)] == ["to"]


async def test_requests_are_answered_in_these_words(client: httpx.AsyncClient) -> None:
    many = await client.post("/v1/emails", json={**GOOD, "to": ["a@b.example"] * 51})
    assert many.json()["error"]["message"].startswith("to: ")
    assert "50 recipients, got 51" in many.json()["error"]["message"]
    typo = await client.post("/v1/emails", json={**GOOD, "subjcet": "s"})
    assert [each["field"] for each in typo.json()["error"]["details"]] == ["subjcet"]
    assert "did you mean `subject`?" in typo.json()["error"]["message"]
    paged = (await client.get("/v1/emails?limit=1000&state=nonsense&since=5")).json()["error"]
    assert {each["field"] for each in paged["details"]} == {"limit", "state", "since"}
    empty = await client.post("/v1/emails")
    assert (empty.status_code, empty.json()["error"]["code"]) == (422, "invalid")
    broken = await client.post("/v1/emails", content=b'{"to": ', headers={"Content-Type": "application/json"})
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, "bad_request")


def test_the_validator_of_a_list_is_walked_too() -> None:
    body = [{"to": 1}]
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[EmailIn]).validate_python(body)
    errors = [{**each, "loc": ("body", *each["loc"])} for each in caught.value.errors()]
    assert {each["field"] for each in mistakes(errors, body)} == {"[0].to", "[0].subject"}
