"""`fairpost campaign`: create, launch, pause and watch campaigns."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fairpost.cli.acting import act, act_on
from fairpost.cli.arguments import moment, tag_values
from fairpost.cli.campaign_mail import preview, recipients, retry, send_test
from fairpost.cli.campaign_session import Name, Workspace, count, tell_next, with_campaign
from fairpost.cli.header_options import Headers, ReplyTo, header_fields
from fairpost.cli.names import require_name
from fairpost.cli.output import AsJson, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.actions.campaigns import Launched
    from fairpost.campaigns.launching import SchedulingResult
    from fairpost.model.campaign import Campaign, Gap
    from fairpost.observe.campaigns import CampaignView
    from fairpost.store.store import Store

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Create, launch, pause and watch campaigns.")


# ── create and change ─────────────────────────────────────────────────────────────────────────────────────


NameOption = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="Campaign name: letters, digits and ._-, for example spring-2030.")
]
Template = Annotated[str | None, typer.Option(metavar="TEMPLATE", help="Template for a campaign with one e-mail.")]
Sequence = Annotated[
    str | None, typer.Option(metavar="SEQUENCE", help="Sequence of templates to use instead of a single template.")
]
Pool = Annotated[str, typer.Option(metavar="POOL", help="Pool whose accounts take turns sending the campaign.")]
Account = Annotated[
    str | None, typer.Option(metavar="ACCOUNT", help="Send only from this account instead of from a pool.")
]
GapOption = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS",
        help="Range of the random pause before each e-mail from an account, in seconds, for example 30-90, or `none` for no pause. [default: 30-90 for a sequence, otherwise none]",
    ),
]
Start = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="Earliest start, for example 2030-03-01T09:00:00+01:00."),
]
RecipientsClock = Annotated[
    bool,
    typer.Option("--recipients-clock", help="Apply the sending window in each prospect's time zone, if known."),
]
NoFooter = Annotated[
    bool,
    typer.Option("--no-footer", help="Do not add an unsubscribe line. Use this option only for one-to-one sequences."),
]
Tag = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Tag for the campaign's e-mails. Repeatable.")
]


@app.command()
def new(
    name: NameOption,
    list_: Annotated[list[str], typer.Option("--list", metavar="LIST", help="Recipient list. Repeatable.")],
    template: Template = None,
    sequence: Sequence = None,
    pool: Pool = "default",
    account: Account = None,
    gap: GapOption = None,
    start: Start = None,
    recipients_clock: RecipientsClock = False,
    no_footer: NoFooter = False,
    user: Annotated[str, typer.Option(help="User on whose behalf the campaign is sent.")] = "",
    type_: Annotated[str | None, typer.Option("--type", help="E-mail type, for example newsletter.")] = None,
    tag: Tag = None,
    reply_to: ReplyTo = None,
    header: Headers = None,
    workspace: Workspace = None,
) -> None:
    """Create a campaign as a draft.

    Nothing is sent until you launch the campaign. To change a draft, run the command again.

    \b
    Example: fairpost campaign new spring --list customers --template hello
    """
    from fairpost.actions.campaigns import PutDraft, put
    from fairpost.model.campaign import HUMAN_GAP
    from fairpost.store.campaigns import Draft

    require_name("CAMPAIGN", name)
    _require_names(pool=pool, user=user)
    if (template is None) == (sequence is None):
        raise typer.BadParameter("specify either --template or --sequence")
    pause = _gap(gap) if gap is not None else (HUMAN_GAP if sequence else None)
    where = workspace or read_settings().workspace

    draft = Draft(
        workspace=where,
        name=name,
        sequence=sequence or name,
        lists=tuple(list_),
        route=f"@{account}" if account else pool,
        gap=pause,
        by_recipients_clock=recipients_clock,
        has_footer=not no_footer,
        user=user,
        starts_at=start,
        labels={name: value for name, value in (("type", type_), ("tags", tag_values(tag))) if value},
        header_fields=header_fields(reply_to, header),
    )
    fields = {f"lists[{number}]": "--list" for number in range(len(list_))}
    fields |= {"reply_to": "--reply-to"}
    made = act(put, PutDraft(draft=draft, template=template), fields=fields).campaign
    typer.echo(f"campaign {made.name} is a draft with {count(len(made.steps), 'step')} for {', '.join(made.lists)}")
    tell_next(f"fairpost campaign preview {_named(made)}", f"fairpost campaign launch {_named(made)}")


@app.command()
def apply(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="TOML file that describes the campaign. See docs/campaign-file.md.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, without changing anything.")
    ] = False,
    launch_: Annotated[bool, typer.Option("--launch", help="Also launch the campaign if it is a draft.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create or change a campaign from a file and show the changes.

    Applying the same file again changes nothing. You can keep the file in version control.

    \b
    Example: fairpost campaign apply spring.toml --dry-run
    """
    from fairpost.actions import campaigns as actions
    from fairpost.campaigns import applying
    from fairpost.campaigns.diff import in_lines
    from fairpost.campaigns.file import read_campaign_file

    async def work(store: "Store") -> "tuple[applying.Applied, SchedulingResult | None]":
        wanted = read_campaign_file(file, now=await store.now())
        if dry_run:
            return await applying.compare(store, wanted), None
        done = await act_on(store, actions.apply, wanted)
        assert done.campaign is not None  # not a dry run
        return done, await _launched(store, done.campaign.workspace, done.campaign.name) if launch_ else None

    done, result = with_store(work)
    if as_json:
        print_json({"changes": done.changes, "is_new": done.is_new, "applied": not dry_run, "scheduling": result})
        return
    for line in in_lines(done.changes):
        typer.echo(plain(line))
    verb = "would make" if dry_run else "made"
    typer.echo(f"{verb} {count(len(done.changes), 'change')}" if done.changes else "nothing to change")
    if result is not None:
        _tell_scheduled(result)
    elif done.campaign is not None and not dry_run and done.campaign.state == "draft":
        tell_next(f"fairpost campaign launch {_named(done.campaign)}")


@app.command()
def export(name: Name, workspace: Workspace = None) -> None:
    """Print a campaign as a file for `campaign apply`.

    \b
    Example: fairpost campaign export spring > spring.toml
    """
    from fairpost.campaigns.applying import as_file
    from fairpost.campaigns.writer import to_toml

    async def work(store: "Store", campaign: "Campaign") -> str:
        return to_toml(await as_file(store, campaign))

    typer.echo(with_campaign(name, workspace, work), nl=False)


@app.command()
def remove(name: Name, workspace: Workspace = None) -> None:
    """Remove a draft.

    A launched campaign remains in the history. To end a launched campaign, run: fairpost campaign cancel.

    \b
    Example: fairpost campaign remove spring
    """
    from fairpost.actions import campaigns as actions

    act(actions.remove, actions.Named(workspace=_where(workspace), name=name))
    typer.echo(f"removed {name}")


# ── launch, pause, resume, cancel ─────────────────────────────────────────────────────────────────────────


@app.command()
def launch(
    name: Name,
    workspace: Workspace = None,
    skip_incomplete: Annotated[
        bool, typer.Option("--skip-incomplete", help="Skip recipients with missing fields.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a draft: schedule every step for every recipient.

    The e-mails are then sent within the workspace's sending window and quota and the accounts' limits. If this command
    is interrupted, run it again or let the engine finish the scheduling. No recipient gets the same e-mail twice.

    \b
    Example: fairpost campaign launch spring
    """

    async def work(store: "Store") -> "SchedulingResult":
        return await _launched(store, _where(workspace), name, skip_incomplete=skip_incomplete)

    result = with_store(work)
    if as_json:
        print_json(result)
        return
    _tell_scheduled(result)
    tell_next(
        f"fairpost campaign show {_with_workspace(name, workspace)}",
        f"fairpost forecast {_with_workspace(name, workspace)}",
    )


@app.command()
def schedule(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Schedule recipients added to the lists after the launch.

    Recipients who are already scheduled are skipped and counted.

    \b
    Example: fairpost campaign schedule spring
    """
    from fairpost.actions import campaigns as actions

    async def work(store: "Store") -> "SchedulingResult":
        begun = await act_on(store, actions.schedule, actions.Named(workspace=_where(workspace), name=name))
        return await _planned(store, begun)

    result = with_store(work)
    if as_json:
        print_json(result)
    else:
        _tell_scheduled(result)


@app.command()
def pause(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Reason, shown with the campaign.")] = None,
    workspace: Workspace = None,
) -> None:
    """Pause a campaign. Any sends already in progress will finish.

    \b
    Example: fairpost campaign pause spring --reason "wrong price"
    """
    from fairpost.actions import campaigns as actions

    moved = act(actions.pause, actions.Because(workspace=_where(workspace), name=name, reason=reason))
    typer.echo(f"paused {name}" if moved.changed else f"{name} was already paused")
    tell_next(f"fairpost campaign resume {_with_workspace(name, workspace)}")


@app.command()
def resume(name: Name, workspace: Workspace = None) -> None:
    """Resume a paused or failed campaign from where it stopped.

    \b
    Example: fairpost campaign resume spring
    """
    from fairpost.actions import campaigns as actions

    moved = act(actions.resume, actions.Named(workspace=_where(workspace), name=name))
    typer.echo(f"resumed {name}" if moved.changed else f"{name} was not paused")


@app.command()
def cancel(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Reason, shown with the campaign.")] = None,
    workspace: Workspace = None,
) -> None:
    """Cancel a campaign permanently. Any sends already in progress will finish.

    \b
    Example: fairpost campaign cancel spring --reason "product recalled"
    """
    from fairpost.actions import campaigns as actions

    moved = act(actions.cancel, actions.Because(workspace=_where(workspace), name=name, reason=reason))
    typer.echo(
        f"cancelled {name}; an engine will remove the campaign's waiting e-mails from the queue"
        if moved.changed
        else f"{name} was already cancelled"
    )


@app.command()
def stop(
    name: Name,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Prospect's e-mail address.")],
    reason: Annotated[str, typer.Option(help="Reason, shown with the campaign.")] = "stopped manually",
    workspace: Workspace = None,
) -> None:
    """Stop a campaign for one prospect. This cannot be undone.

    \b
    Example: fairpost campaign stop spring ann@example.com --reason "has replied"
    """
    from fairpost.actions import campaigns as actions

    request = actions.StopRecipient(workspace=_where(workspace), name=name, address=address, reason=reason)
    stopped = act(actions.stop, request)
    typer.echo(f"{address} will get no more e-mails from {name}: {count(stopped.cancelled, 'e-mail')} cancelled")


# ── read ──────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_campaigns(
    workspace: Workspace = None,
    everywhere: Annotated[bool, typer.Option("--all", help="List campaigns in all workspaces.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of campaigns.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List campaigns and what each is waiting for.

    \b
    Example: fairpost campaign list
    """
    from fairpost.observe.campaigns import view_campaign
    from fairpost.reasons.rendering import sentence
    from fairpost.store import campaigns

    where = None if everywhere else workspace or read_settings().workspace

    async def work(store: "Store") -> "list[CampaignView]":
        return [await view_campaign(store, each) for each in await campaigns.campaigns(store, where, most=limit)]

    views = with_store(work)
    if as_json:
        print_json([_facts(view) for view in views])
    elif views:
        rows = (
            (
                *([view.campaign.workspace] if everywhere else []),
                view.campaign.name,
                view.campaign.state,
                f"{view.progress.count('sent'):,} of {_emails_of(view):,}",
                sentence(view.waiting.reason, view.timezone),
            )
            for view in views
        )
        columns = ("campaign", "state", ">sent", "now")
        print_table(("workspace", *columns) if everywhere else columns, rows)
    else:
        typer.echo("No campaigns. Create one: fairpost campaign new --help")


@app.command()
def show(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show a campaign's state, with counts by step.

    \b
    Example: fairpost campaign show spring
    """
    from fairpost.cli.campaign_view import print_campaign
    from fairpost.observe.campaigns import view_campaign

    view = with_campaign(name, workspace, view_campaign)
    if as_json:
        print_json(_facts(view))
    else:
        print_campaign(view)


@app.command()
def progress(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show a campaign's progress and the forecast made at launch.

    An engine counts the campaign's e-mails and revises the forecast every minute, or less often for very large campaigns.

    \b
    Example: fairpost campaign progress spring
    """
    from fairpost.cli.campaign_progress_view import print_progress, progress_facts
    from fairpost.observe.campaign_progress import view_progress

    view = with_campaign(name, workspace, view_progress)
    if as_json:
        print_json(progress_facts(view))
    else:
        print_progress(view)


# ── its e-mails ───────────────────────────────────────────────────────────────────────────────────────────

for name, command in (("recipients", recipients), ("retry", retry), ("preview", preview), ("send-test", send_test)):
    app.command(name)(command)


# ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────


async def _launched(store: "Store", workspace: str, name: str, *, skip_incomplete: bool = False) -> "SchedulingResult":
    from fairpost.actions import campaigns as actions

    url = read_settings().public_url
    request = actions.Launch(workspace=workspace, name=name, skip_incomplete=skip_incomplete, public_url=url)
    return await _planned(store, await act_on(store, actions.launch, request))


async def _planned(store: "Store", launched: "Launched") -> "SchedulingResult":
    from fairpost.actions.campaigns import plan
    from fairpost.cli.progress import progress as bar
    from fairpost.store import campaigns

    with bar("scheduling", await campaigns.members(store, launched.campaign)) as reach:
        return await plan(store, launched, progress=reach)


def _tell_scheduled(result: "SchedulingResult") -> None:
    from fairpost.reasons.rendering import sentence

    typer.echo(
        f"scheduled {result.scheduled:,}, skipped {result.skipped:,} (already scheduled), left out {result.left_out:,} (missing fields)"
    )
    for error in result.errors[:10]:
        typer.echo(f"  {error}")
    if result.inherited_subjects:
        typer.echo(f"{_numbered(result.inherited_subjects)} the subject of step 1, in the same thread")
    if result.leaving_thread:
        typer.echo(
            f"{_numbered(result.leaving_thread)} a different subject, so Gmail shows it outside the thread of step 1"
        )
    for warning in result.warnings:
        typer.echo(f"warning: {sentence(warning)}")
    if not result.is_done:
        typer.echo(
            "the campaign is paused or cancelled; the remaining e-mails will be scheduled when the campaign is resumed"
        )


def _numbered(steps: list[int]) -> str:
    return f"{'step' if len(steps) == 1 else 'steps'} {', '.join(map(str, steps))}: with"


def _facts(view: "CampaignView") -> dict[str, object]:
    from fairpost.model.campaign import CAMPAIGN_TIMES
    from fairpost.reasons.rendering import sentence

    campaign, progress = view.campaign, view.progress
    return {
        "id": campaign.id,
        "workspace": campaign.workspace,
        "name": campaign.name,
        "state": campaign.state,
        "reason": campaign.reason,
        "waits_for": sentence(view.waiting.reason, view.timezone),
        "condition": view.waiting.code,
        "waits_until": view.waiting.until,
        "sequence": campaign.sequence,
        "lists": campaign.lists,
        "route": campaign.route,
        "gap": campaign.gap,
        **campaign.labels,
        "steps": [
            {"template": step.template, "delay_s": step.delay_s, "emails": progress.by_step.get(number, {})}
            for number, step in enumerate(campaign.steps, 1)
        ],
        "prospects": progress.members,
        "scheduled": progress.scheduled,
        "skipped": progress.skipped,
        "left_out": progress.left_out,
        **{name: getattr(campaign, name) for name in CAMPAIGN_TIMES},
    }


def _emails_of(view: "CampaignView") -> int:
    return sum(sum(counts.values()) for counts in view.progress.by_step.values())


def _gap(text: str) -> "Gap | None":
    from fairpost.campaigns.parsers import gap

    try:
        return gap(text)
    except ValueError as error:
        raise typer.BadParameter(f"--gap {error}") from error


def _require_names(*, pool: str, user: str) -> None:
    """Check these values by the same rules as in a campaign file."""
    from fairpost.campaigns import values

    for option, check, given in (("--pool", values.pool, pool), ("--user", values.user, user or "nobody")):
        try:
            check(given)
        except ValueError as error:
            raise typer.BadParameter(f"{option} {error}") from error


def _where(workspace: str | None) -> str:
    return workspace or read_settings().workspace


def _named(campaign: "Campaign") -> str:
    return campaign.name if campaign.workspace == "default" else f"{campaign.name} --workspace {campaign.workspace}"


def _with_workspace(name: str, workspace: str | None) -> str:
    return f"{name} --workspace {workspace}" if workspace else name
