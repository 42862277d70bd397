"""Whether a database is still the same one: facts in, a verdict out. Doubtful cases count as restored."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairpost.model.reason import Reason, write_params
from fairpost.policy.restored import (
    ACCOUNTS_NAMED_MAX,
    FailedOver,
    First,
    Identity,
    Lineage,
    Memory,
    Missing,
    Restored,
    Sound,
    Statement,
    judge_identity,
    judge_newcomer,
    signs_of,
    why_paused,
)
from fairpost.reasons.rendering import brief
from tests.facts import missing

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
KNOWN = Identity(life="l1", system_identifier=7, database_oid=5, table_oid=100, timeline=1, folder="1-2-3")
SEEN = replace(KNOWN, life=None)
MEMORY = Memory(life="l1", engine="e1", beats=50, at=NOW, system_identifier=7, database_oid=5)
STATEMENT = Statement(beats=50, at=NOW, last_at=NOW)


def judged(memory: Memory | None = MEMORY, statement: Statement = STATEMENT, **seen: Any) -> Lineage:
    return judge_identity(KNOWN, replace(SEEN, **seen), memory, statement)


def signs(lineage: Lineage) -> str:
    assert isinstance(lineage, Restored)
    return "; ".join(map(brief, lineage.signs))


def test_a_database_that_is_what_it_was_is_sound() -> None:
    assert judged() == Sound()
    assert judged(memory=None, statement=Statement(beats=None, at=None, last_at=NOW)) == Sound()
    assert judged(statement=replace(STATEMENT, beats=51)) == Sound(), "the last write did not reach our own file"


@pytest.mark.parametrize(
    ("seen", "facts"),
    [
        ({"system_identifier": 8}, (" 7 ", " 8")),
        ({"database_oid": 6, "table_oid": 9}, (" 5 ", " 6")),
        ({"table_oid": 101}, ("tables",)),
        ({"folder": "4-5-6"}, ("files",)),
    ],
)
def test_each_sign_of_a_copy_is_enough_and_is_named(seen: dict[str, Any], facts: tuple[str, ...]) -> None:
    assert missing(signs(judged(**seen)), *facts) == []
    assert missing(signs(judged(memory=None, **seen)), *facts) == []


@pytest.mark.parametrize("unseen", [{"system_identifier": None}, {"folder": None}, {"timeline": None}])
def test_an_unreadable_identity_is_no_sign(unseen: dict[str, Any]) -> None:
    assert judged(**unseen) == Sound()
    assert judge_identity(replace(KNOWN, **unseen), SEEN, MEMORY, STATEMENT) == Sound()


def test_a_database_that_knows_less_than_the_engine_has_gone_back_in_time() -> None:
    back = Statement(beats=49, at=NOW - timedelta(hours=3), last_at=NOW - timedelta(hours=3))
    assert missing(signs(judged(statement=back)), "2030-01-01 12:00:00 UTC", "2030-01-01 09:00:00 UTC") == []
    assert "2030-01-01 12:00:00 UTC" in signs(judged(statement=Statement(beats=None, at=None, last_at=None)))


def test_a_failover_that_lost_nothing_is_no_restore() -> None:
    assert judged(timeline=2) == FailedOver(before=1, timeline=2)


def test_a_failover_that_lost_something_is() -> None:
    assert "2030-01-01 12:00:00 UTC" in signs(judged(timeline=2, statement=replace(STATEMENT, beats=49)))


@pytest.mark.parametrize("memory", [None, replace(MEMORY, at=NOW - timedelta(days=3))], ids=["none", "old"])
def test_a_failover_that_no_engine_saw_looks_like_a_restore(memory: Memory | None) -> None:
    assert missing(signs(judged(timeline=2, memory=memory)), "timeline", " 1 ", " 2") == []


def test_a_timeline_that_went_back_is_a_restore() -> None:
    known = replace(KNOWN, timeline=3)
    assert missing(signs(judge_identity(known, SEEN, MEMORY, STATEMENT)), "timeline", " 3 ", " 1") == []


def test_a_database_that_does_not_know_itself_is_new_unless_we_know_it() -> None:
    other = replace(MEMORY, database_oid=6)
    assert judge_newcomer(SEEN, [], is_empty=False) == First()
    assert judge_newcomer(SEEN, [other], is_empty=False) == First()
    assert judge_newcomer(SEEN, [MEMORY], is_empty=True) == First(), "there is nothing that could be sent twice"
    assert "2030-01-01 12:00:00 UTC" in signs(judge_newcomer(SEEN, [other, MEMORY], is_empty=False))
    blind = replace(MEMORY, system_identifier=None)
    assert judge_newcomer(replace(SEEN, system_identifier=None), [blind], is_empty=False) == First()


def test_the_reason_says_what_was_seen_and_what_would_happen() -> None:
    signs = (Reason("database.files_copied"), Reason("database.tables_recreated"))
    assert why_paused(signs) == Reason("everything.database_restored", signs=signs)


KEPT_CHARS = 5000  # short enough for a page


def test_the_reason_names_each_account_that_lacks_steps_and_some_of_its_emails() -> None:
    lacking = [
        Missing(account=f"{'a' * 90}-{n}", steps=300, emails=range(2**60 + n, 2**60 + n + 300)) for n in range(20)
    ]
    reason = why_paused(signs_of(lacking))
    facts = [fact for each in lacking for fact in (each.account, *map(str, each.emails[:2]))]
    assert missing(write_params(reason), *facts) == []
    assert len(write_params(reason)) <= KEPT_CHARS
    assert len(write_params(why_paused(signs_of(lacking * 50)))) <= KEPT_CHARS
    assert len(signs_of(lacking * 50)) == ACCOUNTS_NAMED_MAX + 1
