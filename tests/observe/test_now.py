"""What is happening now: the same numbers however they are counted, and a rate between two reads."""

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairpost.model.account import Limits
from fairpost.model.reason import Reason
from fairpost.observe.now import NowWatch
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.smtp.settings import SmtpSettings

EMAIL = {"to": "a@b.example", "subject": "s", "text": "t"}
ONE = st.fixed_dictionaries(
    {
        "workspace": st.sampled_from(["acme", "rival"]),
        "user": st.sampled_from(["ann", "bob"]),
        "class": st.sampled_from(["urgent", "bulk"]),
        "pool": st.sampled_from(["default", "other"]),
    }
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(emails=st.lists(ONE, min_size=1, max_size=12))
async def test_workspaces_together_are_the_whole(store: Store, emails: list[dict[str, str]]) -> None:
    await store.enqueue_many([{**EMAIL, **each} for each in emails])
    if len(emails) % 2:
        await store.value(
            "SELECT fairpost.absorb_arrivals(ARRAY['default', 'other'])"
        )  # now and then, arrivals are absorbed into the tree
    everything = await NowWatch(store).look()
    parts = [await NowWatch(store, name).look() for name in ("acme", "rival")]
    assert everything.waiting == sum(part.waiting for part in parts) > 0
    for name, n in everything.classes.items():
        assert n == sum(part.classes[name] for part in parts)
    assert everything.waiting == sum(everything.classes.values())


async def test_mail_due_later_is_reported_with_its_time(store: Store) -> None:
    server = SmtpSettings(host="mail.test", port=587)
    await store.add_account("one", address="one@example.com", pool="default", limits=Limits(), transport=server)
    now = await store.now()
    due_at = now + timedelta(hours=2)
    await store.enqueue_many([{**EMAIL, "workspace": "acme", "due_at": due_at.isoformat()}])
    for watch in (NowWatch(store), NowWatch(store, "acme")):
        found = await watch.look()
        assert found.headline.code == "mail.scheduled"
        assert found.next_due_at == found.headline.until == due_at


async def test_an_email_cancelled_before_an_engine_absorbed_it_does_not_count_as_waiting(store: Store) -> None:
    cancelled, kept = await store.enqueue_many([{**EMAIL, "workspace": name} for name in ("acme", "rival")])
    assert (await NowWatch(store).look()).oldest_wait_s is not None
    await store.cancel(cancelled["id"], reason="enough")
    assert (await NowWatch(store).look()).oldest_wait_s is not None
    await store.cancel(kept["id"], reason="enough")
    found = await NowWatch(store).look()
    assert (found.waiting, found.oldest_wait_s) == (0, None)


async def test_a_hold_of_one_workspace_is_that_ones_affair(store: Store) -> None:
    server = SmtpSettings(host="mail.example.com", port=587)
    await store.add_account("one", address="one@example.com", pool="default", limits=Limits(), transport=server)
    await store.enqueue_many([{**EMAIL, "workspace": name} for name in ("acme", "rival")])
    await store.hold("acme", "workspace", "", reason="unpaid")
    held = await NowWatch(store, "acme").look()
    (found,) = [reason for reason in held.reasons if reason.code == "hold.workspace"]
    assert found.reason.params["why"] == Reason("hold.by_hand", note="unpaid")
    free = await NowWatch(store, "rival").look()
    assert "hold.workspace" not in {reason.code for reason in free.reasons}


async def test_a_pace_is_what_was_sent_between_two_looks(store: Store) -> None:
    account = await store.add_account("one", address="one@example.com", pool="default", limits=Limits())
    watch = NowWatch(store)
    assert (await watch.look()).per_s == 0
    await store.value("UPDATE fairpost.leases SET sent_total = sent_total + 50 WHERE account_id = $1", account)
    found = await watch.look()
    seconds = (found.history[-1].at - found.history[0].at).total_seconds()
    assert found.per_s == 50 / seconds
    assert found.headline.code == "mail.sending"


_SENDS = """
    INSERT INTO fairpost.activity (workspace, user_name, hour, writer, sent) VALUES ($1, 'ann', fairpost.hour_of($2), 'w', $3)"""


async def test_the_pace_of_a_workspace_stays_when_the_hour_turns(store: Store) -> None:
    turn = datetime(2031, 2, 3, 4, tzinfo=UTC)
    await store.value(_SENDS, "acme", turn - timedelta(minutes=70), 5_000)  # in an hour that soon no longer counts
    with clock.stopped_at(turn - timedelta(seconds=10)) as time:
        watch = NowWatch(store, "acme")
        await watch.look()
        paces = []
        for _ in range(60):
            time.advance(timedelta(seconds=1))
            await store.value(_SENDS, "acme", time.now, 20)
            paces.append((await watch.look()).per_s)
        assert paces == [20.0] * len(paces)
        time.advance(timedelta(hours=5))  # no look in between
        assert (await watch.look()).per_s == 0.0
        time.advance(timedelta(seconds=1))
        await store.value(_SENDS, "acme", time.now, 7)
        assert (await watch.look()).per_s == 7.0
