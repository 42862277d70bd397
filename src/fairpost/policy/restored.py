"""Detect a restored or copied database, from its own identity and an engine's memory of it.

A restored or copied database would repeat e-mails sent since the copy, so doubtful cases count as one. An unknown value
(null on either side) is no sign of a restore.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairpost.model.reason import Reason

GUARD = "restore guard"  # the author of the pause, as shown to users
ACCOUNTS_NAMED_MAX = 20
EMAILS_NAMED_MAX = 40  # for all accounts together, and at least two for each
RECENT = timedelta(minutes=1)  # engines write every few seconds: one that wrote within this time saw the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a database. `life` is None in an observed identity: only the database itself remembers it."""

    life: str | None = None
    system_identifier: int | None
    database_oid: int
    table_oid: int
    timeline: int | None
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What an engine remembers about one life of a database: how often it wrote to it, and when it last did."""

    life: str
    engine: str
    beats: int
    at: datetime
    system_identifier: int | None
    database_oid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What the database says about the engine's writes, or None if it does not know the engine.

    `last_at` is the last write of any engine. `is_asked` means that engines that were active at the end are asked
    whether anything is missing.
    """

    beats: int | None
    at: datetime | None
    last_at: datetime | None
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Steps of an account that were acknowledged to engines but that the database does not know.

    `emails` are the e-mails that these steps began, as far as remembered.
    """

    account: str
    steps: int
    emails: Sequence[int]


@dataclass(frozen=True, slots=True)
class First:
    """No engine has ever used this database."""


@dataclass(frozen=True, slots=True)
class Sound:
    pass


@dataclass(frozen=True, slots=True)
class FailedOver:
    """Another server continues where the first one ended. The engines compare whether anything is missing."""

    before: int
    timeline: int


@dataclass(frozen=True, slots=True)
class Restored:
    signs: tuple[str, ...]


Standing = First | Sound | FailedOver | Restored


def judge_newcomer(seen: Identity, memories: Iterable[Memory], *, is_empty: bool) -> First | Restored:
    """Judge a database without an identity. It is new, unless it has e-mails to send and an engine remembers it."""
    here = (seen.system_identifier, seen.database_oid)
    for memory in memories if not is_empty and seen.system_identifier is not None else ():
        if (memory.system_identifier, memory.database_oid) == here:
            return Restored((f"this engine used it until {_moment(memory.at)}, but it has no record of that",))
    return First()


def judge_identity(
    known: Identity, seen: Identity, memory: Memory | None, statement: Statement
) -> Sound | FailedOver | Restored:
    signs = (*_other_place(known, seen), *_gone_back(memory, statement))
    if signs:
        return Restored(signs)
    if known.timeline is None or seen.timeline is None or known.timeline == seen.timeline:
        return Sound()
    if seen.timeline < known.timeline:
        return Restored((f"its timeline was {known.timeline} and is now {seen.timeline}, which is older",))
    was_here = memory is not None and statement.last_at is not None and memory.at >= statement.last_at - RECENT
    if not was_here and not statement.is_asked:
        return Restored(
            (
                f"its timeline was {known.timeline} and is {seen.timeline}: it was recovered or failed over, and this "
                "engine was not running to confirm that nothing is missing",
            )
        )
    return FailedOver(before=known.timeline, timeline=seen.timeline)


def why_waiting(engines: Sequence[str], accounts: Sequence[str]) -> Reason:
    return Reason("everything.engines_silent", engines=engines, accounts=accounts or None)


def why_paused(signs: Sequence[str]) -> Reason:
    return Reason("everything.database_restored", signs=signs)


def signs_of(missing: Sequence[Missing]) -> tuple[str, ...]:
    """Describe what is missing, briefly enough for the database to keep the whole reason (`fairpost.pause`)."""
    named = missing[:ACCOUNTS_NAMED_MAX]
    emails_max = max(2, EMAILS_NAMED_MAX // max(1, len(named)))
    signs = tuple(_lacks(each, emails_max) for each in named)
    return (*signs, f"and of {len(missing) - len(named)} more accounts") if len(missing) > len(named) else signs


def _lacks(missing: Missing, emails_max: int) -> str:
    named = ", ".join(map(str, missing.emails[:emails_max]))
    more = f" and {len(missing.emails) - emails_max} more" if len(missing.emails) > emails_max else ""
    emails = f" (e-mails {named}{more})" if named else ""
    return f"it lacks the last {missing.steps} steps of {missing.account}{emails}"


def _other_place(known: Identity, seen: Identity) -> Iterable[str]:
    if _differ(known.system_identifier, seen.system_identifier):
        yield (
            f"it is on another PostgreSQL server (system identifier {known.system_identifier} before, "
            f"{seen.system_identifier} now)"
        )
    if known.database_oid != seen.database_oid:
        yield f"it is a different database (oid {known.database_oid} before, {seen.database_oid} now)"
    elif known.table_oid != seen.table_oid:
        yield "its tables were recreated, as from a dump"
    if _differ(known.folder, seen.folder):
        yield "the files of the embedded PostgreSQL were copied or restored"


def _gone_back(memory: Memory | None, statement: Statement) -> Iterable[str]:
    if memory is None or (statement.beats is not None and statement.beats >= memory.beats):
        return
    newest = f"its last record of it is from {_moment(statement.at)}" if statement.at else "it has no record of it"
    yield f"it has gone back in time (this engine wrote to it at {_moment(memory.at)}, but {newest})"


def _differ(before: object, now: object) -> bool:
    return before is not None and now is not None and before != now


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
