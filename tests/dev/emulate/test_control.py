"""The paths below /emulator: what was sent, and control over HTTP."""

import base64
from typing import Any

import pytest

from fairpost.dev.emulate.app import Served
from fairpost.model.errors import FairpostError
from tests.dev.emulate.conftest import ANN, BOB, Client, Connect, Emulate, encoded, mail


async def control(client: Client, method: str, path: str, **more: Any) -> Any:
    response = await client.http.request(method, f"/emulator{path}", **more)
    assert response.status_code == 200, response.text
    return response.json()


async def test_everything_that_was_sent_can_be_seen(ann: Client, connect: Connect) -> None:
    raw = mail(Cc="c@x.test", Bcc="d@x.test", subject="Größe", Message_ID="<1@example.com>")
    sent = await ann.send(raw)
    await (await connect(ann.emulator, BOB)).send(mail(sender=BOB))
    (seen,) = (await control(ann, "GET", f"/messages?user={ANN}"))["messages"]
    assert (seen["to"], seen["cc"], seen["bcc"]) == (["cleo@there.test"], ["c@x.test"], ["d@x.test"])
    assert (seen["id"], seen["originalMessageId"], seen["draftId"]) == (sent["id"], "<1@example.com>", None)
    assert {"name": "Subject", "value": "Größe"} in seen["headers"]
    assert base64.urlsafe_b64decode(seen["raw"]) == ann.emulator.sent(ANN)[0].raw
    assert len((await control(ann, "GET", "/messages"))["messages"]) == 2
    assert (await control(ann, "GET", ""))["sent"] == 2


async def test_drafts_can_be_seen(ann: Client) -> None:
    draft = await ann.create()
    (seen,) = (await control(ann, "GET", "/drafts"))["drafts"]
    assert (seen["id"], seen["user"]) == (draft["id"], ANN)
    assert (await control(ann, "GET", "/drafts?user=bob@example.com"))["drafts"] == []


async def test_users_are_made_and_changed(ann: Client, connect: Connect) -> None:
    await control(ann, "POST", "/users", json={"address": "new@example.com", "aliases": ["n@example.com"]})
    new = await connect(ann.emulator, "new@example.com")
    await new.send(mail(sender="n@example.com"))
    await control(ann, "POST", "/users", json={"address": "NEW@example.com", "mail_enabled": False})
    assert (await new.error("GET", "/profile"))[0] == 400
    users = {user["address"].lower(): user for user in (await control(ann, "GET", "/users"))["users"]}
    assert users["new@example.com"]["aliases"] == ["n@example.com"]
    await control(ann, "POST", "/users", json={"address": "new@example.com", "mail_enabled": True})
    assert (await new.get("/profile"))["messagesTotal"] == 1


async def test_faults_are_added_listed_and_taken_away(ann: Client) -> None:
    script = [{"route": "getProfile", "action": "error", "times": 1}, {"route": "token", "action": "drop"}]
    await control(ann, "POST", "/faults", json=script)
    assert (await ann.ask("GET", "/profile")).status_code == 503
    first, second = (await control(ann, "GET", "/faults"))["faults"]
    assert (first["seen"], first["struck"], second["struck"]) == (1, 1, 0)
    assert (await control(ann, "DELETE", "/faults"))["faults"] == []


async def test_one_bad_fault_and_none_is_added(ann: Client) -> None:
    response = await ann.http.post("/emulator/faults", json=[{"action": "drop"}, {"action": "explode"}])
    assert response.status_code == 400
    assert "'explode'" in response.json()["error"]
    assert ann.emulator.faults.listed() == []


async def test_faults_do_not_strike_the_control(ann: Client) -> None:
    ann.emulator.faults.add(action="error")
    await control(ann, "GET", "")


async def test_mail_can_be_delivered_from_outside(ann: Client) -> None:
    body = {"raw": encoded(mail(sender="cleo@there.test", to=ANN))}
    delivered = await control(ann, "POST", f"/deliver?user={ANN}", json=body)
    assert (await ann.get(f"/messages/{delivered['id']}"))["labelIds"] == ["INBOX", "UNREAD"]
    assert ann.emulator.sent() == []


async def test_a_reset_leaves_users_and_tokens(ann: Client) -> None:
    await ann.send()
    await ann.create()
    ann.emulator.faults.add(action="error")
    assert (await control(ann, "POST", "/reset"))["sent"] == 0
    assert (await ann.get("/profile"))["messagesTotal"] == 0
    assert ann.emulator.drafts(ANN) == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/faults", b"{"),
        ("/faults", b"7"),
        ("/faults", b""),
        ("/users", b"{}"),
        ("/users", b"[]"),
        ("/users", b'{"address": "x"}'),
        ("/users", b'{"address": "a@b", "colour": 1}'),
        ("/users", b'{"address": "a@b", "aliases": [7]}'),
        ("/users", b'{"address": "a@b", "delegated": "yes"}'),
        ("/deliver", b"{}"),
        ("/deliver?user=nobody@x", b"{}"),
        (f"/deliver?user={ANN}", b"{}"),
    ],
)
async def test_unintelligible_input_is_refused(ann: Client, path: str, body: bytes) -> None:
    response = await ann.http.post(f"/emulator{path}", content=body)
    assert response.status_code == 400
    assert response.json()["error"]


async def test_the_observer_learns_of_every_request(emulate: Emulate, connect: Connect) -> None:
    seen = list[Served]()
    client = await connect(await emulate(on_request=seen.append))
    client.emulator.faults.add(route="labels.list", action="error")
    await client.get("/profile")
    await client.ask("GET", "/labels")
    assert [(s.route, s.user, s.status, s.faults) for s in seen] == [
        ("token", ANN, 200, 0),
        ("getProfile", ANN, 200, 0),
        ("labels.list", ANN, 503, 1),
    ]


async def test_a_port_that_is_taken_is_an_error_with_advice(emulate: Emulate) -> None:
    emulator = await emulate()
    with pytest.raises(FairpostError, match=rf"port {emulator.port}: .* --port 8026"):
        await emulate(port=emulator.port)


async def test_an_option_that_is_misspelt_is_refused(emulate: Emulate) -> None:
    with pytest.raises(TypeError, match="index_lag"):
        await emulate(index_lag=5)


async def test_the_clock_is_the_one_that_a_simulation_stops() -> None:
    from datetime import timedelta

    from fairpost.dev.emulate.server import GmailEmulator
    from fairpost.system import clock
    from tests.dev.emulate.conftest import NOON

    with clock.stopped_at(NOON) as manual:
        async with GmailEmulator([ANN]) as emulator:
            manual.advance(timedelta(seconds=5))
            assert emulator.deliver(ANN, mail()).at == NOON + timedelta(seconds=5)
