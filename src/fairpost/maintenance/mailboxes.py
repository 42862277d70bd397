"""Reads the mailboxes of accounts that have reading turned on. Each mailbox has one connection, which waits until the
server reports changes.

A message's findings and the position after the message are committed together. Therefore, no message is missed or
counted twice, even if a reader is killed. If a mailbox cannot be read, its account gets a condition that reports this,
but the account is never stopped from sending.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from fairpost.maintenance.loop import failed as task_failed
from fairpost.maintenance.loop import keep_stepping
from fairpost.maintenance.returns import Mailbox, take_in
from fairpost.model.account import Account
from fairpost.model.campaign import ReplyStops
from fairpost.model.email import Outgoing
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.reason import Log, Reason
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.store import mailbox_reads
from fairpost.store.mailbox_reads import HeldMailbox, NoLongerOurs
from fairpost.store.store import Store
from fairpost.store.trouble import is_about_data, is_trouble
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.reading import MailboxReader, Position, Unreadable

if TYPE_CHECKING:
    from fairpost.model.ids import AccountId, EmailId

TAKE_S = 5.0
LOOK_AGAIN = timedelta(minutes=30)  # a mailbox is read at least this often, even if the server reports no changes
TURN = timedelta(seconds=30)  # longest turn for a mailbox that has more to read while other mailboxes are waiting
TROUBLE_S = 5.0  # pause while the database is not responding
FIRST_S, LASTING_S, LONGEST_S = 30.0, 900.0, 3_600.0  # pauses after failures: first, first if it lasts, longest
TIMES_STUCK_MAX = 8  # number of attempts to read a message, spread over about two hours
ASK_AFTER = (10, 60, 300, 1_800)  # seconds after a doubt is noticed; several, because servers may file sent mail late

MakeReader = Callable[[Account], MailboxReader | None]
"""The reader of an account's mailbox, or None if the mailbox is not read. Raises FairpostError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    owner: str
    reply_stops: ReplyStops = ReplyStops.PERSON
    mailboxes_max: int = 5_000
    active_max: int = 32  # maximum number of mailboxes that connect, log in or fetch at the same time


class MailboxCall:
    """Requests a reader process while there are mailboxes to read. A request has no effect while a reader process is
    running.
    """

    def __init__(self, store: Store, call: Callable[[], None], log: Log) -> None:
        self._store, self._call, self._log = store, call, log

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=TAKE_S, complain=partial(task_failed, "mailboxes", log=self._log))

    async def step(self) -> None:
        if await mailbox_reads.are_any(self._store):
            self._call()


class MailboxWatch:
    """The mailboxes that one engine reads."""

    def __init__(self, store: Store, make_reader: MakeReader, options: ReaderOptions, log: Log) -> None:
        self._store, self._make_reader, self._options, self._log = store, make_reader, options, log
        self._active = asyncio.Semaphore(options.active_max)
        self._readings: dict[AccountId, tuple[HeldMailbox, asyncio.Task[None]]] = {}
        self._asked: dict[
            EmailId, tuple[datetime, int]
        ] = {}  # when the doubt was noticed, and how many times the mailbox has been searched

    async def run(self) -> None:
        complain = partial(task_failed, "mailboxes", log=self._log)
        await asyncio.gather(
            *[keep_stepping(each, every_s=TAKE_S, complain=complain) for each in (self.step, self.ask_about_doubts)]
        )

    async def step(self) -> None:
        """Takes free mailboxes, and stops reading those that this engine no longer holds."""
        held = {
            each.account_id: each
            for each in await mailbox_reads.take(self._store, self._options.owner, most=self._options.mailboxes_max)
        }
        for account_id, (before, task) in list(self._readings.items()):
            now = held.get(account_id)
            if now is None or (now.epoch, now.settings) != (before.epoch, before.settings) or task.done():
                await _stop(self._readings.pop(account_id)[1])
        for account_id, each in held.items():
            if account_id not in self._readings:
                self._readings[account_id] = each, asyncio.create_task(self._read(each))

    async def stop(self) -> None:
        for _, task in self._readings.values():
            task.cancel()
        await asyncio.gather(*[task for _, task in self._readings.values()], return_exceptions=True)
        self._readings.clear()
        await mailbox_reads.leave(self._store, self._options.owner)

    async def _read(self, held: HeldMailbox) -> None:
        """Reads a mailbox until another engine takes it over or until the task is cancelled."""
        reading = Reading(self._store, held, self._make_reader, self._options, self._active, self._log)
        try:
            await reading.run()
        except (NoLongerOurs, NotFound):
            pass  # the next step finds out which engine holds the mailbox
        except Exception as error:
            if not is_trouble(error):
                task_failed("mailboxes", error, self._log)
            await asyncio.sleep(TROUBLE_S * (0.5 + chance.roll()))

    # ── e-mails in doubt ──────────────────────────────────────────────────────────────────────────────────────

    async def ask_about_doubts(self) -> None:
        """Searches the sent mail a few times for the e-mails in doubt. Not finding an e-mail proves nothing."""
        open_: set[EmailId] = set()
        for account_id in await mailbox_reads.with_doubts(self._store, list(self._readings)):
            account = await self._store.account(account_id)
            for email in await self._store.doubts(account_id):
                if email.evidence is not None:
                    continue  # the account's worker asks the provider itself
                open_.add(email.id)
                since, times = self._asked.setdefault(email.id, (clock.now(), 0))
                if times < len(ASK_AFTER) and clock.now() >= since + timedelta(seconds=ASK_AFTER[times]):
                    self._asked[email.id] = since, times + 1
                    if await self._was_sent(account, email):
                        await self._store.resolve(email.id, "sent", by="the mailbox", report=FOUND)
        self._asked = {id_: known for id_, known in self._asked.items() if id_ in open_}

    async def _was_sent(self, account: Account, email: Outgoing) -> bool:
        try:
            reader = self._make_reader(account)
            return reader is not None and await reader.was_sent(account, email)
        except (Unreadable, FairpostError):
            return False


FOUND = Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(250, "found in the mailbox's sent mail"))


class Reading:
    """Reads one mailbox on behalf of one owner."""

    def __init__(
        self,
        store: Store,
        held: HeldMailbox,
        make_reader: MakeReader,
        options: ReaderOptions,
        active: asyncio.Semaphore,
        log: Log,
    ) -> None:
        self._store, self._held, self._make_reader = store, held, make_reader
        self._options, self._active, self._log = options, active, log
        self._position: Position | None = held.position
        self._looked_at = held.looked_at
        self._failures = held.failures
        self._stuck_before: Position | None = None
        self._times_stuck = 0

    async def run(self) -> None:
        """Reads until the mailbox is taken over. Raises NoLongerOurs."""
        if self._held.due_at is not None:
            await _sleep_until(self._held.due_at)
        while True:
            account = await self._store.account(self._held.account_id)
            try:
                await self._read(account)
                return
            except Unreadable as error:
                self._pass_over(error)
                await self._rest(account, error)
            except FairpostError as error:
                lasting = Unreadable("account.read_login_refused", str(error), is_lasting=True)
                await self._rest(account, lasting)

    async def _read(self, account: Account) -> None:
        """Reads until the mailbox should no longer be read. Raises Unreadable."""
        reader = self._make_reader(account)
        if reader is None:
            return
        try:
            while True:
                async with self._active:
                    is_done = await self._look(account, reader)
                if is_done:
                    await self._wait(reader)
        finally:
            await reader.close()

    async def _look(self, account: Account, reader: MailboxReader) -> bool:
        """Reads new messages for one turn. Returns False if the turn ended before everything was read; the next turn
        continues from there.
        """
        begun_at = clock.now()
        mailbox = Mailbox(account_id=account.id, address=account.address)
        async with aclosing(reader.look(self._position, since=self._looked_at or begun_at)) as found:
            async for each in found:
                if each.raw is not None:
                    failpoint("mail_fetched")
                    await self._take_in(each.raw, mailbox, each.position)
                is_new, self._position = each.position != self._position, each.position
                if is_new and clock.now() > begun_at + TURN:
                    await mailbox_reads.advance(self._store, self._held, self._position)
                    return False
        await mailbox_reads.looked(self._store, self._held, self._position, begun_at=begun_at)
        self._looked_at, self._failures = begun_at, 0
        return True

    async def _take_in(self, raw: bytes, mailbox: Mailbox, position: Position) -> None:
        """Skips a message that cannot be stored, so that the messages after it are still read."""
        try:
            await take_in(
                self._store,
                raw,
                now=clock.now(),
                mailbox=mailbox,
                reply_stops=self._options.reply_stops,
                also=partial(mailbox_reads.advance, held=self._held, position=position),
            )
        except Exception as error:
            if not is_about_data(error):
                raise
            task_failed("mailboxes", error, self._log)

    def _pass_over(self, error: Unreadable) -> None:
        """Skips a message that the server has been unable to deliver for hours, so that the messages after it are
        read.
        """
        self._times_stuck = self._times_stuck + 1 if error.beyond == self._stuck_before else 1
        self._stuck_before = error.beyond
        if error.beyond is not None and self._times_stuck >= TIMES_STUCK_MAX:
            self._position = error.beyond
            task_failed("mailboxes", error, self._log)

    async def _wait(self, reader: MailboxReader) -> None:
        assert self._looked_at is not None
        while not await reader.wait() and clock.now() < self._looked_at + LOOK_AGAIN:
            pass

    async def _rest(self, account: Account, error: Unreadable) -> None:
        first_s = LASTING_S if error.is_lasting else FIRST_S
        rest_s = min(first_s * 2 ** min(self._failures, 10), LONGEST_S) * (0.5 + chance.roll())
        self._failures += 1
        due_at = clock.now() + timedelta(seconds=rest_s)
        reason = Reason(error.code, account=account.name, why=str(error), until=due_at)
        await mailbox_reads.failed(self._store, self._held, reason, due_at=due_at)
        await _sleep_until(due_at)


async def _sleep_until(moment: datetime) -> None:
    await asyncio.sleep(max(0.0, (moment - clock.now()).total_seconds()))


async def _stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
