"""Which errors are problems of the database itself, of which kind, and whether waiting helps."""

from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.facts import missing

from fairpost.model.errors import DatabaseUnavailable, FairpostError, MigrationError, NotFound, Outgrown
from fairpost.store.outage import Outage, patiently
from fairpost.store.trouble import MEANINGS, Kind, in_plain_words, is_away, is_trouble, trouble_of
from fairpost.system.pause import Pause

if TYPE_CHECKING:
    from fairpost.model.reason import Reason

TROUBLE: dict[Kind, tuple[BaseException, ...]] = {
    Kind.AWAY: (
        ConnectionRefusedError(),
        TimeoutError(),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("got result for unknown protocol state 3"),
        asyncpg.ConnectionDoesNotExistError(),
    ),
    Kind.STARTING: (asyncpg.CannotConnectNowError(), asyncpg.AdminShutdownError(), asyncpg.CrashShutdownError()),
    Kind.CROWDED: (asyncpg.TooManyConnectionsError(),),
    Kind.LOGIN: (asyncpg.InvalidPasswordError(), asyncpg.InvalidAuthorizationSpecificationError()),
    Kind.NO_DATABASE: (asyncpg.InvalidCatalogNameError(),),
    Kind.NO_SCHEMA: (asyncpg.InvalidSchemaNameError(), asyncpg.UndefinedTableError(), asyncpg.UndefinedFunctionError()),
    Kind.NO_RIGHT: (asyncpg.InsufficientPrivilegeError(),),
    Kind.READ_ONLY: (asyncpg.ReadOnlySQLTransactionError(),),
    Kind.EXHAUSTED: (asyncpg.DiskFullError(), asyncpg.OutOfMemoryError()),
    Kind.BUSY: (asyncpg.DeadlockDetectedError(), asyncpg.LockNotAvailableError(), asyncpg.QueryCanceledError()),
    Kind.BROKEN: (asyncpg.PostgresIOError(), asyncpg.DataCorruptedError()),
}
NOT_TROUBLE = (
    ValueError("not the database's"),
    FileNotFoundError(2, "No such file", "attachment.pdf"),
    asyncpg.DataError("an argument that the driver cannot encode"),
    asyncpg.ClientConfigurationError("a URL that it cannot read"),
    NotFound("an account"),
    asyncpg.UniqueViolationError(),
    asyncpg.CheckViolationError(),
    asyncpg.CharacterNotInRepertoireError(),
    asyncpg.UntranslatableCharacterError(),
    asyncpg.NumericValueOutOfRangeError(),
    asyncpg.RaiseError(),
    asyncpg.PostgresSyntaxError(),
    asyncpg.ActiveSQLTransactionError(),
)
FOR_GOOD = {Kind.LOGIN, Kind.NO_DATABASE, Kind.NO_SCHEMA, Kind.NO_RIGHT}
URL = "postgresql://ann:secret@db.test/mail"


def raised(error: BaseException, *, region: str | None = None) -> FairpostError:
    with pytest.raises(FairpostError) as caught, in_plain_words(URL, region=region):
        raise error
    return caught.value


def test_a_database_in_trouble_is_told_from_a_statement_that_is_wrong() -> None:
    for kind, errors in TROUBLE.items():
        found = [trouble_of(error) for error in errors]
        assert [trouble.kind for trouble in found if trouble] == [kind] * len(errors)
    assert set(TROUBLE) == set(MEANINGS) == set(Kind)
    assert is_trouble(DatabaseUnavailable("away"))
    assert [error for error in NOT_TROUBLE if is_trouble(error)] == []


def test_a_deadlock_or_a_missing_table_is_no_database_that_is_away() -> None:
    away = {kind for kind, errors in TROUBLE.items() if all(map(is_away, errors))}
    assert away == {Kind.AWAY, Kind.STARTING, Kind.CROWDED, Kind.LOGIN, Kind.NO_DATABASE}


def test_every_trouble_becomes_one_line_with_the_place_and_whether_waiting_helps() -> None:
    for kind, errors in TROUBLE.items():
        for error in errors:
            told = raised(error)
            assert missing(str(told), "db.test/mail") == [], kind
            assert "secret" not in str(told)
            assert "\n" not in str(told)
            assert told.passes is (kind not in FOR_GOOD), kind


def test_a_missing_schema_says_which_command_lays_it() -> None:
    told = raised(asyncpg.UndefinedTableError("relation is missing"), region="eu")
    assert isinstance(told, MigrationError)
    assert str(told).endswith("fairpost db migrate --region eu")


def test_other_errors_are_raised_unchanged() -> None:
    for error in NOT_TROUBLE:
        with pytest.raises(type(error)), in_plain_words(URL):
            raise error


def test_an_outage_is_reported_once_and_so_is_its_end() -> None:
    told: list[Reason] = []
    outage = Outage(told.append)
    for error in (ConnectionRefusedError(), asyncpg.CannotConnectNowError(), ConnectionRefusedError()):
        outage.met(error)
    assert [each.code for each in told] == ["database.away"]
    outage.met(asyncpg.DiskFullError("no space"))  # that is a different problem
    assert [each.params["kind"] for each in told] == [Kind.AWAY, Kind.EXHAUSTED]
    for _ in range(2):
        outage.over()
    assert [each.code for each in told[2:]] == ["database.answers_again"]


def test_a_pause_grows_to_its_longest_and_begins_again() -> None:
    pause = Pause(first_s=0.25, longest_s=1.5)
    assert [pause.next_s() for _ in range(5)] == [0.25, 0.5, 1.0, 1.5, 1.5]
    pause.reset()
    assert pause.next_s() == 0.25


async def test_only_what_may_pass_is_waited_for_unless_it_has_worked_before() -> None:
    for error, is_again, waits in (
        (DatabaseUnavailable("away"), False, True),
        (DatabaseUnavailable("wrong password", passes=False), False, False),
        (MigrationError("no schema"), False, False),
        (MigrationError("no schema"), True, True),
        (Outgrown("made by a newer version"), True, False),
    ):
        tries: list[int] = []

        async def opened(tries: list[int] = tries, error: FairpostError = error) -> None:
            tries.append(1)
            if len(tries) == 1:
                raise error

        with suppress(FairpostError):
            await patiently(opened, lambda _: None, is_again=is_again)
        assert (len(tries) == 2) is waits, error
