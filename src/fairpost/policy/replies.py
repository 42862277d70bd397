"""Determine the meaning of a server's reply: its scope, whether it is temporary, and whether the address is dead.

The evidence is considered in this order: the code and its phase, the enhanced status code, and, if the codes leave the
meaning open or are clearly wrong, the text. The rules are in `reply_rules` and `reply_codes`; `verdicts` decides the consequences for the
e-mail.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fairpost.model.report import Channel, Reply, Step
from fairpost.policy import reply_codes as codes
from fairpost.policy import reply_findings as findings
from fairpost.policy import reply_rules as rules
from fairpost.policy.reply_findings import Finding, ReplyClass, Scope
from fairpost.policy.reply_phrases import Phrases, fold

__all__ = ["Meaning", "ReplyClass", "Scope", "is_switched_off", "meaning"]

TEXT_CHARS_MAX = 2_000  # the reason is at the start; the rest consists of links and traces
WAIT_MAX = timedelta(days=2)  # waits longer than this are not plausible

NO_CODE = 0  # a failure that a program describes in words, such as "no connection" or "no such host"

_STAYS_IN_4XX = (ReplyClass.SOFT_BOUNCE, ReplyClass.RATE_LIMIT, ReplyClass.TRANSIENT, ReplyClass.AUTH)
# Unknown replies are retried to be safe, until the e-mail's maximum age.
_IS_TRIED_AGAIN = (ReplyClass.SOFT_BOUNCE, ReplyClass.RATE_LIMIT, ReplyClass.TRANSIENT, ReplyClass.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    code: str  # the code of the reason stored with the e-mail
    class_: ReplyClass
    scope: Scope
    retry: bool  # the same e-mail may be accepted later, by the same route
    suppress_recipient: bool
    why: str
    wait: datetime | timedelta | None = None  # a moment or delay named in the text
    is_its_own: bool = False  # the reason concerns only this recipient, so replies for other recipients are irrelevant


def meaning(
    reply: Reply,
    *,
    phase: Step | None = None,
    channel: Channel = Channel.SMTP,
    enhanced: str | None = None,
) -> Meaning:
    """Return the meaning of a reply.

    `enhanced` is the enhanced code, if the caller has it separately; otherwise, it is read from the text. Code 0 means
    that there is only text.
    """
    if 200 <= reply.code < 300:
        return _ACCEPTED
    text = " ".join(fold(reply.text).split())[:TEXT_CHARS_MAX]
    if channel is not Channel.SMTP:
        return _meaning(_by_api(reply.code, text, channel), text=text)
    code = reply.code
    if code == NO_CODE and (inner := _QUOTED_REPLY.search(text)):
        code, text = int(inner[1]), text[inner.end() :]
    if code != NO_CODE and not 400 <= code < 600:
        return _meaning(findings.NONSENSE, text=text, is_temporary=True)
    status = _enhanced(enhanced or "", code) or _enhanced(text, code)
    found = _by_smtp(code or _code_like(status), phase, status, text)
    if code == NO_CODE and found is findings.UNEXPLAINED:
        found = _said(rules.UNCODED, _words(text), code) or found
    # The standard says that a 552 about too many recipients must be treated as a 452 (RFC 5321, 4.5.3.1.10).
    is_temporary = 0 < code < 500 or (code == 552 and found is findings.TOO_MANY)
    return _meaning(found, text=text, is_temporary=is_temporary)


def is_switched_off(text: str) -> bool:
    """Return whether the text about a dead mailbox says that the mailbox exists but is disabled or inactive."""
    words = _words(" ".join(fold(text).split())[:TEXT_CHARS_MAX])
    return _said(rules.SWITCHED_OFF, words, NO_CODE) is findings.AWAY


def _code_like(status: str) -> int:
    """Return the code implied by the enhanced status code of a text. If the text has no such code either, its words
    decide.
    """
    return 450 if status.startswith("4.") else 550


def _by_smtp(code: int, phase: Step | None, status: str, text: str) -> Finding:
    words = f"{status} {_words(text)}"
    said, by_status = _said(rules.PLAIN, words, code), codes.BY_ENHANCED.get(status)
    if said is findings.FULL and by_status in (findings.TOO_FAST, findings.QUOTA):
        said = None  # the text is about the sender's quota, not about a full mailbox
    is_login = phase is Step.AUTH and code != 421  # 421 may come at any time and closes the connection
    candidates = (
        said,
        codes.BY_CODE.get(code),
        findings.UNREACHABLE if status.startswith("4.4.") else None,
        findings.LOGIN if is_login else None,
        by_status,
        _said(rules.TIES, words, code),
    )
    fitting = (_in_phase(found, phase, code) for found in candidates if found)
    found = next((found for found in fitting if found), None) or _by_default(code, phase, status, words)
    is_dead = found.class_ is ReplyClass.HARD_BOUNCE
    return _spared(found, phase, code, text=text, words=words) if is_dead else found


def _spared(found: Finding, phase: Step | None, code: int, *, text: str, words: str) -> Finding:
    """Return a finding that spares the recipient if the text blames us or is a common reply to unwanted mail."""
    if phase in rules.AFTER_RECIPIENTS and rules.SAYS_UNKNOWN_TO_UNWANTED.search(text):
        return findings.UNWANTED
    said = _said(rules.SPARING, words, code)
    return (_in_phase(said, phase, code) or found) if said else found


def _in_phase(found: Finding, phase: Step | None, code: int) -> Finding | None:
    """Return the finding implied by this point in the conversation, which is more certain than any wording."""
    if found.class_ is ReplyClass.HARD_BOUNCE and phase in rules.BEFORE_RECIPIENTS:
        return findings.SENDER if code >= 500 else findings.BUSY
    if found is findings.CONTENT and phase in rules.BEFORE_CONTENT:
        return findings.BLOCKED
    if found is findings.PERHAPS_GONE and phase not in (None, Step.RCPT):
        return None  # after receiving the content, some servers reply "mailbox unavailable" to spam
    return found


def _by_default(code: int, phase: Step | None, status: str, words: str) -> Finding:
    if code < 500:
        return _by_default_for_now(code, phase, status)
    if code == 503:
        return findings.UNEXPLAINED  # commands in the wrong order, which is a transient fault
    if phase in rules.BEFORE_RECIPIENTS:
        return findings.BLOCKED
    if code == 552 and not status:
        return findings.FULL if phase is Step.RCPT else findings.TOO_BIG
    if status.startswith("5.7.") or rules.REFUSAL.search(words):
        return findings.BLOCKED if phase in (None, Step.RCPT) else findings.CONTENT
    if phase in rules.AFTER_RECIPIENTS and rules.REFUSAL_OF_CONTENT.search(words):
        return findings.CONTENT
    # A 550 reply to RCPT TO without text may mean a dead address or a blocked sender. An address must not be suppressed
    # on a guess.
    return findings.UNEXPLAINED


def _by_default_for_now(code: int, phase: Step | None, status: str) -> Finding:
    if phase in (Step.CONNECT, Step.TLS):
        return findings.UNREACHABLE
    is_mailbox = status.startswith(("4.1.", "4.2.")) or (code == 450 and not status and phase is Step.RCPT)
    return findings.AWAY if is_mailbox else findings.BUSY


def _by_api(code: int, text: str, channel: Channel) -> Finding:
    reason, colon, _ = text.partition(":")
    found = next((table[reason] for table in _API_TABLES[channel] if reason in table), None) if colon else None
    if found or code >= 500:
        return found or findings.BUSY
    said = _said(rules.PLAIN, text, code)
    if said and said.class_ is ReplyClass.RATE_LIMIT:
        return findings.QUOTA
    return _said(rules.API_TIES, text, code) or codes.BY_STATUS.get(code, findings.UNEXPLAINED)


_API_TABLES: dict[Channel, tuple[dict[str, Finding], ...]] = {
    Channel.GOOGLE: (codes.BY_REASON, codes.BY_STATUS_NAME),
    Channel.GRAPH: (codes.BY_GRAPH_CODE, codes.BY_REASON),
}


def _said(rows: tuple[Phrases, ...], words: str, code: int) -> Finding | None:
    for row in rows:
        if (not row.only or str(code).startswith(row.only)) and row.pattern.search(words):
            return row.finding
    return None


def _meaning(found: Finding, *, text: str = "", is_temporary: bool = False) -> Meaning:
    """Return the meaning. A temporary refusal gets a temporary class but keeps its scope."""
    code, class_, scope, why = found
    if is_temporary and class_ not in _STAYS_IN_4XX and found is not findings.NONSENSE:
        class_ = ReplyClass.SOFT_BOUNCE if class_ is ReplyClass.HARD_BOUNCE else ReplyClass.TRANSIENT
        why = f"{why} (temporary, according to the server)"
    retry = is_temporary or class_ in _IS_TRIED_AGAIN
    return Meaning(
        code=code,
        class_=class_,
        scope=scope,
        retry=retry,
        suppress_recipient=class_ is ReplyClass.HARD_BOUNCE,
        why=f"{why}.",
        wait=_wait(text) if retry else None,
        is_its_own=found in findings.ITS_OWN,
    )


_ACCEPTED = _meaning(findings.ACCEPTED)

# A reply that was passed on: "host mx.example.com said: 550 5.1.1 …", "Remote Server returned '550 5.1.10 …'".
_QUOTED_REPLY = re.compile(
    r"(?:(?:said|returned|response|reply|replied|error|reason|smtp|code)[:;]? ?|^)['\"(<]{0,2}([45]\d\d)(?:[ -]|$)",
    re.ASCII,
)

_CODE = r"([245])\.([0-7])\.(\d{1,3})(?!\.?\d)"
_AT_START = re.compile(rf"(?:\d{{3}}[ -])?#?{_CODE}", re.ASCII)
_SOMEWHERE = re.compile(rf"(?<![\w.-]){_CODE}", re.ASCII)
_REPEATED = re.compile(rf"(?<![\w.-])(?:\d{{3}}[ -])?{_CODE} ?", re.ASCII)
# Chinese, Japanese and Korean texts have no space between an address and the words around it.
_AROUND = r"\s<>()\[\]:;,\"\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef"
_NO_WORDS = re.compile(
    rf"https?://\S+|(?<![^{_AROUND}])[^{_AROUND}@]*@[^{_AROUND}]*"
    r"|\bunknown (?:error|reason|problem|failure|issue|exception|command|option|cause)"
)


def _enhanced(text: str, code: int) -> str:
    """Return the enhanced status code, or "". A code in the middle of the text must match the reply code, because it
    might otherwise be a version number.
    """
    match = _AT_START.match(text)
    if match is None:
        match = next((m for m in _SOMEWHERE.finditer(text) if not code or m[1] == str(code)[0]), None)
    return f"{match[1]}.{match[2]}.{int(match[3])}" if match else ""


def _words(text: str) -> str:
    """Return the text without links, addresses, repeated codes and misleading phrases.

    For example, spam@example.com does not mean spam, and "unknown error" does not mean an unknown user.
    """
    return " ".join(_NO_WORDS.sub("", _REPEATED.sub("", text)).split())


_MOMENT = re.compile(r"retry after (\d{4}-\d\d-\d\dt[\d:.]{5,18}(?:z|[+-]\d\d:\d\d)?)", re.ASCII)
_CLOCK = re.compile(r"\b(?:in|after|for) (\d\d):(\d\d):(\d\d)\b", re.ASCII)
_DELAY = re.compile(
    r"\b(?:again|retry|back|later|wait|gr[ae]y\w{0,12})[ ,a-z]{0,20}? ?(?:in|after|for) (\d{1,6}) ?(sec|min|hour|s\b|m\b|h\b)",
    re.ASCII,
)
_SECONDS = {"s": 1, "m": 60, "h": 3_600}


def _wait(text: str) -> datetime | timedelta | None:
    if match := _MOMENT.search(text):
        return _moment(match[1])
    if match := _CLOCK.search(text):
        wait = timedelta(hours=int(match[1]), minutes=int(match[2]), seconds=int(match[3]))
    elif match := _DELAY.search(text):
        wait = timedelta(seconds=int(match[1]) * _SECONDS[match[2][0]])
    else:
        return None
    return wait if timedelta() < wait <= WAIT_MAX else None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
