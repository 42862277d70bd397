"""Actions on senders: pause everything, hold a name, throttle a user, and reverse each of these."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import Refusal
from fairpost.model.sender import NodeLevel, Sender, SenderId, SenderLevel
from fairpost.policy.senders import IMMUNE_FOR, Decided, SenderPolicy, impose, look
from fairpost.policy.senders import lift as lifted
from fairpost.store import pauses, senders
from fairpost.store.senders import Active
from fairpost.store.store import Store

THROTTLED_FOR = timedelta(days=1)
EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A request to pause all sending. If `until` is None, the pause lasts until sending is resumed."""

    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The result of a pause or resume.

    `pause` is the current pause, or None if nothing is paused. `ended` is the pause that this action has ended, or
    None.
    """

    pause: dict[str, Any] | None
    changed: bool
    ended: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name to hold: a workspace, or a domain, user or stream in it."""

    workspace: str
    level: NodeLevel = "workspace"
    key: str = ""

    def __str__(self) -> str:
        return f"{self.level} {self.key or self.workspace}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A request to hold a name, for `length` or until `until`. If neither is given, the hold lasts until it is
    released.
    """

    name: Name
    reason: str
    length: timedelta | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseWorkspace:
    workspace: str
    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    sender: SenderId
    reason: str
    policy: SenderPolicy
    length: timedelta | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unthrottle:
    sender: SenderId
    policy: SenderPolicy
    immune_for: timedelta = IMMUNE_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUser:
    """Settings of a workspace or user. None keeps a value; 0 or "" removes it.

    With `policy`, the tier is decided immediately. Without it, an engine decides the tier later; callers that may not
    see scores therefore omit it. With `is_whole`, omitted values are removed, and the age is unknown if `since` is
    omitted.
    """

    sender: SenderId
    policy: SenderPolicy | None = None
    is_whole: bool = False
    plan: str | None = None
    since: datetime | None = None
    daily_max: int | None = None
    waiting_max: int | None = None
    home: str | None = None


@action("pause")
async def pause(actor: Actor, request: Pause, store: Store) -> Paused:
    """Pauses all sending. Once this is committed, no machine starts another send."""
    _require_future(request.until, await store.now())
    was_paused = await pauses.pause_everything(store, reason=request.reason, by=actor.who, until=request.until)
    await actor.record(store, "pause", EVERYTHING, workspace=None, reason=request.reason, until=request.until)
    return Paused(pause=await pauses.pause_now(store), changed=not was_paused)


@action("resume")
async def resume(actor: Actor, request: Resume, store: Store) -> Paused:
    """Resumes sending. After a restore, this also confirms that sending may continue with the database's current
    contents.
    """
    ended = await pauses.resume_everything(store, by=actor.who)
    if ended is not None:
        await actor.record(store, "resume", EVERYTHING, workspace=None)
    return Paused(pause=await pauses.pause_now(store), changed=ended is not None, ended=ended)


@action("sender.hold")
async def hold(actor: Actor, request: Hold, store: Store) -> datetime | None:
    """Holds a name. Returns the time at which the hold ends, or None if the hold lasts until it is released."""
    now, name = await store.now(), request.name
    until = now + request.length if request.length else request.until
    _require_future(until, now)
    await store.hold(name.workspace, name.level, name.key, until=until, reason=request.reason)
    await actor.record(store, "sender.hold", str(name), workspace=name.workspace, reason=request.reason, until=until)
    return until


@action("workspace.pause")
async def pause_workspace(actor: Actor, request: PauseWorkspace, store: Store) -> bool:
    """Pauses a workspace and returns whether it was already paused.

    Once this is committed, no more sends are started for the workspace.
    """
    _require_future(request.until, await store.now())
    name = request.workspace
    was_paused = await pauses.pause_workspace(store, name, reason=request.reason, until=request.until)
    await actor.record(
        store, "workspace.pause", f"workspace {name}", workspace=name, reason=request.reason, until=request.until
    )
    return was_paused


@action("sender.release")
async def release(actor: Actor, request: Release, store: Store) -> None:
    name = request.name
    if not await store.release(name.workspace, name.level, name.key):
        raise Refusal("hold.unknown", subject=str(name), workspace=name.workspace)
    await actor.record(store, "sender.release", str(name), workspace=name.workspace)


@action("sender.throttle")
async def throttle(actor: Actor, request: Throttle, store: Store) -> Sender:
    """Throttles a sender manually. The throttle ends at the given time, regardless of scores."""
    now = await store.now()
    until = request.until or now + (request.length or THROTTLED_FOR)
    _require_future(until, now)

    def decide(active: Active, now: datetime) -> Decided:
        return impose(active.sender, until=until, reason=request.reason, policy=request.policy, now=now)

    sender = await senders.decide_now(store, await senders.named(store, request.sender), decide)
    await _record(actor, store, "sender.throttle", request.sender, reason=request.reason, until=until)
    return sender


@action("sender.unthrottle")
async def unthrottle(actor: Actor, request: Unthrottle, store: Store) -> Sender:
    """Ends a throttle, whether it was caused by a score or set manually."""

    def decide(active: Active, now: datetime) -> Decided:
        if active.sender.throttle is None:
            raise Refusal(
                "throttle.unknown",
                subject=str(request.sender),
                workspace=request.sender.workspace,
                user=request.sender.name,
            )
        return lifted(active.sender, policy=request.policy, now=now, immune_for=request.immune_for)

    sender = await senders.decide_now(store, await senders.named(store, request.sender), decide)
    await _record(actor, store, "sender.unthrottle", request.sender)
    return sender


@action("user.set")
async def set_user(actor: Actor, request: SetUser, store: Store) -> Sender | None:
    """Changes settings. Returns the sender if a `policy` is given, otherwise None.

    The plan and the age determine the tier, which takes effect immediately, even for e-mails that are already queued.
    """
    if request.since is not None and request.since > await store.now():
        raise Refusal("user.since_in_future", since=request.since)
    id_ = request.sender if request.is_whole else await senders.named(store, request.sender)
    before = await _known(store, request, id_)
    if (request.plan, request.since, request.home) != (None, None, None):
        plan = before.plan if request.plan is None else request.plan or None
        await senders.set_sender(store, id_, plan=plan, since=request.since or before.since, home=request.home)
    if (request.daily_max, request.waiting_max) != (None, None):
        daily = before.daily_max if request.daily_max is None else request.daily_max or None
        waiting = before.waiting_max if request.waiting_max is None else request.waiting_max or None
        await senders.set_limits(store, id_, daily_max=daily, waiting_max=waiting)
    given = {name: getattr(request, name) for name in ("plan", "since", "daily_max", "waiting_max", "home")}
    await _record(actor, store, "user.set", request.sender, **given)
    policy = request.policy
    if policy is None:
        return None
    await senders.settle_homes(store)  # otherwise, an engine decides within a second
    return await senders.decide_now(store, id_, lambda a, now: look(a.sender, a.hours, a.days, policy, now=now))


async def _known(store: Store, request: SetUser, id_: SenderId) -> Sender:
    if request.is_whole:
        return Sender(id=id_)
    (known,) = await senders.with_activity(store, [id_])
    return known.sender


async def _record(actor: Actor, store: Store, action: str, sender: SenderId, **detail: object) -> None:
    is_user = sender.level is SenderLevel.USER
    subject = f"user {sender.name}" if is_user else f"workspace {sender.workspace}"
    await actor.record(store, action, subject, workspace=sender.workspace, **detail)


def _require_future(until: datetime | None, now: datetime) -> None:
    if until is not None and until <= now:
        raise Refusal("pause.end_in_past", until=until)
