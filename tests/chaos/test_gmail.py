"""A worker that sends through Gmail, killed at every step: what Google keeps tells what became of each e-mail.

Zero duplicates, zero losses, and nobody has to decide anything. All points are tried at once, each with an engine, a
database and an emulator of its own.
"""

import asyncio
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import asyncpg
import pytest

from fairpost.app import vault_of
from fairpost.deliver import doubts, runner
from fairpost.emulate.server import GmailEmulator
from fairpost.model.account import Limits
from fairpost.model.oauth import OauthKind, OauthSettings
from fairpost.model.transport import GmailSettings
from fairpost.postgres.store import Store
from fairpost.settings import read_settings
from fairpost.vault.rotation import write_sealed
from tests.chaos.driver import eventually, until
from tests.chaos.processes import Engine
from tests.chaos.test_failpoints import POINTS as OVER_SMTP
from tests.conftest import at_database
from tests.simulation.world import draft

EMAILS = 12
ENGINE = ("--lease-s", "2", "--idle-s", "5")
SALES = "sales@post.test"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds processes in /proc"),
]


@dataclass(frozen=True, kw_only=True)
class Death:
    """`faults`: what Google does wrong on the way, so that the point is passed at all."""

    nth: int = 3
    faults: tuple[dict[str, object], ...] = ()


APPLIED_BUT_CUT = {"route": "drafts.send", "action": "drop", "after": True, "nth": 2, "times": 1}
NEVER_ANSWERED = {"route": "drafts.send", "action": "drop", "times": 6}

POINTS = {
    "after_lease": Death(nth=1),
    "after_claim": Death(nth=1),
    "after_load": Death(nth=1),
    "after_draft": Death(),
    "after_begin": Death(),
    "before_send": Death(),
    "before_dot": Death(),
    "after_send": Death(),
    "after_settle": Death(),
    "after_book": Death(nth=1),
    "after_asking": Death(nth=1, faults=(NEVER_ANSWERED,)),
    "after_sending_a_doubt": Death(nth=1, faults=(NEVER_ANSWERED,)),
}
NOT_PASSED = {"after_give_back", "after_suspend", "after_status", "after_rest", "after_settle_and_begin"}


@dataclass
class Trial:
    point: str
    death: Death
    url: str
    folder: Path

    async def run(self) -> tuple[Counter[str], dict[str, int]]:
        """How often each e-mail was sent, and how many are in which state."""
        async with GmailEmulator(users=[SALES]) as google, Store.open(self.url) as store:
            for fault in self.death.faults:
                google.faults.add(**fault)  # type: ignore[arg-type]
            await self._add_account(store, google)
            await store.enqueue_many([draft(to=f"p{i}@x.test", subject=f"n{i}") for i in range(EMAILS)])
            engine = self._start_engine()
            try:
                await until(lambda: engine.is_ready() and not self._file.exists(), f"it dies {self.point}", s_max=90)
                over = "SELECT count(*) = 0 FROM fairpost.queue"
                await eventually(lambda: store.value(over), f"all is sent after the death {self.point}", s_max=120)
            finally:
                engine.end()
            rows = await store.fetch("SELECT state, count(*) AS n FROM fairpost.emails GROUP BY 1")
            sent = Counter(dict(message.headers)["Subject"] for message in google.sent(SALES))
            return sent, {row["state"]: row["n"] for row in rows}

    async def _add_account(self, store: Store, google: GmailEmulator) -> None:
        settings = GmailSettings(oauth=OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), base_url=google.url)
        id_ = await store.next_account_id()

        async def write(sealed: str, keys: object) -> None:
            transport = replace(settings, secret=sealed)
            await store.add_account("sales", address=SALES, limits=Limits(), transport=transport, id_=id_)

        vault = vault_of(read_settings({"FAIRPOST_HOME": str(self.folder)}))
        await write_sealed(store, vault, json.dumps(google.service_account_info()), account_id=id_, write=write)

    def _start_engine(self) -> Engine:
        self._file.touch()
        env = {"FAIRPOST_FAILPOINT": f"{self.point}:{self.death.nth}", "FAIRPOST_FAILPOINT_FILE": str(self._file)}
        return Engine.start(self.url, None, self.folder, *ENGINE, env=env)

    @property
    def _file(self) -> Path:
        return self.folder / "alive"


async def try_all(server_url: str, folder: Path) -> dict[str, tuple[Counter[str], dict[str, int]] | BaseException]:
    conn = await asyncpg.connect(server_url)
    trials = []
    for point, death in POINTS.items():
        await conn.execute(f"CREATE DATABASE gmail_{point} TEMPLATE pattern")
        (folder / point).mkdir()
        trials.append(Trial(point, death, at_database(server_url, f"gmail_{point}"), folder / point))
    outcomes = await asyncio.gather(*(trial.run() for trial in trials), return_exceptions=True)
    for point in POINTS:
        await conn.execute(f"DROP DATABASE gmail_{point} WITH (FORCE)")
    await conn.close()
    return dict(zip(POINTS, outcomes, strict=True))


@pytest.fixture(scope="module")
def outcomes(
    server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Counter[str], dict[str, int]] | BaseException]:
    return asyncio.run(try_all(server_url, tmp_path_factory.mktemp("g")))


@pytest.mark.parametrize("point", POINTS)
def test_whatever_is_cut_off_every_e_mail_is_sent_once_and_nobody_has_to_decide(
    outcomes: dict[str, tuple[Counter[str], dict[str, int]] | BaseException], point: str
) -> None:
    outcome = outcomes[point]
    if isinstance(outcome, BaseException):
        raise outcome
    sent, states = outcome
    assert states == {"sent": EMAILS}
    assert sent == Counter({f"n{i}": 1 for i in range(EMAILS)})


def test_every_point_on_the_way_is_tried() -> None:
    text = Path(runner.__file__).read_text() + Path(doubts.__file__).read_text()
    assert set(re.findall(r'failpoint\("(\w+)"\)', text)) == set(POINTS) | NOT_PASSED
    assert set(OVER_SMTP) >= NOT_PASSED, "what Gmail does not pass is tried over SMTP"
