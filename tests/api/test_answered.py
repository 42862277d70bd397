"""Every request is measured by route and logged, without any of its content."""

from dataclasses import replace

import httpx2 as httpx
import pytest

from fairpost.model.reason import Reason
from fairpost.observe.http_durations import read_http_durations
from fairpost.reasons.events import message
from fairpost.settings import RequestLog
from tests.api.conftest import Api

HELLO = {"to": "ann@secret.example", "subject": "hello", "text": "Hi"}


def _told(events: list[Reason]) -> list[tuple[object, ...]]:
    names = ("method", "route", "status", "actor", "workspace")
    return [tuple(event.params.get(name) for name in names) for event in events]


async def test_a_request_is_a_line_without_its_path_query_and_body(api: Api, client: httpx.AsyncClient) -> None:
    await client.post("/v1/emails?note=ann@secret.example", json=HELLO, headers={"X-Request-Id": "order-17"})
    await client.get("/v1/emails/ann@secret.example")
    await client.get("/v1/ann@secret.example")
    await client.request("PROPFIND", "/api/emails")
    assert _told(api.answered) == [
        ("POST", "/v1/emails", 201, "key", "acme"),
        ("GET", "/v1/emails/{email_id}", 404, "key", "acme"),
        ("GET", "other", 404, None, None),
        ("PROPFIND", "/v1/emails", 405, None, None),
    ]
    first = api.answered[0]
    assert first.params["request_id"] == "order-17"
    about = first.params
    line = message(first)
    assert all(str(about[name]) in line for name in ("method", "route", "status", "workspace"))
    assert f" {about['duration_ms']:g} ms" in line  # 12.0 is written as 12
    assert "secret" not in str(api.answered)


@pytest.mark.parametrize(
    ("chosen", "logged"),
    [
        (RequestLog.ALL, [200, 200, 404, 200, 401]),
        (RequestLog.API, [404, 200, 401]),
        (RequestLog.FAILED, [404, 401]),
        (RequestLog.OFF, []),
    ],
)
async def test_which_requests_are_logged_is_a_setting(
    api: Api, client: httpx.AsyncClient, chosen: RequestLog, logged: list[int]
) -> None:
    settings = api.service.settings
    object.__setattr__(api.service, "settings", replace(settings, log_requests=chosen))
    for path in ("/docs", "/healthz", "/static/nothing.js", "/v1/emails"):
        await client.get(path)
    await client.get("/v1/emails", headers={"Authorization": "Bearer wrong"})
    assert [event.params["status"] for event in api.answered] == logged


async def test_how_long_requests_took_is_counted_by_route_method_and_class(api: Api, client: httpx.AsyncClient) -> None:
    await client.post("/v1/emails", json=HELLO)
    await client.post("/v1/emails", json={})
    for number in range(20):
        await client.get(f"/nowhere/{number}")
    await api.service.durations.write(await api.service.own_store())
    found = {(each.route, each.method, each.status): sum(each.counts) for each in await read_http_durations(api.store)}
    assert found == {("/v1/emails", "POST", "2xx"): 1, ("/v1/emails", "POST", "4xx"): 1, ("other", "GET", "4xx"): 20}
