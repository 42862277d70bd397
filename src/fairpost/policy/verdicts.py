"""What follows from an attempt, for the e-mail and for the account. What a reply means is read in `replies`.

An address that exists no more bounces, and is never written to again. What passes is tried again later. What is about us
and not about the e-mail costs it nothing: it goes back, and the account waits or stops.
"""

from datetime import datetime
from enum import StrEnum
from typing import assert_never

from fairpost.model.email import Outgoing
from fairpost.model.reason import Reason
from fairpost.model.report import Channel, Reached, Reply, Report, Step
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.replies import Meaning, ReplyClass, Scope, meaning
from fairpost.policy.retries import retry_delay


class _Fate(StrEnum):
    """Of one recipient."""

    GOT_IT = "got it"
    DEAD = "dead"
    LATER = "later"
    NEVER = "never"


def judge(email: Outgoing, report: Report, *, attempts: int, now: datetime, roll: float) -> Verdict:
    """The consequence of one attempt, the `attempts`-th of this e-mail."""
    match report.reached:
        case Reached.UNTOUCHED:
            return Untouched()
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
    """Why the account must be suspended: its server knows it no more. None: it may just wait."""
    found = about(report)
    if found is None or found.class_ is not ReplyClass.AUTH or found.retry:
        return None
    assert report.reply is not None
    return Reason("account.authentication_failed", reply=f"{report.reply.code} {report.reply.text}")


def email_reason(report: Report) -> Reason:
    """Why an e-mail was not sent by this attempt, or why that is not known."""
    found = about(report)
    if found is None or report.reply is None:
        said = report.reply.text if report.reply else report.error
        return Reason(_BY_REACH[report.reached], error=said)
    told = [(found, report.reply)]
    if found.class_ is ReplyClass.ACCEPTED:  # not by all: what one of the others was told
        each = [(_meaning_of(report, reply, Step.RCPT), reply) for reply in report.recipients.values()]
        told = [one for one in each if one[0].class_ is not ReplyClass.ACCEPTED] or told
    meant, reply = told[0]
    return Reason(meant.code, code=reply.code, reply=reply.text)


_BY_REACH = {
    Reached.UNTOUCHED: "email.server_unreachable",
    Reached.BEFORE_DOT: "email.connection_lost",
    Reached.AFTER_DOT: "email.outcome_unknown",
    Reached.UNSENDABLE: "email.unsendable",
    Reached.REPLIED: "email.refused",
}


def account_rejection(report: Report) -> str | None:
    """A refusal of who we are or how we send, which meets every e-mail alike. None: there is none."""
    found = about(report)
    is_one = found is not None and found.class_ is ReplyClass.POLICY_SENDER and report.reply is not None
    return f"{report.reply.code} {report.reply.text}" if is_one and report.reply else None


def is_rejected(report: Report) -> bool:
    """Refused for its content, a policy or who sends it: what a sender who behaves seldom hears."""
    found = about(report)
    return found is not None and found.class_ in (ReplyClass.POLICY_SENDER, ReplyClass.MESSAGE)


def requested_pause(report: Report, *, now: datetime) -> datetime | None:
    """Until when the server wants to be left alone, where it says so."""
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
    """What the reply that ended the attempt means; None where there was none, or where it is not a server's word on us."""
    if report.reply is None or report.reached is Reached.UNSENDABLE:
        return None
    return _meaning_of(report, report.reply, report.step)


def _is_taken_by_all(each: dict[str, _Fate]) -> bool:
    """The usual case, and the quick one."""
    return all(fate is _Fate.GOT_IT for fate in each.values())


def _is_about_the_server(report: Report, found: Meaning) -> bool:
    """It is in trouble, and had not heard whom or what this e-mail is for; an API says which it is."""
    is_trouble = found.class_ is ReplyClass.TRANSIENT and found.scope in (Scope.PROVIDER, Scope.NETWORK)
    return is_trouble and (report.channel is not Channel.SMTP or report.step is Step.MAIL)


def _meaning_of(report: Report, reply: Reply, step: Step | None) -> Meaning:
    return meaning(reply, phase=step, channel=report.channel)


def _fate_of(report: Report, address: str) -> _Fate | None:
    """By the recipient's own reply; None where there is none."""
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
    assert ended is not None, "a transport that was answered reports the answer"
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
    if end is not _Fate.GOT_IT:  # who was accepted before the end did not get it either
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
    """By the e-mail's own plan."""
    if attempts >= email.attempts_max:
        return Bounced(bounced) if bounced else Failed()
    delay = retry_delay(email.email_class, attempts=attempts, roll=roll)
    return Retry(now + delay, remaining, bounced)
