"""The inbox's messages in the database: stored, listed, searched, pruned, deleted."""

from typing import Any

import asyncpg
import pytest

from fairpost.dev.inbox.mails import (
    PRUNE_AT_BYTES,
    PRUNE_EVERY_MAILS,
    Arrived,
    Mail,
    MailId,
    add_mail,
    delete_mails,
    list_mails,
    newest,
    open_mail,
    prune,
    prune_is_due,
)
from fairpost.model.errors import NotFound
from fairpost.store.store import Store


async def add(store: Store, raw: bytes = b"Subject: Hello\r\n\r\nHi\r\n", *, to: str = "ann@example.com") -> Mail:
    return await add_mail(
        store,
        Arrived(
            sender="app@example.com",
            recipients=(to, "bob@example.com"),
            helo="client.test",
            peer="127.0.0.1:5",
            tls=None,
            auth_user="ann",
            raw=raw,
        ),
    )


async def ids(store: Store, **which: Any) -> list[int]:
    return [mail.id for mail in await list_mails(store, **which)]


async def test_mails_are_kept_as_added(store: Store) -> None:
    raw = b"Subject: Hello\r\nFrom: Ann <a@b.test>\r\nMessage-ID: <1@x>\r\n\r\n\x00\xff\r\n"
    added = await add(store, raw)
    opened, kept = await open_mail(store, added.id)
    assert kept == raw
    assert opened == added == (await list_mails(store))[0]
    assert (added.subject, added.from_header, added.message_id) == ("Hello", "Ann <a@b.test>", "<1@x>")
    assert added.recipients == ("ann@example.com", "bob@example.com")
    assert added.size == len(raw)


async def test_the_list_is_newest_first_and_turns_pages(store: Store) -> None:
    made = [(await add(store)).id for _ in range(5)]
    assert await ids(store) == made[::-1]
    assert await ids(store, most=2) == [made[4], made[3]]
    assert await ids(store, before=made[3], most=2) == [made[2], made[1]]
    assert await ids(store, after=made[2]) == [made[4], made[3]]
    assert await ids(store, after=made[0], before=made[2]) == [made[1]]


async def test_the_list_of_one_recipient(store: Store) -> None:
    one, other = await add(store, to="Ann@Example.com"), await add(store, to="ann+x@example.com")
    assert await ids(store, to="ANN@example.com") == [one.id]
    assert await ids(store, to="bob@example.com") == [other.id, one.id]
    assert await ids(store, to="nn@example.com") == []


async def test_all_words_must_occur_wherever_they_do(store: Store) -> None:
    welcome = await add(store, b"Subject: Welcome ANN\r\n\r\nYour code is 4711\r\n")
    await add(store, b"Subject: Goodbye\r\n\r\nYour code is 4711\r\n")
    assert await ids(store, words=["welcome", "4711"]) == [welcome.id]
    assert await ids(store, words=["welcome ann", "APP@example.com", "bob@"]) == [welcome.id]
    assert await ids(store, words=["welcome", "goodbye"]) == []


@pytest.mark.parametrize("literal", ["100%", "a_b", "\\", "'", "%", "_", ".*"])
async def test_no_character_is_a_wildcard(store: Store, literal: str) -> None:
    await add(store, b"Subject: 100 percent\r\n\r\naxb\r\n")
    has_it = await add(store, b"Subject: x\r\n\r\n" + literal.encode() + b"\r\n")
    assert await ids(store, words=[literal]) == [has_it.id]


async def test_the_newest_is_named_unless_there_is_none(store: Store) -> None:
    with pytest.raises(NotFound, match="fairpost inbox serve"):
        await newest(store)
    await add(store)
    last = await add(store)
    assert await newest(store) == last.id


async def test_a_mail_that_does_not_exist_is_reported(store: Store) -> None:
    with pytest.raises(NotFound, match=r"\b7\b"):
        await open_mail(store, MailId(7))


async def test_some_or_all_are_deleted(store: Store) -> None:
    one, two, three = [(await add(store)).id for _ in range(3)]
    assert await delete_mails(store, [two, MailId(99)]) == {two}
    assert await ids(store) == [three, one]
    assert await delete_mails(store, []) == set()
    assert await delete_mails(store, None) == {one, three}


async def test_pruning_keeps_the_newest_by_number(store: Store) -> None:
    made = [(await add(store)).id for _ in range(5)]
    assert await prune(store, keep_mails=3) == 2
    assert await ids(store) == made[:1:-1]
    assert await prune(store, keep_mails=3) == 0


async def test_pruning_keeps_the_newest_by_bytes_and_the_last_one_always(store: Store) -> None:
    made = [(await add(store, b"x" * 100)).id for _ in range(5)]
    assert await prune(store, keep_bytes=250) == 3
    assert await ids(store) == [made[4], made[3]]
    assert await prune(store, keep_bytes=10) == 1
    assert await prune(store, keep_bytes=10) == 0
    assert await ids(store) == [made[4]]


async def test_pruning_is_due_at_times_and_after_a_large_mail(store: Store) -> None:
    due = [prune_is_due(await add(store)) for _ in range(PRUNE_EVERY_MAILS)]
    assert due == [False] * (PRUNE_EVERY_MAILS - 1) + [True]
    assert prune_is_due(await add(store, b"x" * PRUNE_AT_BYTES))


async def test_the_size_is_that_of_the_message(store: Store) -> None:
    await add(store)
    with pytest.raises(asyncpg.CheckViolationError):
        await store.value("UPDATE fairpost.inbox SET size = 0")
