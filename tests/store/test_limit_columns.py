"""The columns of an account's limits match their descriptions: the same defaults, null if a limit is optional, and no
value below the minimum."""

import json
from dataclasses import asdict

import asyncpg
import pytest

from fairpost.model.account import LIMITS, Limits, WarmUp
from fairpost.model.limit import Limit
from fairpost.store.store import Store

NUMBERS = [each for each in LIMITS if not each.choices and not each.parts]
ABOUT = {
    "address",
    "display_name",
    "pool",
    "provider",
    "transport",
    "status",
    "status_reason",
    "status_params",
    "status_until",
}


@pytest.fixture
async def ann(store: Store) -> Store:
    await store.value("SELECT fairpost.add_account('ann', 'ann@post.test', 'default', '{\"kind\": \"none\"}')")
    return store


async def put(store: Store, limit: Limit, value: float | str | None) -> None:
    await store.value("SELECT fairpost.change_account('ann', $1)", json.dumps({limit.name: value}))


async def test_an_account_without_settings_has_the_described_defaults(ann: Store) -> None:
    assert (await ann.account_named("ann")).limits == Limits()


async def test_every_limit_can_be_changed_and_beside_them_only_what_is_listed(store: Store) -> None:
    rows = await store.fetch("SELECT c FROM fairpost.changeable_columns() c")
    assert {row["c"] for row in rows} == ABOUT | {each.name for each in LIMITS}


@pytest.mark.parametrize("limit", NUMBERS, ids=lambda each: each.name)
async def test_a_number_within_its_bounds_is_kept_and_one_below_is_refused(ann: Store, limit: Limit) -> None:
    await put(ann, _named("delay_ms"), 1)  # the pause that a longest pause is compared with
    for value in (limit.le, max(limit.ge, 1)):
        await put(ann, limit, value)
        assert getattr((await ann.account_named("ann")).limits, limit.name) == value
    with pytest.raises(asyncpg.CheckViolationError):
        await put(ann, limit, limit.ge - 1)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda each: each.name)
async def test_only_an_optional_limit_can_be_null(ann: Store, limit: Limit) -> None:
    if limit.is_optional:
        await put(ann, limit, None)
        assert getattr((await ann.account_named("ann")).limits, limit.name) is None
    else:
        with pytest.raises(asyncpg.NotNullViolationError):
            await put(ann, limit, None)


async def test_every_choice_is_kept_and_another_is_refused(ann: Store) -> None:
    for limit in LIMITS:
        for choice in limit.choices:
            await put(ann, limit, choice)
            assert getattr((await ann.account_named("ann")).limits, limit.name) == choice
        if limit.choices:
            with pytest.raises(asyncpg.CheckViolationError):
                await put(ann, limit, "lunar")


async def test_a_plan_comes_back_as_it_was(ann: Store) -> None:
    plan = WarmUp(start=5, step=2)
    await ann.value("SELECT fairpost.change_account('ann', $1)", json.dumps({"warm_up": asdict(plan)}))
    assert (await ann.account_named("ann")).limits.warm_up == plan


async def test_a_change_reaches_no_other_account_and_none_of_what_is_kept_for_us(ann: Store) -> None:
    await ann.value("SELECT fairpost.add_account('ben', 'ben@post.test', 'default', '{\"kind\": \"none\"}')")
    ben = await ann.account_named("ben")
    before = await ann.account_named("ann")
    changes = {"id": ben.id, "name": "eve", "revision": 99, "is_stopped_by_operator": True, "created_at": "2001-01-01Z"}
    changes |= {
        "status_reason": "account.worker_died",
        "status_params": {"times": 3},
    }  # only allowed together with a status
    await ann.value("SELECT fairpost.change_account('ann', $1)", json.dumps({**changes, "daily_max": 7}))
    after = await ann.account_named("ann")
    assert (after.id, after.name, after.limits.daily_max) == (before.id, before.name, 7)
    assert after.revision == before.revision + 1
    assert after.status_reason == before.status_reason
    assert await ann.account_named("ben") == ben


def _named(name: str) -> Limit:
    return next(each for each in LIMITS if each.name == name)
