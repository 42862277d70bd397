"""Which server may be used for claims and begins: the engines confirm each one, and pause if commits are missing."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from fairpost.model.account import Limits
from fairpost.model.engine import Confirmation
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock

CONFIRMED = Confirmation(verdict="confirmed", waits_for=(), behind={})


@pytest.fixture
def hands() -> Iterator[ManualClock]:
    with clock.stopped_at(clock.now()) as hands:
        yield hands


MISSING = Reason("everything.database_restored", signs=["some are missing"])
SILENT = Reason("everything.engines_silent", engines=["b"])


async def fail_over(store: Store, *, restart: bool = False) -> None:
    """As on another server, or on the same one after a restart."""
    await store.value("UPDATE fairpost.server SET confirmed = '-infinity', timeline = timeline - 1 + $1", int(restart))


async def confirm(store: Store, engine: str = "a", **steps: int) -> Confirmation:
    await store.ask_about_server()
    life = await store.current_life()
    known = {AccountId(int(name[1:])): step for name, step in steps.items()}
    return await store.confirm_server(engine, life=life, steps=known)


@pytest.fixture
async def account(store: Store) -> AccountId:
    """Returns the life of a database that engines a and b use."""
    await store.value("SELECT fairpost.remember_identity(NULL)")
    account = await store.add_account("anna", address="anna@post.test", limits=Limits())
    await store.value("UPDATE fairpost.leases SET step = 10")
    for engine in ("a", "b"):
        await store.engine_here(engine, asleep=False)
        assert await confirm(store, engine) == CONFIRMED
    return account


async def paused(store: Store) -> tuple[bool, list[str] | None] | None:
    row = await store.row("SELECT restored, waits_for FROM fairpost.pauses WHERE until > now()")
    return row and (row["restored"], row["waits_for"])


async def test_all_engines_that_were_here_confirm_another_server_before_it_serves(
    store: Store, account: AccountId
) -> None:
    await fail_over(store)
    assert not await store.ask_about_server()
    assert (await confirm(store, "a", _1=10)).waits_for == ("b",)
    assert not await store.ask_about_server()
    assert await confirm(store, "b", _1=9) == CONFIRMED
    assert await store.ask_about_server()
    assert await confirm(store, "c") == CONFIRMED, "an engine that arrives later only compares"


async def test_a_server_that_lacks_a_step_is_not_confirmed_regardless_of_the_engine(
    store: Store, account: AccountId
) -> None:
    await fail_over(store)
    for engine in ("a", "b", "late"):
        answer = await confirm(store, engine, _1=11)
        assert (answer.verdict, dict(answer.behind)) == ("behind", {account: 10})
    assert not await store.ask_about_server()


async def test_an_account_that_is_missing_is_behind_too(store: Store, account: AccountId) -> None:
    await fail_over(store)
    answer = await confirm(store, "a", _1=10, _99=1)
    assert (answer.verdict, dict(answer.behind)) == ("behind", {99: -1})


async def test_an_account_that_was_removed_is_not_missed(store: Store, account: AccountId) -> None:
    """Also if no engine ran in the meantime: the database still remembers it."""
    await store.remove_account("anna")
    await fail_over(store)
    await store.reclaim_engine("b")
    assert await confirm(store, "a", _1=10) == CONFIRMED


async def test_memories_of_another_life_no_longer_count(store: Store, account: AccountId) -> None:
    await fail_over(store)
    assert (await confirm(store, "a", _1=11)).verdict == "behind"
    await store.pause_restored(MISSING, "guard", life=await store.current_life())
    await store.value("SELECT fairpost.resume('a person')")
    assert await store.ask_about_server(), "a person has decided"
    assert (await store.confirm_server("a", life=None, steps={account: 11})).verdict == "confirmed"


async def test_observations_from_before_a_resume_pause_nothing(store: Store, account: AccountId) -> None:
    """It checks several times a second, and may be between its check and the pause."""
    await fail_over(store)
    life = await store.current_life()
    await store.pause_restored(MISSING, "guard", life=life)
    assert await paused(store) == (True, None)
    await store.value("SELECT fairpost.resume('a person')")
    await store.pause_restored(MISSING, "guard", life=life)
    assert await paused(store) is None


async def test_an_engine_that_is_silent_pauses_nothing_once_the_server_is_confirmed(
    store: Store, account: AccountId
) -> None:
    await fail_over(store)
    await confirm(store, "a")
    assert await confirm(store, "b") == CONFIRMED
    await store.pause_for_engines(SILENT, "guard", ["b"])
    assert await paused(store) is None


async def test_an_engine_that_is_silent_after_a_failover_stops_everything_until_it_answers(
    store: Store, account: AccountId, hands: ManualClock
) -> None:
    for engine in ("a", "b"):
        await store.engine_here(engine, asleep=False)
    await fail_over(store)
    assert (await confirm(store, "a")).verdict == "waiting"
    hands.advance(timedelta(seconds=4))
    shown = await store.row("SELECT * FROM fairpost.pause_now($1)", clock.now())
    assert json.loads(shown["params"]) == {"engines": ["b"]}, "users are told which engine is missing"
    hands.advance(timedelta(seconds=27))
    answer = await confirm(store, "a")
    assert (answer.verdict, answer.waits_for) == ("silent", ("b",))
    await store.pause_for_engines(SILENT, "guard", answer.waits_for)
    assert await paused(store) == (False, ["b"])
    assert await confirm(store, "b") == CONFIRMED
    assert await paused(store) is None


async def test_a_person_may_continue_without_an_engine_that_is_silent(
    store: Store, account: AccountId, hands: ManualClock
) -> None:
    for engine in ("a", "b"):
        await store.engine_here(engine, asleep=False)
    await fail_over(store)
    await confirm(store, "a")
    hands.advance(timedelta(seconds=31))
    await store.pause_for_engines(SILENT, "guard", ["b"])
    await store.value("SELECT fairpost.resume('a person', $1)", clock.now())
    assert await store.ask_about_server()


async def test_a_pause_of_a_person_is_not_ended_by_an_engine(
    store: Store, account: AccountId, hands: ManualClock
) -> None:
    for engine in ("a", "b"):
        await store.engine_here(engine, asleep=False)
    await store.value("SELECT fairpost.pause('holidays', 'a person', p_now => $1)", clock.now())
    await fail_over(store)
    await confirm(store, "a")
    hands.advance(timedelta(seconds=31))
    await store.pause_for_engines(SILENT, "guard", ["b"])
    assert await confirm(store, "b") == CONFIRMED
    assert await paused(store) == (False, None)


async def test_after_a_restart_of_the_same_server_an_engine_that_is_gone_is_not_waited_for_long(
    store: Store, account: AccountId, hands: ManualClock
) -> None:
    for engine in ("a", "b"):
        await store.engine_here(engine, asleep=False)
    await fail_over(store, restart=True)
    assert (await confirm(store, "a")).verdict == "waiting"
    hands.advance(timedelta(seconds=31))
    answer = await confirm(store, "a")
    assert (answer.verdict, answer.waits_for) == ("confirmed", ("b",))
    assert await store.ask_about_server()


async def test_engines_are_asked_that_were_here_in_the_last_minute_that_the_database_knows(
    store: Store, account: AccountId, hands: ManualClock
) -> None:
    """The standby is ten minutes behind: by its clock, all engines are long gone."""
    await store.engine_here("long ago", asleep=False)
    hands.advance(timedelta(seconds=61))
    for engine in ("a", "b"):
        await store.engine_here(engine, asleep=False)
    hands.advance(timedelta(minutes=10))
    await fail_over(store)
    assert not await store.ask_about_server()
    await store.engine_here("a", asleep=False)
    assert (await confirm(store, "a")).waits_for == ("b",)


async def test_the_heir_of_a_dead_engine_answers_for_it(store: Store, account: AccountId) -> None:
    await fail_over(store)
    assert (await confirm(store, "a")).waits_for == ("b",)
    await store.reclaim_engine("b", heir="c")
    assert (await confirm(store, "a")).waits_for == ("b",), "it is dead, and what it knew was not compared"
    await store.reclaim_engine("c", heir="d")
    assert await confirm(store, "d") == CONFIRMED


async def test_the_steps_of_a_dead_engine_are_compared_before_anything_is_sent(
    store: Store, account: AccountId
) -> None:
    await fail_over(store)
    await confirm(store, "a")
    await store.reclaim_engine("b", heir="c")
    assert (await confirm(store, "c", _1=11)).verdict == "behind"
    assert (await confirm(store, "a")).verdict == "waiting"
    assert not await store.ask_about_server()


async def test_a_dead_engine_that_was_not_asked_is_forgotten(store: Store, account: AccountId) -> None:
    await store.reclaim_engine("b", heir="a")
    await fail_over(store)
    assert await confirm(store, "a") == CONFIRMED


async def test_engines_that_are_back_keep_what_they_held_however_long_the_server_was_away(
    store: Store, account: AccountId
) -> None:
    lease = await store.take_lease(account, owner="a", seconds=60)
    assert lease is not None
    await store.reclaim_engine("b")
    await store.value("UPDATE fairpost.leases SET until = now() - interval '1 hour'")
    await fail_over(store)
    await store.ask_about_server()
    await store.engine_here("a", asleep=False)
    assert await confirm(store, "a") == CONFIRMED
    assert await store.take_lease(account, owner="c", seconds=60) is None
    assert (await store.take_up(lease, seconds=60, life=None)).verdict == "held"
