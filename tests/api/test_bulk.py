"""Many e-mails at once."""

import asyncio
import json

import httpx2 as httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.api.routes.bulk import CHUNK_LINES, LINES_MAX, checked_line
from tests.api.conftest import Api

NDJSON = {"Content-Type": "application/x-ndjson"}


def line(n: int, **more: object) -> str:
    return json.dumps({"to": f"user{n}@example.com", "subject": f"Hello {n}", "text": "Hi", **more})


async def test_good_lines_are_taken_and_bad_ones_named(api: Api, client: httpx.AsyncClient) -> None:
    lines = [
        line(1),
        "",
        line(2, to="nobody"),
        "{",
        "[]",
        line(3, **{"from": "x@elsewhere.example"}),
        line(4, subject="a\0b"),
        '"\\ud800"',
        '{"to": "\\ud800"}',
        "NaN",
        line(5),
    ]
    answer = await client.post("/v1/emails/bulk", content="\n".join(lines), headers=NDJSON)
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert (data["accepted"], data["rejected"]) == (2, 8)
    assert [result["id"] is not None for result in data["results"]] == [True, *[False] * 8, True]
    assert data["results"][1]["error"]["field"] == "to"
    assert data["results"][4]["error"]["field"] == "from"
    assert await api.store.value("SELECT count(*) FROM fairpost.queue WHERE workspace = 'acme'") == 2


async def test_a_key_counts_for_every_line_also_at_the_same_moment(api: Api, client: httpx.AsyncClient) -> None:
    body = "\n".join(line(n, user=f"user {n % 10}") for n in range(1500))
    answers = await asyncio.gather(
        *(client.post("/v1/emails/bulk", content=body, headers={**NDJSON, "Idempotency-Key": "june"}) for _ in range(3))
    )
    assert [a.status_code for a in answers] == [200] * 3
    assert sorted(a.json()["data"]["duplicates"] for a in answers) == [0, 1500, 1500]
    assert len({tuple(r["id"] for r in a.json()["data"]["results"]) for a in answers}) == 1
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 1500


async def test_excessive_or_unrelated_input_changes_nothing(api: Api, client: httpx.AsyncClient) -> None:
    many = await client.post("/v1/emails/bulk", content=b"{}\n" * (LINES_MAX + 1), headers=NDJSON)
    assert many.json()["error"]["code"] == "too_large"
    other = await client.post("/v1/emails/bulk", content=line(1), headers={"Content-Type": "application/json"})
    assert other.json()["error"]["code"] == "unsupported_media_type"
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_a_client_that_goes_away_leaves_nothing(api: Api, client: httpx.AsyncClient) -> None:
    key = client.headers["Authorization"]
    host, port = api.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = "\n".join(line(n) for n in range(5000)).encode()
    head = f"POST /v1/emails/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body[:-100])
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await client.get("/v1/emails")).json()["data"]["items"] == []


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=300)
def test_any_line_is_json_that_postgres_can_read_or_refused(text: bytes) -> None:
    checked = checked_line(text, "k", str)
    if isinstance(checked, str):
        email = json.loads(checked)
        assert isinstance(email, dict)
        checked.encode()


async def test_requests_that_name_the_same_users_in_another_order_do_not_meet_in_a_circle(
    api: Api, client: httpx.AsyncClient
) -> None:
    forth = "\n".join(line(n, user="ann" if n < CHUNK_LINES else "bob") for n in range(2 * CHUNK_LINES))
    back = "\n".join(line(n, user="bob" if n < CHUNK_LINES else "ann") for n in range(2 * CHUNK_LINES))
    asked = [client.post("/v1/emails/bulk", content=body, headers=NDJSON) for body in (forth, back) * 2]
    answers = await asyncio.gather(*asked)
    assert [answer.status_code for answer in answers] == [200] * 4
    limit = api.service.settings.user_daily_max
    assert sum(answer.json()["data"]["accepted"] for answer in answers) == 2 * limit


async def test_a_key_that_is_null_is_none(api: Api, client: httpx.AsyncClient) -> None:
    for _ in range(2):
        answer = await client.post(
            "/v1/emails/bulk", content=line(1, idempotency_key=None), headers={**NDJSON, "Idempotency-Key": "june"}
        )
        assert answer.status_code == 200, answer.text
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 1


async def test_a_number_beyond_all_numbers_spoils_its_own_line_alone(client: httpx.AsyncClient) -> None:
    lines = [line(1), '{"to": "a@example.com", "subject": "x", "text": "y", "fields": {"n": 1e400000}}', line(2)]
    data = (await client.post("/v1/emails/bulk", content="\n".join(lines), headers=NDJSON)).json()["data"]
    assert (data["accepted"], data["rejected"]) == (2, 1)
