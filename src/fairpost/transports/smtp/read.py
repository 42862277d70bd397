"""Reads the mailbox of an SMTP account over IMAP, using the account's login. Opens folders read-only.

The position is the last UID that was read. It is valid as long as the folder's UIDVALIDITY is the same and the next
UID is higher. Otherwise, the server has renumbered its messages, and all messages that arrived since the last check are
read again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from fairpost.compose.addresses import plain_address
from fairpost.compose.message import message_id_of
from fairpost.imap.client import Connection, Folder, LoginRefused, Refused
from fairpost.imap.pipe import Broken
from fairpost.imap.responses import Garbage
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.report import Reply
from fairpost.smtp.auth import Login, LoginSource, current
from fairpost.smtp.connecting import LOGIN_REFUSED, Barred, Unready
from fairpost.smtp.guard import NetworkGuard
from fairpost.smtp.server import Server, Timeouts
from fairpost.system import chance
from fairpost.transports.composing import sender_of
from fairpost.transports.reading import Found, Position, Unreadable
from fairpost.transports.smtp.imap_urls import IMAP_PORTS, Mailbox, mailbox_of
from fairpost.transports.smtp.login import NoToken, login_of
from fairpost.transports.smtp.settings import SmtpSettings

MAIL_BYTES_MAX = 1_048_576  # the classifier reads no more than this
UIDS_AT_ONCE = 1_000
WINDOWS_MAX = 1_000  # maximum number of UID requests in one check; the next check continues where this one stopped
IDLE_S = 540.0  # short enough, because routers drop silent connections only after ten minutes or more
POLL_S = 120.0  # pause between checks, for servers without IDLE
PATIENCE = Timeouts(connect_s=20, tls_s=20, greeting_s=60, auth_s=60)

T = TypeVar("T")


def imap_reader(
    settings: SmtpSettings, secret: str | None, *, account: str, guard: NetworkGuard | None
) -> "ImapReader":
    """Returns the reader. `account` is the account's name, for advice. Raises VaultError or WrongUrl."""
    mailbox = mailbox_of(settings)
    known = replace(settings, user=mailbox.user or settings.user)
    server = Server(
        host=mailbox.host,
        port=mailbox.port,
        security=mailbox.security,
        ca_file=settings.ca_file,
        timeouts=PATIENCE,
        guard=guard_of(guard) if guard is not None else None,
    )
    login = login_of(known, secret, account=account, is_for_reading=True)
    return ImapReader(server, login, mailbox=mailbox, user=known.user or "")


def guard_of(guard: NetworkGuard) -> NetworkGuard:
    return replace(guard, ports=guard.ports | IMAP_PORTS)


class ImapReader:
    def __init__(self, server: Server, login: Login | LoginSource | None, *, mailbox: Mailbox, user: str) -> None:
        self._server = server
        self._login = login
        self._folder = mailbox.folder
        self._where = f"{user}@{mailbox.host}/{mailbox.folder}"
        self._connection: Connection | None = None

    async def look(self, position: Position | None, *, since: datetime) -> AsyncGenerator[Found, None]:
        async with self._reported():
            connection = await self._connected()
            folder = await connection.examine(self._folder)
            if position is None or position.get("where") != self._where:
                yield Found(self._at(folder, await _newest(connection, folder)))
                return
            if position.get("uid_validity") != folder.uid_validity or _is_ahead(position, folder):
                windows = _again(connection, folder, since)
            else:
                windows = _after(connection, folder, int(position["uid"]))
            async for uids, end in windows:
                for uid in uids:
                    yield await self._fetched(connection, self._at(folder, uid))
                yield Found(self._at(folder, end))

    async def _fetched(self, connection: Connection, position: Position) -> Found:
        try:
            async with self._reported():
                return Found(position, await connection.fetch(int(position["uid"]), bytes_max=MAIL_BYTES_MAX))
        except Unreadable as error:
            error.beyond = position
            raise

    async def wait(self) -> bool:
        async with self._reported():
            connection = await self._connected()
            wait_s = 0.75 + chance.roll() / 2
            if connection.can_idle:
                return await connection.wait(IDLE_S * wait_s)
            await asyncio.sleep(POLL_S * wait_s)
            return await connection.check()

    async def was_sent(self, account: Account, email: Outgoing) -> bool:
        """Searches the folder of sent mail over a separate connection, because the main connection has a different
        folder open.
        """
        domain = plain_address(sender_of(account, email).address).rpartition("@")[2]
        message_id = message_id_of(email, domain=domain)
        async with self._reported():
            connection = await self._opened()
            try:
                folder = await connection.sent_folder()
                if folder is None:
                    return False
                await connection.examine(folder)
                return await connection.has_message(message_id)
            finally:
                await connection.logout()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.logout()

    def _at(self, folder: Folder, uid: int) -> Position:
        return {"where": self._where, "uid_validity": folder.uid_validity, "uid": uid}

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = await self._opened()
        return self._connection

    async def _opened(self) -> Connection:
        """Opens a connection. If the server refuses a token, tries once more with a new one, because a token can be
        revoked before it expires.
        """
        try:
            return await Connection.open(self._server, await current(self._login))
        except LoginRefused:
            if self._login is None or not hasattr(self._login, "refused"):
                raise
            self._login.refused()
            return await Connection.open(self._server, await current(self._login))

    @asynccontextmanager
    async def _reported(self) -> AsyncIterator[None]:
        """Converts errors to Unreadable. The connection is not used again after an error."""
        try:
            yield
        except (Broken, Garbage, Refused, Unready) as error:
            self._drop()
            raise unreadable(error) from error
        except GeneratorExit:
            raise  # the caller has stopped reading while no command is in progress, so the connection stays usable
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def unreadable(error: Exception) -> Unreadable:
    match error:
        case LoginRefused():
            return Unreadable("account.read_login_refused", str(error), is_lasting=True)
        case NoToken(reply=Reply(code=code)) if code == LOGIN_REFUSED:
            return Unreadable("account.read_login_refused", error.what, is_lasting=True, advice=error.advice)
        case Barred():
            return Unreadable("account.read_forbidden", str(error), is_lasting=True)
        case Refused():
            return Unreadable("account.read_refused", str(error))
        case _:
            return Unreadable("account.read_unreachable", str(error))


def _is_ahead(position: Position, folder: Folder) -> bool:
    """Returns whether the server's UIDs have decreased, as happens after a restore from a backup."""
    return folder.uid_next is not None and int(position["uid"]) >= folder.uid_next


async def _newest(connection: Connection, folder: Folder) -> int:
    return folder.uid_next - 1 if folder.uid_next is not None else await connection.newest(folder)


async def _after(connection: Connection, folder: Folder, uid: int) -> AsyncIterator[tuple[list[int], int]]:
    """Yields the messages after the given UID. Requests a thousand UIDs at a time and yields each message with the last
    UID requested.
    """
    newest = await _newest(connection, folder)
    for begin in range(uid + 1, min(newest, uid + WINDOWS_MAX * UIDS_AT_ONCE) + 1, UIDS_AT_ONCE):
        end = min(begin + UIDS_AT_ONCE - 1, newest)
        yield await connection.uids(begin, end), end


async def _again(connection: Connection, folder: Folder, since: datetime) -> AsyncIterator[tuple[list[int], int]]:
    """Yields the messages since the last check.

    The search starts one day before the last check, because the server may be in another time zone.
    """
    newest = await _newest(connection, folder)
    uids = await connection.uids_since((since - timedelta(days=1)).date())
    yield uids, max([newest, *uids])
