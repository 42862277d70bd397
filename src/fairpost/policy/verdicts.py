"""Decide the consequences of an attempt for the e-mail and the account. `replies` interprets the reply.

An address that no longer exists bounces and is suppressed. Temporary failures are retried later. After a failure on our
side, the e-mail is requeued without losing an attempt, and the account waits or stops.
"""

from datetime import datetime
from enum import StrEnum
from typing import assert_never

from fairpost.model.dkim import LockedKey
from fairpost.model.email import Outgoing
from fairpost.model.reason import Reason
from fairpost.model.report import Channel, Reached, Reply, Report, Step
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.replies import Meaning, ReplyClass, Scope, meaning
from fairpost.policy.retries import locked_delay, retry_delay


class _Fate(StrEnum):
    """The outcome for one recipient."""

    GOT_IT = "got it"
    DEAD = "dead"
    LATER = "later"
    NEVER = "never"


def judge(email: Outgoing, report: Report, *, attempts: int, now: datetime, roll: float) -> Verdict:
    """Return the consequence of an attempt. `attempts` counts the attempts for this e-mail, including this one."""
    match report.reached:
        case Reached.UNTOUCHED:
            return Untouched(due_at=now + locked_delay(roll=roll) if report.locked_key else None)
        case Reached.AFTER_DOT:
            return InDoubt()
        case Reached.UNSENDABLE:
            return Failed()
        case Reached.BEFORE_DOT:
            dead = tuple(a for a in email.envelope if _fate_of(report, a) is _Fate.DEAD)
            living = tuple(a for a in email.envelope if a not in dead)
            if not living:
                return Bounced(dead)
            return again_or_never(email, living, dead, attempts=attempts, now=now, roll=roll)
        case Reached.REPLIED:
            return _by_replies(email, report, attempts=attempts, now=now, roll=roll)
        case _:
            assert_never(report.reached)


def suspend_reason(report: Report) -> Reason | None:
    """Return why the account must be suspended, which is the case if its server no longer accepts its login. None means
    that waiting is enough.
    """
    found = about(report)
    if found is None or found.class_ is not ReplyClass.AUTH or found.retry:
        return None
    assert report.reply is not None
    return Reason("account.authentication_failed", reply=f"{report.reply.code} {report.reply.text}")


def email_reason(report: Report) -> Reason:
    """Return why this attempt did not send the e-mail, or why that is unknown."""
    if report.locked_key is not None:
        return key_locked(report.locked_key)
    found = about(report)
    if found is None or report.reply is None:
        said = report.reply.text if report.reply else report.error
        return Reason(_BY_REACH[report.reached], error=said)
    told = [(found, report.reply)]
    if found.class_ is ReplyClass.ACCEPTED:  # not all recipients were accepted, so another reply is used
        each = [(_meaning_of(report, reply, Step.RCPT), reply) for reply in report.recipients.values()]
        told = [one for one in each if one[0].class_ is not ReplyClass.ACCEPTED] or told
    meant, reply = told[0]
    return Reason(meant.code, code=reply.code, reply=reply.text)


def key_locked(key: LockedKey) -> Reason:
    return Reason("domain.key_locked", workspace=key.workspace, domain=key.domain, selector=key.selector)


_BY_REACH = {
    Reached.UNTOUCHED: "email.server_unreachable",
    Reached.BEFORE_DOT: "email.connection_lost",
    Reached.AFTER_DOT: "email.outcome_unknown",
    Reached.UNSENDABLE: "email.unsendable",
    Reached.REPLIED: "email.refused",
}


def account_rejection(report: Report) -> str | None:
    """Return the refusal if it concerns who we are or how we send and therefore affects every e-mail."""
    found = about(report)
    is_one = found is not None and found.class_ is ReplyClass.POLICY_SENDER and report.reply is not None
    return f"{report.reply.code} {report.reply.text}" if is_one and report.reply else None


def is_rejected(report: Report) -> bool:
    """Return whether the e-mail was refused because of its content, its sender or a policy, which is rare for
    well-behaved senders.
    """
    found = about(report)
    return found is not None and found.class_ in (ReplyClass.POLICY_SENDER, ReplyClass.MESSAGE)


def requested_pause(report: Report, *, now: datetime) -> datetime | None:
    """Return the time until which the server asks not to be contacted, if it names one."""
    if report.retry_at is not None:
        return report.retry_at
    found = about(report)
    if found is None or found.wait is None:
        return None
    return found.wait if isinstance(found.wait, datetime) else now + found.wait


def is_about_our_pace(report: Report) -> bool:
    found = about(report)
    return found is not None and found.class_ is ReplyClass.RATE_LIMIT and found.scope is not Scope.RECIPIENT


def about(report: Report) -> Meaning | None:
    """Return the meaning of the reply that ended the attempt. Return None if there was no reply, or if it did not come
    from a server.
    """
    if report.reply is None or report.reached is Reached.UNSENDABLE:
        return None
    return _meaning_of(report, report.reply, report.step)


def _is_taken_by_all(each: dict[str, _Fate]) -> bool:
    """Return whether the e-mail was accepted for all recipients. This function is a fast path for the common case."""
    return all(fate is _Fate.GOT_IT for fate in each.values())


def _is_about_the_server(report: Report, found: Meaning) -> bool:
    """Return whether the server itself has a problem that arose before it saw the e-mail's recipients or content.

    An API's reply states this explicitly.
    """
    is_trouble = found.class_ is ReplyClass.TRANSIENT and found.scope in (Scope.PROVIDER, Scope.NETWORK)
    return is_trouble and (report.channel is not Channel.SMTP or report.step is Step.MAIL)


def _meaning_of(report: Report, reply: Reply, step: Step | None) -> Meaning:
    return meaning(reply, phase=step, channel=report.channel)


def _fate_of(report: Report, address: str) -> _Fate | None:
    """Return the outcome for a recipient according to the reply for that recipient, or None if there is no such
    reply.
    """
    reply = report.recipients.get(address)
    return _fate(_meaning_of(report, reply, Step.RCPT)) if reply is not None else None


def _fate(found: Meaning) -> _Fate:
    if found.class_ is ReplyClass.ACCEPTED:
        return _Fate.GOT_IT
    if found.suppress_recipient:
        return _Fate.DEAD
    return _Fate.LATER if found.retry else _Fate.NEVER


def _by_replies(email: Outgoing, report: Report, *, attempts: int, now: datetime, roll: float) -> Verdict:
    ended = about(report)
    assert ended is not None, "a transport that received an answer must report it"
    end = _fate(ended)
    each = {a: _fate_of(report, a) or end for a in email.envelope}
    if ended.class_ is ReplyClass.ACCEPTED and _is_taken_by_all(each):
        return Sent()
    is_login = ended.class_ is ReplyClass.AUTH and ended.retry
    is_about_us = is_about_our_pace(report) or is_login or _is_about_the_server(report, ended)
    if is_about_us and not {_Fate.DEAD, _Fate.NEVER} & set(each.values()):
        return Deferred(requested_pause(report, now=now))
    if suspend_reason(report) is not None and not report.recipients:
        return Deferred(None)
    if end is not _Fate.GOT_IT:  # recipients that were accepted before the failure did not receive the e-mail either
        each = {a: end if fate is _Fate.GOT_IT else fate for a, fate in each.items()}
    dead = tuple(a for a, fate in each.items() if fate is _Fate.DEAD)
    later = tuple(a for a, fate in each.items() if fate is _Fate.LATER)
    if later:
        someone_got_it = _Fate.GOT_IT in each.values()
        verdict = again_or_never(email, later, dead, attempts=attempts, now=now, roll=roll)
        return Sent(dead) if someone_got_it and isinstance(verdict, Failed | Bounced) else verdict
    if _Fate.GOT_IT in each.values():
        return Sent(dead)
    return Bounced(dead) if dead else Failed()


def again_or_never(
    email: Outgoing,
    remaining: tuple[str, ...],
    bounced: tuple[str, ...],
    *,
    attempts: int,
    now: datetime,
    roll: float,
) -> Retry | Failed | Bounced:
    """Decide according to the e-mail's own retry plan."""
    if attempts >= email.attempts_max:
        return Bounced(bounced) if bounced else Failed()
    delay = retry_delay(email.email_class, attempts=attempts, roll=roll)
    return Retry(now + delay, remaining, bounced)
