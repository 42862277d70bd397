"""What an error of the database's driver means, classified in one place: which kind of trouble, the sentence for it and
what to do next, and whether waiting helps.

`DRIVER_ERRORS` is everything the driver raises. Trouble is the database's own (away, starting, full, out of connections,
failing over), and never a fault of a statement or its data. It is never blamed on an account, an e-mail or a campaign.
"""

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
    what: str  # {at} stands for the place, where one is known
    then: str
    passes: bool = True  # by itself, so that waiting helps
    is_away: bool = False  # for everybody: nothing at all is answered


MEANINGS: Mapping[Kind, Meaning] = {
    Kind.AWAY: Meaning(
        "No PostgreSQL answers{at}",
        "Start it, or check FAIRPOST_DATABASE_URL; for the embedded one: fairpost db start",
        is_away=True,
    ),
    Kind.STARTING: Meaning("PostgreSQL{at} is starting or stopping", "Try again in a moment", is_away=True),
    Kind.CROWDED: Meaning(
        "PostgreSQL{at} has no connection left", "Raise max_connections, or start fewer processes", is_away=True
    ),
    Kind.LOGIN: Meaning(
        "PostgreSQL{at} refuses the login",
        "Correct the user and the password in FAIRPOST_DATABASE_URL",
        passes=False,
        is_away=True,
    ),
    Kind.NO_DATABASE: Meaning(
        "PostgreSQL{at} has no such database",
        "Create it (createdb), or correct FAIRPOST_DATABASE_URL",
        passes=False,
        is_away=True,
    ),
    Kind.NO_SCHEMA: Meaning(
        "The schema{at} is not the one this Fairpost needs", "Run: fairpost db migrate", passes=False
    ),
    Kind.NO_RIGHT: Meaning(
        "The database{at} refused",
        "Set FAIRPOST_DATABASE_URL to a role that owns the schema fairpost. What is missing: fairpost doctor",
        passes=False,
    ),
    Kind.READ_ONLY: Meaning(
        "PostgreSQL{at} is read-only", "Name the primary in FAIRPOST_DATABASE_URL, or wait for the end of the failover"
    ),
    Kind.EXHAUSTED: Meaning("PostgreSQL{at} has run out of disk or memory", "Free some on its machine"),
    Kind.BUSY: Meaning("The database{at} was busy", "Try again"),
    Kind.BROKEN: Meaning("PostgreSQL{at} failed", "See its log"),
}

# By SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html: the code, else its class.
KINDS: Mapping[str, Kind] = {
    "08": Kind.AWAY,
    "25006": Kind.READ_ONLY,
    "28": Kind.LOGIN,
    "3D": Kind.NO_DATABASE,
    "3F000": Kind.NO_SCHEMA,
    "40": Kind.BUSY,  # deadlock, serialization failure, answer lost at commit
    "42501": Kind.NO_RIGHT,
    "42703": Kind.NO_SCHEMA,  # a column, a function, a table is missing: a restore or an upgrade is under way
    "42883": Kind.NO_SCHEMA,
    "42P01": Kind.NO_SCHEMA,
    "53": Kind.EXHAUSTED,
    "53300": Kind.CROWDED,
    "55": Kind.BUSY,  # locked, or not ready
    "57": Kind.STARTING,  # or stopping, or ended by an administrator
    "57014": Kind.BUSY,  # a statement was cancelled
    "58": Kind.BROKEN,  # input and output
    "72": Kind.BROKEN,  # snapshot too old
    "F0": Kind.BROKEN,  # its configuration
    "XX": Kind.BROKEN,  # internal errors, damaged data
}


@dataclass(frozen=True, slots=True)
class Trouble:
    kind: Kind
    why: str  # in the driver's words

    @property
    def meaning(self) -> Meaning:
        return MEANINGS[self.kind]

    def as_error(self, url: str | None = None, *, region: str | None = None) -> FairpostError:
        """`region`: to be named in a command."""
        what = self.meaning.what.format(at=f" at {without_password(url)}" if url else "")
        option = f" --region {region}" if region and self.kind is Kind.NO_SCHEMA else ""
        words = f"{what}: {self.why}. {self.meaning.then}{option}"
        if self.kind is Kind.NO_SCHEMA:
            return MigrationError(words)
        return DatabaseUnavailable(words, passes=self.meaning.passes)


def trouble_of(error: BaseException) -> Trouble | None:
    """None: it is not the database's own."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        kind = KINDS.get(code) or KINDS.get(code[:2])
        return Trouble(kind, in_a_line(error)) if kind else None
    if isinstance(
        error, ValueError
    ):  # the driver's word for an argument that it cannot encode, or a URL it cannot read
        return None
    if isinstance(error, OSError) and error.filename is not None:  # some other file
        return None
    if isinstance(error, asyncpg.InternalClientError):  # what a torn answer does to the driver, in its own words
        return Trouble(Kind.AWAY, "the connection broke")
    return Trouble(Kind.AWAY, in_a_line(error)) if isinstance(error, DRIVER_ERRORS) else None


def is_trouble(error: BaseException) -> bool:
    """Whether the database itself is in trouble, so that nothing else is to blame."""
    return isinstance(error, DatabaseUnavailable) or trouble_of(error) is not None


def is_away(error: BaseException) -> bool:
    """Whether no database answers, or none that lets us in."""
    trouble = trouble_of(error)
    return trouble is not None and trouble.meaning.is_away


def in_a_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() if error.args else []
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def in_plain_words(url: str | None = None, *, region: str | None = None) -> Iterator[None]:
    """What the driver raises, as an error that says what to do about it. Bugs stay what they are."""
    try:
        yield
    except BrokenPipeError:
        raise  # ours: nobody reads what we print any more
    except DRIVER_ERRORS as error:
        trouble = trouble_of(error)
        if trouble is None:
            raise
        raise trouble.as_error(url, region=region) from error
