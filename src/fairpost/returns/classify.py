"""Classifies incoming mail: a report, a complaint, an auto-reply, an unsubscribe request, a reply, or something else.

The classification is a pure function from bytes to a value. Reports on an address follow the same rules as server
replies (`policy.replies`). A bounce after acceptance therefore has the same meaning as a refusal during the SMTP
conversation.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum

from fairpost.model.report import Reply, Step
from fairpost.policy.replies import Meaning, ReplyClass, Scope, is_switched_off, meaning
from fairpost.policy.reply_rules import AFTER_RECIPIENTS
from fairpost.returns import people
from fairpost.returns.addresses import CHARS_MAX
from fairpost.returns.complaints import OF_PEOPLE, read_complaint
from fairpost.returns.delivery_status import Group, groups_in, groups_in_text
from fairpost.returns.mail import MESSAGES, Headers, Mail, read_mail
from fairpost.returns.notices import (
    Failed,
    failed_in,
    is_from_daemon,
    parted,
    read_notice,
    sender_of,
    sounds_like_report,
)
from fairpost.returns.notifications import read_notification
from fairpost.returns.replies_in_text import Said, said_in, status_of, step_in


class Kind(StrEnum):
    REPORT = "report"
    COMPLAINT = "complaint"
    AUTO_REPLY = "auto_reply"
    REPLY = "reply"
    UNSUBSCRIBE = "unsubscribe"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a message says about an address, or what the owner of that address wrote."""

    address: str
    code: str  # the reason code
    class_: str
    scope: str
    retry: bool  # whether the report calls the failure temporary
    suppress_recipient: bool
    why: str
    status: str = ""
    aliases: tuple[str, ...] = ()  # the addresses to which this address was rewritten in transit
    is_final: bool = True  # there will be no more attempts
    is_confirmed: bool = True  # False: the address seems dead, but a single report is not enough to suppress it
    reply: str = ""  # the server's reply, or as much of it as the report includes
    kind: str = ""  # the type of feedback report


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    kind: Kind
    recipients: tuple[Finding, ...] = ()
    back_on: date | None = None  # the first day after an absence
    returned: Headers | None = None  # headers of the message that a report or complaint returns
    message_ids: tuple[str, ...] = ()  # IDs of the e-mails that the message may be about, most likely first
    sender: str = ""
    token: str = ""  # e-mail token, from the subject of an unsubscribe request


MESSAGE_IDS_MAX = 20
RECIPIENTS_MAX = 100
REPLY_CHARS_MAX = 500
_FULL = "email.mailbox_full"
_OF_MAILBOXES = frozenset({"email.address_unknown", "email.address_refused"})
_DELIVERED = frozenset({"delivered", "relayed", "expanded", "deliverable"})


_DELAYED = re.compile(
    r"will (?:be retried|continue|keep trying|retry)|not (?:yet )?been delivered yet|not yet been delivered|delivery (?:is |has been |was )?delayed"
    r"|delayed (?:\d+|for)|warning message only|(?:do|need) not (?:need to )?resend your message",
    re.IGNORECASE,
)  # phrases that indicate that attempts will continue

_EXPIRED = re.compile(
    r"retry time(?:out)? (?:exceeded|not reached)|have been failing for a long time|could not be delivered for \d+ (?:day|hour)",
    re.IGNORECASE,
)  # Exim's phrases for giving up after temporary errors


def classify(raw: bytes, *, now: datetime) -> Returned:
    mail = read_mail(raw)
    results = (read(mail, now) for read in _READERS)
    found = next((each for each in results if each), Returned(kind=Kind.OTHER))
    recipients = [each for each in found.recipients if len(each.address) <= CHARS_MAX][:RECIPIENTS_MAX]
    ids = _message_ids(mail, found.returned)
    return replace(found, recipients=tuple(recipients), message_ids=ids, sender=sender_of(mail))


def _message_ids(mail: Mail, returned: Headers | None) -> tuple[str, ...]:
    """Returns the IDs of the e-mails that a message may be about: the returned message, the message being answered, and
    earlier ones, most recent first.
    """
    values = [returned[name] for name in ("message-id", "x-google-original-message-id")] if returned else []
    values += [mail.headers["in-reply-to"], " ".join(reversed(mail.headers["references"].split()))]
    found = (each for value in values for each in re.findall(r"<[^<>\s]{1,900}>", value))
    return tuple(dict.fromkeys(found))[:MESSAGE_IDS_MAX]


def _notification(mail: Mail, now: datetime) -> Returned | None:
    found = read_notification(mail)
    if found is None:
        return None
    if found.is_complaint:
        return _complained([address for address, *_ in found.recipients], found.feedback_type, None)
    return Returned(
        kind=Kind.REPORT,
        recipients=tuple(
            _finding(address, said_in(said, status=status_of(status)), action=action)
            for address, action, status, said in found.recipients
        ),
    )


def _complaint(mail: Mail, now: datetime) -> Returned | None:
    found = read_complaint(mail)
    return _complained(found.addresses, found.feedback_type, read_notice(mail).returned) if found else None


def _complained(addresses: list[str], feedback_type: str, returned: Headers | None) -> Returned:
    is_of_people = feedback_type in OF_PEOPLE
    findings = tuple(
        Finding(
            address=address,
            code="email.complained" if is_of_people else "email.feedback",
            class_="complaint",
            scope=Scope.RECIPIENT if is_of_people else Scope.ACCOUNT,
            retry=False,
            suppress_recipient=is_of_people,
            kind=feedback_type,
            why="The recipient reported the e-mail as spam."
            if is_of_people
            else f"Feedback of type {feedback_type!r}, which is not a complaint.",
        )
        for address in addresses
    )
    return Returned(kind=Kind.COMPLAINT, recipients=findings, returned=returned)


def _delivery_report(mail: Mail, now: datetime) -> Returned | None:
    groups = groups_in(mail)
    if not groups and is_from_daemon(mail) and (inner := _inner_report(mail)):
        return _delivery_report(inner, now)
    notice = read_notice(mail)
    if not groups and sounds_like_report(mail, notice):
        groups = groups_in_text(mail)
    if len(groups) == 1 and not groups[0].addresses and (failed := failed_in(mail, notice)):
        groups = [groups[0].of(failed[0].address)]
    named = [group for group in groups if group.addresses]
    if not named:
        return None
    told = {failed.address: failed.text for failed in parted(notice.text, [group.addresses[-1] for group in named])}
    found = tuple(_of_group(group, told[group.addresses[-1]]) for group in named)
    return Returned(kind=Kind.REPORT, recipients=found, returned=notice.returned)


def _inner_report(mail: Mail) -> Mail | None:
    """Returns a report that a program forwarded as a whole."""
    inner = (part.message() for part in mail.parts if part.kind in MESSAGES)
    return next((each for each in inner if any(each.of_kind("message/delivery-status"))), None)


def _receipt(mail: Mail, now: datetime) -> Returned | None:
    is_receipt = "disposition-notification" in mail.parameters.lower() or any(
        mail.of_kind("message/disposition-notification")
    )
    return Returned(kind=Kind.OTHER) if is_receipt else None


def _notice_of_daemon(mail: Mail, now: datetime) -> Returned | None:
    return _notice(mail, now) if is_from_daemon(mail) or "delivery-status" in mail.parameters.lower() else None


def _notice(mail: Mail, now: datetime) -> Returned | None:
    notice = read_notice(mail)
    if not sounds_like_report(mail, notice):
        return None
    subject = mail.headers.decoded("subject")
    action = "delayed" if _DELAYED.search(subject) or _DELAYED.search(notice.text[:2_000]) else "failed"
    failed = failed_in(mail, notice)
    above = _above(notice.text, failed)
    found = tuple(
        _finding(
            each.address,
            above if above.reply.code and not said.reply.code else said,
            action=action,
            more=(notice.text, subject),
        )
        for each in failed
        for said in (said_in(each.text),)
    )
    return Returned(kind=Kind.REPORT, recipients=found, returned=notice.returned)


def _above(text: str, failed: list[Failed]) -> Said:
    """Returns the server's reply if it precedes the addresses, as in the reports of some programs."""
    return said_in(text.partition(failed[0].text)[0] if failed and failed[0].text else "")


def _auto_reply(mail: Mail, now: datetime) -> Returned | None:
    return _automatic(mail, now) if people.is_automatic(mail) else None


def _answer_of_program(mail: Mail, now: datetime) -> Returned | None:
    return _automatic(mail, now) if people.has_no_way_back(mail.headers) else None


def _automatic(mail: Mail, now: datetime) -> Returned:
    back_on = people.away_until(mail, today=people.reference_day(mail, now))
    return Returned(
        kind=Kind.AUTO_REPLY,
        recipients=_from(mail, "email.auto_replied", "The recipient's mailbox sent an automatic reply."),
        back_on=back_on,
    )


def _request(mail: Mail, now: datetime) -> Returned | None:
    token = people.token_of_request(mail)
    return None if token is None else _unsubscribed(mail, token)


def _unsubscribe(mail: Mail, now: datetime) -> Returned | None:
    return _unsubscribed(mail) if people.wants_out(mail) else None


def _unsubscribed(mail: Mail, token: str = "") -> Returned:
    return Returned(
        kind=Kind.UNSUBSCRIBE,
        recipients=_from(
            mail, "email.unsubscribed", "The recipient asked not to receive any more mail.", suppress=True
        ),
        token=token,
    )


def _reply(mail: Mail, now: datetime) -> Returned | None:
    if not people.is_answer(mail.headers):
        return None
    return Returned(kind=Kind.REPLY, recipients=_from(mail, "email.replied", "The recipient replied."))


def _from(mail: Mail, code: str, why: str, *, suppress: bool = False) -> tuple[Finding, ...]:
    address = sender_of(mail)
    if not address:
        return ()
    found = Finding(
        address=address,
        code=code,
        class_=ReplyClass.ACCEPTED,
        scope=Scope.RECIPIENT,
        retry=False,
        suppress_recipient=suppress,
        why=why,
    )
    return (found,)


# Ordered by certainty.
_READERS: tuple[Callable[[Mail, datetime], Returned | None], ...] = (
    _notification,
    _complaint,
    _delivery_report,
    _receipt,
    _request,
    _notice_of_daemon,
    _auto_reply,
    _notice,
    _answer_of_program,
    _unsubscribe,
    _reply,
)


def _of_group(group: Group, told: str) -> Finding:
    address, *aliases = group.addresses
    said = said_in(group.diagnostic or told, status=status_of(group.status))
    if group.diagnostic and meaning(Reply(550, told)).code == _FULL:
        # If a mailbox is full, it exists, even if other parts of the text suggest otherwise.
        said = said._replace(reply=Reply(said.reply.code, told))
    return _finding(address, said, action=group.action, aliases=tuple(aliases), more=(told,), step=step_in(told))


def _finding(
    address: str,
    said: Said,
    *,
    action: str = "",
    aliases: tuple[str, ...] = (),
    more: tuple[str, ...] = (),
    step: Step | None = None,
) -> Finding:
    """Returns the finding for one address. `more` is other text about the address, and `step` is the SMTP step that the
    text mentions.
    """
    found, text = _judged(said, action=action, more=more)
    is_passing = action == "delayed" or bool(_EXPIRED.search(said.reply.text))
    status = said.status or _status_like(said.reply.code, found, is_passing=is_passing)
    is_dead = found.suppress_recipient and not status.startswith("4")
    is_confirmed = not is_dead or _is_confirmed(found, text, said.status, said.step or step)
    return Finding(
        address=address,
        aliases=aliases,
        status=status,
        code=found.code,
        class_=found.class_ if is_confirmed else ReplyClass.SOFT_BOUNCE,
        scope=found.scope,
        retry=status.startswith("4") or action == "delayed",
        suppress_recipient=is_dead and is_confirmed,
        why=found.why if is_confirmed else f"{found.why} A second report suppresses the address.",
        is_final=action != "delayed",
        is_confirmed=is_confirmed,
        reply=" ".join(f"{said.reply.code or ''} {said.reply.text}".split())[:REPLY_CHARS_MAX],
    )


def _is_confirmed(found: Meaning, text: str, status: str, step: Step | None) -> bool:
    """Returns whether one report is enough to call the address dead.

    One report is not enough if the mailbox exists but is disabled, or if the server accepted the recipient and refused
    only the content. Spam filters, for example, often answer "user unknown".
    """
    if found.code not in _OF_MAILBOXES:
        return True
    if is_switched_off(text):
        return False
    return status.startswith("5.1.") or step not in AFTER_RECIPIENTS


def _status_like(code: int, found: Meaning, *, is_passing: bool) -> str:
    """Returns the status to assume if the report names none.

    A report means that the attempts have ended, unless it says that they will continue.
    """
    if found.class_ is ReplyClass.ACCEPTED:
        return "2.0.0"
    return "4.0.0" if code // 100 == 4 or is_passing else "5.0.0"


def _judged(said: Said, *, action: str, more: tuple[str, ...]) -> tuple[Meaning, str]:
    """Returns the meaning of a reply and the text from which it was derived."""
    text = said.reply.text
    if action in _DELIVERED or said.status.startswith("2."):
        return meaning(Reply(250, text)), text
    found = _meaning(said)
    for each in more:
        if found.class_ is not ReplyClass.UNKNOWN:
            break
        found, text = _meaning(said._replace(reply=Reply(said.reply.code, each))), each
    return found, text


def _meaning(said: Said) -> Meaning:
    """Classifies a server's reply. Text without a code is treated as a final refusal, because every report mentions
    errors and failures.
    """
    code = said.reply.code or (450 if said.status.startswith("4") else 550)
    found = meaning(Reply(code, said.reply.text), phase=said.step, enhanced=said.status or None)
    if found.class_ is ReplyClass.UNKNOWN and not said.reply.code:
        connection = meaning(said.reply)
        found = connection if connection.scope is Scope.NETWORK else found
    return found
