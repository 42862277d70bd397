"""Decide whether a sender or the account is to blame for bounces and refusals.

Here, a sender is a workspace. If an account has only one sender, the account is stopped. If several senders share an
account, the senders to blame are blocked from using it, and only the remaining bounces and refusals can stop the
account. The block takes effect before the provider stops the account and does not affect other senders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from fairpost.model.account import AccountStatus, Limits
from fairpost.model.fault import Bounces, Fault, Refusals, Sample, Suspect
from fairpost.model.reason import Reason

BOUNCES_MIN = 2  # a single bounce is not held against a sender
REFUSALS_MAX = 5  # continuing after this many refusals in a row would make a whole campaign fail
ESTABLISHED_AGE = timedelta(days=7)
ESTABLISHED_SENT = 100
BLOCKS_MAX = 100  # per account; SQL uses the same number


@dataclass(frozen=True, slots=True)
class Accused:
    workspace: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Stop:
    status: AccountStatus
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The senders to block and whether to stop the account itself."""

    accused: tuple[Accused, ...] = ()
    stop: Stop | None = None


def blame(sample: Sample, limits: Limits, *, now: datetime) -> Blame:
    refusals = _for_refusals(sample, now)
    bounces = _for_bounces(sample, limits)
    faults = {each.workspace: each for each in (*bounces.accused, *refusals.accused)}
    accused, stop = tuple(faults.values()), refusals.stop or bounces.stop
    if len(accused) + sample.blocks > BLOCKS_MAX:
        stop = stop or _stop(accused[-1].fault)
        accused = accused[: max(0, BLOCKS_MAX - sample.blocks)]
    return Blame(accused=accused, stop=stop)


def reason_of(fault: Fault) -> Reason:
    match fault:
        case Bounces(sent=sent, bounced=bounced, percent_max=most):
            return Reason("account.too_many_bounces", bounced=bounced, sent=sent, percent_max=most)
        case Refusals(refused=refused, reply=reply, since=since):
            return Reason("account.refused_in_a_row", refused=refused, reply=reply, since=since)
        case _:
            assert_never(fault)


def _for_bounces(sample: Sample, limits: Limits) -> Blame:
    everybody = _bounces(sample.suspects, sample.others_sent, limits)
    if everybody is None:
        return Blame()
    if not sample.is_shared:
        return Blame(stop=_stop(everybody))
    guilty = [s for s in sample.suspects if s.bounced >= BOUNCES_MIN and _is_above(s.sent, s.bounced, limits)]
    rest = _bounces([s for s in sample.suspects if s not in guilty], sample.others_sent, limits)
    return Blame(
        accused=tuple(Accused(s.workspace, _figures(s.sent, s.bounced, limits)) for s in guilty),
        stop=_stop(rest) if rest is not None else None,
    )


def _for_refusals(sample: Sample, now: datetime) -> Blame:
    """Blame the account alone for a problem that all of its senders have."""
    guilty = [s for s in sample.suspects if s.refused >= REFUSALS_MAX]
    others = [s for s in sample.suspects if s not in guilty]
    if not sample.is_shared and guilty:
        return Blame(stop=_stop(_refusals(guilty)))
    if sum(s.streak for s in others) >= REFUSALS_MAX:
        return Blame(stop=_stop(_refusals(sample.suspects)))
    is_unbroken = bool(guilty) and all(s.is_unbroken for s in guilty)
    if is_unbroken and any(s.streak > 0 and _is_established(s, now) for s in sample.suspects):
        return Blame(stop=_stop(_refusals(sample.suspects)))
    return Blame(accused=tuple(Accused(s.workspace, _refusals([s])) for s in guilty))


def _stop(fault: Fault) -> Stop:
    """Return how to stop the account. Too many bounces pause it, whereas refusals suspend it until it is resumed
    manually.
    """
    return Stop(AccountStatus.PAUSED if isinstance(fault, Bounces) else AccountStatus.SUSPENDED, fault)


def _is_established(suspect: Suspect, now: datetime) -> bool:
    return suspect.accepted >= ESTABLISHED_SENT and now - suspect.since >= ESTABLISHED_AGE


def _refusals(suspects: Sequence[Suspect]) -> Refusals:
    """Combine the refusals.

    With one suspect, all refusals count. With several suspects, only consecutive refusals count.
    """
    counts = [s.refused if len(suspects) == 1 else s.streak for s in suspects]
    last = max((s for s in suspects if s.refusal), key=lambda s: s.refused_since or s.since, default=None)
    return Refusals(
        refused=sum(counts),
        since=min(
            (s.refused_since for s, n in zip(suspects, counts, strict=True) if n and s.refused_since), default=None
        ),
        reply=(last.refusal if last else None) or "",
    )


def _bounces(suspects: Iterable[Suspect], others_sent: int, limits: Limits) -> Bounces | None:
    """Combine the bounces. Return None if the bounces are within the limit."""
    counts = [(s.sent, s.bounced) for s in suspects]
    sent, bounced = others_sent + sum(s for s, _ in counts), sum(b for _, b in counts)
    is_enough = sent >= limits.bounce_sample_min
    return _figures(sent, bounced, limits) if is_enough and _is_above(sent, bounced, limits) else None


def _is_above(sent: int, bounced: int, limits: Limits) -> bool:
    most = limits.bounce_percent_max
    return most is not None and bounced * 100 > most * sent


def _figures(sent: int, bounced: int, limits: Limits) -> Bounces:
    return Bounces(sent=sent, bounced=bounced, percent_max=limits.bounce_percent_max or 0)
