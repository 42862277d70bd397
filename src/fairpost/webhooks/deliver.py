"""One turn for an endpoint. Posts the due events, in order for each e-mail, and decides what to store. It does not use
the database. Lanes run in parallel; the events in one lane are posted one at a time. If an event fails, the later
events in its lane wait for it. If the first few requests of a turn all fail, the endpoint is considered dead, and the
other events are not tried.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from fairpost.model.public_ids import PublicIds
from fairpost.model.reason import Reason, as_json
from fairpost.model.webhook import Answered, Due, Tried, Webhook
from fairpost.policy.webhooks import is_given_up, next_try
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.webhooks.body import message_of
from fairpost.webhooks.post import Endpoint
from fairpost.webhooks.signing import signature

AT_ONCE = 16  # concurrent requests to one endpoint
TURN_S_MAX = 10.0  # after this time, no further requests are started


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The result of a turn. `tried` lists the events in the order in which their requests finished. `untried` lists the events for which no
    request was started.
    """

    tried: tuple[Tried, ...]
    untried: tuple[Due, ...]

    @property
    def is_delivered(self) -> bool:
        return any(each.answered.is_delivered for each in self.tried)

    def is_failure_of(self, hook: Webhook) -> bool:
        """Return whether the endpoint itself is to blame for the failures. The endpoint is not to blame if any event
        was delivered in this turn.

        Nor is it to blame if only old events were retried and it has accepted other events since the old ones first
        failed.
        """
        failed = [each.due for each in self.tried if not each.answered.is_delivered]
        is_news = hook.failing_since is not None or not all(_is_outlived(each, hook) for each in failed)
        return bool(failed) and not self.is_delivered and is_news

    @property
    def last_failure(self) -> Tried | None:
        return next((each for each in reversed(self.tried) if not each.answered.is_delivered), None)

    @property
    def is_gone(self) -> bool:
        return any(each.answered.is_gone for each in self.tried)


async def deliver(endpoint: Endpoint, keys: Sequence[bytes], due: Iterable[Due], ids: PublicIds) -> Turn:
    """Post these events, each signed with all keys."""
    return await _Delivering(endpoint, keys, due, ids).run()


@dataclass(slots=True)
class _Delivering:
    endpoint: Endpoint
    keys: Sequence[bytes]
    due: Iterable[Due]
    ids: PublicIds
    _tried: list[Tried] = field(default_factory=list)
    _begun: int = 0
    _delivered: int = 0
    _until_s: float = 0.0

    async def run(self) -> Turn:
        lanes: dict[str, list[Due]] = {}
        for each in self.due:
            lanes.setdefault(each.lane, []).append(each)
        self._until_s = clock.steady() + TURN_S_MAX
        waiting = iter(lanes.values())
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(lanes))):
                group.create_task(self._work(waiting))
        failpoint("after_posts")
        begun = {each.due.place for each in self._tried}
        untried = [each for lane in lanes.values() for each in lane if each.place not in begun]
        return Turn(tried=tuple(self._tried), untried=tuple(untried))

    async def _work(self, lanes: "Iterable[list[Due]]") -> None:
        for lane in lanes:
            for each in lane:
                if self._is_over() or not await self._post(each):
                    break
            if self._is_over():
                return

    def _is_over(self) -> bool:
        is_dead = not self._delivered and self._begun >= AT_ONCE
        return is_dead or clock.steady() >= self._until_s

    async def _post(self, due: Due) -> bool:
        self._begun += 1
        now = clock.now()
        message_id, body = message_of(due.event, self.ids, to_operator=self.endpoint.is_operators)
        timestamp = int(now.timestamp())
        answered = await self.endpoint.post(
            message_id, timestamp, signature(self.keys, message_id, timestamp, body), body
        )
        failpoint("after_post")
        self._tried.append(Tried(due=due, message_id=message_id, at=now, answered=answered))
        self._delivered += answered.is_delivered
        return answered.is_delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Everything that is stored in one commit after a turn. `url` and `failed_before` are the webhook's values at the
    start of the turn.
    """

    url: str
    failed_before: int
    cursor: str
    is_end: bool
    tried: tuple[Tried, ...] = ()
    done: tuple[tuple[int, int], ...] = ()  # events that are no longer pending
    pending: tuple[
        tuple[Due, datetime], ...
    ] = ()  # events that are still pending, each with the time of its next attempt
    is_delivered: bool = False
    is_disabled: bool = False
    failing_since: datetime | None = None
    failures: int = 0
    next_at: datetime | None = None
    why: Reason | None = None
    kept_s: float | None = None


def book(
    hook: Webhook, turn: Turn, *, cursor: str, is_end: bool, now: datetime, behind: Sequence[tuple[Due, datetime]] = ()
) -> Booking:
    """Return what to store after a turn. `behind` lists new events that were not tried because earlier events in their
    lanes were pending.
    """
    done = [each.due.place for each in turn.tried if each.answered.is_delivered and each.due.since is not None]
    pending: list[tuple[Due, datetime]] = []
    lanes: dict[str, datetime] = {}
    for each in turn.tried:
        if each.answered.is_delivered:
            continue
        if (turn.is_delivered or _is_outlived(each.due, hook)) and is_given_up(
            each.due.since, now, attempts=each.due.attempts + 1
        ):
            done.append(each.due.place)
            continue
        again = next_try(now, each.due.attempts + 1, roll=chance.roll(), retry_after_s=each.answered.retry_after_s)
        pending.append((replace(each.due, attempts=each.due.attempts + 1), again))
        lanes[each.due.lane] = again
    waiting = [*((each, now) for each in turn.untried), *behind]
    pending += [
        (each, lanes.get(each.lane, again)) for each, again in waiting
    ]  # each of them waits for the failed event in its lane
    failure = turn.last_failure
    booking = replace(
        _of(hook), cursor=cursor, is_end=is_end, tried=turn.tried, done=tuple(done), pending=tuple(pending)
    )
    if turn.is_gone:
        return replace(booking, is_disabled=True, failing_since=hook.failing_since or now, why=Reason("webhook.gone"))
    if turn.is_delivered:
        return replace(booking, is_delivered=True)
    if failure is None or not turn.is_failure_of(hook):
        return replace(
            booking, failing_since=hook.failing_since, failures=hook.failures, next_at=hook.next_at, why=hook.why
        )
    since, failures = hook.failing_since or now, hook.failures + 1
    return replace(
        booking,
        is_disabled=is_given_up(since, now, attempts=failures),
        failing_since=since,
        failures=failures,
        next_at=next_try(now, failures, roll=chance.roll(), retry_after_s=failure.answered.retry_after_s),
        why=failure.answered.why,
    )


def _is_outlived(due: Due, hook: Webhook) -> bool:
    """Return whether the endpoint has accepted another event since this event first failed."""
    return due.since is not None and hook.delivered_at is not None and hook.delivered_at >= due.since


def unsignable(hook: Webhook, *, now: datetime) -> Booking:
    """Return what to store if the webhook has no secret. The webhook is disabled, because events are never posted
    without a signature.
    """
    why = Reason("webhook.no_secret")
    return replace(_of(hook), is_disabled=True, failing_since=hook.failing_since or now, why=why)


def _of(hook: Webhook) -> Booking:
    return Booking(url=hook.url, failed_before=hook.failures, cursor=hook.cursor, is_end=False)


def as_dict(booking: Booking) -> dict[str, object]:
    """Return the booking in the format that the SQL function `fairpost.book_webhook` accepts."""
    why = booking.why
    return {
        "url": booking.url,
        "failed_before": booking.failed_before,
        "cursor": booking.cursor,
        "is_end": booking.is_end,
        "log": [logged(each) for each in booking.tried],
        "done": booking.done,
        "pending": [_pending(each, again) for each, again in booking.pending],
        "is_delivered": booking.is_delivered,
        "is_disabled": booking.is_disabled,
        "failing_since": _text(booking.failing_since),
        "failures": booking.failures,
        "next_at": _text(booking.next_at),
        "reason": why.code if why else None,
        "params": as_json(why) if why else None,
        "kept_s": booking.kept_s,
    }


def _pending(due: Due, again: datetime) -> dict[str, object]:
    turn, event_id = due.place
    facts = {"turn": turn, "event_id": event_id, "lane": due.lane, "attempts": due.attempts}
    return {**facts, "since": _text(due.since), "next_at": _text(again)}


def logged(tried: Tried) -> dict[str, object]:
    event, answered = tried.due.event, tried.answered
    return {
        "at": _text(tried.at),
        "message_id": tried.message_id,
        "kind": event.kind,
        "cursor": event.cursor if event.cursor != "0.0" else None,
        "email_id": event.email_id,
        "attempt": tried.due.attempts + 1,
        **_answer(answered),
    }


def _answer(answered: Answered) -> dict[str, object]:
    why = answered.why
    return {
        "status": answered.status,
        "reason": why.code if why else None,
        "params": as_json(why) if why else None,
        "duration_ms": answered.duration_ms,
        "answer": answered.answer or None,
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
