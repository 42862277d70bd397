"""`fairpost user`: what is known of workspaces and users, who is throttled, and how to change that by hand."""

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import limit, moment, span
from fairpost.cli.output import AsJson, iso, note, plain, print_json
from fairpost.cli.session import with_store
from fairpost.cli.user_view import (
    clock_time,
    emails,
    names_of,
    next_steps,
    print_sender,
    print_senders,
    sender_facts,
    shown_facts,
    stop_lines,
    tier_name,
)
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.sender import SenderId, SenderLevel
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.model.sender import Sender
    from fairpost.observe.emails import Stop
    from fairpost.observe.senders import ShownSender
    from fairpost.policy.senders import Decided
    from fairpost.postgres.senders import Active
    from fairpost.postgres.store import Store

app = typer.Typer(no_args_is_help=True, help="Register users, see who is throttled and why, throttle and lift by hand.")

NAME_MAX = 200
PLAN_MAX = 100
THROTTLED_FOR = timedelta(days=1)

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
User = Annotated[str | None, typer.Argument(metavar="[USER]", help="One of its users; without: the workspace itself.")]


def _since(text: str) -> datetime:
    """A day begins at midnight, UTC."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        return moment(text)


@app.command("set")
def set_(
    workspace: Workspace,
    user: User = None,
    plan: Annotated[str | None, typer.Option(help="What it pays for; '' for none.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(parser=_since, metavar="TIME", help="Since when it exists: 2030-01-31 or 2030-01-31T09:00:00Z."),
    ] = None,
    daily_max: Annotated[
        int | None,
        typer.Option(parser=limit, metavar="N", help="Most it may submit in 24 hours, on any way; or: none."),
    ] = None,
    waiting_max: Annotated[
        int | None, typer.Option(parser=limit, metavar="N", help="Most of it that may wait; or: none.")
    ] = None,
    home: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="The domain among whose users it is served, whatever its From.")
    ] = None,
) -> None:
    """Register a workspace or user, or change what is known of it.

    Plan and age make its tier, at once and for what is queued already. What is not named stays as it is.

    \b
    Example: fairpost user set acme ann --plan team --since 2030-01-31
    """
    id_ = _id(workspace, user)
    if all(given is None for given in (plan, since, daily_max, waiting_max, home)):
        raise typer.BadParameter("give at least one of --plan, --since, --daily-max, --waiting-max and --home")
    if home is not None and id_.level is SenderLevel.WORKSPACE:
        raise typer.BadParameter("--home is of a user: name one")
    if plan is not None and len(plan) > PLAN_MAX:
        raise typer.BadParameter(f"a plan has {PLAN_MAX} characters at most")
    from fairpost.app import sender_policy
    from fairpost.policy.senders import look
    from fairpost.postgres import senders
    from fairpost.providers.domain_proof import provable_domain

    settings = read_settings()
    policy = sender_policy(settings)
    new_home = None if home is None else provable_domain(home)

    async def work(store: "Store") -> "Sender":
        now = await store.value("SELECT clock_timestamp()")
        if since is not None and since > now:
            raise FairpostError(f"--since must not lie in the future, got {iso(since)}")
        named = await senders.named(store, id_)
        (known,) = await senders.with_activity(store, [named])
        before = known.sender
        if plan is not None or since is not None or new_home is not None:
            new_plan = before.plan if plan is None else plan or None
            await senders.set_sender(store, named, plan=new_plan, since=since or before.since, home=new_home)
            await senders.settle_homes(store)  # or an engine does, within a second
        if daily_max is not None or waiting_max is not None:
            daily = before.daily_max if daily_max is None else daily_max or None
            waiting = before.waiting_max if waiting_max is None else waiting_max or None
            await senders.set_limits(store, named, daily_max=daily, waiting_max=waiting)
        return await senders.decide_now(store, named, lambda a, now: look(a.sender, a.hours, a.days, policy, now=now))

    found = with_store(work, settings=settings)
    typer.echo(plain(f"set {id_}: {_known_in_words(found)}"))


@app.command()
def show(workspace: Workspace, user: User = None, as_json: AsJson = False) -> None:
    """Show what is known of a workspace or user, and what it did.

    Its tier and what that is worth, its limits, its score with reasons, the last 24 hours and what is usual, whether and why it is throttled, and how much waits.

    \b
    Example: fairpost user show acme ann
    """
    from fairpost.app import sender_policy
    from fairpost.observe.senders import show_sender
    from fairpost.postgres.senders import named

    id_, settings = _id(workspace, user), read_settings()
    policy = sender_policy(settings)

    async def work(store: "Store") -> "ShownSender":
        return await show_sender(store, await named(store, id_), policy)

    shown = with_store(work, settings=settings)
    if as_json:
        print_json(shown_facts(shown))
    else:
        print_sender(shown, settings, policy)


@app.command("list")
def list_(
    workspace: Annotated[str | None, typer.Option(help="Only this workspace. [default: all]")] = None,
    throttled: Annotated[bool, typer.Option("--throttled", help="Only those with a throttle.")] = False,
    as_json: AsJson = False,
    most: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 100,
) -> None:
    """List the workspaces and users that somebody registered or decided on.

    The throttled first, those included whose throttle is only observed.

    \b
    Example: fairpost user list --throttled
    """
    from fairpost.postgres.senders import known

    found = with_store(lambda store: known(store, workspace=workspace, throttled=throttled, most=most))
    if as_json:
        print_json([sender_facts(sender) for sender in found])
    elif found:
        print_senders(found)
        if len(found) == most:
            note("there may be more: --limit")
    else:
        typer.echo("nobody is throttled" if throttled else "nobody is registered; see: fairpost user set --help")


@app.command()
def throttle(
    workspace: Workspace,
    user: User = None,
    *,
    reason: Annotated[str, typer.Option(help="Why: shown by `fairpost status`, and to whoever asks for an e-mail.")],
    length: Annotated[
        timedelta | None,
        typer.Option("--for", parser=span, metavar="SPAN", help="How long: 15m, 4h, 2d. [default: 24h]"),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Until when: 2030-01-31T09:00:00Z.")
    ] = None,
) -> None:
    """Throttle a workspace or user by hand.

    Nothing of it goes out until then. It counts whatever FAIRPOST_ABUSE_DETECTION says, no score shortens it, and it ends by itself.

    \b
    Example: fairpost user throttle acme ann --for 4h --reason "a bought list"
    """
    if length is not None and until is not None:
        raise typer.BadParameter("give --for or --until, not both")
    from fairpost.app import sender_policy
    from fairpost.observe.senders import waiting_behind
    from fairpost.policy.senders import impose
    from fairpost.postgres.senders import decide_now, named

    id_, settings = _id(workspace, user), read_settings()
    policy = sender_policy(settings)

    def decide(active: "Active", now: datetime) -> "Decided":
        end = until or now + (length or THROTTLED_FOR)
        if end <= now:
            raise FairpostError(f"--until must lie in the future, got {iso(end)}")
        return impose(active.sender, until=end, reason=reason, policy=policy, now=now)

    async def work(store: "Store") -> "tuple[Sender, int]":
        known = await named(store, id_)
        return await decide_now(store, known, decide), await waiting_behind(store, known)

    found, waiting = with_store(work, settings=settings)
    assert found.throttle is not None
    typer.echo(plain(f"throttled {id_} until {clock_time(found.throttle.until)}; waiting behind it: {emails(waiting)}"))


@app.command()
def lift(
    workspace: Workspace,
    user: User = None,
    immune_for: Annotated[
        timedelta | None,
        typer.Option(parser=span, metavar="SPAN", help="So long no score throttles it again. [default: 24h]"),
    ] = None,
) -> None:
    """Lift a throttle: what waited behind it may go out.

    Whoever imposed it, a score or a person. For a while no score throttles the same sender again.

    \b
    Example: fairpost user lift acme ann
    """
    from fairpost.app import sender_policy
    from fairpost.observe.emails import stops_on
    from fairpost.observe.senders import waiting_behind
    from fairpost.policy.senders import IMMUNE_FOR
    from fairpost.policy.senders import lift as lifted
    from fairpost.postgres.senders import decide_now, named

    id_, settings = _id(workspace, user), read_settings()
    policy = sender_policy(settings)

    def decide(active: "Active", now: datetime) -> "Decided":
        if active.sender.throttle is None:
            raise NotFound(f"There is no throttle on {id_}. See: fairpost user show {names_of(id_)}")
        return lifted(active.sender, policy=policy, now=now, immune_for=immune_for or IMMUNE_FOR)

    async def work(store: "Store") -> "tuple[Sender, int, list[Stop]]":
        known = await named(store, id_)
        found = await decide_now(store, known, decide)
        stops = await stops_on(store, known.workspace, user=known.name if user is not None else None)
        return found, await waiting_behind(store, known), stops

    found, waiting, stops = with_store(work, settings=settings)
    assert found.immune_until is not None
    typer.echo(
        plain(
            f"lifted the throttle on {id_}; waiting: {emails(waiting)}; immune until {clock_time(found.immune_until)}"
        )
    )
    for name, why in stop_lines(stops):
        typer.echo(plain(f"still {name}: {why}"))
    for step in next_steps(stops):
        typer.echo(f"next: {step}")


def _id(workspace: str, user: str | None) -> SenderId:
    for name, what in ((workspace, "workspace"), (user, "user")):
        if name is not None and not 0 < len(name) <= NAME_MAX:
            raise typer.BadParameter(f"a {what} has a name of 1 to {NAME_MAX} characters")
    if user is None:
        return SenderId(workspace=workspace, level=SenderLevel.WORKSPACE)
    return SenderId(workspace=workspace, name=user)


def _known_in_words(sender: "Sender") -> str:
    parts = [
        f"tier {tier_name(sender.tier)}",
        f"plan {sender.plan or 'unknown'}",
        f"since {clock_time(sender.since)}" if sender.since else "since unknown",
    ]
    parts += [f"{sender.daily_max:,} in 24 hours"] if sender.daily_max else []
    parts += [f"{sender.waiting_max:,} waiting"] if sender.waiting_max else []
    return ", ".join(parts)
