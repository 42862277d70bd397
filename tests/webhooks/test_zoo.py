"""Receivers as met in practice. Their behaviour is logged with a code, and delays no other endpoint."""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from fairpost.smtp.guard import NetworkGuard
from fairpost.system import clock
from fairpost.webhooks import post
from tests.peers.certificates import HOST, make_certificates
from tests.webhooks.conftest import Hooks
from tests.webhooks.receivers import OK, Receiver, answer

ENDLESS = b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 100_000

ZOO: dict[str, tuple[Receiver, str | None, int | None]] = {
    "good": (Receiver(), None, 200),
    "says nothing": (Receiver(lambda *_: answer(204)), None, 204),
    "closes after the answer": (Receiver(lambda *_: answer(200, "connection: close")), None, 200),
    "old protocol": (Receiver(lambda *_: b"HTTP/1.0 200 OK\r\n\r\nthanks", closes=True), None, 200),
    "closes in the middle": (
        Receiver(lambda *_: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", closes=True),
        "webhook.broken",
        None,
    ),
    "early hints": (Receiver(lambda *_: b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK), None, 200),
    "answers twice": (Receiver(lambda *_: OK + answer(500)), None, 200),
    "says more than its length": (Receiver(lambda *_: OK + b"HTTP?"), None, 200),
    "switches protocols": (
        Receiver(lambda *_: answer(101, "upgrade: x", "connection: upgrade")),
        "webhook.broken",
        None,
    ),
    "two lengths": (Receiver(lambda *_: answer(200, "content-length: 1")), "webhook.broken", None),
    "less than its length": (
        Receiver(lambda *_: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"),
        "webhook.timeout",
        None,
    ),
    "ten megabytes": (Receiver(lambda *_: answer(500, body="x" * 10_000_000)), "webhook.status", 500),
    "endless": (Receiver(lambda *_: ENDLESS), None, 200),
    "fails": (Receiver(lambda *_: answer(500, body="sorry")), "webhook.status", 500),
    "wants less": (Receiver(lambda *_: answer(429, "retry-after: 120")), "webhook.status", 429),
    "gone": (Receiver(lambda *_: answer(410)), "webhook.gone", 410),
    "redirects": (Receiver(lambda *_: answer(301, "location: http://127.0.0.1:1/")), "webhook.redirect", 301),
    "hangs": (Receiver(lambda *_: None), "webhook.timeout", None),
    "drips": (Receiver(lambda *_: OK, drip_s=0.05), "webhook.timeout", None),
    "closes": (Receiver(lambda *_: b""), "webhook.broken", None),
    "garbage": (Receiver(lambda *_: b"220 mail.test ESMTP\r\n"), "webhook.broken", None),
    "headers without end": (Receiver(lambda *_: b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000), "webhook.broken", None),
}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "REQUEST_S_MAX", 0.5)


async def test_whatever_a_receiver_does_is_logged_and_the_others_get_theirs(hooks: Hooks) -> None:
    for receiver, _, _ in ZOO.values():
        await receiver.__aenter__()
    try:
        added = {name: await hooks.add(receiver.url, name.replace(" ", "-")) for name, (receiver, *_) in ZOO.items()}
        for hook in added.values():
            assert hook.workspace is not None
            await hooks.write(1, workspace=hook.workspace)
        await hooks.deliver(hooks.watch())
        for name, (_, code, status) in ZOO.items():
            (entry,) = await hooks.log(added[name])
            assert (name, entry.why.code if entry.why else None, entry.status) == (name, code, status)
            assert len(entry.answer) <= 500
        later = (await hooks.now(added["wants less"])).next_at
        assert later is not None
        assert (later - await hooks.store.now()).total_seconds() > 100, "it asked for two minutes"
    finally:
        await asyncio.gather(*(receiver.stop() for receiver, *_ in ZOO.values()))
    assert hooks.said[0].code == "webhook.disabled"


async def test_a_name_server_that_hangs_occupies_one_lookup_for_each_endpoint(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup cannot be cancelled: 20 endpoints with 16 requests each, several times, must not use up the threads."""
    asked: Counter[str] = Counter()
    released = Event()

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        asked[host] += 1
        if host.startswith("hangs"):
            released.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with Receiver() as good:
        for number in range(20):
            await hooks.add(good.url, f"bad{number}")
            await hooks.write(*range(16), workspace=f"bad{number}")
        await hooks.add(good.url, "good")
        await hooks.write(1, workspace="good")
        sql = "UPDATE fairpost.webhooks SET url = format('http://%s.test:%s/', CASE workspace WHEN 'good' THEN 'good' ELSE 'hangs' || id END, $1::int)"
        await hooks.store.value(sql, good.port)
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        try:
            watch = hooks.watch()
            await hooks.deliver(watch)
            assert [each.path for each in good.seen] == ["/"]
            await hooks.pass_time("3 hours")
            await hooks.deliver(watch)
            assert set(asked.values()) == {1}
        finally:
            released.set()


async def test_a_wrong_certificate_is_refused_and_a_right_one_taken(hooks: Hooks, tmp_path: Path) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    hooks.guard = NetworkGuard(allowed=hooks.guard.allowed, resolve=resolve)
    made = make_certificates(tmp_path)
    trusted = ssl.create_default_context(cafile=str(made.ca))
    found = {}
    for name in ("good", "expired", "wrong_host", "self_signed"):
        certificate = getattr(made, name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        async with Receiver(tls=context) as receiver:
            hook = await hooks.add(receiver.url.replace("127.0.0.1", HOST))
            await hooks.write(1)
            await hooks.deliver(hooks.watch(tls=lambda: trusted))
            (entry,) = await hooks.log(hook)
            found[name] = (entry.why.code if entry.why else None, len(receiver.seen))
            await hooks.store.value("DELETE FROM fairpost.webhooks")
    refused = dict.fromkeys(("expired", "wrong_host", "self_signed"), ("webhook.tls", 0))
    assert found == {"good": (None, 1), **refused}


async def test_a_name_that_leads_inside_later_is_never_connected_to(hooks: Hooks) -> None:
    """The name was public when the webhook was added."""
    found = ["9.9.9.9"]

    async def resolve(host: str, port: int) -> list[str]:
        return found

    hooks.guard = NetworkGuard(resolve=resolve)
    async with Receiver() as receiver:
        hook = await hooks.add(f"https://moves.test:{receiver.port}/")
        found[:] = ["127.0.0.1"]
        await hooks.write(1)
        await hooks.deliver(hooks.watch())
        (entry,) = await hooks.log(hook)
        assert (entry.why and entry.why.code, receiver.connections) == ("webhook.forbidden", 0)


async def test_a_hundred_tenants_do_not_wait_for_one_that_hangs(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """It hangs until all the others have received theirs, so no clock decides."""
    monkeypatch.setattr(post, "REQUEST_S_MAX", 60.0)
    async with Receiver(lambda *_: None) as bad, Receiver() as good:
        await hooks.add(bad.url, "t0")
        for number in range(1, 100):
            await hooks.add(f"{good.url}/{number}", f"t{number}")
        await hooks.write(*range(40), workspace="t0")
        await asyncio.gather(*(hooks.write(1, 2, workspace=f"t{number}") for number in range(1, 100)))
        watch = hooks.watch()
        began_s = clock.steady()
        async with hooks.running(watch):
            await good.until(2 * 99)
            record_property("seconds", round(clock.steady() - began_s, 2))
            assert len({each.path for each in good.seen}) == 99
            assert len(bad.seen) == bad.in_work_max == 16, "no more concurrent requests to one endpoint"


async def test_failing_endpoints_leave_places_for_the_others(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more dead endpoints than slots."""
    monkeypatch.setattr("fairpost.maintenance.webhooks.PLACES", 6)
    monkeypatch.setattr("fairpost.maintenance.webhooks.FAILING_MAX", 2)
    monkeypatch.setattr(post, "REQUEST_S_MAX", 60.0)
    async with Receiver(lambda *_: None) as bad, Receiver() as good:
        for number in range(10):
            await hooks.add(f"{bad.url}/{number}", f"bad{number}")
            await hooks.write(1, workspace=f"bad{number}")
        await hooks.store.value(
            "UPDATE fairpost.webhooks SET failing_since = now(), reason = 'webhook.timeout', failures = 1"
        )
        await hooks.add(good.url, "good")
        watch = hooks.watch()
        async with hooks.running(watch):
            await bad.until(2)
            for number in range(3):
                await hooks.write(number, workspace="good")
                await good.until(number + 1)
            assert len(bad.seen) == 2
