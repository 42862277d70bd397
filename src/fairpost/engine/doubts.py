"""What becomes of an e-mail in doubt when nobody looks: the provider is asked, or its own policy decides, once, whoever
notices first."""

from dataclasses import replace

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached
from fairpost.model.states import DoubtPolicy
from fairpost.policy.retries import retry_delay
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.port import DraftingTransport, Fate, Permission


async def resolve_doubts(store: Store, account_id: AccountId) -> None:
    """`resend` waits as after any failed attempt; `hold`, or no attempt left, is left to people. Nobody guesses where a
    provider can be asked."""
    for email in await store.doubts(account_id):
        can_be_asked = email.evidence is not None and "unknown" not in email.evidence
        if email.on_doubt is DoubtPolicy.RESEND and email.attempts < email.attempts_max and not can_be_asked:
            delay = retry_delay(email.email_class, attempts=email.attempts, roll=chance.roll())
            await store.resolve(email.id, "resend", by="policy", due_at=clock.now() + delay)


async def ask_about_doubts(
    store: Store, transport: DraftingTransport, account: Account, permission: Permission
) -> bool:
    """Whoever holds the account's lease asks its provider what became of each. False: some are not known yet."""
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
                is_done = False  # it could not be asked
            case Fate.UNKNOWN:
                await store.leave_in_doubt(email.id, answer.report.error or "the provider cannot say")
    return is_done


async def _send_after_all(
    store: Store, transport: DraftingTransport, account: Account, email: Outgoing, permission: Permission
) -> bool:
    """The very draft that was begun: a provider sends it once, however often it is told to. False: not known yet."""
    assert email.evidence is not None
    checked = await store.recheck(email.id)
    if checked.verdict == "held":
        return False
    if checked.verdict != "begun":  # nobody may get it any more: the next claim ends it with the reason
        await transport.discard(account, email.evidence)
        await store.resolve(email.id, "resend", by="the provider", due_at=clock.now())
        return True
    report = await transport.send_draft(account, without(email, checked.skip), email.evidence, permission=permission)
    failpoint("after_sending_a_doubt")
    if report.reached in (Reached.AFTER_DOT, Reached.UNTOUCHED):
        return False
    if report.reply is not None and 200 <= report.reply.code < 300:
        await store.resolve(email.id, "sent", by="the provider", report=report)
    else:  # refused: it was never sent, and begins anew
        due_at = report.retry_at or clock.now()
        await store.resolve(email.id, "resend", by="the provider", due_at=due_at, report=report)
    return True


def without(email: Outgoing, skip: tuple[str, ...]) -> Outgoing:
    """Those who must not get it any more are left out."""
    return replace(email, envelope=tuple(a for a in email.envelope if a not in skip)) if skip else email
