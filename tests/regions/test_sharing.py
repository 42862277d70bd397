"""`fairpost account share`: a row in each region, its password sealed for that row, and together no more than the
whole."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fairpost.model.errors import RegionUnavailable
from fairpost.regions import sharing
from fairpost.regions.directory import Directory, Region
from fairpost.regions.stores import RegionStores
from fairpost.settings import read_settings
from fairpost.startup.parts import vault_of
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from tests.facts import missing
from tests.regions.conftest import Regions
from tests.regions.proxy import Proxy

IDS_OF_US = 1000  # ids begin here, so that an account has a different one in each region

ADD = (
    *("account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp+starttls://ann:s3cret@smtp.test"),
    *("--daily", "1000", "--hourly", "101", "--delay-ms", "600", "--gap-max-ms", "1200", "--warm-up", "50+20"),
)
SHARE = ("account", "share", "sales", "--slice", "eu=60", "--slice", "us=40")


def row(regions: Regions, region: str) -> dict[str, Any]:
    found: dict[str, Any] = regions.cli(region).json("account", "show", "sales")
    return found


def password(regions: Regions, region: str) -> str:
    """As an engine of that region opens it."""

    async def read() -> str:
        async with Store.open(regions.urls[region]) as store:
            account = await store.account_named("sales")
        assert isinstance(account.transport, SmtpSettings)
        assert account.transport.secret is not None
        vault = vault_of(read_settings(regions.environment(region)))
        return vault.open(account.transport.secret, account_id=account.id, name="sales")

    return asyncio.run(read())


def numbers(regions: Regions, region: str) -> tuple[Any, ...]:
    with psycopg.connect(regions.urls[region]) as conn:
        sql = "SELECT daily_max, hourly_max, delay_ms, gap_max_ms, warm_up, revision FROM fairpost.accounts WHERE name = 'sales'"
        return tuple(conn.execute(sql).fetchone() or ())


@pytest.fixture(scope="module")
def with_other_ids(lasting_regions: Regions) -> Regions:
    with psycopg.connect(lasting_regions.urls["us"]) as conn:
        conn.execute("SELECT setval(pg_get_serial_sequence('fairpost.accounts', 'id'), %s)", (IDS_OF_US,))
    return lasting_regions


@pytest.fixture
def regions(with_other_ids: Regions) -> Iterator[Regions]:
    yield with_other_ids
    for url in with_other_ids.urls.values():
        with psycopg.connect(url) as conn:
            conn.execute("DELETE FROM fairpost.accounts")


@pytest.fixture
def shared(regions: Regions) -> Regions:
    regions.cli("us").ok("account", "add", "other", "--from", "other@post.test")
    regions.cli("eu").ok(*ADD)
    regions.cli("eu").ok(*SHARE)
    return regions


def test_each_region_has_its_part_and_the_password(shared: Regions) -> None:
    assert numbers(shared, "eu")[:5] == (600, 60, 1000, 2000, {"start": 30, "step": 12, "days": 0})
    assert numbers(shared, "us")[:5] == (400, 40, 1500, 3000, {"start": 20, "step": 8, "days": 0})
    assert row(shared, "eu")["id"] != row(shared, "us")["id"]
    assert (row(shared, "us")["share_percent"], shared.cli("us").json("account", "show", "other")["share_percent"]) == (
        40,
        None,
    )
    assert "40%" in shared.cli("us").ok("account", "show", "sales")
    assert password(shared, "eu") == password(shared, "us") == "s3cret"
    assert shared.cli("ap").json("account", "list") == []
    assert [_shared(shared, name) for name in ("eu", "us", "ap")] == [[60], [40], []]


def _shared(regions: Regions, name: str) -> list[int]:
    """Returns what the region's audit says about its share."""
    sql = "SELECT detail FROM fairpost.audit WHERE action = 'account.share' ORDER BY id DESC LIMIT 1"
    with psycopg.connect(regions.urls[name]) as conn:
        return [detail["percent"] for (detail,) in conn.execute(sql).fetchall()]


def test_running_it_again_changes_nothing(shared: Regions) -> None:
    before = [numbers(shared, name) for name in ("eu", "us")]
    again = shared.cli("eu").json(*SHARE)
    assert [each["change"] for each in again["slices"]] == ["as before", "as before"]
    assert [numbers(shared, name) for name in ("eu", "us")] == before
    shared.cli("us").ok(*SHARE)  # from any region that has the account
    assert [numbers(shared, name) for name in ("eu", "us")] == before


def test_other_slices_are_parts_of_the_same_whole(shared: Regions) -> None:
    turned = shared.cli("eu").json(
        "account", "share", "sales", "--slice", "eu=70", "--slice", "us=20", "--slice", "ap=10"
    )
    assert [each["region"] for each in turned["slices"]] == ["us", "eu", "ap"], "shares that shrink are written first"
    assert [numbers(shared, name)[0] for name in ("eu", "us", "ap")] == [700, 200, 100]


def test_a_new_password_reaches_the_others(shared: Regions) -> None:
    shared.cli("eu").ok("account", "set", "sales", "--smtp", "smtp+starttls://ann:n3w@smtp.test")
    before = numbers(shared, "eu")
    shared.cli("eu").ok(*SHARE)
    assert password(shared, "us") == "n3w"
    assert numbers(shared, "eu") == before, "no worker is restarted unnecessarily"


def test_limits_changed_in_one_region_are_not_taken_for_the_whole_unasked(shared: Regions) -> None:
    shared.cli("eu").ok("account", "set", "sales", "--daily", "2000")
    assert missing(shared.cli("eu").error(*SHARE), "sales", "eu", "--current-limits") == []
    assert [numbers(shared, name)[0] for name in ("eu", "us")] == [2000, 400]
    shared.cli("eu").ok(*SHARE, "--current-limits")
    shared.cli("eu").ok(*SHARE, "--anew", "--dry-run")
    assert [numbers(shared, name)[0] for name in ("eu", "us")] == [1200, 800]


def test_a_region_decides_about_its_own_row(shared: Regions) -> None:
    shared.cli("us").ok("account", "pause", "sales", "--reason", "quiet here")
    shared.cli("eu").ok("account", "set", "sales", "--display-name", "Sales")
    shared.cli("eu").ok(*SHARE)
    us = row(shared, "us")
    assert (us["status"], us["status_reason"], us["display_name"]) == ("paused", "quiet here", "Sales")


def test_one_that_is_paused_here_begins_paused_there(shared: Regions) -> None:
    shared.cli("eu").ok("account", "pause", "sales", "--reason", "not yet")
    shared.cli("eu").ok(*SHARE[:3], "--slice", "eu=50", "--slice", "us=40", "--slice", "ap=10")
    assert (row(shared, "ap")["status"], row(shared, "us")["status"]) == ("paused", "active")


def test_a_dry_run_shows_the_parts_and_writes_nothing(regions: Regions) -> None:
    regions.cli("eu").ok(*ADD)
    before = numbers(regions, "eu")
    shown = regions.cli("eu").json(*SHARE, "--dry-run")
    assert not shown["written"]
    assert {each["region"]: each["limits"]["daily_max"] for each in shown["slices"]} == {"eu": 600, "us": 400}
    assert missing(regions.cli("eu").ok(*SHARE, "--dry-run"), "600", "400") == []
    assert numbers(regions, "eu") == before
    assert regions.cli("us").json("account", "list") == []


def test_wrong_slices_are_named(regions: Regions) -> None:
    regions.cli("eu").ok(*ADD)
    share = ("account", "share", "sales")
    wrong = regions.cli("eu").wrong_errors(
        [
            ((*share, "--slice", "eu=60", "--slice", "us=41"), ("101%", "100")),
            ((*share, "--slice", "us=40"), ("--slice eu=",)),
            ((*share, "--slice", "eu=60", "--slice", "mars=40"), ("'mars'", "eu, us, ap")),
            ((*share, "--slice", "eu=0", "--slice", "us=40"), ("eu=0", "1", "100")),
            ((*share, "--slice", "eu"), ("--slice", "REGION=PERCENT", "'eu'")),
            ((*share, "--slice", "eu=50", "--slice", "eu=50"), ("--slice", "'eu=50'")),
        ]
    )
    assert wrong == []


def test_a_region_that_has_it_cannot_be_left_out(shared: Regions) -> None:
    shared.cli("eu").ok(*SHARE[:3], "--slice", "eu=50", "--slice", "us=40", "--slice", "ap=10")
    said = shared.cli("eu").error(*SHARE)
    assert "FAIRPOST_REGION=ap fairpost account remove sales" in said
    shared.cli("ap").ok("account", "remove", "sales", "--yes")
    shared.cli("eu").ok(*SHARE)


def test_another_account_of_the_same_name_is_left_alone(regions: Regions) -> None:
    regions.cli("eu").ok(*ADD)
    regions.cli("us").ok("account", "add", "sales", "--from", "us@other.test")
    assert missing(regions.cli("eu").error(*SHARE), "us", "us@other.test", "fairpost account remove sales") == []
    assert row(regions, "us")["address"] == "us@other.test"


def test_a_region_that_is_down_stops_it_before_anything_is_written(regions: Regions) -> None:
    regions.cli("eu").ok(*ADD)
    before = numbers(regions, "eu")
    down = {**regions.urls, "us": "postgresql://fairpost@127.0.0.1:1/nothing"}
    broken = Regions(down, regions.home_url, regions.home)
    assert missing(broken.cli("eu").error(*SHARE), "us", "127.0.0.1:1/nothing") == []
    assert numbers(regions, "eu") == before


async def test_cut_off_midway_it_is_run_again_and_the_parts_are_right(regions: Regions) -> None:
    await asyncio.to_thread(regions.cli("eu").ok, *ADD)
    vault = vault_of(read_settings(regions.environment("eu")))
    percents = {"us": 40, "eu": 60}
    async with Proxy(regions.urls["us"]) as us:
        directory = Directory([Region("eu", regions.urls["eu"]), Region("us", us.url)])
        async with RegionStores(directory) as stores:
            planned = await sharing.plan(stores, "sales", percents, here="eu")
            await us.cut()
            with pytest.raises(RegionUnavailable):
                await sharing.carry_out(stores, planned, vault)
            assert numbers(regions, "eu")[0] == 600, "it gave up its part before any other region got it"
            await us.open()
        async with RegionStores(directory) as stores:
            again = await sharing.plan(stores, "sales", percents, here="eu")
            await sharing.carry_out(stores, again, vault)
    assert [numbers(regions, name)[0] for name in ("eu", "us")] == [600, 400]


def test_an_account_without_a_password_is_shared_without_one(regions: Regions) -> None:
    regions.cli("eu").ok("account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp://127.0.0.1:25")
    regions.cli("eu").ok(*SHARE)
    assert row(regions, "us")["server"] == row(regions, "eu")["server"]
