"""A worker is killed exactly between two steps: for each step, what it leaves behind, and how its successor continues.

The worker that dies is a process; its successor runs here. In one test, a whole engine does both.
"""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fairpost import engine
from fairpost.engine.handover import Handover
from fairpost.engine.together import Together
from fairpost.model.account import Limits
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.factory import transport_of
from fairpost.vault.rotation import write_sealed
from tests.chaos.driver import HASTEN, eventually, through, until
from tests.chaos.processes import Engine
from tests.chaos.recorder import Cut, Manners, Recorder
from tests.chaos.verdicts import Aftermath
from tests.chaos.victims import (
    drive,
    drive_together,
    ended,
    fork,
    notes_at,
    run_account,
    vault_at,
    work_through_trouble,
)
from tests.simulation.world import draft

EMAILS = 8
ACCOUNT = "quick"
SMALL_BATCHES = Limits(batch_max=4)
ONE_BY_ONE = Limits(batch_max=1)  # settling one and beginning the next are two commits


@dataclass(frozen=True, kw_only=True)
class Death:
    """A case. `in_doubt` is the number of e-mails in doubt afterwards; `arrived` is how many of these the server has;
    `cut` is how many were known to be incomplete, and were retried."""

    nth: int = 3
    in_doubt: int = 0
    arrived: int = 0
    cut: int = 0
    limits: Limits = SMALL_BATCHES
    prepare: Callable[[Recorder], None] = lambda _: None
    mended_by: dict[str, object] = field(default_factory=dict)  # changes that a person makes to the account afterwards


def hang_up_once(recorder: Recorder) -> None:
    recorder.cut_next(Cut.GREETING)


def refuse_login(recorder: Recorder) -> None:
    recorder.manners = Manners(refuse_login=True)


POINTS = {
    "after_lease": Death(nth=1),
    "after_claim": Death(nth=2),
    "after_load": Death(nth=2),
    "after_group": Death(cut=1),
    "after_begin": Death(cut=1, limits=ONE_BY_ONE),
    "before_send": Death(cut=1),
    "before_dot": Death(cut=1),
    "after_send": Death(in_doubt=1, arrived=1),
    "after_settle": Death(limits=ONE_BY_ONE),
    "after_settle_and_begin": Death(cut=1),
    "after_book": Death(nth=1),
    "after_troubles": Death(nth=1, prepare=hang_up_once),
    "after_give_back": Death(nth=1, prepare=hang_up_once),
    "after_rest": Death(nth=1, prepare=hang_up_once),
    "after_suspend": Death(nth=1, prepare=refuse_login, mended_by={"status": "active"}),
    "after_status": Death(nth=1, limits=Limits(daily_max=5), mended_by={"daily_max": None}),
}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder().running() as recorder:
        yield recorder


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


async def add_account(store: Store, recorder: Recorder, home: Path, limits: Limits, name: str = ACCOUNT) -> AccountId:
    """With a password, because a server that refuses it is one of the cases."""
    recorder.ids = await store.public_ids()
    id_ = await store.next_account_id()

    async def write(sealed: str, keys: object) -> None:
        transport = replace(through(recorder, name), user="u", secret=sealed)
        await store.add_account(name, address="a@post.test", limits=limits, transport=transport, id_=id_)

    await write_sealed(store, vault_at(home), "secret", account_id=id_, write=write)
    return id_


def emails(n: int = EMAILS) -> list[dict[str, Any]]:
    return [draft(to=f"p{i}@x.test", on_doubt="hold", idempotency_key=f"k{i}") for i in range(n)]


async def let_time_pass(store: Store) -> None:
    """Waits until the dead worker's lease has expired and the account need not rest any more."""
    await store.value("UPDATE fairpost.leases SET until = clock_timestamp(), rest_until = NULL")


async def check(store: Store, recorder: Recorder, death: Death) -> None:
    keys = {email["idempotency_key"] for email in emails()}
    after = await Aftermath.of(store, recorder, keys=keys, broken=1, frozen=Counter())
    in_doubt = [id_ for id_, row in after.emails.items() if row["state"] == "in_doubt"]
    assert after.offences() == []
    assert len(in_doubt) == death.in_doubt
    assert await store.value("SELECT count(*) FROM fairpost.attempts WHERE outcome = 'cut'") == death.cut
    assert sum(len(after.arrived[id_]) for id_ in in_doubt) == death.arrived


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_killed_here_repeats_nothing_and_leaves_no_more_than_this_in_doubt(
    url: str, store: Store, recorder: Recorder, tmp_path: Path, point: str
) -> None:
    death = POINTS[point]
    account = await add_account(store, recorder, tmp_path, death.limits)
    await store.enqueue_many(emails())
    death.prepare(recorder)
    assert await ended(fork(drive, url, account, tmp_path, f"{point}:{death.nth}")) == -signal.SIGKILL
    recorder.manners = Manners()
    if death.mended_by:
        await store.change_account(ACCOUNT, death.mended_by)
    await let_time_pass(store)
    successor = Handover(notes_at(tmp_path))
    for _ in range(2):  # interrupted e-mails are due again after a minute
        await run_account(store, account, transport_of(await store.account(account), vault_at(tmp_path)), successor)
        await store.fetch(HASTEN)
    await check(store, recorder, death)


SHARED = (
    "after_claim",
    "after_load",
    "before_send",
    "before_dot",
    "after_group",
    "after_send",
    "after_settle_and_begin",
)


@pytest.mark.parametrize("point", SHARED)
async def test_a_process_of_several_accounts_killed_here_repeats_nothing(
    url: str, store: Store, recorder: Recorder, tmp_path: Path, point: str
) -> None:
    """Each of them has at most one e-mail in progress, and incomplete sends are recognised."""
    accounts = [await add_account(store, recorder, tmp_path, SMALL_BATCHES, f"{ACCOUNT}{n}") for n in range(3)]
    sent = emails(8 * len(accounts))
    await store.enqueue_many(sent)
    nth = 2 if point in ("after_claim", "after_load") else 7
    assert await ended(fork(drive_together, url, accounts, tmp_path, f"{point}:{nth}")) == -signal.SIGKILL
    await let_time_pass(store)
    successor, together = Handover(notes_at(tmp_path)), Together.over(store)
    for _ in range(2):
        for id_ in accounts:
            transport = transport_of(await store.account(id_), vault_at(tmp_path))
            await run_account(store, id_, transport, successor, together=together)
        await store.fetch(HASTEN)
    keys = {email["idempotency_key"] for email in sent}
    after = await Aftermath.of(store, recorder, keys=keys, broken=len(accounts), frozen=Counter())
    assert after.offences() == []
    in_doubt = [id_ for id_, row in after.emails.items() if row["state"] == "in_doubt"]
    assert all(after.arrived[id_] for id_ in in_doubt)  # the notes tell which sends were incomplete
    assert len(in_doubt) <= len(accounts)


@pytest.mark.slow
async def test_an_engine_continues_without_help_after_a_worker_was_killed(
    url: str, store: Store, recorder: Recorder, tmp_path: Path
) -> None:
    point, death = "after_send", POINTS["after_send"]
    await add_account(store, recorder, tmp_path, death.limits)
    await store.enqueue_many(emails())
    file = tmp_path / "alive"
    file.touch()
    env = {"FAIRPOST_FAILPOINT": f"{point}:{death.nth}", "FAIRPOST_FAILPOINT_FILE": str(file)}
    engine = Engine.start(url, recorder, tmp_path, "--lease-s", "60", env=env)
    try:
        await until(lambda: engine.is_ready() and not file.exists(), f"a worker dies {point}")
        left = "SELECT count(*) = 0 FROM fairpost.queue WHERE state <> 'in_doubt'"
        await eventually(lambda: store.value(left), "all is sent")
    finally:
        engine.end()
    await check(store, recorder, death)


def points_of_the_engine() -> set[str]:
    (folder,) = engine.__path__
    return {p for file in Path(folder).glob("*.py") for p in re.findall(r'failpoint\("(\w+)"\)', file.read_text())}


def test_every_point_of_the_runner_is_tried() -> None:
    of_drafts = {"after_draft", "after_asking", "after_sending_a_doubt"}  # see test_gmail.py
    assert points_of_the_engine() - {*of_drafts, "after_take_up"} == set(POINTS)


async def test_a_worker_killed_when_the_database_is_back_leaves_no_more_in_doubt_than_one_killed_before(
    url: str, store: Store, recorder: Recorder, tmp_path: Path
) -> None:
    account = await add_account(store, recorder, tmp_path, SMALL_BATCHES)
    await store.enqueue_many(emails())
    recorder.manners = Manners(delay_s_max=0.05)
    victim = fork(work_through_trouble, url, account, tmp_path, "after_take_up:1")
    await until(lambda: len(recorder.taken) >= 2, "it sends")
    async with store.together() as held:  # so that it has something to report at this moment
        await held.fetch("SELECT FROM fairpost.leases FOR UPDATE")
        await eventually(lambda: store.value(CUT_OFF), "its statement is cut off")
    assert await ended(victim) == -signal.SIGKILL
    recorder.manners = Manners()
    await let_time_pass(store)
    for _ in range(2):
        transport = transport_of(await store.account(account), vault_at(tmp_path))
        await run_account(store, account, transport, Handover(notes_at(tmp_path)))
        await store.fetch(HASTEN)
    keys = {email["idempotency_key"] for email in emails()}
    after = await Aftermath.of(store, recorder, keys=keys, broken=1, frozen=Counter())
    assert after.offences() == []


CUT_OFF = """
SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
PASSES = (
    "from fairpost.system.failpoints import failpoint\nfor _ in range(3): failpoint('here'); print('.', flush=True)"
)


def passes(**env: str) -> tuple[int, int]:
    """Returns how often the failpoint was passed, and how the process ended."""
    command = [sys.executable, "-c", PASSES]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    return done.stdout.count("."), done.returncode


def test_a_failpoint_kills_at_the_nth_pass_and_only_where_it_is_asked_for(tmp_path: Path) -> None:
    assert passes() == (3, 0)
    assert passes(FAIRPOST_FAILPOINT="elsewhere") == (3, 0)
    assert passes(FAIRPOST_FAILPOINT="here") == (0, -signal.SIGKILL)
    assert passes(FAIRPOST_FAILPOINT="here:3") == (2, -signal.SIGKILL)


def test_a_failpoint_with_a_file_kills_once(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    file.touch()
    assert passes(FAIRPOST_FAILPOINT="here", FAIRPOST_FAILPOINT_FILE=str(file)) == (0, -signal.SIGKILL)
    assert passes(FAIRPOST_FAILPOINT="here", FAIRPOST_FAILPOINT_FILE=str(file)) == (3, 0)


def test_a_failpoint_that_only_a_file_names_kills_once_and_there(tmp_path: Path) -> None:
    file = tmp_path / "failpoint"
    assert passes(FAIRPOST_FAILPOINT_FILE=str(file)) == (3, 0)
    file.write_text("elsewhere")
    assert passes(FAIRPOST_FAILPOINT_FILE=str(file)) == (3, 0)
    file.write_text("here")
    assert passes(FAIRPOST_FAILPOINT_FILE=str(file)) == (0, -signal.SIGKILL)
    assert passes(FAIRPOST_FAILPOINT_FILE=str(file)) == (3, 0)
