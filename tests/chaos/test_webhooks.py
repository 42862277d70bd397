"""PostgreSQL, the engine and the receiver are killed while webhooks are delivered: each event arrives at least once,
and nothing else does."""

import signal
from pathlib import Path

import pytest

from fairpost.actions import webhooks as actions
from fairpost.actions.acting import Actor, Done
from fairpost.model.public_ids import Kind
from fairpost.smtp.guard import NetworkGuard
from fairpost.store.embedded import EmbeddedServer
from fairpost.vault.keyring import Keyring
from fairpost.vault.vault import Vault
from tests.chaos.conftest import database_on
from tests.chaos.driver import World, eventually
from tests.chaos.processes import signal_to
from tests.chaos.test_databases import LONG_LEASES, all_drive, restart, world_on
from tests.webhooks.receivers import Receiver

EVENTS = "SELECT o.id, o.kind, o.email_id FROM fairpost.outbox o"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


async def _add(world: World, receiver: Receiver) -> None:
    request = actions.AddWebhook(
        workspace=None, url=receiver.url, guard=NetworkGuard(), vault=Vault(Keyring(world.folder))
    )
    assert isinstance(await actions.add(Actor(who="a test", is_operator=True), request, world.store), Done)


async def _all_arrive(world: World, receiver: Receiver) -> None:
    """Checks that exactly the committed events arrived. A repetition has the same body and id."""
    await world.drain()

    async def has_all() -> bool:
        rows = await world.fetch("SELECT count(*) AS n FROM fairpost.outbox")
        await world.fetch("UPDATE fairpost.webhooks SET next_at = NULL")  # its pauses are not tested here
        return len(set(receiver.ids)) >= int(rows[0]["n"])

    await eventually(has_all, "all events arrive")
    ids = await world.store.public_ids()
    written = {
        ids.public(Kind.EVENT, row["id"]): (row["kind"], row["email_id"] and ids.email(row["email_id"]))
        for row in await world.fetch(EVENTS)
    }
    for request in receiver.seen:
        event = request.event
        assert event["id"] == request.id
        assert (event["type"], event["data"].get("email_id")) == written[request.id]
    assert set(receiver.ids) == set(written)


async def _under_way(receiver: Receiver) -> None:
    """A request of an unbooked turn has just been answered."""
    await receiver.until(len(receiver.seen) + 1)


async def test_whatever_is_killed_under_delivery_no_event_is_missing_or_invented(
    mortal: EmbeddedServer, tmp_path: Path
) -> None:
    async with Receiver() as receiver, world_on(await database_on(mortal), tmp_path) as world:
        await _add(world, receiver)
        engine = await world.start_engine(*LONG_LEASES)
        await all_drive(world)
        for _ in range(3):
            await _under_way(receiver)
            await restart(mortal, None)
            await world.enqueue(world.drafts(20))
        await _under_way(receiver)
        port = receiver.port
        await receiver.stop()
        await world.enqueue(world.drafts(20))
        await receiver.again(port)
        await world.fetch("UPDATE fairpost.webhooks SET next_at = NULL")
        await _under_way(receiver)
        for pid in (engine.pid, *engine.children()):
            signal_to(pid, signal.SIGKILL)
        world.engines.remove(engine)
        engine.process.wait()
        await world.start_engine(*LONG_LEASES)
        await world.enqueue(world.drafts(20))
        await _all_arrive(world, receiver)
