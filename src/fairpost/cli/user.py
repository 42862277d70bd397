"""`fairpost user`: registered workspaces and users, their tiers, limits and throttles."""

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act, act_on
from fairpost.cli.arguments import limit, moment, span
from fairpost.cli.names import Workspace
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
    from fairpost.observe.senders import ShownSender
    from fairpost.policy.facts import Stop
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Register users and see which are throttled and why.")

NAME_MAX = 200
PLAN_MAX = 100

User = Annotated[
    str | None,
    typer.Argument(
        metavar="[USER]", help="User in the workspace. If omitted, the command applies to the workspace itself."
    ),
]


def _since(text: str) -> datetime:
    """Parse a date as midnight UTC on that day."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        return moment(text)


@app.command("set")
def set_(
    user: User = None,
    plan: Annotated[str | None, typer.Option(help="Plan. Use '' for no plan.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            parser=_since,
            metavar="TIME",
            help="Time at which the user or workspace was created, for example 2030-01-31 or 2030-01-31T09:00:00Z.",
        ),
    ] = None,
    daily_max: Annotated[
        int | None,
        typer.Option(parser=limit, metavar="N", help="Maximum number of e-mails in 24 hours, or `none` for no limit."),
    ] = None,
    waiting_max: Annotated[
        int | None,
        typer.Option(parser=limit, metavar="N", help="Maximum number of waiting e-mails, or `none` for no limit."),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(metavar="DOMAIN", help="Domain that the user is counted under, regardless of the From address."),
    ] = None,
    workspace: Workspace = "",
) -> None:
    """Register or change a workspace or user.

    The plan and the age determine the tier. Changes take effect immediately, even for queued e-mails. Omitted options keep their current values.

    \b
    Example: fairpost user set --workspace acme ann --plan team --since 2030-01-31
    """
    id_ = _id(workspace, user)
    if all(given is None for given in (plan, since, daily_max, waiting_max, home)):
        raise typer.BadParameter("specify at least one of --plan, --since, --daily-max, --waiting-max and --home")
    if home is not None and id_.level is SenderLevel.WORKSPACE:
        raise typer.BadParameter("--home requires a user")
    if plan is not None and len(plan) > PLAN_MAX:
        raise typer.BadParameter(f"a plan can be at most {PLAN_MAX} characters long")
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
def show(user: User = None, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Show a workspace or user and its recent activity.

    Shows the tier, the limits, the abuse score with its reasons, the volume in the past 24 hours compared with the usual volume, the throttle and the queue.

    \b
    Example: fairpost user show --workspace acme ann
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
    workspace: Annotated[str | None, typer.Option(help="Only users in this workspace. [default: all]")] = None,
    throttled: Annotated[bool, typer.Option("--throttled", help="Only throttled users.")] = False,
    as_json: AsJson = False,
    most: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of users.")] = 100,
) -> None:
    """List workspaces and users that are registered or throttled.

    Throttled workspaces and users come first, including those whose throttle is observed but not enforced.

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
            note("for more, use --limit")
    else:
        typer.echo("No throttled users." if throttled else "No registered users. See: fairpost user set --help")


@app.command()
def throttle(
    user: User = None,
    *,
    reason: Annotated[str, typer.Option(help="Reason, shown by `fairpost status` and with the sender's e-mails.")],
    length: Annotated[
        timedelta | None,
        typer.Option("--for", parser=span, metavar="SPAN", help="Duration: 15m, 4h, 2d. [default: 24h]"),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            parser=moment, metavar="TIME", help="Time at which the throttle ends, for example 2030-01-31T09:00:00Z."
        ),
    ] = None,
    workspace: Workspace = "",
) -> None:
    """Throttle a workspace or user manually.

    Mail stays in the queue until the throttle ends. The throttle applies regardless of FAIRPOST_ABUSE_DETECTION, and
    abuse scores do not shorten it.

    \b
    Example: fairpost user throttle --workspace acme ann --for 4h --reason "a bought list"
    """
    if length is not None and until is not None:
        raise typer.BadParameter("specify either --for or --until")
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
    typer.echo(
        plain(f"throttled {id_} until {clock_time(found.throttle.until)}; held back by the throttle: {emails(waiting)}")
    )


@app.command()
def unthrottle(
    user: User = None,
    immune_for: Annotated[
        timedelta | None,
        typer.Option(
            parser=span, metavar="SPAN", help="Time before a score can throttle the sender again. [default: 24h]"
        ),
    ] = None,
    workspace: Workspace = "",
) -> None:
    """End a throttle so that queued mail can be sent.

    Works for manual and automatic throttles. A score cannot throttle the sender again until the time set with
    --immune-for has passed.

    \b
    Example: fairpost user unthrottle --workspace acme ann
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
        plain(f"ended the throttle on {id_}; waiting: {emails(waiting)}; immune until {clock_time(found.immune_until)}")
    )
    for name, why in stop_lines(stops):
        typer.echo(plain(f"still {name}: {why}"))
    for step in next_steps(stops):
        typer.echo(f"next: {step}")


def _id(workspace: str, user: str | None) -> SenderId:
    for name, what in ((workspace, "workspace"), (user, "user")):
        if name is not None and not 0 < len(name) <= NAME_MAX:
            raise typer.BadParameter(f"the name of a {what} must be 1 to {NAME_MAX} characters long")
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
