"""`fairpost user`: what is known of workspaces and users, who is throttled, and how to change that by hand."""

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act, act_on
from fairpost.cli.arguments import limit, moment, span
from fairpost.cli.output import AsJson, note, plain, print_json
from fairpost.cli.session import with_store
from fairpost.cli.user_view import (
    clock_time,
    emails,
    next_steps,
    print_sender,
    print_senders,
    sender_facts,
    shown_facts,
    stop_lines,
    tier_name,
)
from fairpost.model.sender import SenderId, SenderLevel
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.model.sender import Sender
    from fairpost.observe.emails import Stop
    from fairpost.observe.senders import ShownSender
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Register users, see who is throttled and why.")

NAME_MAX = 200
PLAN_MAX = 100

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
    from fairpost.actions.senders import SetUser, set_user
    from fairpost.providers.domain_proof import provable_domain
    from fairpost.startup.parts import sender_policy

    settings = read_settings()
    request = SetUser(
        sender=id_,
        policy=sender_policy(settings),
        plan=plan,
        since=since,
        daily_max=daily_max,
        waiting_max=waiting_max,
        home=None if home is None else provable_domain(home),
    )
    found = act(set_user, request, settings=settings)
    assert found is not None  # a policy was given
    typer.echo(plain(f"set {id_}: {_known_in_words(found)}"))


@app.command()
def show(workspace: Workspace, user: User = None, as_json: AsJson = False) -> None:
    """Show what is known of a workspace or user, and what it did.

    Its tier and what that is worth, its limits, its score with reasons, the last 24 hours and what is usual, whether and why it is throttled, and how much waits.

    \b
    Example: fairpost user show acme ann
    """
    from fairpost.observe.senders import show_sender
    from fairpost.startup.parts import sender_policy
    from fairpost.store.senders import named

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
    from fairpost.store.senders import known

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
    from fairpost.actions.senders import Throttle
    from fairpost.actions.senders import throttle as throttled
    from fairpost.observe.senders import waiting_behind
    from fairpost.startup.parts import sender_policy

    id_, settings = _id(workspace, user), read_settings()
    request = Throttle(sender=id_, reason=reason, policy=sender_policy(settings), length=length, until=until)

    async def work(store: "Store") -> "tuple[Sender, int]":
        found = await act_on(store, throttled, request)
        return found, await waiting_behind(store, found.id)

    found, waiting = with_store(work, settings=settings)
    assert found.throttle is not None
    typer.echo(plain(f"throttled {id_} until {clock_time(found.throttle.until)}; waiting behind it: {emails(waiting)}"))


@app.command()
def unthrottle(
    workspace: Workspace,
    user: User = None,
    immune_for: Annotated[
        timedelta | None,
        typer.Option(parser=span, metavar="SPAN", help="So long no score throttles it again. [default: 24h]"),
    ] = None,
) -> None:
    """Lift a throttle, so that what was waiting behind it can go out.

    It does not matter whether a score or a person imposed it. For a while no score throttles the same sender again.

    \b
    Example: fairpost user unthrottle acme ann
    """
    from fairpost.actions import senders
    from fairpost.observe.emails import stops_on
    from fairpost.observe.senders import waiting_behind
    from fairpost.policy.senders import IMMUNE_FOR
    from fairpost.startup.parts import sender_policy

    id_, settings = _id(workspace, user), read_settings()
    request = senders.Unthrottle(sender=id_, policy=sender_policy(settings), immune_for=immune_for or IMMUNE_FOR)

    async def work(store: "Store") -> "tuple[Sender, int, list[Stop]]":
        found = await act_on(store, senders.unthrottle, request)
        stops = await stops_on(store, found.id.workspace, user=found.id.name if user is not None else None)
        return found, await waiting_behind(store, found.id), stops

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
