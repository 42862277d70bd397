"""Reads accounts for display (those with problems first), and the latest failures of one account.

The cost depends on the number of accounts, not on the number of e-mails.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairpost.model.account import Account, AccountRuntime, Patience
from fairpost.model.ids import EmailId
from fairpost.model.report import Channel, Reply
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.observe import status
from fairpost.observe.reading import ReadingState, Unknown, reading_of
from fairpost.observe.status import read_engines
from fairpost.policy.conditions import Condition, of_account
from fairpost.policy.facts import Facts, Route
from fairpost.policy.limits import day_errors, day_max, used
from fairpost.policy.replies import meaning
from fairpost.reasons.rendering import Shown, shown
from fairpost.store.outcomes import failures
from fairpost.store.store import Store
from fairpost.store.waiting import own_routes, waiting_by_route
from fairpost.transports.registry import kind_of

Show = Callable[[Condition], Shown]

LISTED_MAX = 100
FAILURES_MAX = 5
ATTEMPTS_SEEN_MAX = 2_000  # number of newest attempts searched for an account's failures


class Situation(StrEnum):
    """The situations in which an account can be, from worst to best."""

    SUSPENDED = "suspended"
    NO_SERVER = "no_server"
    RESTING = "resting"  # the server asked for a pause, or is unreachable
    PAUSED = "paused"
    LIMIT_REACHED = "limit_reached"
    ACTIVE = "active"


_SITUATIONS = {
    "account.suspended": Situation.SUSPENDED,
    "account.no_server": Situation.NO_SERVER,
    "account.paused": Situation.PAUSED,
    **dict.fromkeys(("account.server_unreachable", "account.server_forbidden"), Situation.RESTING),
    **dict.fromkeys(("account.server_hangs", "account.provider_pause"), Situation.RESTING),
    **dict.fromkeys(("account.delay", "account.hourly_limit"), Situation.LIMIT_REACHED),
    **dict.fromkeys(("account.daily_limit", "account.warm_up_limit"), Situation.LIMIT_REACHED),
    "account.api_quota": Situation.LIMIT_REACHED,
}
_RANK = {situation: n for n, situation in enumerate(Situation)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingNow:
    """Whether the account's mailbox is read. `unknown` lists what remains unknown unless the mailbox is read."""

    state: ReadingState
    condition: Shown
    read_at: datetime | None
    unknown: Sequence[Unknown]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountNow:
    """The state of an account. `may_send_at` is None if the account may send now, or if a person must act first.

    `driven_by` is the engine that drives it, if the viewer may see this.
    """

    name: str
    workspace: str | None
    address: str
    pool: str
    provider: str | None
    situation: Situation
    condition: Shown
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
    is_driven: bool
    driven_by: str | None
    patience: Patience | None  # set while the account is suspended
    reading: ReadingNow | None  # None if the account has no server


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """A selection of accounts. `all` counts every account; `found` counts those that match.

    `listed` contains at most a hundred of the matches. The listed accounts are sorted from worst to best, and then by
    name.
    """

    all: int
    found: int
    situations: Mapping[Situation, int]
    listed: Sequence[AccountNow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt. `why` explains the server's reply."""

    at: datetime
    email_id: EmailId
    outcome: str
    code: int | None
    reply: str | None
    why: str | None


async def read_accounts(store: Store, *, workspace: str | None = None, shown: Show = shown) -> list[AccountNow]:
    """Returns accounts, sorted from worst to best and then by name. `shown` renders the conditions that the viewer may
    see.
    """
    facts = await read_account_facts(store, workspace=workspace)
    found = [account_now(each, facts, shown) for each in facts.accounts]
    return sorted(found, key=lambda each: (_RANK[each.situation], each.name))


async def read_account_facts(store: Store, *, workspace: str | None, name: str | None = None) -> Facts:
    """Returns the facts that determine the conditions of one account, of a workspace's accounts, or of all accounts."""
    now = await store.now()
    if workspace is None:
        routes = await waiting_by_route(store, now=now)
    else:
        routes = await own_routes(store, workspace, now=now)
    return Facts(
        now=now,
        pause=await status.read_pause(store, now=now),
        engines=await read_engines(store),
        accounts=[await status.read_account(store, name)]
        if name is not None
        else await status.read_accounts(store, workspace=workspace),
        routes=[Route(**row) for row in routes],
    )


def chosen(
    everyone: Sequence[AccountNow], *, having: str | None = None, situation: Situation | None = None
) -> Accounts:
    """Selects accounts. Matches are accounts whose name, address or pool contains the text `having`."""
    fitting = [each for each in everyone if _fits(each, (having or "").casefold())]
    found = [each for each in fitting if situation in (None, each.situation)]
    return Accounts(
        all=len(everyone),
        found=len(found),
        situations=Counter(each.situation for each in fitting),
        listed=found[:LISTED_MAX],
    )


async def read_failures(store: Store, account: Account) -> list[Failure]:
    """Returns the account's newest failures. Only the latest attempts across all accounts are searched."""
    rows = await failures(store, account.id, attempts_max=ATTEMPTS_SEEN_MAX, most=FAILURES_MAX)
    server = account.transport
    channel = kind_of(server).channel if isinstance(server, ServerSettings) else Channel.SMTP
    return [Failure(**row, why=_why(row["code"], row["reply"], channel)) for row in rows]


def account_now(runtime: AccountRuntime, facts: Facts, shown: Show = shown) -> AccountNow:
    account, limits, now = runtime.account, runtime.account.limits, facts.now
    hour_used, day_used = used(runtime.account, now)
    condition = condition_of(runtime, facts)
    is_driven = facts.is_driven(runtime)
    return AccountNow(
        name=account.name,
        workspace=account.workspace,
        address=account.address,
        pool=account.pool,
        provider=account.provider,
        situation=_SITUATIONS.get(condition.code, Situation.ACTIVE),
        condition=shown(condition),
        hour_used=hour_used,
        hour_max=limits.hourly_max,
        day_used=day_used,
        day_max=day_max(runtime.account, now),
        day_bounces=account.usage.day_bounces if day_used else 0,
        day_errors=day_errors(runtime.account, now),
        last_used_at=account.usage.last_begun_at,
        bounce_percent_max=limits.bounce_percent_max,
        bounce_sample_min=limits.bounce_sample_min,
        sent_total=runtime.sent_total,
        may_send_at=condition.until,
        is_driven=is_driven,
        driven_by=runtime.owner if is_driven else None,
        patience=account.patience,
        reading=_reading_now(runtime, now, shown),
    )


def _reading_now(runtime: AccountRuntime, now: datetime, shown: Show) -> ReadingNow | None:
    found = reading_of(runtime, now)
    if found is None:
        return None
    return ReadingNow(state=found.state, condition=shown(found.condition), read_at=found.read_at, unknown=found.unknown)


def condition_of(runtime: AccountRuntime, facts: Facts) -> Condition:
    own = {runtime.account.pool, f"@{runtime.account.name}"}
    return of_account(runtime, facts, has_mail=any(route.due and route.route in own for route in facts.routes))


def server_in_words(server: TransportSettings | None) -> str | None:
    if server is None:
        return None
    return kind_of(server).in_words(server) if isinstance(server, ServerSettings) else f"unknown ({server.kind})"


def _fits(account: AccountNow, having: str) -> bool:
    return any(having in text.casefold() for text in (account.name, account.address, account.pool))


def _why(code: int | None, reply: str | None, channel: Channel) -> str | None:
    return meaning(Reply(code, reply or ""), channel=channel).why if code is not None else None
