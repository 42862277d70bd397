"""Histograms for Prometheus only grow: over looks, over hours that are left behind, and when an account is removed."""

from datetime import timedelta

import pytest

from fairpost.model.account import Limits
from fairpost.model.sender import Tier
from fairpost.observe.figures import FiguresReader
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


async def test_what_an_account_sent_stays_counted_when_it_is_removed(store: Store) -> None:
    await store.add_account("sales", address="sales@post.test", limits=Limits())
    await store.fetch(ADD)
    reader = FiguresReader(timedelta(hours=1))
    assert await _counted(reader, store) == (2, 2000)
    await store.fetch("DELETE FROM fairpost.measures")
    assert await _counted(reader, store) == (2, 2000)
