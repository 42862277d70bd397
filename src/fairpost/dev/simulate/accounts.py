"""Simulates accounts at many providers over several days. Checks that each account stays within its limits and that the
e-mails arrive. The simulation uses the real database and the real workers on a simulated clock. The servers follow a
script with realistic problems: full mailboxes, dead addresses, requests to slow down, and a one-hour outage. The dice
are seeded.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from fairpost.dev.simulate.audit import violations
from fairpost.dev.simulate.drive import Drive
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.providers.presets import read_presets
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.system.chance import Dice
from fairpost.transports.port import Permission

START = datetime(2030, 1, 7, 8, tzinfo=UTC)  # a Monday
MIX = ("gmail", "outlook", "yahoo", "workspace", "microsoft365", "gmail", "custom", "hotmail", "gmail-api", "relay")
ACCOUNTS_PER_POOL = 10
ENQUEUED_OVER = 0.8  # share of the total time
COOL_DOWN_S = 6 * 3600  # an account paused for bounces is resumed after this time, because there is no operator
LOT_EVERY = timedelta(hours=6)
OUTAGE = (timedelta(hours=5), timedelta(hours=6))  # outage of every fifth account's server

OK = Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(250, "2.0.0 taken"))
TROUBLES = (  # probability and report
    (0.010, Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(550, "5.1.1 no such user"))),
    (0.020, Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(452, "4.2.2 mailbox full"))),
    (
        0.005,
        Report(reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(421, "4.7.28 too fast, try again in 10 minutes")),
    ),
    (0.005, Report(reached=Reached.BEFORE_DOT, step=Step.BODY, error="connection lost")),
    (0.002, Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error="connection refused")),
)


@dataclass(slots=True)
class Server:
    """One account's server. The server records the start time of each send that it receives."""

    dice: Dice
    has_outage: bool
    begun: list[datetime] = field(default_factory=list)
    taken: int = 0

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        report = self._answer()
        if report.reached is not Reached.UNTOUCHED:
            if not permission():
                return Report(reached=Reached.UNTOUCHED, error="no permission")
            self.begun.append(clock.now())
        self.taken += report is OK
        return report

    def _answer(self) -> Report:
        if self.has_outage and OUTAGE[0] <= clock.now() - START < OUTAGE[1]:
            return Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error="no route to host")
        rolled = self.dice()
        for share, trouble in TROUBLES:
            if rolled < share:
                return trouble
            rolled -= share
        return OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    states: Counter[str]
    duplicates: int
    broken_limits: tuple[str, ...]
    simulated: timedelta
    sent_by: Counter[str]  # sent e-mails by provider


async def simulate_accounts(
    store: Store, *, accounts: int, days: float, emails: int, seed: int, progress: Callable[[str], None]
) -> Outcome:
    with clock.stopped_at(START) as manual:
        servers = await _accounts(store, accounts, seed)
        await _enqueue(
            store, emails, pools=-(-accounts // ACCOUNTS_PER_POOL), over=timedelta(days=days * ENQUEUED_OVER)
        )
        told = START

        def tell() -> None:
            nonlocal told
            if manual.now >= told + timedelta(hours=6):
                told = manual.now
                taken = sum(server.taken for server in servers.values())
                progress(f"{(told - START) / timedelta(days=1):.1f} of {days:g} days: {taken:,} of {emails:,} sent")

        await Drive(store, manual, servers).run(until=START + timedelta(days=days), after_each=tell)
        return await _audit(store, servers, manual.now - START)


async def _accounts(store: Store, n: int, seed: int) -> dict[AccountId, Server]:
    presets = read_presets()
    servers = {}
    for number in range(n):
        preset = presets[MIX[number % len(MIX)]]
        id_ = await store.add_account(
            f"a{number}",
            address=f"a{number}@{preset.name}.test",
            pool=f"pool{number // ACCOUNTS_PER_POOL}",
            limits=replace(preset.limits, cool_down_s=COOL_DOWN_S),
            provider=preset.name,
        )
        servers[id_] = Server(chance.dice(f"{seed} {number}"), has_outage=number % 5 == 0)
    return servers


async def _enqueue(store: Store, emails: int, *, pools: int, over: timedelta) -> None:
    """Enqueues e-mails in batches that are due every six hours.

    The first pool gets a third of the e-mails, which is more than its limits allow.
    """
    lots = max(1, int(over / LOT_EVERY))
    for start in range(0, emails, 5000):
        numbers = range(start, min(emails, start + 5000))
        await store.enqueue_many(
            [
                {
                    "to": f"p{n}@there.test",
                    "subject": "s",
                    "text": "t",
                    "pool": f"pool{n // 3 % pools if n % 3 else 0}",
                    "due_at": (START + n * lots // emails * LOT_EVERY).isoformat(),
                    "workspace": f"w{n % (3 * pools)}",
                    "stream": "campaign",
                    "idempotency_key": str(n),
                }
                for n in numbers
            ]
        )


async def _audit(store: Store, servers: dict[AccountId, Server], simulated: timedelta) -> Outcome:
    by_id = {account.id: account for account in await store.accounts()}
    broken = [
        f"{by_id[id_].name} ({by_id[id_].provider}): {words}"
        for id_, server in servers.items()
        for words in violations(by_id[id_].limits, server.begun)
    ]
    rows = await store.fetch(
        """SELECT state::text, count(*) AS n FROM fairpost.emails GROUP BY 1
           UNION ALL SELECT state::text, count(*) FROM fairpost.queue GROUP BY 1"""
    )
    states = Counter({row["state"]: row["n"] for row in rows})
    sent_by: Counter[str] = Counter()
    for id_, server in servers.items():
        sent_by[by_id[id_].provider or ""] += server.taken
    return Outcome(
        states=states,
        duplicates=sum(server.taken for server in servers.values()) - states["sent"],
        broken_limits=tuple(broken),
        simulated=simulated,
        sent_by=sent_by,
    )
