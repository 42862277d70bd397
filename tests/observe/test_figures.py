"""Histograms for Prometheus only grow: across reads, after old hours are dropped, and when an account is removed."""

from datetime import timedelta

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairpost.model.account import Limits
from fairpost.model.sender import Tier
from fairpost.observe.exposition import exposition
from fairpost.observe.figures import FiguresReader
from fairpost.observe.http_durations import HttpDurations, read_http_durations
from fairpost.policy.ledger import Measure
from fairpost.store.store import Store

ADD = """
    INSERT INTO fairpost.measures (hour, account_id, kind, tier, n, total_us, buckets)
    SELECT fairpost.hour_of(clock_timestamp()), a.id, 'send', 1, 2, 2000, '{"3": 2}' FROM fairpost.accounts a"""
SEND = (Measure.SEND, Tier.NORMAL)


async def _counted(reader: FiguresReader, store: Store) -> tuple[int, int]:
    sends = (await reader.read(store)).grown[SEND]
    return sends.count, sends.total_us


@pytest.mark.parametrize("anchor_age_max", [timedelta(hours=2), timedelta(seconds=-1)])
async def test_each_send_counts_once_also_when_the_beginning_moves(
    store: Store, monkeypatch: pytest.MonkeyPatch, anchor_age_max: timedelta
) -> None:
    monkeypatch.setattr("fairpost.observe.figures.ANCHOR_AGE_MAX", anchor_age_max)
    await store.add_account("sales", address="sales@post.test", limits=Limits())
    await store.fetch(ADD)
    reader = FiguresReader(timedelta(hours=1))
    assert await _counted(reader, store) == (2, 2000)
    assert await _counted(reader, store) == (2, 2000)
    for sends in (4, 6, 8):
        await store.fetch(ADD)
        assert await _counted(reader, store) == (sends, sends * 1000)


async def test_emails_stay_counted_when_their_account_is_removed(store: Store) -> None:
    await store.add_account("sales", address="sales@post.test", limits=Limits())
    await store.fetch(ADD)
    reader = FiguresReader(timedelta(hours=1))
    assert await _counted(reader, store) == (2, 2000)
    await store.fetch("DELETE FROM fairpost.measures")
    assert await _counted(reader, store) == (2, 2000)


async def test_sent_mail_is_counted_by_transport_and_never_falls(store: Store) -> None:
    await store.add_account("sales", address="sales@post.test", limits=Limits())
    await store.add_account("news", address="news@post.test", limits=Limits())
    await store.fetch("UPDATE fairpost.accounts SET transport = '{\"kind\": \"gmail\"}' WHERE name = 'news'")
    await store.fetch("UPDATE fairpost.leases SET sent_total = 5")
    reader = FiguresReader(timedelta(hours=1))
    assert (await reader.read(store)).sent == {"other": 5, "gmail": 5}
    await store.fetch("DELETE FROM fairpost.accounts WHERE name = 'sales'")
    await store.fetch("UPDATE fairpost.leases SET sent_total = 7")
    assert (await reader.read(store)).sent == {"other": 5, "gmail": 7}


async def test_requests_of_several_processes_are_added_up_by_route(store: Store) -> None:
    one, other = HttpDurations(), HttpDurations()
    one.add(route="/v1/emails", method="POST", status=201, duration_s=0.02)
    one.add(route=None, method="PROPFIND", status=404, duration_s=0.001)
    other.add(route="/v1/emails", method="POST", status=200, duration_s=60)
    await one.write(store)
    await one.write(store)  # nothing new
    await other.write(store)
    found = {(each.route, each.method, each.status): each for each in await read_http_durations(store)}
    assert set(found) == {("/v1/emails", "POST", "2xx"), ("other", "other", "4xx")}
    assert found["/v1/emails", "POST", "2xx"].total_s == 60.02
    text = exposition(await FiguresReader(timedelta(hours=1)).read(store)).decode()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    within = {
        sample.labels["le"]: sample.value
        for sample in families["fairpost_http_request_duration_seconds"].samples
        if sample.name.endswith("_bucket") and sample.labels["route"] == "/v1/emails"
    }
    assert (within["0.01"], within["0.025"], within["10.0"], within["+Inf"]) == (0, 1, 1, 2)


async def test_requests_that_could_not_be_written_are_written_the_next_time(store: Store) -> None:
    durations = HttpDurations()
    durations.add(route="/v1/emails", method="GET", status=200, duration_s=0.02)
    await store.fetch("ALTER TABLE fairpost.http_durations RENAME TO gone")
    with pytest.raises(asyncpg.PostgresError):
        await durations.write(store)
    durations.add(route="/v1/emails", method="GET", status=200, duration_s=0.02)
    await store.fetch("ALTER TABLE fairpost.gone RENAME TO http_durations")
    await durations.write(store)
    (series,) = await read_http_durations(store)
    assert sum(series.counts) == 2
