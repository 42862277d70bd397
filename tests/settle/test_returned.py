"""Mail that comes back after acceptance: which e-mail it is about, what follows, and that it follows once."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from fairpost.maintenance.returns import Mailbox, ReturnsWatch, TakenIn, take_in
from fairpost.model.account import Lease, Limits
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.return_path import return_path
from fairpost.model.verdict import InDoubt, Sent
from fairpost.observe.emails import show_email
from fairpost.observe.life import life_of
from fairpost.store import returned
from tests.returns.mails import complaint, mail, report
from tests.settle.test_leases import Bench
from tests.simulation.world import MINUTE, START, connect, draft
from tests.thorough import times

NOW = START
ACCEPTED = Report(reached=Reached.REPLIED, reply=Reply(250, "ok"))
ANN = "ann@people.example"
DEAD, FULL, SPAM = "550 5.1.1 User unknown", "552 5.2.2 Mailbox full", "550 5.7.1 Message rejected as spam"
DISABLED = "550 5.2.1 The email account that you tried to reach is disabled"


class Post(Bench):
    lease_held: Lease

    async def sent(self, *to: str, workspace: str = "w1", settle: bool = True) -> EmailId:
        await self.store.enqueue_many([draft(workspace=workspace, to=list(to or (ANN,)))], now=NOW)  # type: ignore[arg-type]
        self.lease_held = await self.lease(now=NOW)
        id_ = await self.begun(self.lease_held)
        if settle:
            await self.settle(id_)
        return id_

    async def settle(self, id_: EmailId) -> None:
        assert await self.store.settle(self.lease_held, id_, Sent(), ACCEPTED, now=NOW) == "settled"
        await self.store.drop_lease(self.lease_held, now=NOW)

    async def message_id(self, id_: EmailId) -> str:
        return f"<{(await self.store.public_ids()).name_in_headers(id_)}.0123456789abcdef@sender.example>"

    async def path(self, id_: EmailId) -> str:
        return return_path((await self.store.public_ids()).return_token(id_), domain="bounce.example")

    async def bounce(self, id_: EmailId, said: str = DEAD, *, to: str = ANN, **more: Any) -> TakenIn:
        raw = report(said.split()[1], said, recipient=to, message_id=await self.message_id(id_))
        return await take_in(self.store, raw, now=NOW + MINUTE, **more)

    async def suppressed(self) -> dict[str, str]:
        rows = await self.store.fetch(
            "SELECT workspace || ' ' || address AS who, kind::text FROM fairpost.suppressions"
        )
        return {row["who"]: row["kind"] for row in rows}

    async def day_bounces(self) -> tuple[int, int, int]:
        """Returns the counts of the account, of the sender on it, and in the sender's score."""
        row = await self.store.row(
            """SELECT (SELECT day_bounces FROM fairpost.leases WHERE account_id = $1) AS a,
                      (SELECT coalesce(sum(bounced), 0) FROM fairpost.counters WHERE account_id = $1) AS b,
                      (SELECT coalesce(sum(bounced), 0) FROM fairpost.activity) AS c""",
            self.account,
        )
        return row["a"], row["b"], row["c"]


@pytest.fixture
async def post(url: str) -> AsyncIterator[Post]:
    store = await connect(url)
    yield Post(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))
    await store.close()


async def test_a_late_bounce_ends_in_bounced_suppresses_and_counts_once(post: Post) -> None:
    id_ = await post.sent()
    first, second = await post.bounce(id_), await post.bounce(id_)
    assert [each.is_new for each in (*first.findings, *second.findings)] == [True, False]
    assert await post.state(id_) == "bounced"
    assert await post.suppressed() == {f"w1 {ANN}": "hard_bounce"}
    assert await post.day_bounces() == (1, 1, 1)


async def test_the_life_of_an_email_tells_what_came_back(post: Post) -> None:
    id_ = await post.sent()
    await post.bounce(id_)
    life = await life_of(
        post.store, await show_email(post.store, id_), ids=await post.store.public_ids(), now=NOW + MINUTE
    )
    assert [moment.kind for moment in life.moments][-2:] == ["returned", "bounced"]
    assert [ANN in moment.words for moment in life.moments if moment.kind == "returned"] == [True]


async def test_a_report_about_us_or_a_full_mailbox_does_not_suppress_the_address(post: Post) -> None:
    states = []
    for said in (FULL, SPAM):
        id_ = await post.sent()
        await post.bounce(id_, said)
        states.append(await post.state(id_))
    assert states == ["bounced", "bounced"]
    assert await post.suppressed() == {}
    assert await post.day_bounces() == (0, 0, 0)


async def test_a_mailbox_that_was_full_too_often_is_suppressed_although_its_server_accepts_first(post: Post) -> None:
    await post.store.value("UPDATE fairpost.suppression_rule SET soft_bounces_max = 3")
    for _ in range(3):
        assert await post.suppressed() == {}
        await post.bounce(await post.sent(), FULL)
    assert await post.suppressed() == {f"w1 {ANN}": "soft_bounces"}


async def test_an_address_that_seems_dead_is_suppressed_by_the_second_report(post: Post) -> None:
    first, second = await post.sent(), await post.sent()
    await post.bounce(first, DISABLED)
    await post.bounce(first, DISABLED)
    assert (await post.state(first), await post.suppressed(), await post.day_bounces()) == ("bounced", {}, (1, 1, 1))
    await post.bounce(second, DISABLED)
    assert await post.suppressed() == {f"w1 {ANN}": "hard_bounce"}
    assert await post.day_bounces() == (2, 2, 2)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_bounce_that_is_confirmed_or_not_counts_once(post: Post, order: tuple[int, int]) -> None:
    id_ = await post.sent()
    for which in order:
        await post.bounce(id_, (DISABLED, DEAD)[which])
    assert (await post.state(id_), await post.day_bounces()) == ("bounced", (1, 1, 1))
    assert await post.suppressed() == {f"w1 {ANN}": "hard_bounce"}


async def test_delays_and_deliveries_change_nothing(post: Post) -> None:
    id_ = await post.sent()
    for action, said in (("delayed", "450 4.1.1 User unknown"), ("delivered", "250 2.0.0 Ok")):
        raw = report(said.split()[1], said, action=action, message_id=await post.message_id(id_))
        (found,) = (await take_in(post.store, raw, now=NOW)).findings
        assert (found.email_id, found.effect) == (id_, action)
    assert (await post.state(id_), await post.suppressed()) == ("sent", {})


async def test_an_email_to_several_has_bounced_when_it_came_back_from_all(post: Post) -> None:
    bob = "bob@people.example"
    id_ = await post.sent(ANN, bob)
    await post.bounce(id_, to=ANN)
    assert await post.state(id_) == "sent"
    await post.bounce(id_, FULL, to=bob)
    assert await post.state(id_) == "bounced"
    assert await post.store.value("SELECT reason FROM fairpost.emails WHERE id = $1", id_) == "email.address_unknown"


async def test_the_token_in_the_return_path_finds_the_email_of_a_forwarded_address(post: Post) -> None:
    id_ = await post.sent()
    elsewhere = report("5.1.1", DEAD, recipient="other@elsewhere.example", message_id="<unknown@elsewhere.example>")
    (found,) = (await take_in(post.store, elsewhere, now=NOW, recipients=[await post.path(id_)])).findings
    assert (found.email_id, found.address) == (id_, ANN)
    assert await post.state(id_) == "bounced"


async def test_a_forged_report_has_no_effect(post: Post) -> None:
    id_ = await post.sent()
    name, _, domain = (await post.path(id_)).partition("@")
    message_id = await post.message_id(id_)
    forged = {
        "a recipient that the e-mail does not have": (
            report("5.1.1", DEAD, recipient="eve@evil.example", message_id=message_id),
            [],
        ),
        "a guessed id": (report("5.1.1", DEAD, message_id="<em_0123456789abc.0123456789abcdef@sender.example>"), []),
        "a seal that is not ours": (report("5.1.1", DEAD, recipient="eve@evil.example"), [f"{name[:-1]}x@{domain}"]),
        "no id at all": (report("5.1.1", DEAD), []),
        "a complaint of another": (complaint(recipient="eve@evil.example", message_id=message_id), []),
    }
    for raw, recipients in forged.values():
        await take_in(post.store, raw, now=NOW, recipients=recipients)
    assert (await post.state(id_), await post.suppressed()) == ("sent", {})
    shown = await returned.listed(post.store, workspace=None, only_uncertain=True, most=10)
    assert len(shown) == len(forged)
    assert await returned.listed(post.store, workspace="w1", only_uncertain=False, most=10) == []


async def test_mail_in_an_accounts_mailbox_is_about_its_own_emails_only(post: Post) -> None:
    other = await post.store.add_account("bert", address="bert@post.test", limits=Limits())
    id_ = await post.sent()
    assert [
        f.email_id
        for f in (await post.bounce(id_, mailbox=Mailbox(account_id=other, address="bert@post.test"))).findings
    ] == [None]
    assert await post.state(id_) == "sent"


async def test_the_recipient_and_the_time_are_enough_in_a_mailbox_if_only_one_fits(post: Post) -> None:
    mailbox = Mailbox(account_id=post.account, address="anna@post.test")
    unnamed = report("5.1.1", DEAD, message_id="<replaced@provider.example>")
    one = await post.sent()
    (found,) = (await take_in(post.store, unnamed, now=NOW + MINUTE, mailbox=mailbox)).findings
    assert found.email_id == one
    await post.store.value("DELETE FROM fairpost.returned")
    await post.store.value("DELETE FROM fairpost.suppressions")
    await post.sent()
    (found,) = (await take_in(post.store, unnamed, now=NOW + MINUTE, mailbox=mailbox)).findings
    assert found.email_id is None
    (found,) = (await take_in(post.store, unnamed, now=NOW + timedelta(days=30), mailbox=mailbox)).findings
    assert found.email_id is None


async def test_a_complaint_suppresses_all_mail_and_counts_against_the_sender(post: Post) -> None:
    id_ = await post.sent()
    raw = complaint(message_id=await post.message_id(id_))
    for _ in range(2):
        await take_in(post.store, raw, now=NOW)
    assert (await post.state(id_), await post.suppressed()) == ("sent", {f"w1 {ANN}": "complaint"})
    assert await post.store.value("SELECT sum(rejected) FROM fairpost.activity") == 1


async def test_an_unsubscribe_request_stops_bulk_mail_alone(post: Post) -> None:
    id_ = await post.sent()
    raw = mail("unsubscribe", sender=ANN, headers={"References": await post.message_id(id_)})
    await take_in(post.store, raw, now=NOW)
    assert await post.suppressed() == {f"w1 {ANN}": "unsubscribe"}
    stops = "SELECT fairpost.suppressed('w1', ARRAY[$1]::text[], $2::text::fairpost.email_class)"
    assert [await post.store.value(stops, ANN, each) for each in ("bulk", "urgent")] == [[ANN], []]


async def test_the_token_in_a_request_names_one_of_several_emails_and_cannot_be_forged(post: Post) -> None:
    mailbox = Mailbox(account_id=post.account, address="anna@post.test")
    id_, _ = await post.sent(), await post.sent()
    token = (await post.store.public_ids()).return_token(id_)
    for subject, email_id in ((f"unsubscribe {token[:-1]}", None), (f"Unsubscribe {token.upper()}", id_)):
        raw = mail("Sent by a mail program.", subject=subject, sender="alias@elsewhere.example", answers=False)
        (found,) = (await take_in(post.store, raw, now=NOW, mailbox=mailbox)).findings
        assert found.email_id == email_id
    assert await post.suppressed() == {f"w1 {ANN}": "unsubscribe"}


async def test_the_accounts_own_mail_is_no_reply(post: Post) -> None:
    id_ = await post.sent("anna@post.test")
    raw = mail("Hello", sender="anna@post.test", headers={"References": await post.message_id(id_)})
    taken = await take_in(post.store, raw, now=NOW, mailbox=Mailbox(account_id=post.account, address="anna@post.test"))
    assert taken.findings == ()


async def test_a_return_before_the_email_is_settled_waits_for_it(post: Post) -> None:
    id_ = await post.sent(settle=False)
    await post.bounce(id_)
    assert (await post.state(id_), await post.suppressed()) == ("sending", {})
    await post.settle(id_)
    await ReturnsWatch(post.store, lambda said: None).step()
    assert (await post.state(id_), await post.suppressed()) == ("bounced", {f"w1 {ANN}": "hard_bounce"})


async def test_an_email_that_bounced_late_can_be_tried_again_and_bounce_again(post: Post) -> None:
    id_ = await post.sent()
    await post.bounce(id_)
    await post.store.value("DELETE FROM fairpost.suppressions")
    assert await post.store.value("SELECT fairpost.retry($1, $2)::text", id_, NOW) == "waiting"
    post.lease_held = await post.lease()
    assert await post.begun(post.lease_held) == id_
    await post.settle(id_)
    assert await post.state(id_) == "sent"
    await post.bounce(id_)
    assert await post.state(id_) == "bounced"


class Killed(Exception):
    """The process ends before its transaction is committed."""


async def taken_in(post: Post, raw: bytes, *, is_killed: bool) -> None:
    with suppress(Killed):
        async with post.store.together() as one:
            await take_in(one, raw, now=NOW)
            if is_killed:
                raise Killed


async def all_that_follows(post: Post, workspace: str, id_: EmailId) -> tuple[object, ...]:
    """Returns the state of an e-mail and its workspace, without times and row numbers."""
    email = await post.store.row("SELECT state::text, reason FROM fairpost.emails WHERE id = $1", id_)
    counted = await post.store.row(
        """SELECT (SELECT bounced FROM fairpost.counters WHERE workspace = $1) AS bounced,
                  (SELECT ARRAY[sum(bounced), sum(rejected)] FROM fairpost.activity WHERE workspace = $1) AS scored""",
        workspace,
    )
    replies = await post.store.fetch(
        "SELECT author, kind, text_body FROM fairpost.replies WHERE workspace = $1 ORDER BY 1, 2, 3", workspace
    )
    kinds = {who: kind for who, kind in (await post.suppressed()).items() if who.startswith(f"{workspace} ")}
    return (
        *email.values(),
        *(f"{who.partition(' ')[2]} {kind}" for who, kind in sorted(kinds.items())),
        *(counted["bounced"], *counted["scored"]),
        *(" ".join(row.values()) for row in replies),
    )


@pytest.mark.thorough
async def test_any_order_repetition_and_death_ends_in_the_same_state(post: Post) -> None:
    """Reports, a complaint, an auto-reply, a reply and an unsubscribe request about an e-mail to three people. The
    settlement, deaths before a commit and runs of the watch happen somewhere in between; each mail arrives one or more
    times."""
    bob, cy = "bob@people.example", "cy@people.example"
    ends: dict[str, Any] = {}
    for number in range(times(12)):
        dice, workspace = random.Random(25 + number), f"w{number}"
        id_ = await post.sent(ANN, bob, cy, workspace=workspace, settle=False)
        named = await post.message_id(id_)
        away = {"Auto-Submitted": "auto-replied", "References": named}
        mails = [
            report("5.1.1", DEAD, recipient=ANN, message_id=named),
            report("5.2.2", FULL, recipient=ANN, message_id=named),
            report("5.7.1", SPAM, recipient=bob, message_id=named),
            report("4.2.2", FULL, recipient=bob, action="delayed", message_id=named),
            complaint(recipient=bob, message_id=named),
            report("5.2.2", FULL, recipient=cy, message_id=named),
            mail("Yes, gladly.", sender=cy, headers={"References": named}),
            mail("I am away.", sender=cy, headers=away).replace(b"<answer@", b"<away@"),
            mail("unsubscribe", sender=cy, headers={"References": named}).replace(b"<answer@", b"<out@"),
        ]
        steps = [raw for raw in mails for _ in range(dice.choice((1, 1, 2, 3)))]
        todo: list[bytes | str] = [*steps, "settle", *dice.choices(("watch",), k=3)]
        dice.shuffle(todo)
        for step in todo:
            if step == "settle":
                await post.settle(id_)
            elif isinstance(step, str):
                await ReturnsWatch(post.store, lambda said: None).step()
            else:
                for is_killed in (*([True] * dice.choice((0, 0, 1))), False):
                    await taken_in(post, step, is_killed=is_killed)
        await ReturnsWatch(post.store, lambda said: None).step()
        ends[f"seed {25 + number}"] = await all_that_follows(post, workspace, id_)
    wanted = (
        *("bounced", "email.address_unknown"),
        *(f"{ANN} hard_bounce", f"{bob} complaint", f"{cy} unsubscribe", 1, 1, 1),
        *(f"{cy} auto_reply I am away.", f"{cy} reply Yes, gladly.", f"{cy} unsubscribe unsubscribe"),
    )
    assert {seed: end for seed, end in ends.items() if end != wanted} == {}


async def test_an_email_in_doubt_keeps_what_came_back_until_it_is_decided(post: Post) -> None:
    id_ = await post.sent(settle=False)
    assert await post.store.settle(post.lease_held, id_, InDoubt(), now=NOW) == "settled"
    await post.bounce(id_)
    assert await post.state(id_) == "in_doubt"


async def test_strangers_cannot_fill_the_table(post: Post) -> None:
    await post.sent()
    await post.store.value(
        """INSERT INTO fairpost.returned (address, effect, reason, params, source, at)
           SELECT 'p' || n || '@evil.example', 'bounced', 'email.address_unknown', '{}', 'x', $1 FROM generate_series(1, 10099) n""",
        NOW,
    )
    for number in range(100):
        raw = report("5.1.1", DEAD, recipient=f"q{number}@evil.example")
        await take_in(post.store, raw, now=NOW)
    kept = await post.store.row(
        "SELECT count(*) AS n, bool_or(address = 'q99@evil.example') AS has_newest FROM fairpost.returned"
    )
    assert 10_000 <= kept["n"] < 10_100
    assert kept["has_newest"]


async def test_returned_mail_is_removed_by_erasure_and_retention(post: Post) -> None:
    id_ = await post.sent()
    await post.bounce(id_)
    await post.store.value("SELECT fairpost.erase_entries(NULL, $1, false, $2)", ANN, NOW)
    assert await post.store.value("SELECT count(*) FROM fairpost.returned") == 0
    await post.sent("bob@people.example")
    await take_in(post.store, report("5.1.1", DEAD, recipient="bob@people.example"), now=NOW)
    await post.store.value("SELECT fairpost.drop_events($1)", NOW + timedelta(days=1))
    assert await post.store.value("SELECT count(*) FROM fairpost.returned") == 0


async def test_the_same_mails_at_the_same_time_count_once_while_the_account_keeps_sending(post: Post, url: str) -> None:
    people = [f"p{number}@people.example" for number in range(6)]
    ids = [await post.sent(each) for each in people]
    raws = [
        report("5.1.1", DEAD, recipient=each, message_id=await post.message_id(id_))
        for each, id_ in zip(people, ids, strict=True)
    ]
    stores = [await connect(url) for _ in range(4)]

    async def send_on() -> None:
        for _ in range(6):
            await post.sent("other@people.example")

    await asyncio.gather(
        send_on(),
        *(take_in(store, raw, now=NOW) for store in stores for raw in random.Random(1).sample(raws, len(raws))),
    )
    for store in stores:
        await store.close()
    assert [await post.state(id_) for id_ in ids] == ["bounced"] * len(ids)
    assert await post.day_bounces() == (6, 6, 6)
    assert await post.store.value("SELECT count(*) FROM fairpost.returned WHERE applied_at IS NOT NULL") == 6
