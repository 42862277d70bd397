"""What is stored with numbers in it, as a workspace hears it: subjects and details of events and audit entries, keys of campaigns' e-mails."""

import re
from collections.abc import Mapping
from typing import Any

from fairpost.model.public_ids import Kind, PublicIds

_SUBJECT = re.compile(r"(email|prospect) ([0-9]{1,19})", re.ASCII)
_SUBJECTS = {"email": Kind.EMAIL, "prospect": Kind.PROSPECT}
_DETAILS = {"campaign": Kind.CAMPAIGN, "from_prospect": Kind.PROSPECT, "to_prospect": Kind.PROSPECT}

_KEY = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,9})", re.ASCII)  # a campaign's: prospect, sequence, step
_KEY_OUTSIDE = re.compile(rf"({Kind.PROSPECT}_\w+):({Kind.SEQUENCE}_\w+):([0-9]{{1,9}})", re.ASCII)


def subject_outside(subject: str, ids: PublicIds) -> str:
    found = _SUBJECT.fullmatch(subject)
    return subject if found is None else f"{found[1]} {ids.public(_SUBJECTS[found[1]], int(found[2]))}"


def detail_outside(detail: Mapping[str, Any] | None, ids: PublicIds) -> dict[str, Any] | None:
    if detail is None:
        return None
    return {
        name: ids.public(_DETAILS[name], value) if name in _DETAILS and isinstance(value, int) else value
        for name, value in detail.items()
    }


def event_outside(event: Mapping[str, Any], ids: PublicIds) -> dict[str, Any]:
    """With `subject` and `detail` as they are told."""
    subject, detail = subject_outside(event["subject"], ids), detail_outside(event["detail"], ids)
    return {**event, "subject": subject, "detail": detail}


def is_like_campaigns(key: str) -> bool:
    """It is written as a campaign's keys are inside. Others may write theirs like that, too."""
    return _KEY.fullmatch(key) is not None


def campaign_key_outside(key: str, ids: PublicIds) -> str:
    found = _KEY.fullmatch(key)
    if found is None:
        return key
    return f"{ids.public(Kind.PROSPECT, int(found[1]))}:{ids.public(Kind.SEQUENCE, int(found[2]))}:{found[3]}"


def key_inside(key: str, ids: PublicIds) -> str:
    """As it is stored, of a campaign's that was told outside; any other key as it is."""
    found = _KEY_OUTSIDE.fullmatch(key)
    if found is None:
        return key
    prospect, sequence = ids.private(Kind.PROSPECT, found[1]), ids.private(Kind.SEQUENCE, found[2])
    return key if prospect is None or sequence is None else f"{prospect}:{sequence}:{found[3]}"
