"""Accounts as tables and as JSON, without their passwords."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairpost.cli.output import print_pairs, print_table, when
from fairpost.model.reason import Reason
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.policy.limits import day_errors, day_max, may_send, used
from fairpost.reasons.rendering import brief, coded
from fairpost.transports.registry import kind_of

if TYPE_CHECKING:
    from datetime import datetime

    from fairpost.model.account import Account, AccountRuntime, Patience, Rest
    from fairpost.policy.facts import Facts


def account_facts(post: "AccountRuntime", facts: "Facts") -> dict[str, Any]:
    """Return one account as JSON."""
    from fairpost.observe.accounts import condition_of
    from fairpost.observe.reading import reading_facts, reading_of
    from fairpost.reasons.rendering import shown

    account, now = post.account, facts.now
    is_driven = facts.is_driven(post)
    may_send_at, why = may_send(account, now)
    return {
        "id": account.id,
        "name": account.name,
        "workspace": account.workspace,
        "address": account.address,
        "display_name": account.display_name,
        "pool": account.pool,
        "status": account.status,
        **coded(account.status_reason, "status_reason"),
        "server": _server_facts(account.transport),
        "origin": _origin(account.transport),
        "status_until": account.status_until,
        "rest": _rest_facts(post.rest(now)),
        "patience": asdict(account.patience) if account.patience else None,
        "provider": account.provider,
        "limits": asdict(account.limits),
        "hour_used": used(post.account, now)[0],
        "day_used": used(post.account, now)[1],
        "day_max": day_max(post.account, now),
        "day_bounces": post.account.usage.day_bounces if used(post.account, now)[1] else 0,
        "day_errors": day_errors(post.account, now),
        "last_used_at": post.account.usage.last_begun_at,
        "sent_total": post.sent_total,
        "condition": shown(condition_of(post, facts)),
        "driven_by": post.owner if is_driven else None,
        "lease_until": post.until if is_driven else None,
        "may_send_at": may_send_at,
        **coded(why, "may_send_why"),
        **reading_facts(reading_of(post, now)),
    }


def print_accounts(facts: "Facts") -> None:
    columns = (
        "account",
        "workspace",
        "server",
        "pool",
        "status",
        ">hour",
        ">day",
        ">errors",
        ">sent",
        "last used",
        "may send",
        "condition",
        "driven by",
        "mailbox",
    )
    print_table(columns, (_row(post, facts) for post in facts.accounts), title="Accounts")


def _row(post: "AccountRuntime", facts: "Facts") -> tuple[object, ...]:
    from fairpost.observe.accounts import condition_of

    account, limits, now = post.account, post.account.limits, facts.now
    hour, day = used(account, now)
    condition = condition_of(post, facts)
    return (
        account.name,
        account.workspace,
        _server_in_short(account.transport),
        account.pool,
        _status_in_words(account),
        f"{hour}/{limits.hourly_max}" if limits.hourly_max else hour,
        f"{day}/{most}" if (most := day_max(post.account, now)) else day,
        day_errors(post.account, now),
        post.sent_total,
        when(account.usage.last_begun_at, now) if account.usage.last_begun_at else "never",
        when(condition.until, now) if condition.until else "no" if condition.is_stuck else "now",
        _in_short(condition.code),
        _driven_by(post, facts),
        _mailbox_in_short(post, now),
    )


def _mailbox_in_short(post: "AccountRuntime", now: "datetime") -> str:
    from fairpost.observe.reading import ReadingState, reading_of

    reading = reading_of(post, now)
    if reading is None:
        return ""
    why = f": {_in_short(reading.condition.code)}" if reading.state is ReadingState.FAILING else ""
    last = f", last read {when(reading.read_at, now)}" if reading.read_at else ""
    return f"{reading.state}{why}{last}"


def _in_short(code: str) -> str:
    return code.removeprefix("account.").replace("_", " ").replace(".", ": ")


def _driven_by(post: "AccountRuntime", facts: "Facts") -> str:
    return f"{post.owner}, until {when(post.until, facts.now)}" if facts.is_driven(post) else "none"


def _status_in_words(account: "Account") -> str:
    return f"{account.status}: {brief(account.status_reason)}" if account.status_reason else account.status


def _rest_facts(rest: "Rest | None") -> dict[str, Any] | None:
    if rest is None:
        return None
    return {"until": rest.until, **coded(Reason(rest.reason)), "detail": rest.detail}


def _rest_in_words(rest: "Rest | None", now: "datetime") -> str | None:
    if rest is None:
        return None
    return f"until {when(rest.until, now)}: {brief(Reason(rest.reason))}" + (f" ({rest.detail})" if rest.detail else "")


def _patience_in_words(patience: "Patience | None", now: "datetime") -> str | None:
    if patience is None:
        return None
    return f"will fail if the account remains suspended: urgent {when(patience.urgent, now)}, bulk {when(patience.bulk, now)}"


def _server_facts(server: TransportSettings | None) -> dict[str, Any] | None:
    """Return the server without its password. Even the sealed password is omitted."""
    if server is None:
        return None
    return kind_of(server).facts(server) if isinstance(server, ServerSettings) else {"kind": server.kind}


def _used(count: int, most: int | None) -> str:
    return f"{count} of {most}" if most else f"{count} (no limit)"


def _origin(server: TransportSettings | None) -> str | None:
    return server.origin if isinstance(server, ServerSettings) else None


def _origin_in_words(server: TransportSettings | None) -> str | None:
    if _origin(server) is None:
        return None
    return "environment variables: engines keep the server, password, address and name in sync with FAIRPOST_SMTP_…"


def _server_in_short(server: TransportSettings | None) -> str:
    if server is None:
        return "no server"
    return kind_of(server).in_short(server) if isinstance(server, ServerSettings) else f"unknown ({server.kind})"


def _server_in_full(server: TransportSettings | None) -> str:
    return kind_of(server).in_full(server) if isinstance(server, ServerSettings) else _server_in_short(server)


def _password_in_words(server: TransportSettings | None) -> str | None:
    if not isinstance(server, ServerSettings) or not server.takes_secret:
        return None
    if server.secret is None:
        return "none"
    what = kind_of(server).secret_in_short(server)
    return f"{f'{what}, ' if what else ''}sealed with the key {server.secret.split(':')[1]}"


def print_account(post: "AccountRuntime", facts: "Facts") -> None:
    from fairpost.observe.accounts import condition_of
    from fairpost.observe.reading import reading_of, unknown_in_words
    from fairpost.reasons.rendering import shown

    account, limits, now = post.account, post.account.limits, facts.now
    hour, day = used(account, now)
    condition = shown(condition_of(post, facts))
    reading = reading_of(post, now)
    mailbox = shown(reading.condition) if reading else None
    print_pairs(
        [
            ("account", account.name),
            ("workspace", account.workspace),
            ("address", account.address),
            ("display name", account.display_name),
            ("status", _status_in_words(account)),
            ("condition", condition.text),
            ("next", condition.then or None),
            ("rests", _rest_in_words(post.rest(now), now)),
            ("pinned mail", _patience_in_words(account.patience, now)),
            ("server", _server_in_full(account.transport)),
            ("password", _password_in_words(account.transport)),
            ("origin", _origin_in_words(account.transport)),
            ("pool", account.pool),
            ("provider", account.provider),
            ("limits", limits.in_one_line()),
            *((each.name.replace("_", " "), words) for each, words in limits.in_words() if not each.short),
            ("this hour", _used(hour, limits.hourly_max)),
            ("this day", _used(day, day_max(post.account, now))),
            ("errors today", day_errors(post.account, now)),
            ("last used", when(account.usage.last_begun_at, now) if account.usage.last_begun_at else "never"),
            ("sent", post.sent_total),
            ("may send", when(condition.until, now) if condition.until else None),
            ("driven by", _driven_by(post, facts)),
            ("mailbox", f"{reading.state}. {mailbox.text}" if reading and mailbox else None),
            ("last read", when(reading.read_at, now) if reading and reading.read_at else None),
            ("not detected", unknown_in_words(reading) if reading and reading.unknown else None),
            ("next", mailbox.then or None if mailbox else None),
        ]
    )
