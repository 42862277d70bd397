"""A sequence to people who reply, bounce late, are away or complain: people who replied get nothing more, and all
others do."""

from collections import Counter
from datetime import date, timedelta

import pytest

from fairpost.maintenance.returns import ReturnsWatch, take_in
from fairpost.model.account import Account
from fairpost.model.campaign import ReplyStops
from fairpost.model.email import Outgoing
from fairpost.model.ids import EmailId
from fairpost.model.report import Report
from fairpost.transports.port import Permission
from tests.campaigns.world import WORKSPACE, Post, World
from tests.returns.mails import complaint, mail, report
from tests.thorough import times

DAY = timedelta(days=1)
PEOPLE = times(100, own="FAIRPOST_SEQUENCE_PEOPLE")


async def message_id(world: World, id_: EmailId) -> str:
    return f"<{(await world.store.public_ids()).name_in_headers(id_)}.0123456789abcdef@post.test>"


async def come_back(world: World, number: int, raw: bytes) -> None:
    for _ in range(2):  # every mail arrives twice
        taken = await take_in(world.store, raw, now=world.clock.now)
        assert [each.workspace for each in taken.findings] == [WORKSPACE], number


async def test_an_answer_can_stop_the_sequence_for_the_whole_company(world: World) -> None:
    await world.add_accounts("anna")
    await world.add_people(4)
    for number, domain in enumerate(("acme.test", "acme.test", "gmail.com", "gmail.com")):
        sql = "UPDATE fairpost.prospects SET address = $2, folded = $2 WHERE folded = $1"
        await world.store.value(sql, f"p{number}@there.test", f"p{number}@{domain}")
    await world.launch(await world.draft(delays=(3 * DAY,)))
    await world.run(days=1)
    first = {sending.to: sending.email.id for sending in world.post.sent}
    for address in ("p0@acme.test", "p2@gmail.com"):
        raw = mail("Yes!", sender=address, headers={"References": await message_id(world, first[address])})
        await take_in(world.store, raw, now=world.clock.now, reply_stops=ReplyStops.COMPANY)
    await world.run(days=30)
    assert Counter(sending.to for sending in world.post.sent) == {
        "p0@acme.test": 1,
        "p1@acme.test": 1,
        "p2@gmail.com": 1,
        "p3@gmail.com": 2,
    }


class Prompt(Post):
    """People reply before the account's server has even answered 250."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        named = await message_id(self._world, email.id)
        raw = mail("Yes!", sender=email.envelope[0], headers={"References": named})
        await take_in(self._world.store, raw, now=self._world.clock.now)
        return await super().send(account, email, permission=permission)


async def test_an_answer_that_comes_before_the_email_is_settled_stops_the_sequence(world: World) -> None:
    world.post = Prompt(world)
    await world.add_accounts("anna")
    await world.add_people(5)
    await world.launch(await world.draft(delays=(3 * DAY,)))
    await world.run(days=1)
    await ReturnsWatch(world.store, lambda said: None).step()
    await world.run(days=30)
    assert set(Counter(sending.to for sending in world.post.sent).values()) == {1}


def kind_of(number: int) -> str:
    """Of a hundred people, 20 reply, 5 bounce late, 3 are away, one complains, and one asks for no more mail."""
    shares = (("answers", 20), ("bounces", 25), ("away", 28), ("complains", 29), ("leaves", 30))
    return next((kind for kind, below in shares if number % 100 < below), "silent")


def came_back(kind: str, address: str, named: str) -> bytes:
    match kind:
        case "answers":
            return mail("Sounds good, call me.", sender=address, headers={"References": named})
        case "bounces":
            return report("5.1.1", "550 5.1.1 User unknown", recipient=address, message_id=named)
        case "away":
            return mail(
                "I am out of the office. I will be back on 2030-01-21.",
                subject="Automatic reply: 1",
                sender=address,
                headers={"Auto-Submitted": "auto-replied", "References": named},
            ).replace(b"Tue, 17 Nov 2026", b"Tue, 08 Jan 2030")
        case "complains":
            return complaint(recipient=address, message_id=named)
        case _:
            return mail("unsubscribe", sender=address, headers={"References": named})


@pytest.mark.thorough
async def test_people_who_answered_get_no_further_step_and_all_others_do(world: World) -> None:
    """A hundred people; a thousand in `make fuzz`, or the number in FAIRPOST_SEQUENCE_PEOPLE."""
    people = [(number, kind_of(number), f"p{number}@there.test") for number in range(PEOPLE)]
    many = Counter(kind for _, kind, _ in people)
    await world.add_accounts("anna", "bert")
    await world.add_people(PEOPLE)
    campaign = await world.draft(delays=(3 * DAY, 4 * DAY))
    await world.launch(campaign)
    await world.run(days=1)
    first = {sending.to: sending for sending in world.post.sent}
    assert len(first) == PEOPLE
    for number, kind, address in people:
        if kind != "silent":
            await come_back(world, number, came_back(kind, address, await message_id(world, first[address].email.id)))
    bounces = Counter(first[address].account for _, kind, address in people if kind == "bounces")
    counted = await world.store.fetch(
        """SELECT a.name, l.day_bounces, (SELECT sum(c.bounced) FROM fairpost.counters c WHERE c.account_id = a.id AND c.workspace = $1) AS of_sender
           FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id""",
        WORKSPACE,
    )
    assert {row["name"]: row["day_bounces"] for row in counted} == bounces
    assert {row["name"]: row["of_sender"] for row in counted} == bounces
    scored = await world.store.row(
        "SELECT sum(sent) AS sent, sum(bounced) AS bounced, sum(rejected) AS rejected FROM fairpost.activity WHERE workspace = $1",
        WORKSPACE,
    )
    assert tuple(scored.values()) == (PEOPLE, many["bounces"], many["complains"])
    await world.run(days=60)
    steps = Counter(sending.to for sending in world.post.sent)
    wrong = [
        f"{address}, who {kind}: {steps[address]}"
        for _, kind, address in people
        if steps[address] != (3 if kind in ("away", "silent") else 1)
    ]
    assert not wrong
    back_on = date(2030, 1, 21)
    assert all(world.post.of(address)[1].at.date() >= back_on for _, kind, address in people if kind == "away")
    states = await world.store.fetch("SELECT state::text, count(*) AS n FROM fairpost.emails WHERE step = 1 GROUP BY 1")
    assert {row["state"]: row["n"] for row in states} == {"sent": PEOPLE - many["bounces"], "bounced": many["bounces"]}
    reasons = await world.store.fetch(
        "SELECT reason, count(*) AS n FROM fairpost.emails WHERE step > 1 AND state = 'cancelled' GROUP BY 1"
    )
    assert {row["reason"]: row["n"] for row in reasons} == {
        "email.prospect_replied": 2 * many["answers"],
        "email.step_not_reached": 2 * many["bounces"],
        "email.recipient_suppressed": 2 * (many["complains"] + many["leaves"]),
    }
    kept = await world.store.fetch("SELECT kind, count(*) AS n FROM fairpost.replies GROUP BY 1")
    assert {row["kind"]: row["n"] for row in kept} == {
        "reply": many["answers"],
        "auto_reply": many["away"],
        "unsubscribe": many["leaves"],
    }
    assert (await world.again(campaign)).state == "completed"
