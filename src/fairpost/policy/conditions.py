"""Determine the current conditions from the facts, as codes.

The status, pages, campaigns, doctor, API and metrics all use these conditions. An account has exactly one condition. A
route takes on the condition of its deciding account. The order matters.

Conditions that only manual action can end come first: suspended, without a server, paused manually. Faults come second:
the most recent attempts failed, whether or not a limit applies as well. A fault takes precedence over a pause that ends
later. Conditions that end automatically come third: limits, or a pause that the provider asked for. Problems with
sending itself come fourth: everything is paused, no engine or worker is running yet, or an e-mail is stuck on the wire.
Normal activity comes last: the account is sending (now or until recently), or it has nothing to do.

Exactly one cause is reported for each waiting e-mail. If the e-mail is held and its route is broken, the route is
reported, because the e-mail could not be sent even after its release.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from fairpost.model.account import AccountRuntime, AccountStatus, RestReason
from fairpost.model.reason import Reason, Value
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.policy import limits
from fairpost.policy.blame import reason_of
from fairpost.policy.facts import Facts, Hold, Pause, Route
from fairpost.policy.limits import NotBefore
from fairpost.policy.verdicts import key_locked

PACE_WORTH_TELLING = timedelta(minutes=1)  # pauses shorter than this are normal while an account is working
SLOW_AFTER = timedelta(seconds=15)  # an e-mail that has been on the wire for this long is considered stuck
SENDING_FOR = timedelta(seconds=5)  # how long an account counts as sending after a send and the pause that follows


PAUSED = ("everything.paused", "everything.restored")


class Tone(StrEnum):
    """The severity.

    FAULT means that something is broken. STOPPED needs manual action, and WAITING ends automatically.
    """

    FAULT = "fault"
    STOPPED = "stopped"
    WAITING = "waiting"
    WORKING = "working"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition.

    `waiting` is the number of e-mails that the condition affects. `accounts` is the number of accounts on the route.
    The condition itself is that of the deciding account.
    """

    reason: Reason
    tone: Tone
    until: datetime | None = None
    waiting: int = 0
    accounts: int = 1

    @property
    def code(self) -> str:
        return self.reason.code

    @property
    def is_stuck(self) -> bool:
        """Whether manual action is needed to end the condition."""
        return self.tone in (Tone.FAULT, Tone.STOPPED)

    @property
    def keeps_mail_back(self) -> bool:
        return self.tone not in (Tone.WORKING, Tone.IDLE)


def of_account(runtime: AccountRuntime, facts: Facts, *, has_mail: bool) -> Condition:
    """Return an account's condition. `has_mail` means that there is due mail that the account could send."""
    return (
        _ended_by_a_person(runtime, facts.now)
        or _at_fault(runtime, facts.now, is_tried=bool(facts.engines) and facts.pause is None)
        or _ends_by_itself(runtime, facts.now)
        or (
            _driven(runtime, facts)
            if has_mail or runtime.begun_at is not None
            else _condition("account.idle", Tone.IDLE, runtime)
        )
    )


_TOO_SHORT_TO_TELL = ("account.delay", "account.api_quota")


def why_stopped(runtime: AccountRuntime, now: datetime) -> Reason | None:
    """Return what stops the account for longer than its normal pauses between e-mails, or None if it may send."""
    found = _ended_by_a_person(runtime, now) or _at_fault(runtime, now, is_tried=True) or _ends_by_itself(runtime, now)
    return found.reason if found is not None and found.code not in _TOO_SHORT_TO_TELL else None


def of_route(route: Route, facts: Facts) -> Condition:
    """Return the condition of a route that has mail due: the condition of its deciding account."""
    serving = facts.serving(route)
    if not serving:
        code = "pool.empty" if route.pinned_to is None else "account.unknown"
        about = {"pool": route.route} if route.pinned_to is None else {"account": route.pinned_to}
        return Condition(reason=Reason(code, **about), tone=Tone.FAULT, waiting=route.waiting)
    able = [each for each in serving if each.account.id not in facts.shut] or serving
    found = [of_account(each, facts, has_mail=route.due) for each in able]
    return replace(min(found, key=_decides), waiting=route.waiting, accounts=len(serving))


def is_broken(routes: Sequence[Condition]) -> bool:
    """Return whether these routes could send nothing even if there were no other obstacles. A route is not broken
    merely because no engine is running.
    """
    return bool(routes) and all(each.tone is Tone.FAULT and each.code != "engine.none" for each in routes)


_RANKS = {Tone.WORKING: 0, Tone.IDLE: 1, Tone.WAITING: 2, Tone.FAULT: 2, Tone.STOPPED: 4}


def _decides(condition: Condition) -> tuple[int, float, bool]:
    """Return a sort key for the account that decides.

    If an account is working, it decides. Otherwise, the account that can resume sending soonest decides. A fault takes
    precedence over a pause that ends later.
    """
    never = condition.until is None and condition.tone is not Tone.WORKING
    rank = 3 if never and condition.tone is Tone.FAULT else _RANKS[condition.tone]
    moment = condition.until.timestamp() if condition.until else 0.0
    return rank, moment, condition.tone is not Tone.FAULT


def _ended_by_a_person(runtime: AccountRuntime, now: datetime) -> Condition | None:
    account = runtime.account
    if account.status is AccountStatus.SUSPENDED and not account.is_active(now):
        ends = account.patience
        about = {"urgent_until": ends.urgent, "bulk_until": ends.bulk} if ends else {}
        return _condition("account.suspended", Tone.FAULT, runtime, why=account.status_reason, **about)
    if account.status is AccountStatus.PAUSED and account.status_until is None:
        return _condition("account.paused", Tone.STOPPED, runtime, why=account.status_reason)
    return _condition("account.no_server", Tone.FAULT, runtime) if account.transport is None else None


def _at_fault(runtime: AccountRuntime, now: datetime, *, is_tried: bool) -> Condition | None:
    """Return the fault of an account whose most recent attempts failed, including while it is trying again.

    `is_tried` means that another attempt will follow and has been announced.
    """
    account = runtime.account
    rest, troubles = account.usage.rest, account.troubles
    if rest is None or not (troubles.unreachable or troubles.throttle_count):
        return None
    until = rest.until if rest.until > now else None
    if rest.reason is RestReason.BACK_OFF:
        return _condition("account.provider_pause", Tone.WAITING, runtime, until, why=rest.detail)
    code = "account.server_forbidden" if troubles.is_barred else "account.server_unreachable"
    server, until = server_name(account.transport), until if is_tried else None
    return _condition(code, Tone.FAULT, runtime, until, server=server, why=rest.detail, times=troubles.unreachable)


def _ends_by_itself(runtime: AccountRuntime, now: datetime) -> Condition | None:
    account = runtime.account
    if not account.is_active(now):
        code = "account.paused" if account.status is AccountStatus.PAUSED else _limit_reached(runtime, now)
        return _condition(code, Tone.WAITING, runtime, account.status_until, why=account.status_reason)
    barrier = limits.admit(account.limits, account.usage, now=now)
    if not isinstance(barrier, NotBefore) or _is_pace(barrier, now):
        return None
    return _condition(barrier.reason, Tone.WAITING, runtime, barrier.moment, why=barrier.detail)


def _limit_reached(runtime: AccountRuntime, now: datetime) -> str:
    barrier = limits.admit(runtime.account.limits, runtime.account.usage, now=now)
    is_warm_up = isinstance(barrier, NotBefore) and barrier.reason is limits.Barrier.WARM_UP
    return "account.warm_up_limit" if is_warm_up else "account.daily_limit"


def _is_pace(barrier: NotBefore, now: datetime) -> bool:
    is_delay = barrier.reason is limits.Barrier.DELAY and barrier.moment is not None
    return is_delay and barrier.moment is not None and barrier.moment - now < PACE_WORTH_TELLING


def _driven(runtime: AccountRuntime, facts: Facts) -> Condition:
    account, now = runtime.account, facts.now
    if facts.pause is not None:
        return of_pause(facts.pause)
    if not facts.engines:
        return Condition(reason=Reason("engine.none"), tone=Tone.FAULT)
    if not facts.is_driven(runtime):
        return _condition("account.no_worker", Tone.WAITING, runtime)
    if runtime.begun_at is not None and now - runtime.begun_at > SLOW_AFTER:
        server, since = server_name(account.transport), runtime.begun_at
        return _condition("account.server_hangs", Tone.FAULT, runtime, server=server, since=since)
    if runtime.begun_at is not None and now - runtime.begun_at > SENDING_FOR:
        server, since = server_name(account.transport), runtime.begun_at
        return _condition("account.server_slow", Tone.WAITING, runtime, server=server, since=since)
    free_at = limits.free_at(account.limits, account.usage)
    if runtime.begun_at is not None or (free_at is not None and now - free_at < SENDING_FOR):
        return _condition("account.sending", Tone.WORKING, runtime)
    return _condition("account.not_begun", Tone.WAITING, runtime)


def server_name(transport: TransportSettings | None) -> str | None:
    return transport.place if isinstance(transport, ServerSettings) else None


def _condition(
    code: str, tone: Tone, runtime: AccountRuntime, until: datetime | None = None, **params: Value
) -> Condition:
    return Condition(reason=Reason(code, account=runtime.account.name, **params, until=until), tone=tone, until=until)


# ── conditions of all waiting mail ────────────────────────────────────────────────────────────────────────


def diagnose(facts: Facts) -> list[Condition]:
    """Return everything that keeps mail from being sent now, worst first."""
    found = [
        *([of_pause(facts.pause)] if facts.pause else []),
        *_of_routes(facts),
        *_on_the_wire(facts),
        *_of_holds(facts),
        *of_blocks(facts),
        *[Condition(reason=key_locked(key), tone=Tone.FAULT) for key in facts.locked_keys],
        *_scheduled(facts),
        *_in_doubt(facts),
        *_stranded(facts),
    ]
    return sorted(found, key=lambda each: list(Tone).index(each.tone)) if not facts.pause else found


def of_pause(pause: Pause) -> Condition:
    code = "everything.restored" if pause.restored else "everything.paused"
    about: dict[str, Value] = {
        "since": pause.since,
        "by": pause.paused_by,
        "why": pause.reason,
        "until": pause.until,
    }
    return Condition(reason=Reason(code, **about), tone=Tone.STOPPED, until=pause.until)


def of_hold(hold: Hold) -> Condition:
    about: dict[str, Value] = {
        "workspace": hold.workspace,
        "name": hold.key,
        "level": hold.level,
        "why": hold.reason,
        "until": hold.until,
    }
    if hold.campaign is not None and (own := _of_its_campaign(hold)) is not None:
        return own
    match hold.kind:
        case "held":
            code, tone = f"hold.{hold.level}", Tone.STOPPED
        case "throttled":
            code, tone = f"throttle.{hold.level}", Tone.WAITING
        case "closed":
            code, tone = "window.closed", Tone.WAITING
    return Condition(reason=Reason(code, **about), tone=tone, until=hold.until, waiting=hold.waiting)


_OF_CAMPAIGNS = {"paused": Tone.STOPPED, "failed": Tone.FAULT, "cancelled": Tone.IDLE}


def _of_its_campaign(hold: Hold) -> Condition | None:
    """Report a hold on a campaign's stream as a hold on the campaign, because releasing the stream would let a paused
    campaign send.
    """
    about: dict[str, Value] = {"name": hold.campaign, "workspace": hold.workspace, "until": hold.until}
    if hold.kind == "closed":
        reason = Reason("campaign.window_closed", **about, why=hold.reason)
        return Condition(reason=reason, tone=Tone.WAITING, until=hold.until, waiting=hold.waiting)
    tone = _OF_CAMPAIGNS.get(hold.campaign_state or "")
    if tone is None:
        return None
    reason = Reason(f"campaign.{hold.campaign_state}", **about)
    return Condition(reason=reason, tone=tone, waiting=hold.waiting)


def _of_holds(facts: Facts) -> list[Condition]:
    """Return one condition per campaign, however many streams it has, or none if the held e-mails' routes are broken."""
    broken = {route.route for route in facts.routes if is_broken([of_route(route, facts)])}
    found: dict[tuple[object, ...], Condition] = {}
    for hold in facts.holds:
        condition = of_hold(hold)
        is_told_by_routes = hold.routes and broken.issuperset(hold.routes)
        if hold.waiting > 0 and condition.keeps_mail_back and not is_told_by_routes:
            subject = (hold.workspace, hold.campaign or (hold.level, hold.key), condition.code)
            known = found.get(subject)
            waiting = condition.waiting + (known.waiting if known else 0)
            found[subject] = replace(known or condition, waiting=waiting)
    return list(found.values())


def _of_routes(facts: Facts) -> Iterable[Condition]:
    """Yield the conditions of routes, including those whose mail is all scheduled for later.

    An obstacle that must be removed manually is already known at this point.
    """
    if not facts.accounts and facts.workspace is None:
        waiting = sum(route.waiting for route in facts.routes)
        yield Condition(reason=Reason("account.none"), tone=Tone.FAULT, waiting=waiting)
        return
    no_engine: list[Condition] = []
    for route in facts.routes:
        found = of_route(route, facts)
        if found.code == "engine.none":
            no_engine.append(found)
        elif found.code in PAUSED:
            continue  # `diagnose` reports a pause once, before all other conditions
        elif found.keeps_mail_back and (route.due or found.tone in (Tone.FAULT, Tone.STOPPED)):
            yield found
    if no_engine:
        yield replace(no_engine[0], waiting=sum(each.waiting for each in no_engine))


def _on_the_wire(facts: Facts) -> Iterator[Condition]:
    """Yield the conditions of routes whose last e-mail may be stuck even though nothing is waiting behind it."""
    if not facts.engines or facts.pause:
        return
    asked = {each.account.id for route in facts.routes if route.due for each in facts.serving(route)}
    for runtime in facts.accounts:
        claimed = facts.claimed.get(runtime.account.id)
        if claimed is None or not claimed.sending or runtime.begun_at is None or runtime.account.id in asked:
            continue
        found = of_account(runtime, facts, has_mail=True)
        if found.keeps_mail_back:
            yield replace(found, waiting=claimed.sending)


def of_blocks(facts: Facts) -> Iterator[Condition]:
    for mail in facts.blocked:
        block = mail.block
        about: dict[str, Value] = {"workspace": block.workspace, "account": block.account, "until": block.until}
        about["why"] = reason_of(block.fault)
        tone = Tone.STOPPED if block.until is None else Tone.WAITING
        reason = Reason("account.blocks_workspace", **about)
        yield Condition(reason=reason, tone=tone, until=block.until, waiting=mail.route.waiting)


def _scheduled(facts: Facts) -> Iterable[Condition]:
    moments = [route.next_at for route in facts.routes if route.next_at]
    if moments and not any(route.due for route in facts.routes):
        due_at = min(moments)
        yield Condition(reason=Reason("mail.scheduled", due_at=due_at), tone=Tone.WAITING, until=due_at)


def _in_doubt(facts: Facts) -> Iterable[Condition]:
    total = facts.total()
    if total.undecided:
        yield Condition(reason=Reason("mail.undecided"), tone=Tone.STOPPED, waiting=total.undecided)
    if total.in_doubt > total.undecided:
        reason = Reason("mail.in_doubt")
        yield Condition(reason=reason, tone=Tone.WAITING, waiting=total.in_doubt - total.undecided)


def _stranded(facts: Facts) -> Iterable[Condition]:
    driven = {each.account.id for each in facts.accounts if facts.is_driven(each)}
    left = sum(each.claimed + each.sending for id_, each in facts.claimed.items() if id_ not in driven)
    if left and facts.accounts:
        tone = Tone.WAITING if facts.engines else Tone.FAULT
        yield Condition(reason=Reason("mail.stranded"), tone=tone, waiting=left)


# ── headline ──────────────────────────────────────────────────────────────────────────────────────────────


def headline(facts: Facts, found: Sequence[Condition], *, per_s: float) -> Condition:
    """Return what to report first. `per_s` is the recent rate in e-mails per second, or 0 at the first check."""
    total = facts.total()
    waiting = sum(route.waiting for route in facts.routes) + total.claimed
    if facts.pause is not None:
        return of_pause(facts.pause)
    is_sending = per_s > 0 or any(of_route(route, facts).tone is Tone.WORKING for route in facts.routes if route.due)
    if any(each.code == "engine.none" for each in found):  # what was sent a moment ago came from an engine that is gone
        is_sending = False
    if is_sending or (total.sending and not found):
        blocked = sum(each.waiting for each in found)
        reason = Reason("mail.sending", per_s=round(per_s, 3), waiting=waiting, blocked=blocked)
        return Condition(reason=reason, tone=Tone.WORKING, waiting=waiting)
    if found:
        return found[0]
    if waiting:
        return Condition(reason=Reason("mail.waiting"), tone=Tone.WAITING, waiting=waiting)
    return Condition(reason=Reason("mail.none"), tone=Tone.IDLE)
