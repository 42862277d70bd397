"""Strange values on the paths of accounts, people, suppressions, users, figures and events: none causes an internal
error."""

import json
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

from tests.api.conftest import Api

STRANGE_NAMES = (
    "a",
    "\x00",
    "'; DROP TABLE x",
    "../../etc",
    "%",
    "_",
    "\\",
    "a" * 600,
    "💥",
    "\u202e",
    " ",
    "*",
    "@",
    "a/b",
    "other/sales",
)
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "\x00",
    "a" * 5_000,
    "\ud800",
    [],
    {},
    [[]],
    {"a": {"b": {"c": []}}},
    ["a"] * 300,
)
PATHS = (
    ("GET", "/v1/accounts/{}"),
    ("PATCH", "/v1/accounts/{}"),
    ("POST", "/v1/accounts/{}/pause"),
    ("POST", "/v1/accounts/{}/resume"),
    ("DELETE", "/v1/accounts/{}"),
    ("GET", "/v1/lists/{}/prospects"),
    ("POST", "/v1/lists/{}/prospects"),
    ("DELETE", "/v1/lists/{}"),
    ("GET", "/v1/prospects/{}"),
    ("PATCH", "/v1/prospects/{}"),
    ("DELETE", "/v1/prospects/{}"),
    ("GET", "/v1/suppressions/{}"),
    ("PUT", "/v1/suppressions/{}"),
    ("DELETE", "/v1/suppressions/{}"),
    ("GET", "/v1/users/{}"),
    ("PUT", "/v1/users/{}"),
)
BODIES = {
    "/v1/accounts": ("POST", ("name", "address", "display_name", "pool", "provider", "limits", "smtp", "gmail")),
    "/v1/accounts/sales": ("PATCH", ("address", "display_name", "pool", "provider", "limits", "smtp", "gmail")),
    "/v1/accounts/sales/pause": ("POST", ("reason", "until")),
    "/v1/prospects/ann@example.com": ("PATCH", ("is_paused", "fields", "timezone", "external_id")),
    "/v1/suppressions": ("POST", ("addresses", "kind", "reason")),
    "/v1/suppressions/bob@example.com": ("PUT", ("kind", "reason")),
    "/v1/users/ann": ("PUT", ("plan", "since", "daily_max", "waiting_max")),
}
GOOD: dict[str, dict[str, Any]] = {
    "/v1/accounts": {"name": "two", "address": "two@acme.example"},
    "/v1/accounts/sales": {},
    "/v1/accounts/sales/pause": {"reason": "x"},
    "/v1/prospects/ann@example.com": {},
    "/v1/suppressions": {"addresses": ["c@example.com"], "reason": "x"},
    "/v1/suppressions/bob@example.com": {"reason": "x"},
    "/v1/users/ann": {},
}
LISTS = ("/v1/accounts", "/v1/lists", "/v1/lists/spring/prospects", "/v1/suppressions", "/v1/users", "/v1/log")


@pytest.fixture
async def furnished(client: httpx.AsyncClient) -> httpx.AsyncClient:
    await client.post("/v1/accounts", json={"name": "sales", "address": "sales@acme.example"})
    people = "email\nann@example.com\nbob@example.com\n"
    await client.post("/v1/lists/spring/prospects", content=people, headers={"Content-Type": "text/csv"})
    return client


async def test_strange_names_are_answered(api: Api, furnished: httpx.AsyncClient) -> None:
    for method, path in PATHS:
        for name in STRANGE_NAMES:
            bodies = (b"{}", b"[]", b'{"reason": "x"}', b"{")
            for body in (None,) if method in ("GET", "DELETE") else bodies:
                answer = await furnished.request(
                    method,
                    path.format(quote(name, safe="")),
                    content=body,
                    headers={"Content-Type": "application/json"},
                )
                assert answer.status_code < 500, (method, path, name, answer.text)
                assert isinstance(answer.json()["success"], bool)
    assert await api.store.value("SELECT count(*) FROM fairpost.accounts WHERE workspace IS DISTINCT FROM 'acme'") == 0


async def test_strange_values_are_answered(furnished: httpx.AsyncClient) -> None:
    for path, (method, fields) in BODIES.items():
        for field in fields:
            for value in STRANGE:
                body = json.dumps({**GOOD[path], field: value}).encode()
                answer = await furnished.request(
                    method, path, content=body, headers={"Content-Type": "application/json"}
                )
                assert answer.status_code < 500, (path, field, value, answer.text)


async def test_a_password_that_is_no_unicode_is_refused(furnished: httpx.AsyncClient) -> None:
    for method, path in (("POST", "/v1/accounts"), ("PATCH", "/v1/accounts/sales")):
        body = {**GOOD[path], "smtp": {"host": "smtp.acme.example", "user": "ann", "password": "\ud800"}}
        answer = await furnished.request(
            method, path, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (422, "smtp.password")


async def test_text_that_cannot_be_stored_is_named_by_its_field(client: httpx.AsyncClient) -> None:
    email = {"to": "ann@there.test", "subject": "Hello", "text": "Hi"}
    for field in ("fields", "metadata"):
        for value, words in (({"a": ["\0"]}, "NUL"), ({"\0": 1}, "NUL"), ({"a": {"b": "\ud800"}}, "Unicode")):
            body = json.dumps({**email, field: value}).encode()
            answer = await client.post("/v1/emails", content=body, headers={"Content-Type": "application/json"})
            (detail,) = answer.json()["error"]["details"]
            assert (answer.status_code, detail["field"], words in detail["message"]) == (422, field, True)


async def test_strange_cursors_are_answered(furnished: httpx.AsyncClient) -> None:
    for path in LISTS:
        for cursor in (
            "!",
            "bg",
            "bjk5OTk5OTk5OTk5OTk5OTk5OTk5OTk",
            "c_CfkqU",
            "bjE",
            "c2E",
            "a" * 500,
            "\x00",
            "bi0x",
            "czw",
        ):
            answer = await furnished.get(path, params={"cursor": cursor})
            assert answer.status_code in (200, 400, 422), (path, cursor, answer.text)
