"""What a reply means for the e-mail. The one place where codes are read.

By enhanced status code (RFC 3463) where the server gives one, else by the reply code. A full mailbox is soft
whatever its code; a 5xx about the sender or the content is no bounce of the recipient.
"""

import re
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from fairpost.model.email import Outgoing
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.verdict import Bounced, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.policy.retries import retry_delay


class Meaning(StrEnum):
    ACCEPTED = "accepted"
    TEMPORARY = "temporary"
    NO_SUCH_RECIPIENT = "no such recipient"
    REFUSED = "refused"


_ENHANCED = re.compile(r"\s*([245])\.(\d{1,3})\.(\d{1,3})\b")
_FULL = re.compile(r"mailbox (is )?full|over ?quota|quota exceeded", re.IGNORECASE)


def meaning(reply: Reply) -> Meaning:
    if 200 <= reply.code < 300:
        return Meaning.ACCEPTED
    enhanced = _ENHANCED.match(reply.text)
    subject_detail = (int(enhanced[2]), int(enhanced[3])) if enhanced else None
    if reply.code < 500 or subject_detail == (2, 2) or _FULL.search(reply.text):
        return Meaning.TEMPORARY
    if subject_detail is None:
        return Meaning.NO_SUCH_RECIPIENT if reply.code in (550, 551, 553) else Meaning.REFUSED
    # 5.1.x: the address; 5.1.7 and 5.1.8 are the sender's. 5.2.1: the mailbox is disabled.
    dead = (subject_detail[0] == 1 and subject_detail[1] not in (7, 8)) or subject_detail == (2, 1)
    return Meaning.NO_SUCH_RECIPIENT if dead else Meaning.REFUSED


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
            dead = tuple(a for a in email.envelope if _is_dead(report.recipients.get(a)))
            living = tuple(a for a in email.envelope if a not in dead)
            if not living:
                return Bounced(dead)
            return _again_or_never(email, living, dead, attempts=attempts, now=now, roll=roll)
        case Reached.REPLIED:
            return _by_replies(email, report, attempts=attempts, now=now, roll=roll)
        case _:
            assert_never(report.reached)


def suspicion(report: Report) -> str | None:
    """Why the account must be suspended: its server refused the login for good. None: it may just rest."""
    refused = report.step is Step.AUTH and report.reply is not None and report.reply.code >= 500
    return (
        f"its server refused the login: {report.reply.code} {report.reply.text}" if refused and report.reply else None
    )


def _is_dead(reply: Reply | None) -> bool:
    return reply is not None and meaning(reply) is Meaning.NO_SUCH_RECIPIENT


def _by_replies(email: Outgoing, report: Report, *, attempts: int, now: datetime, roll: float) -> Verdict:
    assert report.reply is not None, "a transport that was answered reports the answer"
    end = meaning(report.reply)
    each = {a: meaning(report.recipients[a]) if a in report.recipients else end for a in email.envelope}
    if end is not Meaning.ACCEPTED:  # who was accepted before the end did not get it either
        each = {a: end if m is Meaning.ACCEPTED else m for a, m in each.items()}
    dead = tuple(a for a, m in each.items() if m is Meaning.NO_SUCH_RECIPIENT)
    later = tuple(a for a, m in each.items() if m is Meaning.TEMPORARY)
    if later:
        someone_got_it = Meaning.ACCEPTED in each.values()
        verdict = _again_or_never(email, later, dead, attempts=attempts, now=now, roll=roll)
        return Sent(dead) if someone_got_it and isinstance(verdict, Failed | Bounced) else verdict
    if Meaning.ACCEPTED in each.values():
        return Sent(dead)
    return Bounced(dead) if dead else Failed()


def _again_or_never(
    email: Outgoing,
    remaining: tuple[str, ...],
    bounced: tuple[str, ...],
    *,
    attempts: int,
    now: datetime,
    roll: float,
) -> Verdict:
    if attempts >= email.attempts_max:
        return Bounced(bounced) if bounced else Failed()
    delay = retry_delay(email.email_class, attempts=attempts, roll=roll)
    return Retry(now + delay, remaining, bounced)
