"""Reads the messages added to a mailbox since a given position in its history, through the Gmail API. Changes nothing.

Google keeps at least a week of history. If a position is too old (404), all messages received since the mailbox was
last checked are listed instead.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import TypeVar

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.system import chance
from fairpost.transports.gmail.answers import Failure, NoToken, Page, RawMail, Refusal
from fairpost.transports.gmail.client import GmailClient
from fairpost.transports.gmail.evidence import in_words, is_gone
from fairpost.transports.reading import Found, Position, Unreadable

POLL_S = 60.0  # a check uses two of the 15,000 quota units per minute
PAGES_MAX = 500  # maximum number of pages, of a hundred messages each, if the history is no longer available
OVERLAP = timedelta(hours=1)  # extra time, because messages may be listed late and clocks differ
T = TypeVar("T")

REFUSED = frozenset({401, 403})


class GmailReader:
    """Reads one mailbox. `mailbox` is the address of the mailbox's owner. If the position belongs to another mailbox,
    it is ignored.
    """

    def __init__(self, client: GmailClient, *, mailbox: str) -> None:
        self._client = client
        self._where = f"{mailbox.lower()} at {client.base_url}"

    async def look(self, position: Position | None, *, since: datetime) -> AsyncGenerator[Found, None]:
        if position is None or position.get("where") != self._where:
            yield Found(self._at(_known(await self._client.present())))
            return
        begin = str(position["history_id"])
        first = await self._client.added_since(begin)
        if not isinstance(first, Page) and is_gone(first):
            async for found in self._again(position, since - OVERLAP):
                yield found
            return
        page = _known(first)
        while True:
            for id_ in page.ids:
                mail = await self._mail(id_, position)
                if mail is not None and not mail.is_own:
                    # The position stays the same, because Gmail does not number messages in order of arrival.
                    yield Found(position, mail.raw)
            if page.next_token is None:
                break
            page = _known(await self._client.added_since(begin, page_token=page.next_token))
        if page.history_id is not None:
            yield Found(self._at(page.history_id))

    async def wait(self) -> bool:
        await asyncio.sleep(POLL_S * (0.75 + chance.roll() / 2))
        return True

    async def was_sent(self, account: Account, email: Outgoing) -> bool:
        """Returns False, because with Gmail, the account's worker queries the draft to determine whether the e-mail was
        sent.
        """
        return False

    async def close(self) -> None:
        await self._client.close()

    def _at(self, history_id: str) -> Position:
        return {"where": self._where, "history_id": history_id}

    async def _mail(self, id_: str, position: Position) -> RawMail | None:
        """Returns the message, or None if it was deleted in the meantime or must be skipped."""
        left_out = position.get("without", [])
        got = await self._client.get_raw(id_) if id_ not in left_out else None
        if got is None or (not isinstance(got, RawMail) and is_gone(got)):
            return None
        try:
            return _known(got)
        except Unreadable as error:
            if error.code == "account.read_unreachable":
                error.beyond = {**position, "without": [*left_out, id_]}
            raise

    async def _again(self, position: Position, since: datetime) -> AsyncGenerator[Found, None]:
        """Finds the messages again if the position is too old. Records the current position before listing the
        messages, so that no message that arrives in the meantime is missed.
        """
        present = _known(await self._client.present())
        token: str | None = None
        for _ in range(PAGES_MAX):
            page = _known(await self._client.newest(page_token=token))
            for id_ in page.ids:
                mail = await self._mail(id_, position)
                if mail is not None and mail.received_at is not None and mail.received_at < since:
                    yield Found(self._at(present))
                    return
                if mail is not None and not mail.is_own:
                    yield Found(position, mail.raw)
            token = page.next_token
            if token is None:
                break
        yield Found(self._at(present))


def _known(answer: T | Failure) -> T:
    """Returns the answer if the request succeeded. Raises Unreadable otherwise."""
    match answer:
        case NoToken():
            raise Unreadable("account.read_login_refused", answer.message, is_lasting=True, advice=answer.advice)
        case Refusal(status=status) if status in REFUSED and answer.is_googles and answer.retry_at is None:
            raise Unreadable("account.read_refused", in_words(answer))
        case _ if isinstance(answer, Failure):
            raise Unreadable("account.read_unreachable", in_words(answer))
        case _:
            return answer
