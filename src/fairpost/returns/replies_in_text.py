"""Finds the server's reply in the text of a report, with its code, its status, and the step of the conversation."""

import re
from typing import NamedTuple

from fairpost.model.report import Reply, Step

TEXT_CHARS_MAX = 2_000

STATUS = re.compile(r"(?<![\w.:-])([245])\.(\d{1,3})\.(\d{1,3})(?![\w-]*\.?\d)", re.ASCII)
_CODE = re.compile(
    r"(?<![\w.:/@-])#?([45]\d\d)(?:[ \t]?[-:][ \t]?|[ \t]+|(?=[,;)\]'\"<(]))"
    r"(?!\d(?!\.\d)|\w{3} \d{4}|bytes|seconds|hours|minutes|messages|KB|MB|recipients)",
    re.ASCII,
)

# Phrases from many programs. The first match is used.
_STEPS: tuple[tuple[re.Pattern[str], Step], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), step)
    for pattern, step in (
        # Sendmail sends DATA without waiting for the replies to RCPT TO, so its transcript shows these replies after
        # DATA.
        (r">>> ?data\b.{0,4000}?<<< ?5\d\d[^\n]{0,40}?(?:need rcpt|no valid recip|valid rcpt)", Step.RCPT),
        # qmail names the step in words. Until 2016, Google gave the step number.
        (r"does not like recipient", Step.RCPT),
        (r"failed after i sent the message|\(state 1[78]\)", Step.DOT),
        (r"but sender was rejected", Step.MAIL),
        (r"but my name was rejected", Step.HELLO),
        (r"but greeting failed", Step.GREETING),
        (
            r"end of data|end of message|text command|data[ _-]?(?:terminator|end)|after (?:the )?(?:final )?dot",
            Step.DOT,
        ),
        (
            r"(?:command:?|reply to|response to|after|our|>>>|to|for|smtp:|\[)\s{0,3}(?:pipelined )?rcpt[ _]?(?:to)?\b",
            Step.RCPT,
        ),
        (r"(?:command:?|reply to|response to|after|our|>>>|for|\[)\s{0,3}(?:pipelined )?mail[ _]?from\b", Step.MAIL),
        (r"(?:command:?|reply to|response to|after|our|>>>|for|\[|\()\s{0,3}(?:pipelined )?data\b", Step.DOT),
        (r"(?:reply to|response to|after|our|>>>|for|\[)\s{0,3}(?:helo|ehlo)\b", Step.HELLO),
        (
            r"initial connection|after connect|connection greeting|(?:in|our|after|smtp) (?:banner|greeting)\b",
            Step.GREETING,
        ),
    )
)


class Said(NamedTuple):
    reply: Reply  # the code is 0 if there is only text
    status: str  # "" if there is none
    step: Step | None


def said_in(text: str, *, status: str = "") -> Said:
    """Returns the server's reply that a report quotes. `status` is the status code that the report contains separately."""
    text = text.strip()[: 4 * TEXT_CHARS_MAX]
    step = step_in(text)
    if match := _CODE.search(text):
        rest = _own_lines(text[match.end() :], match[1])[:TEXT_CHARS_MAX]
        found = _status_in(rest, match[1][0]) or _status_in(text, match[1][0])
        return Said(Reply(int(match[1]), rest), _chosen(status, found), step)
    return Said(Reply(0, text[:TEXT_CHARS_MAX]), _chosen(status, _status_in(text)), step)


def _own_lines(text: str, code: str) -> str:
    """Returns the text of a reply, which ends where another reply or another line of the SMTP conversation begins."""
    end = re.search(rf"\n[ \t]*(?:\n|>>>|<<<(?! ?{code})|\.\.\. while|(?!{code})[245]\d\d[ -])", text)
    return text[: end.start()] if end else text


def _status_in(text: str, kind: str = "") -> str:
    """Returns the first status code that agrees with the reply code. Other numbers may be parts of versions or
    addresses.
    """
    right_after = STATUS.match(text.lstrip(" -"))  # 550 4.4.7 is Microsoft's own status for a message that expired
    found = (match for match in STATUS.finditer(text) if match[1] == kind or (not kind and match[1] != "2"))
    match = right_after if right_after and kind and right_after[1] != "2" else next(found, None)
    return f"{match[1]}.{int(match[2])}.{int(match[3])}" if match else ""


def _chosen(named: str, found: str) -> str:
    """Returns the server's own status, which is more reliable than the status from the program that wrote the report."""
    return found or named


def status_of(value: str) -> str:
    """Returns the status in a `Status` field, or ""."""
    match = re.search(r"([245])\.(\d{1,3})\.(\d{1,3})", value, re.ASCII)
    return f"{match[1]}.{int(match[2])}.{int(match[3])}" if match else ""


def step_in(text: str) -> Step | None:
    """Returns the step of the SMTP conversation that the text mentions."""
    return next((step for pattern, step in _STEPS if pattern.search(text)), None)
