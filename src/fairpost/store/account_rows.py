"""Convert account rows to accounts. This module defines which columns to select and how to parse them.

Parsed limits and transports are cached, because some callers list all accounts every second, most of them unchanged.
"""

import json
from functools import lru_cache
from typing import Any

from fairpost.model.account import (
    LIMITS,
    Account,
    AccountRuntime,
    AccountStatus,
    Limits,
    Patience,
    Rest,
    RestReason,
    Usage,
)
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.transport import TransportSettings
from fairpost.model.troubles import NO_TROUBLES, Troubles
from fairpost.store.reasons import stored_reason
from fairpost.system import clock
from fairpost.transports.registry import read_transport

LIMITS_KEPT, TRANSPORTS_KEPT = 1_024, 16_384
KEPT_CHARS_MAX = 4_000  # longer transports are not cached; a transport that contains a key can be long

_LIMITS = tuple(each.name for each in LIMITS)
_SETTINGS = (
    "a.name, a.address, a.display_name, a.pool, a.provider, a.status, a.status_reason, a.status_params, a.status_until"
)
_PATIENCE = """l.suspended_at + (SELECT p.urgent FROM fairpost.patience p) AS patience_urgent,
    l.suspended_at + (SELECT p.bulk FROM fairpost.patience p) AS patience_bulk"""
_DRIVEN = "CASE WHEN isfinite(l.until) THEN l.until END AS driven_until, clock_timestamp() AS seen_at"
# Omits the stored `transport`, because a request may only see the transports of its own workspace's accounts.
COLUMNS = f"l.*, {_SETTINGS}, {', '.join(f'a.{name}' for name in _LIMITS)}, a.revision AS account_revision, {_PATIENCE}, {_DRIVEN}"


def read_account(row: Any) -> Account:
    return Account(
        id=AccountId(row["account_id"]),
        name=row["name"],
        address=row["address"],
        display_name=row["display_name"],
        pool=row["pool"],
        status=AccountStatus(row["status"]),
        status_reason=stored_reason(row["status_reason"], row["status_params"]),
        limits=_limits(row),
        usage=Usage(
            hour_started_at=row["hour_started_at"],
            hour_used=row["hour_used"],
            day_started_at=row["day_started_at"],
            day_used=row["day_used"],
            day_bounces=row["day_bounces"],
            day_errors=row["day_errors"],
            last_begun_at=row["last_begun_at"],
            gap_roll=row["gap_roll"],
            warm_day=row["warm_day"],
            rest=Rest(row["rest_until"], RestReason(row["rest_reason"]), row["rest_detail"])
            if row["rest_until"]
            else None,
        ),
        transport=_transport(row["transport"])
        if len(row["transport"]) <= KEPT_CHARS_MAX
        else read_transport(json.loads(row["transport"])),
        status_until=row["status_until"],
        provider=row["provider"],
        patience=Patience(row["patience_urgent"], row["patience_bulk"]) if row["patience_urgent"] else None,
        revision=row["account_revision"],
        troubles=_troubles(row["troubles"]),
    )


def read_runtime(row: Any) -> AccountRuntime:
    return AccountRuntime(
        account=read_account(row),
        owner=row["owner"],
        until=row["driven_until"],
        seen_at=clock.stated() or row["seen_at"],
        is_outdated=row["revision"] != row["account_revision"],
        deaths=row["deaths"],
        died_at=row["died_at"],
        sent_total=row["sent_total"],
    )


def write_troubles(troubles: Troubles) -> str | None:
    """Serialize the failures. Return None if the account has no failures."""
    if troubles == NO_TROUBLES:
        return None
    return json.dumps(
        {
            "throttle_count": troubles.throttle_count,
            "unreachable": troubles.unreachable,
            "is_barred": troubles.is_barred,
            "answer": troubles.answer,
            "refused": list(troubles.refused),
            "last": troubles.last,
            "has_passed": troubles.has_passed,
            "put_off": [list(pair) for pair in troubles.put_off.items()],
        }
    )


def _troubles(text: str | None) -> Troubles:
    if text is None:
        return NO_TROUBLES
    stored = json.loads(text)
    return Troubles(
        throttle_count=stored["throttle_count"],
        unreachable=stored["unreachable"],
        is_barred=stored.get("is_barred", False),  # older engine versions do not write this field
        answer=stored["answer"],
        refused=tuple(map(EmailId, stored["refused"])),
        last=EmailId(stored["last"]) if stored["last"] is not None else None,
        has_passed=stored["has_passed"],
        put_off={EmailId(id_): n for id_, n in stored["put_off"]},
    )


@lru_cache(TRANSPORTS_KEPT)
def _transport(stored: str) -> TransportSettings | None:
    return read_transport(json.loads(stored))


def _limits(row: Any) -> Limits:
    return _limits_of(tuple(row[name] for name in _LIMITS))


@lru_cache(LIMITS_KEPT)
def _limits_of(values: tuple[Any, ...]) -> Limits:
    given = zip(LIMITS, values, strict=True)
    return Limits(**{each.name: each.stored(value) for each, value in given})
