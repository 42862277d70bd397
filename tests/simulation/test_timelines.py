"""Accounts within their providers' limits: hours and days on a manual clock, with the real engine's workers and the
real database."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from fairpost.dev.simulate.drive import Drive
from fairpost.model.account import Account, AccountStatus, DailyMode, Limits, WarmUp
from fairpost.model.email import Outgoing
from fairpost.model.fault import Bounces
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.providers.presets import read_presets
from fairpost.store.blocks import read_blocks
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import OK
from tests.simulation.world import SHARE, shared

START = datetime(2030, 1, 7, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
GMAIL = shared(read_presets()["gmail"].limits)
HOURLY = 100 // SHARE


@pytest.fixture
def manual() -> Iterator[ManualClock]:
    with clock.stopped_at(START) as manual:
        yield manual


class Noting:
    """Records when each e-mail was sent; `answers` are used first."""

    def __init__(self, *answers: Report) -> None:
        self.sent: list[datetime] = []
        self._answers = list(answers)

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        if self._answers:
            return self._answers.pop(0)
        self.sent.append(clock.now())
        return OK

    def counts(self, length: timedelta) -> dict[int, int]:
        """Returns the number in the first, second … span of this length, without empty ones."""
        spans = [int((at - START) / length) for at in self.sent]
        return {span: spans.count(span) for span in sorted(set(spans))}


async def accounts(store: Store, limits: Limits, *transports: Noting) -> dict[AccountId, Noting]:
    return {
        await store.add_account(f"a{n}", address=f"a{n}@gmail.com", limits=limits): transport
        for n, transport in enumerate(transports)
    }


async def enqueue(store: Store, n: int, **more: object) -> None:
    email = {"subject": "s", "text": "t", "stream": "campaign", **more}
    rows = await store.enqueue_many([{**email, "to": f"p{i}@there.test"} for i in range(n)])
    assert all(row["error"] is None for row in rows)


@pytest.mark.thorough
async def test_two_days_of_mail_through_one_gmail_account(store: Store, manual: ManualClock) -> None:
    """The first minutes of each hour until the daily limit is reached, and the rest on the second day."""
    anna = Noting()
    await enqueue(store, 10 * HOURLY)
    await Drive(store, manual, await accounts(store, GMAIL, anna)).run(until=START + timedelta(days=5))
    assert anna.counts(HOUR) == dict.fromkeys([0, 1, 2, 3, 4, 24, 25, 26, 27, 28], HOURLY)
    for hour in (0, 4, 24, 28):
        inside = [at for at in anna.sent if START + hour * HOUR <= at < START + (hour + 1) * HOUR]
        assert inside[0] == START + hour * HOUR
        assert inside[-1] == START + hour * HOUR + (HOURLY - 1) * timedelta(seconds=3)


@pytest.mark.thorough
async def test_two_and_a_half_hours_of_mail_through_two_gmail_accounts(store: Store, manual: ManualClock) -> None:
    anna, bert = Noting(), Noting()
    await enqueue(store, 5 * HOURLY)
    await Drive(store, manual, await accounts(store, GMAIL, anna, bert)).run(until=START + timedelta(days=5))
    assert anna.counts(HOUR) == bert.counts(HOUR) == {0: HOURLY, 1: HOURLY, 2: HOURLY // 2}
    assert max(anna.sent + bert.sent) < START + 2 * HOUR + 3 * MINUTE


async def test_an_account_whose_day_is_used_up_says_so_and_comes_back_by_itself(
    store: Store, manual: ManualClock
) -> None:
    anna = Noting()
    (id_,) = driven = await accounts(store, Limits(daily_max=3, daily_mode=DailyMode.CALENDAR), anna)
    await enqueue(store, 5)
    manual.advance(9 * HOUR)
    await Drive(store, manual, driven).run(until=START + 10 * HOUR)
    account = await store.account(id_)
    assert account.status is AccountStatus.PAUSED_LIMIT_REACHED
    assert account.status_until == START + 24 * HOUR
    assert account.status_reason == Reason("account.daily_limit_reached", sent=3)
    await Drive(store, manual, driven).run(until=START + 30 * HOUR)
    assert anna.counts(24 * HOUR) == {0: 3, 1: 2}
    assert (await store.account(id_)).status is AccountStatus.ACTIVE
    rows = await store.fetch("SELECT kind, detail ->> 'reason' AS reason FROM fairpost.events ORDER BY id")
    assert [tuple(row) for row in rows] == [
        ("account_paused_limit_reached", account.status_reason.code),
        ("account_active", None),
    ]


async def test_a_higher_limit_counts_at_once(store: Store, manual: ManualClock) -> None:
    anna = Noting()
    driven = await accounts(store, Limits(daily_max=3), anna)
    await enqueue(store, 5)
    await Drive(store, manual, driven).run(until=START + HOUR)
    await store.change_account("a0", {"daily_max": 4})
    await Drive(store, manual, driven).run(until=START + HOUR)
    assert len(anna.sent) == 4


async def test_a_sliding_day_and_a_minute_of_the_api_count_back_from_every_moment(
    store: Store, manual: ManualClock
) -> None:
    limits = Limits(daily_max=10, daily_mode=DailyMode.SLIDING, units_per_minute=400, units_per_send=100)
    anna = Noting()
    driven = await accounts(store, limits, anna)
    await enqueue(store, 6)
    await Drive(store, manual, driven).run(until=START + HOUR)
    assert anna.counts(MINUTE) == {0: 4, 1: 2}
    await enqueue(store, 10)
    manual.move_to(START + 6 * HOUR)
    await Drive(store, manual, driven).run(until=START + timedelta(days=3))
    assert anna.counts(HOUR) == {0: 6, 6: 4, 24: 6}
    assert anna.sent[10] == START + 24 * HOUR
    await enqueue(store, 1)
    manual.move_to(START + timedelta(days=4))
    await Drive(store, manual, driven).run(until=manual.now)
    assert await store.value("SELECT count(*) FROM fairpost.charges") == 1, "older ones do not matter"


async def test_a_slot_of_a_sliding_day_that_is_about_to_be_free_is_waited_for_without_ado(
    store: Store, manual: ManualClock
) -> None:
    limits = Limits(daily_max=3, daily_mode=DailyMode.SLIDING, delay_ms=60_000)
    anna = Noting()
    (id_,) = driven = await accounts(store, limits, anna)
    await enqueue(store, 9)
    await Drive(store, manual, driven).run(until=START + timedelta(days=4))
    assert anna.sent == [START + timedelta(days=day, minutes=minute) for day in range(3) for minute in range(3)]
    kinds = [row["kind"] for row in await store.fetch("SELECT kind FROM fairpost.events ORDER BY id")]
    assert kinds == ["account_paused_limit_reached", "account_active"] * 3, "once a day, and not for every e-mail"
    assert (await store.account(id_)).status is AccountStatus.ACTIVE


async def test_a_warm_up_grows_from_day_to_day(store: Store, manual: ManualClock) -> None:
    anna = Noting()
    await enqueue(store, 40)
    limits = Limits(daily_max=15, warm_up=WarmUp(start=5, step=5))
    await Drive(store, manual, await accounts(store, limits, anna)).run(until=START + timedelta(days=9))
    assert anna.counts(24 * HOUR) == {0: 5, 1: 10, 2: 15, 3: 10}


async def test_a_server_that_asks_for_a_pause_gets_it_and_the_e_mail_loses_nothing(
    store: Store, manual: ManualClock
) -> None:
    slow_down = Report(
        reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(421, "4.7.28 too fast, try again in 20 minutes")
    )
    anna, bert = Noting(slow_down), Noting()
    (id_, _) = driven = await accounts(store, Limits(), anna, bert)
    await enqueue(store, 3)
    await Drive(store, manual, driven).run(until=START + 10 * MINUTE)
    assert (len(anna.sent), len(bert.sent)) == (0, 3), "its e-mail is sent through another account"
    rest = (await store.account(id_)).usage.rest
    assert rest is not None
    assert (rest.until, rest.detail) == (START + 20 * MINUTE, "421 4.7.28 too fast, try again in 20 minutes")
    assert await store.value("SELECT max(attempts) FROM fairpost.emails") == 1
    await enqueue(store, 1, account="a0")
    await Drive(store, manual, driven).run(until=START + HOUR)
    assert anna.sent == [START + 20 * MINUTE]


async def test_too_many_bounces_pause_the_account_until_it_has_cooled_down(store: Store, manual: ManualClock) -> None:
    gone = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(550, "5.1.1 no such user"))
    anna = Noting(*[gone] * 3)
    (id_,) = driven = await accounts(store, Limits(batch_max=5, cool_down_s=7200, delay_ms=60_000), anna)
    await enqueue(store, 40)
    await Drive(store, manual, driven).run(until=START + HOUR)
    account = await store.account(id_)
    assert account.status is AccountStatus.PAUSED
    assert account.status_reason == Reason("account.too_many_bounces", bounced=3, sent=20, percent_max=5)
    assert account.status_until == START + 19 * MINUTE + 2 * HOUR
    assert len(anna.sent) == 17


async def test_on_a_shared_account_the_sender_who_is_to_blame_is_blocked_there_until_it_has_cooled_down(
    store: Store, manual: ManualClock
) -> None:
    class Picky(Noting):
        async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
            if email.workspace == "bad":
                return Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(550, "5.1.1 no such user"))
            return await super().send(account, email, permission=permission)

    anna, bert = Picky(), Picky()
    (id_, _) = driven = await accounts(store, Limits(batch_max=5, cool_down_s=3600), anna, bert)
    await enqueue(store, 60, workspace="good", account="a0")
    await enqueue(store, 200, workspace="bad", account="a0")
    await enqueue(store, 10, workspace="bad", account="a1")
    await Drive(store, manual, driven).run(until=START)
    assert (await store.account(id_)).status is AccountStatus.ACTIVE
    assert len(anna.sent) == 60
    (block,) = await read_blocks(store, now=START)
    assert (block.account, block.workspace, block.until) == ("a0", "bad", START + HOUR)
    assert isinstance(block.fault, Bounces)
    assert block.fault.bounced == block.fault.sent <= 30, "its own figures"
    assert await store.value("SELECT count(*) FROM fairpost.emails WHERE workspace = 'bad' AND route = '@a1'") == 10
    await Drive(store, manual, driven).run(until=START + 90 * MINUTE)
    (block,) = await read_blocks(store, now=manual.now)
    assert block.until == START + 2 * HOUR, "blocked again because of later mail"
    assert await store.value("SELECT count(*) FROM fairpost.queue WHERE workspace = 'bad'") > 0


async def test_refused_for_who_it_is_an_account_stops_before_it_has_failed_everything(
    store: Store, manual: ManualClock
) -> None:
    blocked = Report(reached=Reached.REPLIED, step=Step.MAIL, reply=Reply(550, "5.7.1 your address is blocklisted"))
    anna = Noting(*[blocked] * 50)
    (id_,) = driven = await accounts(store, Limits(), anna)
    await enqueue(store, 50)
    await Drive(store, manual, driven).run(until=START + HOUR)
    account = await store.account(id_)
    assert account.status is AccountStatus.SUSPENDED
    assert account.status_reason is not None
    assert account.status_reason.code == "account.refused_in_a_row"
    assert account.status_reason.params["refused"] == 5
    assert account.status_reason.params["reply"] == "550 5.7.1 your address is blocklisted"
    assert await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'failed'") <= 6
