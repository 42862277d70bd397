"""What must hold after any chaos, checked against what arrived at the recorder. Each check lists offences; there should
be none."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from fairpost.model.account import Limits
from fairpost.store.store import Store
from tests.chaos.recorder import Cut, Recorder, Taken
from tests.simulation.world import broken_promises

CLOCKS_APART = timedelta(milliseconds=5)

EMAILS = """
SELECT e.id, e.state::text, e.on_doubt::text, e.attempts, e.attempts_max, e.route, e.idempotency_key AS key, a.name AS account, e.begun_at, e.reason
FROM (
    SELECT id, state, on_doubt, attempts, attempts_max, route, idempotency_key, account_id, begun_at, last_error AS reason FROM fairpost.queue
    UNION ALL
    SELECT id, state, on_doubt, attempts, attempts_max, route, idempotency_key, account_id, NULL, reason FROM fairpost.emails
) e LEFT JOIN fairpost.accounts a ON a.id = e.account_id
"""

BEGINNINGS = """
SELECT a.name AS account, b.begun_at, b.email_id FROM (
    SELECT account_id, begun_at, email_id FROM fairpost.attempts
    UNION SELECT account_id, begun_at, id FROM fairpost.queue WHERE state = 'in_doubt'
) b JOIN fairpost.accounts a ON a.id = b.account_id ORDER BY b.begun_at
"""

CUT = "SELECT email_id, begun_at, ended_at FROM fairpost.attempts WHERE outcome = 'cut'"


@dataclass
class Aftermath:
    """Everything known once all is quiet again."""

    emails: dict[int, Any]
    arrived: dict[int, list[Taken]]
    taken: list[Taken]
    beginnings: dict[str, list[tuple[datetime, int]]]
    doubts: int  # in doubt now, or resolved since by policy
    suspended: dict[str, str]
    broken_promises: dict[str, list[Any]]
    limits: dict[str, Limits]
    keys: set[str]
    broken: int  # the maximum number of messages in doubt
    frozen: Counter[str] = field(default_factory=Counter)
    cut: list[Any] = field(default_factory=list)  # attempts reported as incomplete

    @classmethod
    async def of(
        cls, store: Store, recorder: Recorder, *, keys: set[str], broken: int, frozen: Counter[str]
    ) -> "Aftermath":
        arrived, beginnings = defaultdict(list), defaultdict(list)
        for each in recorder.taken:
            arrived[each.email_id].append(each)
        for row in await store.fetch(BEGINNINGS):
            beginnings[row["account"]].append((row["begun_at"], row["email_id"]))
        accounts = await store.accounts()
        resolved = await store.value("SELECT count(*) FROM fairpost.events WHERE kind = 'resolved'")
        in_doubt = await store.value("SELECT count(*) FROM fairpost.queue WHERE state = 'in_doubt'")
        return cls(
            emails={row["id"]: row for row in await store.fetch(EMAILS)},
            arrived=arrived,
            taken=list(recorder.taken),
            beginnings=beginnings,
            doubts=resolved + in_doubt,
            suspended={a.name: str(a.status_reason) for a in accounts if a.status == "suspended"},
            broken_promises=await broken_promises(store),
            limits={account.name: account.limits for account in accounts},
            keys=keys,
            broken=broken + recorder.cuts[Cut.AFTER_DOT],
            frozen=frozen,
            cut=await store.fetch(CUT),
        )

    def offences(self) -> list[str]:
        return [
            f"{check.__name__.strip('_').replace('_', ' ')}: {offence}" for check in CHECKS for offence in check(self)
        ]

    def story(self, email_id: int) -> str:
        """An e-mail, and its messages that arrived."""
        row = self.emails.get(email_id)
        known = (
            f"{row['state']}, {row['on_doubt']}, attempt {row['attempts']}, {row['account'] or row['route']}"
            if row
            else "unknown"
        )
        lines = [
            f"connection {t.line.number} of {t.account} at {t.at:%H:%M:%S.%f}{'' if t.answered else ', no 250'}"
            for t in self.arrived.get(email_id, ())
        ]
        return f"e-mail {email_id} ({known}; arrived: {'; '.join(lines) or 'never'})"


def nothing_committed_is_lost_and_nothing_is_made_up(after: Aftermath) -> Iterator[str]:
    stored = Counter(row["key"] for row in after.emails.values())
    yield from (f"{key} is gone" for key in after.keys - set(stored))
    yield from (f"{key} is there {n} times" for key, n in stored.items() if n > 1 or key not in after.keys)
    yield from (after.story(id_) for id_ in after.arrived if id_ not in after.emails)


def every_email_is_in_a_state_that_is_final_or_explained(after: Aftermath) -> Iterator[str]:
    for id_, row in after.emails.items():
        limits = after.limits.get(row["route"].removeprefix("@"))
        is_limited = limits is not None and (limits.hourly_max or limits.daily_max) is not None
        match row["state"], row["on_doubt"]:
            case ("sent", _) | ("in_doubt", "hold"):
                pass
            case ("waiting", _) if is_limited:
                pass
            case _:
                yield after.story(id_)


def what_is_called_sent_did_arrive(after: Aftermath) -> Iterator[str]:
    yield from (
        after.story(id_) for id_, row in after.emails.items() if row["state"] == "sent" and not after.arrived[id_]
    )


def what_waits_and_was_never_in_doubt_did_not_arrive(after: Aftermath) -> Iterator[str]:
    for id_, row in after.emails.items():
        if row["state"] == "waiting" and row["on_doubt"] == "hold" and after.arrived[id_]:
            yield after.story(id_)


def what_was_cut_did_not_arrive(after: Aftermath) -> Iterator[str]:
    """A message may not arrive during that attempt, but may during the next one."""
    for row in after.cut:
        if any(row["begun_at"] <= t.at <= row["ended_at"] for t in after.arrived.get(row["email_id"], ())):
            yield after.story(row["email_id"])


def nothing_to_be_held_in_doubt_arrives_twice(after: Aftermath) -> Iterator[str]:
    for id_, came in after.arrived.items():
        row = after.emails.get(id_)
        if row and row["on_doubt"] == "hold" and len(came) > 1:
            yield after.story(id_)


def what_is_resent_arrives_once_more_for_each_doubt_at_most(after: Aftermath) -> Iterator[str]:
    again = {id_: len(came) - 1 for id_, came in after.arrived.items() if len(came) > 1}
    if sum(again.values()) > after.broken:
        yield f"{sum(again.values())} copies too many, and {after.broken} at most may be: {[*map(after.story, again)][:5]}"


def no_more_is_in_doubt_than_was_under_way(after: Aftermath) -> Iterator[str]:
    if after.doubts > after.broken:
        yield f"{after.doubts} were in doubt, and {after.broken} at most may be"


def no_account_sends_more_than_its_limits(after: Aftermath) -> Iterator[str]:
    """A run is shorter than an hour, so all of it is one window."""
    for name, sent in Counter(t.account for t in after.taken).items():
        most = min(
            (n for n in (after.limits[name].hourly_max, after.limits[name].daily_max) if n is not None), default=None
        )
        if most is not None and sent > most:
            yield f"{name} sent {sent}, and {most} is its limit"


def an_account_waits_between_two_sends(after: Aftermath) -> Iterator[str]:
    """Measured by the database's clock, from begin to begin."""
    for name, begun in after.beginnings.items():
        delay = timedelta(milliseconds=after.limits[name].delay_ms)
        for (first, _), (second, id_) in pairwise(begun):
            if second - first < delay - CLOCKS_APART:
                yield f"{name} waited {(second - first) / timedelta(milliseconds=1):.0f} ms of {delay / timedelta(milliseconds=1):.0f} before {after.story(id_)}"


def an_account_completes_one_message_at_a_time(after: Aftermath) -> Iterator[str]:
    """From MAIL to the answer, or to the dot if the connection broke before the answer: the account may continue at
    once, while the server is still processing the message. A frozen worker may wake up in the middle of one and finish
    it."""
    together: Counter[str] = Counter()
    found: dict[str, list[str]] = defaultdict(list)
    last: dict[str, Taken] = {}
    for each in sorted(after.taken, key=lambda t: t.began_s):
        before = last.get(each.account)
        ended_s = before.ended_s if before and before.answered else before and before.at_s
        if before and ended_s and before.line is not each.line and each.began_s < ended_s:
            together[each.account] += 1
            found[each.account].append(f"{after.story(before.email_id)} and {after.story(each.email_id)}")
        last[each.account] = each
    for account, n in together.items():
        if n > after.frozen[account]:
            yield f"{account}: {n} times, frozen {after.frozen[account]} times; {found[account][:3]}"


def no_account_is_suspended(after: Aftermath) -> Iterator[str]:
    yield from (f"{name}: {why}" for name, why in after.suspended.items())


def the_promises_of_the_queue_hold(after: Aftermath) -> Iterator[str]:
    yield from (f"{promise}: {rows}" for promise, rows in after.broken_promises.items())


CHECKS = (
    nothing_committed_is_lost_and_nothing_is_made_up,
    every_email_is_in_a_state_that_is_final_or_explained,
    what_is_called_sent_did_arrive,
    what_waits_and_was_never_in_doubt_did_not_arrive,
    what_was_cut_did_not_arrive,
    nothing_to_be_held_in_doubt_arrives_twice,
    what_is_resent_arrives_once_more_for_each_doubt_at_most,
    no_more_is_in_doubt_than_was_under_way,
    no_account_sends_more_than_its_limits,
    an_account_waits_between_two_sends,
    an_account_completes_one_message_at_a_time,
    no_account_is_suspended,
    the_promises_of_the_queue_hold,
)
