"""Accounts as people look at them: those with trouble first; and what servers told one of them last.

Costs the number of accounts, never that of e-mails.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairpost.model.account import AccountStatus, Patience, RestReason
from fairpost.model.ids import EmailId
from fairpost.model.report import Channel, Reply
from fairpost.model.transport import GmailSettings, Security, SmtpSettings, TransportSettings
from fairpost.observe.status import read_posts
from fairpost.policy.diagnosis import PACE_WORTH_TELLING, Post
from fairpost.policy.limits import NotBefore, Reason, standing
from fairpost.policy.replies import meaning
from fairpost.postgres.store import Store

LISTED_MAX = 100
FAILURES_MAX = 5
ATTEMPTS_SEEN_MAX = 2_000  # so many of the newest are looked through for an account's failures


class Situation(StrEnum):
    """The worst first."""

    SUSPENDED = "suspended"
    NO_SERVER = "no_server"
    RESTING = "resting"  # its server asked for a pause, or could not be reached
    PAUSED = "paused"
    LIMIT_REACHED = "limit_reached"
    ACTIVE = "active"


_BY_STATUS = {
    AccountStatus.SUSPENDED: Situation.SUSPENDED,
    AccountStatus.PAUSED: Situation.PAUSED,
    AccountStatus.PAUSED_LIMIT_REACHED: Situation.LIMIT_REACHED,
}
_SECURITY = {
    Security.IMPLICIT: "TLS",
    Security.STARTTLS: "STARTTLS",
    Security.OFFERED: "encrypted where the server offers it",
    Security.NONE: "not encrypted",
}
_RANK = {situation: n for n, situation in enumerate(Situation)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountNow:
    """`waits_for`: why not before `may_send_at`; neither is set for one that may send now. `driven_by`: the engine, where whoever looks may know it."""

    name: str
    workspace: str | None
    address: str
    pool: str
    provider: str | None
    situation: Situation
    reason: str | None
    hour_used: int
    hour_max: int | None
    day_used: int
    day_max: int | None
    day_bounces: int
    day_errors: int
    last_used_at: datetime | None
    bounce_percent_max: float | None
    bounce_sample_min: int
    sent_total: int
    may_send_at: datetime | None
    waits_for: str | None
    is_driven: bool
    driven_by: str | None
    patience: Patience | None  # while it is suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """`listed` are those with trouble, then the others by name: at most a hundred of the `found`, which are those of `all` that were asked for."""

    all: int
    found: int
    situations: Mapping[Situation, int]
    listed: Sequence[AccountNow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`why`: what the reply means, in words."""

    at: datetime
    email_id: EmailId
    outcome: str
    code: int | None
    reply: str | None
    why: str | None


async def read_accounts(store: Store, *, now: datetime, workspace: str | None = None) -> list[AccountNow]:
    """Those with trouble first, then by name."""
    found = [account_now(post, now) for post in await read_posts(store, workspace=workspace)]
    return sorted(found, key=lambda each: (_RANK[each.situation], each.name))


def chosen(
    everyone: Sequence[AccountNow], *, having: str | None = None, situation: Situation | None = None
) -> Accounts:
    """`having`: only those that have this in their name, address or pool."""
    fitting = [each for each in everyone if _fits(each, (having or "").casefold())]
    found = [each for each in fitting if situation in (None, each.situation)]
    return Accounts(
        all=len(everyone),
        found=len(found),
        situations=Counter(each.situation for each in fitting),
        listed=found[:LISTED_MAX],
    )


async def read_failures(store: Store, post: Post) -> list[Failure]:
    """The newest, among the last attempts of all accounts."""
    rows = await store.fetch(_FAILURES, post.account.id, ATTEMPTS_SEEN_MAX, FAILURES_MAX)
    channel = Channel.GMAIL if isinstance(post.account.transport, GmailSettings) else Channel.SMTP
    return [Failure(**row, why=_why(row["code"], row["reply"], channel)) for row in rows]


def account_now(post: Post, now: datetime) -> AccountNow:
    account, limits = post.account, post.account.limits
    hour_used, day_used = post.used(now)
    barrier = _barrier(post, now)
    is_driven = post.is_driven(now)
    return AccountNow(
        name=account.name,
        workspace=account.workspace,
        address=account.address,
        pool=account.pool,
        provider=account.provider,
        situation=_situation(post, barrier, now),
        reason=account.status_reason if not account.is_active(now) else None,
        hour_used=hour_used,
        hour_max=limits.hourly_max,
        day_used=day_used,
        day_max=post.day_max(now),
        day_bounces=account.usage.day_bounces if day_used else 0,
        day_errors=post.day_errors(now),
        last_used_at=account.usage.last_begun_at,
        bounce_percent_max=limits.bounce_percent_max,
        bounce_sample_min=limits.bounce_sample_min,
        sent_total=post.sent_total,
        may_send_at=barrier.moment if barrier else None,
        waits_for=_in_words(barrier) if barrier else None,
        is_driven=is_driven,
        driven_by=post.owner if is_driven else None,
        patience=account.patience,
    )


def server_in_words(server: TransportSettings | None) -> str | None:
    match server:
        case None:
            return None
        case SmtpSettings():
            return f"{server.host}:{server.port}, {_SECURITY[server.security]}" + (
                f", as {server.user}" if server.user else ""
            )
        case GmailSettings():
            return "the Gmail API"
        case _:
            return f"unknown ({server.kind})"


def _barrier(post: Post, now: datetime) -> NotBefore | None:
    """The pace of an account at work is none."""
    admitted = standing(post.account, now=now)
    if not isinstance(admitted, NotBefore):
        return None
    is_pace = admitted.reason is Reason.DELAY and admitted.moment and admitted.moment - now < PACE_WORTH_TELLING
    return None if is_pace else admitted


def _situation(post: Post, barrier: NotBefore | None, now: datetime) -> Situation:
    account = post.account
    if not account.is_active(now):
        return _BY_STATUS[account.status]
    if account.transport is None:
        return Situation.NO_SERVER
    if barrier is None or barrier.reason is Reason.DELAY:
        return Situation.ACTIVE
    is_rest = barrier.reason.value in (RestReason.BACK_OFF, RestReason.UNREACHABLE)
    return Situation.RESTING if is_rest else Situation.LIMIT_REACHED


def _in_words(barrier: NotBefore) -> str:
    if barrier.reason is Reason.STATUS:
        return barrier.detail or ""
    return f"{barrier.reason}: {barrier.detail}" if barrier.detail else barrier.reason


def _fits(account: AccountNow, having: str) -> bool:
    return any(having in text.casefold() for text in (account.name, account.address, account.pool))


def _why(code: int | None, reply: str | None, channel: Channel) -> str | None:
    return meaning(Reply(code, reply or ""), channel=channel).why if code is not None else None


_FAILURES = """
    SELECT a.ended_at AS at, a.email_id, a.outcome, a.code, a.reply
    FROM (SELECT a.* FROM fairpost.attempts a ORDER BY a.email_id DESC, a.n DESC LIMIT $2) a
    WHERE a.account_id = $1 AND a.outcome <> 'sent' ORDER BY a.ended_at DESC LIMIT $3"""
