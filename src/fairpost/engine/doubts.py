"""Resolve e-mails in doubt automatically: ask the provider, or apply the e-mail's own policy.

Each e-mail is resolved once, no matter which worker notices it first.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached
from fairpost.policy.retries import retry_delay
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.port import DraftingTransport, Fate, Permission

ASK_AGAIN = timedelta(seconds=10)  # how soon to ask again about an e-mail in doubt


class Doubts:
    """One account's e-mails in doubt, for the holder of its lease.

    Keeps the time at which to ask the provider next, if it can be asked.
    """

    def __init__(
        self,
        store: Store,
        account: Account,
        transport: DraftingTransport | None,
        *,
        permission: Permission,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._account = account
        self._transport = transport
        self._permission = permission
        self._now = now
        self.ask_at: datetime | None = None

    def until_asked(self, until: datetime | None) -> datetime | None:
        """Return the given moment or the next time to ask, whichever is earlier. Return None if neither exists."""
        return min((moment for moment in (until, self.ask_at) if moment is not None), default=None)

    async def resolve_if_due(self) -> None:
        if self.ask_at is not None and self._now() >= self.ask_at:
            await self.resolve()

    async def resolve(self) -> None:
        """Ask the provider if it can be asked; otherwise apply each e-mail's policy."""
        self.ask_at = None
        if self._transport is not None:
            is_done = await ask_about_doubts(self._store, self._transport, self._account, self._permission)
            self.ask_at = None if is_done else self._now() + ASK_AGAIN
        await resolve_doubts(self._store, self._account.id)

    async def resolve_new(self) -> None:
        """Resolve new doubts without asking the provider immediately."""
        self.ask_at = self._now() + ASK_AGAIN if self._transport is not None else None
        await resolve_doubts(self._store, self._account.id)


async def resolve_doubts(store: Store, account_id: AccountId | None = None) -> None:
    """Apply the policy of each e-mail in doubt, unless the provider can be asked or the mailbox has yet to be searched.

    With `resend`, the e-mail waits as it would after any failed attempt. With `hold`, or if no attempts are left, a
    manual decision is needed.
    """
    waited = await store.doubts_to_resend(account_id)
    for email in await store.load(list(waited)):
        delay = retry_delay(email.email_class, attempts=email.attempts, roll=chance.roll())
        rest = max(timedelta(), delay - waited[email.id])
        await store.resolve(email.id, "resend", by="policy", due_at=clock.now() + rest)


async def ask_about_doubts(
    store: Store, transport: DraftingTransport, account: Account, permission: Permission
) -> bool:
    """Ask the provider about each e-mail in doubt. Return False if the outcome of any such e-mail is still unknown.

    Only the worker that holds the account's lease may call this.
    """
    is_done = True
    for email in await store.doubts(account.id):
        if email.evidence is None or "unknown" in email.evidence:
            continue
        answer = await transport.ask(account, email, email.evidence)
        failpoint("after_asking")
        match answer.fate:
            case Fate.SENT:
                await store.resolve(email.id, "sent", by="the provider", report=answer.report)
            case Fate.UNSENT:
                is_done = await _send_after_all(store, transport, account, email, permission) and is_done
            case Fate.UNKNOWN if answer.report.reached is Reached.UNTOUCHED:
                is_done = False  # the provider could not be reached
            case Fate.UNKNOWN:
                await store.leave_in_doubt(email.id, answer.report.error)
    return is_done


async def _send_after_all(
    store: Store, transport: DraftingTransport, account: Account, email: Outgoing, permission: Permission
) -> bool:
    """Send the draft, which the provider has reported as unsent. Return False if the result is still unknown.

    A provider sends a draft only once, no matter how often it is asked to send it.
    """
    assert email.evidence is not None
    checked = await store.recheck(email.id)
    if checked.verdict == "held":
        return False
    if checked.verdict != "begun":  # no recipient is left: the next claim fails the e-mail and records the reason
        await transport.discard(account, email.evidence)
        await store.resolve(email.id, "resend", by="the provider", due_at=clock.now())
        return True
    report = await transport.send_draft(account, without(email, checked.skip), email.evidence, permission=permission)
    failpoint("after_sending_a_doubt")
    if report.reached in (Reached.AFTER_DOT, Reached.UNTOUCHED):
        return False
    if report.reply is not None and 200 <= report.reply.code < 300:
        await store.resolve(email.id, "sent", by="the provider", report=report)
    else:  # refused: the e-mail was never sent, so sending starts over
        due_at = report.retry_at or clock.now()
        await store.resolve(email.id, "resend", by="the provider", due_at=due_at, report=report)
    return True


def without(email: Outgoing, skip: tuple[str, ...]) -> Outgoing:
    """Return the e-mail without the recipients who must no longer receive it."""
    return replace(email, envelope=tuple(a for a in email.envelope if a not in skip)) if skip else email
