"""Detect a restored or copied database, from its own identity and an engine's memory of it.

A restored or copied database would repeat the e-mails sent since the copy was made, so doubtful cases count as a
restore. An unknown value (null on either side) is not a sign of a restore.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairpost.model.reason import Reason

GUARD = "restore guard"  # who paused sending, as shown to users
ACCOUNTS_NAMED_MAX = 20
EMAILS_NAMED_MAX = 40  # e-mails named in total for all accounts, but at least two for each account
RECENT = timedelta(minutes=1)  # an engine that wrote within this time before the end was active at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a database. `life` is None in an observed identity, because only the database itself records it."""

    life: str | None = None
    system_identifier: int | None
    database_oid: int
    table_oid: int
    timeline: int | None
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What an engine remembers about one life of a database: how many times it wrote and when it last did so."""

    life: str
    engine: str
    beats: int
    at: datetime
    system_identifier: int | None
    database_oid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The database's record of the engine's writes, or None if there is none.

    `last_at` is the time of the last write by any engine. `is_asked` means that the engines that were active at the end
    are being asked whether anything is missing.
    """

    beats: int | None
    at: datetime | None
    last_at: datetime | None
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An account's steps that were acknowledged to engines but are missing from the database.

    `emails` are the e-mails that these steps began, if the engines recorded them.
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
    """Another server continues where the previous server left off. The engines check whether anything is missing."""

    before: int
    timeline: int


@dataclass(frozen=True, slots=True)
class Restored:
    signs: tuple[Reason, ...]


Lineage = First | Sound | FailedOver | Restored


def judge_newcomer(seen: Identity, memories: Iterable[Memory], *, is_empty: bool) -> First | Restored:
    """Judge a database without an identity. The database is new, unless it has e-mails to send and an engine remembers
    it.
    """
    here = (seen.system_identifier, seen.database_oid)
    for memory in memories if not is_empty and seen.system_identifier is not None else ():
        if (memory.system_identifier, memory.database_oid) == here:
            return Restored((Reason("database.forgot_engine", used_at=memory.at),))
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
        return Restored((Reason("database.older_timeline", before=known.timeline, now=seen.timeline),))
    was_here = memory is not None and statement.last_at is not None and memory.at >= statement.last_at - RECENT
    if not was_here and not statement.is_asked:
        return Restored((Reason("database.unseen_failover", before=known.timeline, now=seen.timeline),))
    return FailedOver(before=known.timeline, timeline=seen.timeline)


def why_waiting(engines: Sequence[str], accounts: Sequence[str]) -> Reason:
    return Reason("everything.engines_silent", engines=engines, accounts=accounts or None)


def why_paused(signs: Sequence[Reason]) -> Reason:
    return Reason("everything.database_restored", signs=signs)


def signs_of(missing: Sequence[Missing]) -> tuple[Reason, ...]:
    """Describe the missing steps, briefly enough for a page."""
    named = missing[:ACCOUNTS_NAMED_MAX]
    emails_max = max(2, EMAILS_NAMED_MAX // max(1, len(named)))
    signs = tuple(_lacks(each, emails_max) for each in named)
    more = len(missing) - len(named)
    return (*signs, Reason("database.more_accounts_lack_steps", accounts=more)) if more else signs


def _lacks(missing: Missing, emails_max: int) -> Reason:
    return Reason(
        "database.lacks_steps",
        account=missing.account,
        steps=missing.steps,
        emails=[str(id_) for id_ in missing.emails[:emails_max]] or None,
        more=max(0, len(missing.emails) - emails_max) or None,
    )


def _other_place(known: Identity, seen: Identity) -> Iterable[Reason]:
    if _differ(known.system_identifier, seen.system_identifier):
        yield Reason("database.other_server", before=str(known.system_identifier), now=str(seen.system_identifier))
    if known.database_oid != seen.database_oid:
        yield Reason("database.other_oid", before=str(known.database_oid), now=str(seen.database_oid))
    elif known.table_oid != seen.table_oid:
        yield Reason("database.tables_recreated")
    if _differ(known.folder, seen.folder):
        yield Reason("database.files_copied")


def _gone_back(memory: Memory | None, statement: Statement) -> Iterable[Reason]:
    if memory is None or (statement.beats is not None and statement.beats >= memory.beats):
        return
    yield Reason("database.gone_back", written_at=memory.at, known_at=statement.at)


def _differ(before: object, now: object) -> bool:
    return before is not None and now is not None and before != now
