"""Decide whether failed sends are the e-mail's problem or the account's. Each account's failures are stored with the
account.

A failure that concerns a recipient or a message costs the e-mail an attempt, and the account continues. A failure that
concerns the account or its provider pauses the account and costs the e-mail nothing. Replies do not always reflect this
distinction correctly, so three rules correct the result. If three different e-mails in a row get the same temporary
failure, the account is at fault. If an e-mail is deferred three times while others are accepted, that e-mail is at
fault. After a timeout with no reply, the account resumes with another e-mail, if there is one.
"""

from dataclasses import replace
from datetime import datetime

from fairpost.model.account import Rest, RestReason
from fairpost.model.email import Outgoing
from fairpost.model.ids import EmailId
from fairpost.model.quick import quick
from fairpost.model.report import Reached, Report
from fairpost.model.troubles import NO_TROUBLES, Troubles
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.replies import ReplyClass
from fairpost.policy.retries import back_off_delay, retry_delay, unreachable_delay
from fairpost.policy.verdicts import about, again_or_never, is_about_our_pace, requested_pause

IN_A_ROW = 3  # different e-mails with the same temporary failure
SUSPECT_FROM = 3  # times that an e-mail is deferred while others are accepted
SUSPECTS_MAX = 20


@quick(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The actual consequences: the account's `rest`, and the `forgiven` e-mails that get one attempt back."""

    verdict: Verdict
    troubles: Troubles
    rest: Rest | None = None
    forgiven: tuple[EmailId, ...] = ()


def weigh(
    troubles: Troubles, email: Outgoing, verdict: Verdict, report: Report, *, attempts: int, now: datetime, roll: float
) -> Weighed:
    """Return what an attempt means, given the previous attempts."""
    match verdict:
        case Sent() | Bounced():
            return Weighed(verdict=verdict, troubles=_passed(troubles, email.id))
        case Retry() | Failed() | InDoubt():
            return _refused(troubles, email, verdict, report, now=now, roll=roll)
        case Deferred():
            return _put_off(troubles, email, verdict, report, attempts=attempts, now=now, roll=roll)
        case Untouched(due_at) if due_at is not None:  # this e-mail's key is locked; other e-mails are still sent
            return Weighed(verdict=verdict, troubles=troubles)
        case Untouched():
            met, rest = _rested(troubles, report, is_throttled=is_about_our_pace(report), now=now, roll=roll)
            return Weighed(verdict=verdict, troubles=met, rest=rest)


def _passed(troubles: Troubles, email_id: EmailId) -> Troubles:
    put_off = {id_: n for id_, n in troubles.put_off.items() if id_ != email_id}
    return Troubles(put_off=put_off) if put_off else NO_TROUBLES


def _refused(
    troubles: Troubles,
    email: Outgoing,
    verdict: Retry | Failed | InDoubt,
    report: Report,
    *,
    now: datetime,
    roll: float,
) -> Weighed:
    if report.is_silent:
        return _silent(troubles, email, verdict, report, now=now, roll=roll)
    answer = _answer(report)
    if answer is ReplyClass.ACCEPTED:  # some of the e-mail's recipients received it
        return Weighed(verdict=verdict, troubles=_passed(troubles, email.id))
    if answer is None:
        return Weighed(verdict=verdict, troubles=replace(troubles, unreachable=0, answer=None, refused=()))
    before = troubles.refused if answer == troubles.answer else ()
    refused = (*(id_ for id_ in before if id_ != email.id), email.id)
    met = replace(troubles, answer=str(answer), refused=refused[-IN_A_ROW:])
    if len(refused) < IN_A_ROW:
        return Weighed(verdict=verdict, troubles=met)
    is_told = report.reply is not None
    met, rest = _rested(met, report, is_throttled=is_told, now=now, roll=roll, email=email)
    # In a longer series, the earlier e-mails have already regained their attempts.
    earlier = refused[:-1] if len(before) < IN_A_ROW else ()
    if _may_still_arrive(email, verdict):
        return Weighed(verdict=Deferred(None), troubles=met, rest=rest, forgiven=earlier)
    return Weighed(verdict=verdict, troubles=met, rest=rest, forgiven=(*earlier, email.id))


def _may_still_arrive(email: Outgoing, verdict: Verdict) -> bool:
    """Return whether all recipients are still waiting for the e-mail."""
    match verdict:
        case Retry(_, remaining, bounced):
            return not bounced and set(remaining) == set(email.envelope)
        case Failed():
            return True
        case _:
            return False


def _put_off(
    troubles: Troubles,
    email: Outgoing,
    verdict: Deferred,
    report: Report,
    *,
    attempts: int,
    now: datetime,
    roll: float,
) -> Weighed:
    times = troubles.put_off.get(email.id, 0) + troubles.has_passed
    kept = [(id_, n) for id_, n in troubles.put_off.items() if id_ != email.id]
    put_off = dict([*kept, (email.id, times)][-SUSPECTS_MAX:])
    if times >= SUSPECT_FROM and troubles.has_passed:
        own = again_or_never(email, email.envelope, (), attempts=attempts, now=now, roll=roll)
        return Weighed(verdict=own, troubles=replace(troubles, put_off=put_off))
    is_told = is_about_our_pace(report)
    met, rest = _rested(
        replace(troubles, put_off=put_off), report, is_throttled=is_told, now=now, roll=roll, email=email
    )
    if times > 1:  # this e-mail is probably to blame, so the others are sent first
        verdict = replace(verdict, due_at=now + retry_delay(email.email_class, attempts=times - 1, roll=roll))
    return Weighed(verdict=verdict, troubles=met, rest=rest)


def _silent(
    troubles: Troubles, email: Outgoing, verdict: Verdict, report: Report, *, now: datetime, roll: float
) -> Weighed:
    """Handle an answer that did not arrive in time. The next e-mail shows whether the e-mail or the account is to
    blame.
    """
    if troubles.last == email.id:  # this e-mail may be to blame, so only a different e-mail can lengthen the rest
        troubles = replace(troubles, unreachable=max(0, troubles.unreachable - 1))
    troubles = replace(troubles, refused=(), answer=None)
    met, rest = _rested(troubles, report, is_throttled=False, now=now, roll=roll, email=email)
    return Weighed(verdict=verdict, troubles=met, rest=rest)


def _rested(
    troubles: Troubles, report: Report, *, is_throttled: bool, now: datetime, roll: float, email: Outgoing | None = None
) -> tuple[Troubles, Rest]:
    """Pause the account, longer each time: minutes if it was throttled, seconds if its server has a problem."""
    if is_throttled:
        met = replace(troubles, throttle_count=troubles.throttle_count + 1)
        reason, delay = RestReason.BACK_OFF, back_off_delay(times=met.throttle_count, roll=roll)
    else:
        met = replace(troubles, unreachable=troubles.unreachable + 1, is_barred=report.is_barred)
        reason, delay = RestReason.UNREACHABLE, unreachable_delay(times=met.unreachable, roll=roll)
    met = replace(met, has_passed=False, last=email.id if email is not None else met.last)
    words = f"{report.reply.code} {report.reply.text}" if report.reply else report.error
    return met, Rest(requested_pause(report, now=now) or now + delay, reason, words)


def _answer(report: Report) -> str | None:
    """Return a key that is identical for identical temporary failures.

    Return None if the failure is not temporary or concerns only this recipient.
    """
    if report.reached in (Reached.BEFORE_DOT, Reached.AFTER_DOT):
        return "cut"
    found = about(report)
    if found is None or found.is_its_own:
        return None
    return found.class_ if found.retry or found.class_ is ReplyClass.ACCEPTED else None
