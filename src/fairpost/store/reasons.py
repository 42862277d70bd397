"""Reasons as stored in the database. A stored reason is a code with parameters.

History is never rewritten. For e-mails that ended before codes existed, the stored reason is a sentence without
parameters. This module converts such sentences to codes.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from fairpost.model.reason import Reason, as_json, read_reason

_SENTENCES: Sequence[tuple[str, str]] = (
    (r"account_suspended|the account (?P<account>\S+) is suspended: .*", "email.account_suspended"),
    (r"there is no account (?P<account>\S+) any more", "email.account_removed"),
    (r"every recipient is on the suppression list", "email.suppressed"),
    (r"on the suppression list: (?P<note>.*)", "email.recipient_suppressed"),
    (r"expired at (?P<expired_at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)", "email.expired"),
    (r"cancelled", "email.cancelled"),
    (r"cancelled by the operator", "email.cancelled_by_operator"),
    (r"cancelled by request", "email.cancelled_by_request"),
    (r"the campaign was cancelled", "email.campaign_cancelled"),
    (r"the prospect was removed", "email.prospect_removed"),
    (r"the recipient was erased on request", "email.recipient_erased"),
    (r"the e-mail before it was not sent", "email.step_not_reached"),
    (r"the account of the e-mail before it was removed", "email.step_lost_account"),
    (r"its worker died before the message was complete", "email.worker_died"),
    (r"resolved by (?P<by>.*)", "email.resolved_as_sent"),
    (r"outcome unknown, given up by (?P<by>.*)", "email.resolved_as_failed"),
)
_KNOWN = [(re.compile(sentence, re.DOTALL), code) for sentence, code in _SENTENCES]


def stored_reason(code: str | None, params: str | None) -> Reason | None:
    """Parse a stored reason. Return None if `code` is None."""
    if code is None:
        return None
    return _translated(code) if params is None else read_reason(code, params)


def with_reason(row: Any) -> dict[str, Any]:
    """Replace the `reason` and `params` columns of a row with one Reason."""
    return {
        **{name: value for name, value in row.items() if name != "params"},
        "reason": stored_reason(row["reason"], row["params"]),
    }


def stored_forms(code: str) -> list[str]:
    """Return all texts that may represent a code in history. A text that is not a code represents itself."""
    translated = _translated(code)
    known = translated.code if translated.code != "legacy.text" else code
    return list({code, known, *(sentence.split("|")[0] for sentence, other in _SENTENCES if other == known)})


def stored_reasons(reasons: Sequence[str]) -> tuple[Reason, ...]:
    """Parse reasons whose code and parameters are combined in a single text, as written by `fairpost.in_one`."""
    return tuple(map(_in_one, reasons))


def _in_one(said: str) -> Reason:
    if not said.startswith('{"code": "'):
        return Reason("legacy.text", text=said)
    each = json.loads(said)
    return read_reason(each["code"], json.dumps(each["params"]))


def write_reasons(reasons: Sequence[Reason]) -> str:
    return json.dumps([{"code": each.code, "params": as_json(each)} for each in reasons])


def _translated(sentence: str) -> Reason:
    for pattern, code in _KNOWN:
        if found := pattern.fullmatch(sentence):
            return read_reason(code, json.dumps({name: text for name, text in found.groupdict().items() if text}))
    return Reason("legacy.text", text=sentence)
