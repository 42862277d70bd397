"""Three algorithms that choose the next sender and share one interface: first come, first served; Fairpost's original
plan; and Fairpost's actual SQL. The algorithms only accept and release e-mails; they are measured elsewhere.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Protocol, Self

from fairpost.dev.simulate.scenarios import Scenario, Sender
from fairpost.model.account import Lease, Limits
from fairpost.model.ids import EmailId
from fairpost.store.store import Store

CLAIM_MAX = 50  # e-mails that an account's worker claims at a time
ENQUEUE_MAX = 10_000  # e-mails that the database accepts at a time


@dataclass(frozen=True, slots=True, eq=False)
class Email:
    sender: Sender
    domain: str
    minute: int  # minute of arrival
    bounces: bool = False


class Algorithm(Protocol):
    async def put(self, emails: Sequence[Email], now: datetime) -> None:
        """Adds e-mails in order of arrival."""

    async def throttle(self, sender: Sender, now: datetime) -> None:
        """Stops all e-mails of this sender."""

    async def take(self, n: int, now: datetime) -> list[Email]: ...


class Fifo:
    """First come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[Email] = deque()
        self._throttled: set[Sender] = set()

    async def put(self, emails: Sequence[Email], now: datetime) -> None:
        self._waiting.extend(email for email in emails if email.sender not in self._throttled)

    async def throttle(self, sender: Sender, now: datetime) -> None:
        self._throttled.add(sender)
        self._waiting = deque(email for email in self._waiting if email.sender is not sender)

    async def take(self, n: int, now: datetime) -> list[Email]:
        return [self._waiting.popleft() for _ in range(min(n, len(self._waiting)))]


class WholeShares:
    """Fairpost's original plan: domains are served in order of backlog, smallest first, and each domain gets max(1,
    ⌊slots / domains⌋) slots. The same rule applies to the users within a domain. The plan is implemented as written:
    shares are whole numbers, unused shares are lost, and priority only sorts a single user's e-mails, so weights have
    no effect.
    """

    def __init__(self) -> None:
        self._domains: dict[str, dict[str, deque[Email]]] = defaultdict(lambda: defaultdict(deque))
        self._throttled: set[Sender] = set()

    async def put(self, emails: Sequence[Email], now: datetime) -> None:
        for email in emails:
            if email.sender not in self._throttled:
                self._domains[email.domain][email.sender.user].append(email)

    async def throttle(self, sender: Sender, now: datetime) -> None:
        self._throttled.add(sender)
        for domain in sender.domains:
            self._domains[domain].pop(sender.user, None)

    async def take(self, n: int, now: datetime) -> list[Email]:
        waiting = {domain: sum(map(len, users.values())) for domain, users in self._domains.items()}
        taken: list[Email] = []
        for domain, most in _shares(waiting, n):
            users = self._domains[domain]
            for user, each in _shares({user: len(queue) for user, queue in users.items()}, most):
                taken += [users[user].popleft() for _ in range(each)]
        return taken


def _shares(waiting: dict[str, int], n: int) -> list[tuple[str, int]]:
    """Returns how many of `n` slots each sender gets. Among equal senders, the first to arrive is served first."""
    ascending = sorted((count, place, name) for place, (name, count) in enumerate(waiting.items()) if count)
    most = max(1, n // len(ascending)) if ascending else 0
    shares, left = [], n
    for count, _, name in ascending:
        if left <= 0:
            break
        shares.append((name, min(most, count)))
        left -= min(most, count)
    return shares


class Fairpost:
    """The real queue in a real database. Adds e-mails with `enqueue_many` and, like a worker, claims them in batches."""

    def __init__(self, store: Store, lease: Lease, *, content_id: int) -> None:
        self._store = store
        self._lease = lease
        self._content_id = content_id
        self._known: dict[EmailId, Email] = {}

    @classmethod
    async def open(cls, store: Store, scenario: Scenario, now: datetime) -> Self:
        """Opens the queue, which needs an empty database. Adds one account without limits, and sets the senders'
        weights.
        """
        account = await store.add_account("simulated", address="simulated@post.test", limits=Limits())
        lease = await store.take_lease(account, owner="simulation", seconds=60.0 * (scenario.minutes + 1), now=now)
        assert lease is not None
        content = await store.value("""SELECT fairpost.put_content('{"subject": "s", "text": "t"}')""")
        for sender in scenario.senders:
            if sender.weight != 1:
                await store.set_weight(sender.workspace, sender.level, sender.key, weight=sender.weight)
        return cls(store, lease, content_id=content)

    async def put(self, emails: Sequence[Email], now: datetime) -> None:
        """Adds e-mails, one transaction per sender.

        Arrivals are absorbed immediately, as in a claim. Among equal senders, the first to be absorbed is served first,
        so this order must be the same in every run with the same seed.
        """
        for _, of_one in groupby(emails, key=lambda email: email.sender.name):
            lot = list(of_one)
            for at in range(0, len(lot), ENQUEUE_MAX):
                await self._enqueue(lot[at : at + ENQUEUE_MAX], now)
            await self._store.value("SELECT fairpost.absorb_arrivals(ARRAY['default'], $1)", now)

    async def _enqueue(self, emails: Sequence[Email], now: datetime) -> None:
        rows = await self._store.enqueue_many(
            [
                {
                    "workspace": email.sender.workspace,
                    "from": f"{email.sender.user}@{email.domain}",
                    "user": email.sender.user,
                    "stream": "simulated",
                    "class": "bulk",
                    "to": "p@there.test",
                    "content_id": self._content_id,
                }
                for email in emails
            ],
            now=now,
        )
        self._known |= {EmailId(row["id"]): email for row, email in zip(rows, emails, strict=True)}

    async def throttle(self, sender: Sender, now: datetime) -> None:
        await self._store.hold(sender.workspace, sender.level, sender.key, reason="abuse", now=now)

    async def take(self, n: int, now: datetime) -> list[Email]:
        taken: list[Email] = []
        while len(taken) < n:
            claim = await self._store.claim(self._lease, limit=min(CLAIM_MAX, n - len(taken)), now=now)
            assert claim.verdict == "ok", claim.verdict
            if not claim.ids:
                break
            taken += [self._known[id_] for id_ in claim.ids]
            await self._finish(claim.ids, now)
        return taken

    async def _finish(self, ids: Sequence[EmailId], now: datetime) -> None:
        """Moves e-mails to the history in batches.

        `begin` and `settle` would move them one by one, in the same order.
        """
        states = ["bounced" if self._known.pop(id_).bounces else "sent" for id_ in ids]
        await self._store.fetch(
            """SELECT fairpost.finish(e.id, e.state::fairpost.email_state, NULL, $3)
               FROM unnest($1::bigint[], $2::text[]) AS e(id, state)""",
            list(ids),
            states,
            now,
        )
