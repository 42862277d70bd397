"""Engines, the database and receivers are killed at every step: each event arrives at least once, in order, with one
id."""

import signal
from pathlib import Path

import pytest

from fairpost.maintenance import webhooks as watching
from tests.chaos.victims import deliver_webhooks, ended, fork
from tests.webhooks.conftest import Hooks
from tests.webhooks.receivers import OK, Receiver, answer

EMAILS = 40
KINDS = ("email.queued", "email.delivery_delayed", "email.sent")
POINTS = (
    "after_lease",
    "after_post",
    "after_post:25",
    "after_posts",
    "before_booking",
    "after_booking",
    "after_booking:2",
)


async def _write(hooks: Hooks) -> None:
    for kind in KINDS:
        await hooks.write(*range(EMAILS), kind=kind)


def _check(receiver: Receiver) -> int:
    """Checks that all events arrived in order, and that repetitions are identical. Returns the number of repetitions."""
    bodies: dict[str, bytes] = {}
    first: dict[str, list[str]] = {}
    for request in receiver.seen:
        assert bodies.setdefault(request.id, request.body) == request.body
        kinds = first.setdefault(request.event["data"]["email_id"], [])
        if request.event["type"] not in kinds:
            kinds.append(request.event["type"])
    assert len(bodies) == EMAILS * len(KINDS)
    assert all(kinds == list(KINDS) for kinds in first.values())
    return len(receiver.seen) - len(bodies)


@pytest.mark.parametrize("point", POINTS)
async def test_an_engine_killed_between_two_steps_loses_nothing(
    hooks: Hooks, url: str, tmp_path: Path, point: str
) -> None:
    async with Receiver() as receiver:
        await hooks.add(receiver.url)
        await _write(hooks)
        assert await ended(fork(deliver_webhooks, url, tmp_path, point)) == -signal.SIGKILL
        await hooks.pass_time("2 minutes")  # its lease ends
        await hooks.deliver(hooks.watch())
        repeated = _check(receiver)
        assert repeated <= EMAILS * len(KINDS)
        if point in ("after_lease", "after_booking:2"):
            assert repeated == 0, "everything posted was booked"


async def test_a_database_that_restarts_repeats_what_was_not_booked(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LEASE_S", 0.2)
    monkeypatch.setattr(watching, "LOOK_S", 0.02)
    monkeypatch.setattr(watching, "PAGE", 20)
    async with Receiver() as receiver:
        await hooks.add(receiver.url)
        watch = hooks.watch()
        async with hooks.running(watch):
            await _write(hooks)
            for count in (10, 50, 90):
                await receiver.until(count)
                await hooks.store.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            while len({each.id for each in receiver.seen}) < EMAILS * len(KINDS):
                await receiver.until(len(receiver.seen) + 1)
        _check(receiver)


async def test_a_receiver_that_goes_in_the_middle_and_comes_back_gets_everything(hooks: Hooks) -> None:
    def stumble(receiver: Receiver, request: object) -> bytes:
        return (OK, b"", answer(500), OK)[len(receiver.seen) % 4]

    async with Receiver(stumble) as receiver:
        hook = await hooks.add(receiver.url)
        port = receiver.port
        await _write(hooks)
        watch = hooks.watch()
        await hooks.deliver(watch)
        await receiver.stop()
        await hooks.pass_time("10 minutes")
        await hooks.deliver(watch)
        assert (await hooks.log(hook))[-1].why is not None
        await receiver.again(port)
        receiver.behave = lambda *_: OK
        for _ in range(8):
            await hooks.pass_time("5 hours")
            await hooks.deliver(watch)
        assert _check(receiver) > 0
        assert await hooks.store.value("SELECT count(*) FROM fairpost.webhook_pending") == 0


async def test_what_was_interrupted_continues_in_the_same_engine_and_waits_for_its_lease_in_another(
    hooks: Hooks,
) -> None:
    async with Receiver(lambda *_: None) as receiver:
        await hooks.add(receiver.url)
        await hooks.write(1)
        killed = hooks.watch("a")
        await killed.step()
        await receiver.until(1)
        assert not await killed.step(), "it is being served"
        await killed.stop()
        receiver.behave = lambda *_: OK
        await hooks.deliver(hooks.watch("b"))
        assert len(receiver.seen) == 1
        await hooks.deliver(hooks.watch("a"))
        assert receiver.ids == [receiver.ids[0]] * 2
        await hooks.deliver(hooks.watch("b"))
        assert len(receiver.seen) == 2
