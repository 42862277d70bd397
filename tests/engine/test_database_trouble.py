"""A worker whose database goes away at any point: it waits, resumes its lease, and sends each e-mail once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from fairpost.engine import worker as worker_module
from fairpost.engine.runner import Runner
from fairpost.engine.steps import Steps
from fairpost.engine.worker import AccountWorker, Ending
from fairpost.model.account import Account, Lease, Limits, Usage
from fairpost.model.email import Outgoing
from fairpost.model.errors import TransportFault, Unconfirmed
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import Sent
from fairpost.store.connections import Statements
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import OK, ScriptedTransport

HANG_S = 100  # only guards against waiting forever


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "TRY_AGAIN_S_MIN", 0.0)


@dataclass
class Faulty(Statements):
    """Loses the connection at one statement: before it is executed, or afterwards, so that only the answer is lost."""

    conn: asyncpg.Connection
    at: int = -1
    is_done: bool = False
    n: int = 0
    lost: str = ""

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[asyncpg.Connection]:
        yield self.conn  # for several statements; workers do not use this

    async def close(self) -> None: ...

    async def _ask(self, how: str, sql: str, *args: Any) -> Any:
        self.n += 1
        if self.n == self.at:
            self.lost = sql
            if self.is_done:
                await getattr(self.conn, how)(sql, *args)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        return await getattr(self.conn, how)(sql, *args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return list(await self._ask("fetch", sql, *args))

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        return await self._ask("fetchrow", sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        return await self._ask("fetchval", sql, *args)


async def enqueue(store: Store, n: int = 1, **more: Any) -> list[EmailId]:
    rows = await store.enqueue_many([{"to": "ann@there.test", "subject": "s", "text": "t", **more}] * n)
    return [EmailId(row["id"]) for row in rows]


async def add_account(store: Store, name: str = "anna", **limits: Any) -> AccountId:
    return await store.add_account(name, address=f"{name}@post.test", limits=Limits(**limits))


async def histories(store: Store, ids: list[EmailId]) -> list[tuple[str, int]]:
    rows = await store.fetch("SELECT state::text, attempts FROM fairpost.emails WHERE id = ANY ($1) ORDER BY id", ids)
    return [tuple(row) for row in rows]


async def drive(store: Store, faulty: Faulty, account: AccountId, transport: ScriptedTransport) -> None:
    worker = AccountWorker(
        Store(faulty),
        transport,
        account,
        owner="test",
        idle_s_max=0.0,
    )
    async with asyncio.timeout(HANG_S):
        assert await worker.run() in (Ending.IDLE, Ending.RESTING)
    if worker.unreleased is not None:  # normally done by the orchestrator
        await store.drop_lease(Lease(account_id=account, epoch=worker.unreleased, until=clock.now()))


async def test_losing_any_statement_sends_each_email_once_and_leaves_none_in_doubt(
    store: Store, conn: asyncpg.Connection
) -> None:
    """With a follow-up begun in the same commit, a refusal, a retry, and a limit that counts single sends."""
    account = await add_account(store, daily_max=1000, daily_mode="sliding")
    at, sent = 0, 0
    while True:
        at += 1
        faulty: Faulty | None = None
        for is_done in (False, True):
            ids = await enqueue(store, 3, on_doubt="hold")
            faulty = Faulty(conn, at, is_done)
            transport = ScriptedTransport()
            await drive(store, faulty, account, transport)
            what = (at, is_done, faulty.lost)
            assert sorted(d.email_id for d in transport.delivered) == ids, what
            assert await histories(store, ids) == [("sent", 1)] * 3, what
            sent += 3
            row = await store.row("SELECT day_used, sent_total, until, deaths FROM fairpost.leases")
            assert (row["day_used"], row["sent_total"], row["deaths"]) == (sent, sent, 0), what
            assert await store.value("SELECT count(*) FROM fairpost.charges") == sent, what
            assert not (await store.runtimes())[0].is_driven(), what
        assert faulty is not None
        if faulty.n < at:
            break
    assert at > 10


async def test_a_refusal_that_the_database_did_not_hear_of_is_reported_again(
    store: Store, conn: asyncpg.Connection
) -> None:
    account = await add_account(store)
    for at in range(1, 12):
        (email,) = await enqueue(store, on_doubt="hold")
        faulty = Faulty(conn, at, is_done=at % 2 == 0)
        transport = ScriptedTransport([Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.1 no such user"))])
        await drive(store, faulty, account, transport)
        assert await histories(store, [email]) == [("bounced", 1)], (at, faulty.lost)
        await store.value("DELETE FROM fairpost.suppressions")
        await store.value("UPDATE fairpost.leases SET day_bounces = 0")
        await store.value("UPDATE fairpost.counters SET bounced = 0")


async def begin_one(store: Store, account: AccountId, transport: ScriptedTransport) -> Runner:
    runner = await Runner.start(store, transport, account, owner="test")
    assert runner is not None
    return runner


class Away(ScriptedTransport):
    """The database goes away during a send; in the meantime, others make changes."""

    def __init__(self, store: Store, report: Report = OK) -> None:
        super().__init__(always=report)
        self._store = store

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        report = await super().send(account, email, permission=permission)
        await self._store.value("UPDATE fairpost.server SET confirmed = '-infinity'")
        await self._store.value("UPDATE fairpost.leases SET server = NULL, step = step + 1")
        return report


async def test_an_outcome_waits_until_the_server_is_confirmed(store: Store) -> None:
    account = await add_account(store)
    ids = await enqueue(store, 2, on_doubt="hold")
    transport = Away(store)
    runner = await begin_one(store, account, transport)
    with pytest.raises(Unconfirmed):
        await runner.step()
    assert runner.has_outcome
    with pytest.raises(Unconfirmed):
        await runner.take_up()
    await store.ask_about_server()
    assert (await store.confirm_server("test", life=None, steps={})).verdict == "confirmed"
    assert await runner.take_up()
    assert await histories(store, ids[:1]) == [("sent", 1)]
    assert [d.email_id for d in transport.delivered] == ids[:1]


async def test_the_next_holder_of_the_account_learns_the_outcome_of_the_email(store: Store) -> None:
    account = await add_account(store)
    (email,) = await enqueue(store, on_doubt="hold")
    runner = await begin_one(store, account, Away(store))
    with pytest.raises(Unconfirmed):
        await runner.step()
    await store.ask_about_server()
    await store.confirm_server("test", life=None, steps={})
    await store.value("UPDATE fairpost.leases SET until = '-infinity'")
    assert await store.take_lease(account, owner="other", seconds=60) is not None
    assert not await runner.take_up()
    assert await histories(store, [email]) == [("sent", 1)]


@pytest.mark.parametrize(("on_doubt", "state"), [("hold", "in_doubt"), ("resend", "waiting")])
async def test_an_email_that_only_the_database_considers_in_progress_is_in_doubt(
    store: Store, on_doubt: str, state: str
) -> None:
    """A lagging standby knows the begin but not the outcome, and a person has resumed sending on it."""
    account = await add_account(store)
    (email,) = await enqueue(store, on_doubt=on_doubt)
    runner = await begin_one(store, account, ScriptedTransport())
    lease = Lease(account_id=account, epoch=runner.epoch, until=clock.now())
    await store.claim(lease, limit=1)
    assert (await store.begin(lease, email, usage=Usage(), step=1)).verdict == "begun"
    assert await runner.take_up()
    assert await store.value("SELECT state::text FROM fairpost.queue WHERE id = $1", email) == state
    await runner.stop()


async def test_an_exception_from_a_transport_is_never_mistaken_for_database_trouble(store: Store) -> None:
    class Broken(ScriptedTransport):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            await super().send(account, email, permission=permission)
            raise ConnectionResetError("a bug: it should have been reported")

    account = await add_account(store)
    (email,) = await enqueue(store, on_doubt="hold")
    worker = AccountWorker(store, Broken(), account, owner="test")
    with pytest.raises(TransportFault):
        await worker.run()
    assert await store.value("SELECT state::text FROM fairpost.queue WHERE id = $1", email) == "in_doubt"


# ── numbered steps ────────────────────────────────────────────────────────────────────────────────────────


async def claimed(store: Store, n: int = 1) -> tuple[Lease, list[EmailId]]:
    account = await add_account(store)
    await enqueue(store, n)
    lease = await store.take_lease(account, owner="test", seconds=60)
    assert lease is not None
    return lease, list((await store.claim(lease, limit=n)).ids)


async def test_the_same_step_twice_changes_nothing(store: Store) -> None:
    lease, (first, second) = await claimed(store, 2)
    assert (await store.begin(lease, first, usage=Usage(), step=1)).verdict == "begun"
    assert (await store.begin(lease, second, usage=Usage(), step=1)).verdict == "late"
    assert await store.settle(lease, first, Sent(()), step=1) == "late"
    settled, begun = await store.settle_and_begin(lease, first, Sent(()), None, follower=second, usage=Usage(), step=2)
    assert (settled, begun.verdict) == ("settled", "begun")
    settled, begun = await store.settle_and_begin(lease, first, Sent(()), None, follower=second, usage=Usage(), step=2)
    assert (settled, begun.verdict) == ("late", "late")
    assert await store.settle(lease, second, Sent(()), step=3) == "settled"
    assert await store.value("SELECT step FROM fairpost.leases") == 3


async def test_a_step_that_comes_after_the_lease_was_taken_up_again_is_too_late(store: Store) -> None:
    lease, (email,) = await claimed(store)
    taken = await store.take_up(lease, seconds=60, life=None)
    assert (taken.verdict, taken.step, taken.sending) == ("held", 1, None)
    claim = await store.claim(lease, limit=1)
    assert claim.ids == (email,), "claimed e-mails wait again, and are claimed again"
    late = await store.begin(lease, email, usage=Usage(), step=1)
    assert late.verdict == "late", "as it was requested on the lost connection"
    assert (await store.begin(lease, email, usage=Usage(), step=2)).verdict == "begun"


async def test_a_lease_whose_time_ran_out_is_taken_up_by_its_holder_unless_another_has_it(store: Store) -> None:
    lease, _ = await claimed(store)
    await store.value("UPDATE fairpost.leases SET until = '-infinity'")
    assert (await store.take_up(lease, seconds=60, life=None)).verdict == "held"
    await store.value("UPDATE fairpost.leases SET until = '-infinity'")
    assert await store.take_lease(lease.account_id, owner="other", seconds=60) is not None
    assert (await store.take_up(lease, seconds=60, life=None)).verdict == "lost"


async def test_a_lease_that_was_granted_without_an_answer_is_granted_again_to_the_same_worker_alone(
    store: Store,
) -> None:
    account = await add_account(store)
    assert await store.take_lease(account, owner="test", seconds=60) is not None
    assert await store.take_lease(account, owner="other", seconds=60, again=True) is None
    assert await store.take_lease(account, owner="test", seconds=60) is None
    again = await store.take_lease(account, owner="test", seconds=60, again=True)
    assert again is not None


async def test_on_a_server_that_is_not_confirmed_nothing_is_claimed_or_begun(store: Store) -> None:
    lease, (email,) = await claimed(store)
    free = await add_account(store, "bert")
    await store.value("UPDATE fairpost.leases SET server = '-infinity' WHERE server IS NOT NULL")
    await store.value("UPDATE fairpost.server SET confirmed = '-infinity'")
    assert (await store.begin(lease, email, usage=Usage(), step=1)).verdict == "unconfirmed"
    assert (await store.claim(lease, limit=1)).verdict == "unconfirmed"
    assert await store.take_lease(free, owner="test", seconds=60) is None
    assert (await store.take_up(lease, seconds=60, life=None)).verdict == "unconfirmed"


async def test_a_worker_remembers_each_step_that_was_acknowledged(store: Store, tmp_path: Any) -> None:
    account = await add_account(store)
    ids = await enqueue(store, 3)
    await store.value("SELECT fairpost.remember_identity(NULL)")
    life = await store.current_life()
    steps = Steps([tmp_path / "steps"], life)
    runner = await Runner.start(store, ScriptedTransport(), account, owner="test", steps=steps)
    assert runner is not None
    await runner.run_until_idle()
    (known,) = Steps([tmp_path / "steps"], life).known()
    assert (known.account_id, known.step) == (account, await store.value("SELECT step FROM fairpost.leases"))
    assert known.since(0) == ids
    await store.value("UPDATE fairpost.leases SET step = step - 1")
    with pytest.raises(Unconfirmed):
        await runner.take_up()
