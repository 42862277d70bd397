"""Replace internal IDs in stored data with the public IDs shown to a workspace. The data are events, the subjects and
details of log and audit entries, and the keys of campaign e-mails.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairpost.model.event import Event
from fairpost.model.public_ids import Kind, PublicIds

_SUBJECT = re.compile(r"(email|prospect|conversation) ([0-9]{1,19})", re.ASCII)
_SUBJECTS = {"email": Kind.EMAIL, "prospect": Kind.PROSPECT, "conversation": Kind.CONVERSATION}
_DETAILS = {
    "campaign": Kind.CAMPAIGN,
    "email": Kind.EMAIL,
    "from_prospect": Kind.PROSPECT,
    "to_prospect": Kind.PROSPECT,
}

_KEY = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,9})", re.ASCII)  # a campaign's key: prospect, sequence, step
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
    """Return the event with `subject` and `detail` as shown to a workspace."""
    subject, detail = subject_outside(event["subject"], ids), detail_outside(event["detail"], ids)
    return {**event, "subject": subject, "detail": detail}


def is_like_campaigns(key: str) -> bool:
    """Return whether the key has the form that campaigns use internally. Applications may also use that form."""
    return _KEY.fullmatch(key) is not None


def campaign_key_outside(key: str, ids: PublicIds) -> str:
    found = _KEY.fullmatch(key)
    if found is None:
        return key
    return f"{ids.public(Kind.PROSPECT, int(found[1]))}:{ids.public(Kind.SEQUENCE, int(found[2]))}:{found[3]}"


def key_inside(key: str, ids: PublicIds) -> str:
    """Return the stored form of a campaign key that was shown to a workspace. Other keys are returned unchanged."""
    found = _KEY_OUTSIDE.fullmatch(key)
    if found is None:
        return key
    prospect, sequence = ids.private(Kind.PROSPECT, found[1]), ids.private(Kind.SEQUENCE, found[2])
    return key if prospect is None or sequence is None else f"{prospect}:{sequence}:{found[3]}"


_OF_OTHERS = ("account", "why", "server", "by")


def as_known(event: Event) -> Event:
    """Return the event with the workspace's own names for accounts and pools. The names of other workspaces' accounts
    and pools are removed.
    """
    own = f"{event.workspace}/"
    params = dict(event.params)
    if isinstance(account := params.get("account"), str):
        is_own = account.startswith(own)
        params = {name: value for name, value in params.items() if is_own or name not in _OF_OTHERS}
    for name in {"account", "pool"} & params.keys():
        params[name] = str(params[name]).removeprefix(own)
    return replace(
        event,
        account=event.account.removeprefix(own) if event.account and event.account.startswith(own) else None,
        subject=event.subject and event.subject.removeprefix(own),
        params=params,
    )


def as_told(event: Event, ids: PublicIds, *, to_operator: bool = False) -> dict[str, Any]:
    """Return the event in the form in which programs receive it over HTTP, by webhook and as JSON.

    The result contains `id`, `type` and `at`; all other fields that are not empty are in `data`.
    """
    event = event if to_operator else as_known(event)
    data = {
        "workspace": event.workspace,
        "email_id": None if event.email_id is None else ids.email(event.email_id),
        "recipient": event.address,
        "recipients": list(event.recipients),
        "account": event.account,
        "campaign": event.campaign,
        "subject": None if event.subject in (event.account, event.campaign) else event.subject,
        "type": event.type,
        "tags": dict(event.tags),
        "metadata": dict(event.metadata),
        "reason": event.reason,
        "params": dict(event.params),
    }
    return {
        "id": ids.public(Kind.EVENT, event.id),
        "type": event.kind,
        "at": event.at.isoformat(),
        "data": {name: value for name, value in data.items() if value},
    }
