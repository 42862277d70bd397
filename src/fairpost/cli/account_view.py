"""How accounts are shown, in tables and as JSON: everything but their passwords."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairpost.cli.output import print_pairs, print_table, when
from fairpost.model.transport import SmtpSettings, TransportSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fairpost.policy.diagnosis import Post


def account_facts(post: "Post", now: "datetime") -> dict[str, Any]:
    """One account, for JSON."""
    account = post.account
    may_send_at, why = _next(post, now)
    return {
        "id": account.id,
        "name": account.name,
        "address": account.address,
        "display_name": account.display_name,
        "pool": account.pool,
        "status": account.status,
        "status_reason": account.status_reason,
        "server": _server_facts(account.transport),
        "limits": asdict(account.limits),
        "hour_used": _used(post, now)[0],
        "day_used": _used(post, now)[1],
        "sent_total": post.sent_total,
        "driven_by": post.owner if post.is_driven(now) else None,
        "lease_until": post.until if post.is_driven(now) else None,
        "may_send_at": may_send_at,
        "may_send_why": why,
    }


def print_accounts(posts: "Sequence[Post]", now: "datetime") -> None:
    columns = ("account", "server", "pool", "status", ">hour", ">day", ">sent", "may send", "driven by")
    print_table(columns, (_row(post, now) for post in posts), title="Accounts")


def _row(post: "Post", now: "datetime") -> tuple[object, ...]:
    account, limits = post.account, post.account.limits
    hour, day = _used(post, now)
    may_send_at, why = _next(post, now)
    return (
        account.name,
        _server_in_short(account.transport),
        account.pool,
        f"{account.status}: {account.status_reason}" if account.status_reason else account.status,
        f"{hour}/{limits.hourly_max}" if limits.hourly_max else hour,
        f"{day}/{limits.daily_max}" if limits.daily_max else day,
        post.sent_total,
        f"{when(may_send_at, now)}, {why}" if may_send_at else ("now" if account.status == "active" else ""),
        f"{post.owner}, until {when(post.until, now)}" if post.is_driven(now) else "nobody",
    )


def _used(post: "Post", now: "datetime") -> tuple[int, int]:
    from fairpost.policy.limits import roll_windows

    usage = roll_windows(post.account.usage, now=now)
    return usage.hour_used, usage.day_used


def _next(post: "Post", now: "datetime") -> "tuple[datetime | None, str | None]":
    """The next moment its limits allow a send, and which limit it waits for; None when it is now."""
    from fairpost.policy.limits import NotBefore, admit

    admitted = admit(post.account.limits, post.account.usage, now=now)
    return (admitted.moment, admitted.reason) if isinstance(admitted, NotBefore) else (None, None)


def _server_facts(server: TransportSettings | None) -> dict[str, Any] | None:
    """All but the password, not even sealed."""
    if server is None:
        return None
    if not isinstance(server, SmtpSettings):
        return {"kind": server.kind}
    shown = {name: value for name, value in asdict(server).items() if name != "secret"}
    return {"kind": "smtp", **shown, "has_password": server.secret is not None}


def _server_in_short(server: TransportSettings | None) -> str:
    if server is None:
        return "no server"
    return f"{server.host}:{server.port}" if isinstance(server, SmtpSettings) else f"unknown ({server.kind})"


def _server_in_full(server: TransportSettings | None) -> str:
    from fairpost.transport.urls import url_of

    return url_of(server) if isinstance(server, SmtpSettings) else _server_in_short(server)


def _password_in_words(server: TransportSettings | None) -> str | None:
    if not isinstance(server, SmtpSettings) or server.user is None:
        return None
    return f"sealed with the key {server.secret.split(':')[1]}" if server.secret else "none"


def print_account(post: "Post", now: "datetime") -> None:
    account, limits = post.account, post.account.limits
    hour, day = _used(post, now)
    may_send_at, why = _next(post, now)
    print_pairs(
        [
            ("account", account.name),
            ("address", account.address),
            ("display name", account.display_name),
            ("status", f"{account.status}: {account.status_reason}" if account.status_reason else account.status),
            ("server", _server_in_full(account.transport)),
            ("password", _password_in_words(account.transport)),
            ("pool", account.pool),
            ("delay", f"{limits.delay_ms} ms"),
            ("this hour", f"{hour} of {limits.hourly_max or 'any number'}"),
            ("this day", f"{day} of {limits.daily_max or 'any number'}"),
            ("batch", limits.batch_max),
            ("sent", post.sent_total),
            ("may send", f"{when(may_send_at, now)}, {why}" if may_send_at else None),
            ("driven by", f"{post.owner}, until {when(post.until, now)}" if post.is_driven(now) else "nobody"),
        ]
    )
