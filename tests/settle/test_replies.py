"""Replies are stored together with their effect: once, in the conversation with the person, and bounded."""

from datetime import timedelta

from fairpost.maintenance.returns import Mailbox, ReturnsWatch, take_in
from fairpost.model.account import Limits
from fairpost.store import privacy
from tests.returns.mails import mail, report
from tests.settle.test_returned import ANN, NOW, Post
from tests.settle.test_returned import post as post
from tests.simulation.world import MINUTE


async def answer(
    post: Post, id_: int, text: str = "Yes, gladly.", *, sender: str = ANN, name: str = "one", **more: str
) -> bytes:
    headers = {"References": await post.message_id(id_), **more}  # type: ignore[arg-type]
    return mail(text, sender=sender, headers=headers).replace(b"<answer@", f"<{name}@".encode())


async def kept(post: Post) -> list[tuple[str, str, str]]:
    rows = await post.store.fetch(
        """SELECT c.address, r.kind, r.text_body FROM fairpost.replies r JOIN fairpost.conversations c ON c.id = r.conversation_id
           ORDER BY r.id"""
    )
    return [(row["address"], row["kind"], row["text_body"]) for row in rows]


async def test_a_reply_is_kept_once_however_often_and_by_whichever_way_it_comes(post: Post) -> None:
    id_ = await post.sent()
    raw = await answer(post, id_)
    for each in (raw, raw, b"Received: from elsewhere\n" + raw):
        await take_in(post.store, each, now=NOW)
    assert await kept(post) == [(ANN, "reply", "Yes, gladly.")]


async def test_later_mails_of_the_person_join_the_conversation_although_their_effect_is_known(post: Post) -> None:
    id_ = await post.sent()
    for number, text in enumerate(("Yes.", "One more thing.")):
        await take_in(post.store, await answer(post, id_, text, name=f"m{number}"), now=NOW + number * MINUTE)
    away = await answer(post, id_, "I am away.", name="away", **{"Auto-Submitted": "auto-replied"})
    await take_in(post.store, away, now=NOW)
    await take_in(post.store, await answer(post, id_, "unsubscribe", name="out"), now=NOW)
    assert [each[1:] for each in await kept(post)] == [
        ("reply", "Yes."),
        ("reply", "One more thing."),
        ("auto_reply", "I am away."),
        ("unsubscribe", "unsubscribe"),
    ]
    assert await post.store.value("SELECT last_at FROM fairpost.conversations") == NOW + MINUTE


async def test_mail_that_matches_no_email_is_not_kept(post: Post) -> None:
    id_ = await post.sent()
    await take_in(post.store, await answer(post, id_, sender="eve@evil.example"), now=NOW)
    await take_in(post.store, mail("Hello", sender=ANN), now=NOW)
    assert await kept(post) == []


async def test_with_a_token_a_person_can_answer_from_another_address(post: Post) -> None:
    id_ = await post.sent()
    raw = await answer(post, id_, sender="Ann <ann@home.example>")
    await take_in(post.store, raw, now=NOW, recipients=[await post.path(id_)])
    row = await post.store.row("SELECT author, from_name, account_id FROM fairpost.replies")
    assert (row["author"], row["from_name"], row["account_id"]) == ("ann@home.example", "Ann", post.account)
    assert [each[0] for each in await kept(post)] == [ANN]


async def test_in_a_mailbox_the_complete_message_id_finds_the_person_who_answers_from_another_address(
    post: Post,
) -> None:
    mailbox = Mailbox(account_id=post.account, address="anna@post.test")
    elsewhere = Mailbox(
        account_id=await post.store.add_account("bert", address="bert@post.test", limits=Limits()),
        address="bert@post.test",
    )
    id_ = await post.sent()
    named = await post.message_id(id_)
    raw = await answer(post, id_, sender="Ann <ann@home.example>")
    cases = (
        ("another account's mailbox", raw, elsewhere, None),
        ("no mailbox", raw, None, None),
        ("a colleague on the thread", await answer(post, id_, sender="bert@post.test"), mailbox, None),
        ("a similar Message-ID", raw.replace(b".0123456789abcdef@", b".0123456789abcdee@"), mailbox, None),
        (
            "a report on another address",
            report("5.1.1", "550 5.1.1 User unknown", recipient="ann@home.example", message_id=named),
            mailbox,
            None,
        ),
        ("the person", raw, mailbox, id_),
    )
    await post.store.value("UPDATE fairpost.emails SET message_id = $2 WHERE id = $1", id_, named)
    for name, each, where, expected in cases:
        (found,) = (await take_in(post.store, each, now=NOW + MINUTE, mailbox=where)).findings
        assert found.email_id == expected, name
    assert [each[0] for each in await kept(post)] == [ANN]


async def test_a_reply_to_an_email_that_is_still_being_sent_is_kept_at_once(post: Post) -> None:
    id_ = await post.sent(settle=False)
    await take_in(post.store, await answer(post, id_), now=NOW)
    assert len(await kept(post)) == 1
    await post.settle(id_)
    await ReturnsWatch(post.store, lambda said: None).step()
    assert len(await kept(post)) == 1


async def test_an_auto_responder_in_a_loop_does_not_fill_the_table(post: Post) -> None:
    id_ = await post.sent()
    for number in range(103):
        raw = await answer(post, id_, "I am away.", name=f"m{number}", **{"Auto-Submitted": "auto-replied"})
        await take_in(post.store, raw, now=NOW)
    assert len(await kept(post)) == 100
    assert await post.store.value("SELECT count(*) FROM fairpost.returned") == 1
    assert await post.store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_replies_go_with_the_person_and_with_time(post: Post) -> None:
    id_ = await post.sent()
    bob = "bob@people.example"
    other = await post.sent(bob)
    await take_in(post.store, await answer(post, id_), now=NOW)
    await take_in(post.store, await answer(post, other, f"Ask {ANN} about it.", sender=bob, name="two"), now=NOW)
    exported = [
        piece async for section, piece in privacy.export(post.store, ANN, workspace=None) if section == "replies"
    ]
    assert [(each["text"], each["kind"]) for each in exported] == [("Yes, gladly.", "reply")]
    await privacy.erase(post.store, ANN, workspace="elsewhere")
    assert len(await kept(post)) == 2
    await privacy.erase(post.store, ANN, workspace=None)
    assert await kept(post) == [(bob, "reply", "Ask [erased] about it.")]
    await post.store.value("SELECT fairpost.drop_events($1)", NOW)
    assert len(await kept(post)) == 1
    await post.store.value("SELECT fairpost.drop_events($1)", NOW + timedelta(days=1))
    assert await post.store.value("SELECT count(*) FROM fairpost.conversations") == 0


async def test_a_person_who_wrote_from_another_address_is_erased_by_it(post: Post) -> None:
    id_ = await post.sent()
    raw = await answer(post, id_, sender="ann@home.example")
    await take_in(post.store, raw, now=NOW, recipients=[await post.path(id_)])
    await privacy.erase(post.store, "ann@home.example", workspace="w1")
    assert await kept(post) == []
