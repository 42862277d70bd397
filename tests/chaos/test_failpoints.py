"""A worker killed exactly between two steps: for each step, what it leaves behind.

All points are tried at once, each with an engine, a database and a recorder of its own; the tests look at the results.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncpg
import pytest

from fairpost.app import vault_of
from fairpost.deliver import runner
from fairpost.model.account import Limits
from fairpost.postgres.store import Store
from fairpost.settings import read_settings
from fairpost.vault.rotation import write_sealed
from tests.chaos.driver import eventually, through, until
from tests.chaos.processes import Engine
from tests.chaos.recorder import Cut, Manners, Recorder
from tests.chaos.verdicts import Aftermath
from tests.conftest import at_database
from tests.simulation.world import draft

EMAILS = 30
ENGINE = ("--lease-s", "2", "--idle-s", "5")
ACCOUNT = "quick"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes and their connections in /proc"),
]


@dataclass(frozen=True, kw_only=True)
class Death:
    """`in_doubt`: how many e-mails are, afterwards; `arrived`: how many of these the server has."""

    nth: int = 3
    in_doubt: int
    arrived: int = 0
    limits: Limits = field(default_factory=lambda: Limits(batch_max=20))
    prepare: Callable[[Recorder], None] = lambda _: None
    mended_by: dict[str, object] | None = None  # what a person changes of the account, and of the server, afterwards


def hang_up_once(recorder: Recorder) -> None:
    recorder.cut_next(Cut.GREETING)


def refuse_login(recorder: Recorder) -> None:
    recorder.manners = Manners(refuse_login=True)


PAUSES = Limits(delay_ms=300)  # so that settling one and beginning the next are two commits

POINTS = {
    "after_lease": Death(nth=1, in_doubt=0),
    "after_claim": Death(nth=2, in_doubt=0),
    "after_load": Death(nth=2, in_doubt=0),
    "after_begin": Death(nth=3, in_doubt=1, limits=PAUSES),
    "before_send": Death(in_doubt=1),
    "before_dot": Death(in_doubt=1),
    "after_send": Death(in_doubt=1, arrived=1),
    "after_settle": Death(in_doubt=0, limits=PAUSES),
    "after_settle_and_begin": Death(in_doubt=1),
    "after_book": Death(nth=1, in_doubt=0),
    "after_give_back": Death(nth=1, in_doubt=0, prepare=hang_up_once),
    "after_rest": Death(nth=1, in_doubt=0, prepare=hang_up_once),
    "after_suspend": Death(nth=1, in_doubt=0, prepare=refuse_login, mended_by={"status": "active"}),
    "after_status": Death(nth=1, in_doubt=0, limits=Limits(daily_max=10), mended_by={"daily_max": None}),
}


@dataclass
class Trial:
    """One point, one engine."""

    point: str
    death: Death
    url: str
    folder: Path
    recorder: Recorder = field(default_factory=Recorder)

    async def run(self) -> Aftermath:
        self.death.prepare(self.recorder)
        with self.recorder.running():
            async with Store.open(self.url) as store:
                await self._add_account(store)
                emails = [draft(to=f"p{i}@x.test", on_doubt="hold", idempotency_key=f"k{i}") for i in range(EMAILS)]
                await store.enqueue_many(emails)
                engine = self._start_engine()
                try:
                    await self._until_over(store, engine)
                finally:
                    engine.end()
                keys = {email["idempotency_key"] for email in emails}
                return await Aftermath.of(store, self.recorder, keys=keys, broken=1, frozen=Counter())

    async def _add_account(self, store: Store) -> None:
        """With a password: a server that refuses it is one of the cases."""
        id_ = await store.next_account_id()

        async def write(sealed: str, keys: object) -> None:
            transport = replace(through(self.recorder, ACCOUNT), user="u", secret=sealed)
            await store.add_account(
                ACCOUNT, address="a@post.test", limits=self.death.limits, transport=transport, id_=id_
            )

        vault = vault_of(read_settings({"FAIRPOST_HOME": str(self.folder)}))
        await write_sealed(store, vault, "secret", account_id=id_, write=write)

    def _start_engine(self) -> Engine:
        self._file.touch()
        env = {"FAIRPOST_FAILPOINT": f"{self.point}:{self.death.nth}", "FAIRPOST_FAILPOINT_FILE": str(self._file)}
        return Engine.start(self.url, self.recorder, self.folder, *ENGINE, env=env)

    @property
    def _file(self) -> Path:
        return self.folder / "alive"

    async def _until_over(self, store: Store, engine: Engine) -> None:
        await until(lambda: engine.is_ready() and not self._file.exists(), f"a worker dies {self.point}", s_max=60)
        if self.death.mended_by is not None:
            self.recorder.manners = Manners()
            await store.change_account(ACCOUNT, self.death.mended_by)
        left = "SELECT count(*) = 0 FROM fairpost.queue WHERE state <> 'in_doubt'"
        await eventually(lambda: store.value(left), f"all is sent after the death {self.point}", s_max=60)


async def try_all(server_url: str, folder: Path) -> dict[str, Aftermath | BaseException]:
    conn = await asyncpg.connect(server_url)
    trials = []
    for point, death in POINTS.items():
        await conn.execute(f"CREATE DATABASE chaos_{point} TEMPLATE pattern")
        (folder / point).mkdir()
        trials.append(Trial(point, death, at_database(server_url, f"chaos_{point}"), folder / point))
    outcomes = await asyncio.gather(*(trial.run() for trial in trials), return_exceptions=True)
    for point in POINTS:
        await conn.execute(f"DROP DATABASE chaos_{point} WITH (FORCE)")
    await conn.close()
    return dict(zip(POINTS, outcomes, strict=True))


@pytest.fixture(scope="module")
def outcomes(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Aftermath | BaseException]:
    return asyncio.run(try_all(server_url, tmp_path_factory.mktemp("f")))


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_here_repeats_nothing_and_leaves_no_more_than_this_in_doubt(
    outcomes: dict[str, Aftermath | BaseException], point: str
) -> None:
    after, death = outcomes[point], POINTS[point]
    if isinstance(after, BaseException):
        raise after
    in_doubt = [id_ for id_, row in after.emails.items() if row["state"] == "in_doubt"]
    assert after.offences() == []
    assert len(in_doubt) == death.in_doubt
    assert sum(len(after.arrived[id_]) for id_ in in_doubt) == death.arrived


def test_every_point_of_the_runner_is_tried() -> None:
    passed = set(re.findall(r'failpoint\("(\w+)"\)', Path(runner.__file__).read_text()))
    assert passed - {"after_draft"} == set(POINTS), "where the provider keeps drafts: test_gmail.py"


PASSES = (
    "from fairpost.system.failpoints import failpoint\nfor _ in range(3): failpoint('here'); print('.', flush=True)"
)


def passes(**env: str) -> tuple[int, int]:
    """How often it came by, and how it ended."""
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
