"""Classify database driver errors. This is the only place that decides the kind of trouble, the message, the next step,
and whether to wait.

`DRIVER_ERRORS` covers everything that the driver raises. Trouble means a problem with the database itself (unreachable,
starting, full, out of connections, failing over), never with a statement or its data. No account, e-mail or campaign is
ever blamed for it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import asyncpg

from fairpost.model.errors import DatabaseUnavailable, FairpostError, MigrationError
from fairpost.model.urls import without_password

DRIVER_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Kind(StrEnum):
    AWAY = "away"
    STARTING = "starting"
    CROWDED = "crowded"
    LOGIN = "login"
    NO_DATABASE = "no_database"
    NO_SCHEMA = "no_schema"
    NO_RIGHT = "no_right"
    READ_ONLY = "read_only"
    EXHAUSTED = "exhausted"
    BUSY = "busy"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Meaning:
    what: str  # {at} is replaced with the location, if known
    then: str
    passes: bool = True  # whether the trouble ends without intervention, so that waiting helps
    is_away: bool = False  # whether it affects every client, so that no statement gets a response


MEANINGS: Mapping[Kind, Meaning] = {
    Kind.AWAY: Meaning(
        "PostgreSQL{at} is not responding",
        "Start it, or check FAIRPOST_DATABASE_URL; to start the embedded one: fairpost db start",
        is_away=True,
    ),
    Kind.STARTING: Meaning("PostgreSQL{at} is starting or stopping", "Try again in a moment", is_away=True),
    Kind.CROWDED: Meaning(
        "PostgreSQL{at} has no free connections", "Raise max_connections, or start fewer processes", is_away=True
    ),
    Kind.LOGIN: Meaning(
        "PostgreSQL{at} rejected the login",
        "Correct the user and the password in FAIRPOST_DATABASE_URL",
        passes=False,
        is_away=True,
    ),
    Kind.NO_DATABASE: Meaning(
        "This database does not exist on PostgreSQL{at}",
        "Create it (createdb), or correct FAIRPOST_DATABASE_URL",
        passes=False,
        is_away=True,
    ),
    Kind.NO_SCHEMA: Meaning(
        "The schema{at} does not match this version of Fairpost", "Run: fairpost db migrate", passes=False
    ),
    Kind.NO_RIGHT: Meaning(
        "The database{at} denied access",
        "Set FAIRPOST_DATABASE_URL to a URL whose role owns the schema fairpost. For details, run: fairpost doctor",
        passes=False,
    ),
    Kind.READ_ONLY: Meaning(
        "PostgreSQL{at} is read-only",
        "Set FAIRPOST_DATABASE_URL to the primary, or wait until the failover is finished",
    ),
    Kind.EXHAUSTED: Meaning(
        "PostgreSQL{at} has run out of disk space or memory", "Free up disk space or memory on its machine"
    ),
    Kind.BUSY: Meaning("The database{at} was busy", "Try again"),
    Kind.BROKEN: Meaning("PostgreSQL{at} failed", "See its log"),
}

# By SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html): the full code if it is listed, otherwise
# its class.
KINDS: Mapping[str, Kind] = {
    "08": Kind.AWAY,
    "25006": Kind.READ_ONLY,
    "28": Kind.LOGIN,
    "3D": Kind.NO_DATABASE,
    "3F000": Kind.NO_SCHEMA,
    "40": Kind.BUSY,  # deadlock, serialization failure, or a response lost at commit
    "42501": Kind.NO_RIGHT,
    "42703": Kind.NO_SCHEMA,  # a column, function or table is missing, because a restore or an upgrade is in progress
    "42883": Kind.NO_SCHEMA,
    "42P01": Kind.NO_SCHEMA,
    "53": Kind.EXHAUSTED,
    "53300": Kind.CROWDED,
    "55": Kind.BUSY,  # locked, or not ready
    "57": Kind.STARTING,  # starting, stopping, or ended by an administrator
    "57014": Kind.BUSY,  # a statement was cancelled
    "58": Kind.BROKEN,  # I/O errors
    "72": Kind.BROKEN,  # snapshot too old
    "F0": Kind.BROKEN,  # configuration errors
    "XX": Kind.BROKEN,  # internal errors, damaged data
}


@dataclass(frozen=True, slots=True)
class Trouble:
    kind: Kind
    why: str  # the driver's message

    @property
    def meaning(self) -> Meaning:
        return MEANINGS[self.kind]

    def as_error(self, url: str | None = None, *, region: str | None = None) -> FairpostError:
        """Convert the trouble to an error for users. `region` is the region to use in suggested commands."""
        what = self.meaning.what.format(at=f" at {without_password(url)}" if url else "")
        option = f" --region {region}" if region and self.kind is Kind.NO_SCHEMA else ""
        words = f"{what}: {self.why}. {self.meaning.then}{option}"
        if self.kind is Kind.NO_SCHEMA:
            return MigrationError(words)
        return DatabaseUnavailable(words, passes=self.meaning.passes)


def trouble_of(error: BaseException) -> Trouble | None:
    """Classify an error. Return None if the database itself is not the cause."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        kind = KINDS.get(code) or KINDS.get(code[:2])
        return Trouble(kind, in_a_line(error)) if kind else None
    if isinstance(error, ValueError):  # how the driver reports an argument it cannot encode, or a URL it cannot parse
        return None
    if isinstance(error, OSError) and error.filename is not None:  # an error about another file
        return None
    if isinstance(error, asyncpg.InternalClientError):  # the driver's reaction to a truncated response
        return Trouble(Kind.AWAY, "the connection was lost")
    if isinstance(error, TimeoutError) and not error.args:
        return Trouble(Kind.AWAY, "there was no response in time")
    return Trouble(Kind.AWAY, in_a_line(error)) if isinstance(error, DRIVER_ERRORS) else None


def is_trouble(error: BaseException) -> bool:
    """Return whether the database itself is in trouble, so that nothing else is to blame."""
    return isinstance(error, DatabaseUnavailable) or trouble_of(error) is not None


def is_rolled_back(error: BaseException) -> bool:
    """Return whether the statement certainly had no effect, because it waited for another transaction's locks."""
    return isinstance(error, (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError))


def is_about_data(error: BaseException) -> bool:
    """Return whether the error means that the database can never store these values, which makes retrying useless."""
    return isinstance(error, (asyncpg.DataError, asyncpg.ProgramLimitExceededError))


def is_away(error: BaseException) -> bool:
    """Return whether the database is not responding or is rejecting our login."""
    trouble = trouble_of(error)
    return trouble is not None and trouble.meaning.is_away


def in_a_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno and str(error).startswith("[Errno"):
        return os.strerror(error.errno)
    lines = str(error).strip().splitlines() if error.args else []
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def in_plain_words(url: str | None = None, *, region: str | None = None) -> Iterator[None]:
    """Convert driver errors to errors that name the next step. Other exceptions pass through unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise  # our own output was closed; this is not a database error
    except DRIVER_ERRORS as error:
        trouble = trouble_of(error)
        if trouble is None:
            raise
        raise trouble.as_error(url, region=region) from error
