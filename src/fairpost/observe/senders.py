"""Reads one sender for display: its attributes, activity and score, and what blocks its mail."""

from dataclasses import dataclass
from datetime import datetime

from fairpost.model.errors import Unknown
from fairpost.model.sender import Fairness, Sender, SenderId, SenderLevel
from fairpost.observe.emails import stops_on
from fairpost.policy.abuse import Day, Score, last_day
from fairpost.policy.facts import Stop
from fairpost.policy.senders import SenderPolicy, activity_of, score_of
from fairpost.store import senders, waiting
from fairpost.store.outcomes import has_sent
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSender:
    """A sender and its current `score`, which is None if scoring is off.

    The score in `sender` is the one that the last decision was based on.
    """

    sender: Sender
    score: Score | None
    day: Day
    waiting: int
    home: str | None  # the domain under which a user's mail is queued, or None if unknown
    stops: tuple[Stop, ...]
    fairness: Fairness
    now: datetime


async def show_sender(store: Store, id_: SenderId, policy: SenderPolicy) -> ShownSender:
    """Returns one sender. A sender that has sent mail need not be registered."""
    now = await store.now()
    (active,) = await senders.with_activity(store, [id_])
    activity = activity_of(active.sender, active.hours, active.days, now=now)
    shown = ShownSender(
        sender=active.sender,
        score=score_of(active.sender, activity, policy, now=now),
        day=last_day(activity, now=now),
        waiting=await waiting_behind(store, id_),
        home=await senders.home_of(store, id_) if id_.level is SenderLevel.USER else None,
        stops=tuple(await stops_on(store, id_.workspace, user=_user(id_))),
        fairness=await senders.fairness_now(store),
        now=now,
    )
    is_blank = shown.sender == Sender(id=id_) and not shown.waiting
    if is_blank and not await has_sent(store, id_.workspace, _user(id_)):
        raise Unknown("user.unknown", sender=str(id_))
    return shown


async def waiting_behind(store: Store, id_: SenderId) -> int:
    """Returns how many of the sender's e-mails are waiting, either scheduled or ready.

    The number comes from the tree and the arrivals, so the queue is never counted.
    """
    return await waiting.waiting_behind(store, id_.workspace, _user(id_))


def _user(id_: SenderId) -> str | None:
    return id_.name if id_.level is SenderLevel.USER else None
