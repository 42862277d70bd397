"""When so much of an account's mail bounces that it must stop: before its provider stops it.

Hard bounces against what was sent on the account's day. Where several senders share an account, those above the limit
are stopped first, and the account only if the others exceed it without them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fairpost.model.account import Limits

BLAMED_FROM = 2  # bounces


@dataclass(frozen=True, slots=True, kw_only=True)
class TooMany:
    """`workspaces` are stopped, and if `is_account` so is the account."""

    workspaces: tuple[str, ...] = ()
    is_account: bool = False
    words: str = ""


def too_many_bounces(day: Mapping[str, tuple[int, int]], limits: Limits) -> TooMany:
    """`day`: what each workspace has sent through the account, and how many of those bounced."""
    if not _exceeds(day.values(), limits):
        return TooMany()
    sent, bounced = (sum(column) for column in zip(*day.values(), strict=True))
    words = f"{bounced} of {sent} e-mails bounced on this day, more than {limits.bounce_percent_max:g} %"
    if len(day) == 1:
        return TooMany(is_account=True, words=words)
    guilty = tuple(name for name, counts in day.items() if _is_to_blame(*counts, limits))
    others = [counts for name, counts in day.items() if name not in guilty]
    return TooMany(workspaces=guilty, is_account=_exceeds(others, limits), words=words)


def _is_to_blame(sent: int, bounced: int, limits: Limits) -> bool:
    """His share is above the limit, and not by a single bounce. The account's sample is large enough already."""
    return bounced >= BLAMED_FROM and bounced * 100 > (limits.bounce_percent_max or 0) * sent


def _exceeds(counts: Collection[tuple[int, int]], limits: Limits) -> bool:
    sent, bounced = sum(s for s, _ in counts), sum(b for _, b in counts)
    most = limits.bounce_percent_max
    return most is not None and sent >= limits.bounce_sample_min and bounced * 100 > most * sent
