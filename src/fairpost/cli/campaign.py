"""`fairpost campaign`: from a list of people and some words to e-mails that go out by themselves."""

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fairpost.cli.arguments import moment
from fairpost.cli.names import require_name
from fairpost.cli.output import AsJson, note, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairpost.campaigns.launching import SchedulingResult
    from fairpost.campaigns.preview import Preview
    from fairpost.model.campaign import Campaign, Gap
    from fairpost.observe.campaigns import CampaignView
    from fairpost.postgres.campaigns import Receipt
    from fairpost.postgres.store import Store

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True, help="Write, launch, pause and watch campaigns; see who got what, and retry the rest."
)

BY = "command line"
NOT_SENT = ("failed", "bounced", "suppressed", "cancelled", "in_doubt")
STATES = ("sent", *NOT_SENT, "ready", "scheduled", "to follow", "parked", "claimed", "sending")

Name = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Its name.")]
Workspace = Annotated[str | None, typer.Option(help="Of this workspace. [default: FAIRPOST_WORKSPACE]")]


# ── made ──────────────────────────────────────────────────────────────────────────────────────────────────


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="CAMPAIGN", help="Its name: letters, digits and ._- like spring-2030.")
    ],
    list_: Annotated[list[str], typer.Option("--list", metavar="LIST", help="Who gets it. Again for more lists.")],
    template: Annotated[
        str | None, typer.Option(metavar="TEMPLATE", help="What it says, for a campaign of one e-mail.")
    ] = None,
    sequence: Annotated[
        str | None, typer.Option(metavar="SEQUENCE", help="What it says, step by step, instead of a template.")
    ] = None,
    pool: Annotated[str, typer.Option(metavar="POOL", help="The accounts that send it, in turn.")] = "default",
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="The one account that sends it, instead of a pool.")
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="Random pause of an account before each e-mail, like 30-90; or: none. [default: 30-90 for a sequence, none else]",
        ),
    ] = None,
    start: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Not before: 2030-03-01T09:00:00+01:00.")
    ] = None,
    recipients_clock: Annotated[
        bool,
        typer.Option("--recipients-clock", help="Read the sending window on each prospect's own clock, where known."),
    ] = False,
    user: Annotated[str, typer.Option(help="The user whose mail it is.")] = "",
    workspace: Workspace = None,
) -> None:
    """Make a campaign, as a draft.

    Nothing is sent before it is launched. As long as it is a draft, the same command changes it.

    \b
    Example: fairpost campaign new spring --list customers --template hello
    """
    from fairpost.model.campaign import HUMAN_GAP, Step
    from fairpost.postgres import campaigns, templates
    from fairpost.postgres.campaigns import Draft

    require_name("CAMPAIGN", name)
    _require_names(pool=pool, user=user)
    if (template is None) == (sequence is None):
        raise typer.BadParameter("give either --template or --sequence: it says what is sent")
    pause = _gap(gap) if gap is not None else (HUMAN_GAP if sequence else None)
    where = workspace or read_settings().workspace

    async def work(store: "Store") -> "Campaign":
        if template is not None:
            await templates.put_sequence(store, where, name, [Step(template=template)], is_own=True)
        return await campaigns.put_draft(
            store,
            Draft(
                workspace=where,
                name=name,
                sequence=sequence or name,
                lists=tuple(list_),
                route=f"@{account}" if account else pool,
                gap=pause,
                by_recipients_clock=recipients_clock,
                user=user,
                starts_at=start,
            ),
        )

    made = with_store(work)
    typer.echo(f"campaign {made.name} is a draft with {_count(len(made.steps), 'step')} for {', '.join(made.lists)}")
    _next(f"fairpost campaign preview {_named(made)}", f"fairpost campaign launch {_named(made)}")


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A campaign in TOML; see docs/campaign-file.md.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    launch_: Annotated[bool, typer.Option("--launch", help="Launch it as well, if it is a draft.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a campaign what a file says, and show what that changes.

    Applying the same file again changes nothing, so that it can live beside your code.

    \b
    Example: fairpost campaign apply spring.toml --dry-run
    """
    from fairpost.campaigns.applying import Applied
    from fairpost.campaigns.applying import apply as applied
    from fairpost.campaigns.diff import in_lines
    from fairpost.campaigns.file import read_campaign_file

    async def work(store: "Store") -> "tuple[Applied, SchedulingResult | None]":
        now = await store.value("SELECT clock_timestamp()")
        done = await applied(store, read_campaign_file(file, now=now), dry_run=dry_run, now=now)
        is_wanted = launch_ and not dry_run and done.campaign is not None
        return done, await _launched(
            store, done.campaign, skip_incomplete=False
        ) if is_wanted and done.campaign else None

    done, result = with_store(work)
    if as_json:
        print_json({"changes": done.changes, "is_new": done.is_new, "applied": not dry_run, "scheduling": result})
        return
    for line in in_lines(done.changes):
        typer.echo(plain(line))
    verb = "would change" if dry_run else "changed"
    typer.echo(f"{verb} {_count(len(done.changes), 'thing')}" if done.changes else "nothing to change")
    if result is not None:
        _tell_scheduled(result)
    elif done.campaign is not None and not dry_run and done.campaign.state == "draft":
        _next(f"fairpost campaign launch {_named(done.campaign)}")


@app.command()
def export(name: Name, workspace: Workspace = None) -> None:
    """Print a campaign as a file that `campaign apply` takes.

    \b
    Example: fairpost campaign export spring > spring.toml
    """
    from fairpost.campaigns.applying import as_file
    from fairpost.campaigns.writer import to_toml

    async def work(store: "Store", campaign: "Campaign") -> str:
        return to_toml(await as_file(store, campaign))

    typer.echo(_with(name, workspace, work), nl=False)


@app.command()
def remove(name: Name, workspace: Workspace = None) -> None:
    """Remove a draft.

    What was launched stays in history; end it with: fairpost campaign cancel.

    \b
    Example: fairpost campaign remove spring
    """
    from fairpost.postgres import campaigns

    async def work(store: "Store", campaign: "Campaign") -> str | None:
        return None if await campaigns.remove_draft(store, campaign) else str(campaign.state)

    state = _with(name, workspace, work)
    if state is not None:
        raise FairpostError(f"Campaign {name} is {state}, and only a draft can be removed. Nothing was changed.")
    typer.echo(f"removed {name}")


# ── sent ──────────────────────────────────────────────────────────────────────────────────────────────────


@app.command()
def launch(
    name: Name,
    workspace: Workspace = None,
    skip_incomplete: Annotated[
        bool, typer.Option("--skip-incomplete", help="Leave out people who lack a field, instead of launching nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Launch a draft: everybody on its lists gets a row for every step.

    From now on it moves by itself, inside the workspace's sending window and quota and the limits of the accounts. If this command is
    cut off, run it again, or leave the rest to the engine: nobody gets anything twice.

    \b
    Example: fairpost campaign launch spring
    """

    async def work(store: "Store", campaign: "Campaign") -> "SchedulingResult":
        return await _launched(store, campaign, skip_incomplete=skip_incomplete)

    result = _with(name, workspace, work)
    if as_json:
        print_json(result)
        return
    _tell_scheduled(result)
    _next(
        f"fairpost campaign show {_with_workspace(name, workspace)}",
        f"fairpost forecast {_with_workspace(name, workspace)}",
    )


@app.command()
def schedule(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Schedule whoever came onto its lists since the launch.

    Who has it already is skipped and counted.

    \b
    Example: fairpost campaign schedule spring
    """
    from fairpost.campaigns.launching import schedule_anew
    from fairpost.cli.progress import progress
    from fairpost.postgres import campaigns

    async def work(store: "Store", campaign: "Campaign") -> "SchedulingResult":
        now = await store.value("SELECT clock_timestamp()")
        with progress("scheduling", await campaigns.members(store, campaign)) as reach:
            return await schedule_anew(store, campaign, now=now, progress=reach)

    result = _with(name, workspace, work)
    if as_json:
        print_json(result)
    else:
        _tell_scheduled(result)


@app.command()
def pause(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever looks.")] = None,
    workspace: Workspace = None,
) -> None:
    """Pause a campaign, at once; what is in flight finishes.

    \b
    Example: fairpost campaign pause spring --reason "wrong price"
    """
    from fairpost.postgres import campaigns

    async def work(store: "Store", campaign: "Campaign") -> "tuple[bool, str]":
        return await campaigns.pause(store, campaign, reason=reason, by=BY), str(campaign.state)

    is_moved, state = _with(name, workspace, work)
    if not is_moved and state != "paused":
        raise FairpostError(f"Campaign {name} is {state}, and cannot be paused. Nothing was changed.")
    typer.echo(f"paused {name}" if is_moved else f"{name} was paused already")
    _next(f"fairpost campaign resume {_with_workspace(name, workspace)}")


@app.command()
def resume(name: Name, workspace: Workspace = None) -> None:
    """Let a paused or failed campaign go on, where it stopped.

    \b
    Example: fairpost campaign resume spring
    """
    from fairpost.postgres import campaigns

    async def work(store: "Store", campaign: "Campaign") -> "tuple[bool, str]":
        return await campaigns.resume(store, campaign, by=BY), str(campaign.state)

    is_moved, state = _with(name, workspace, work)
    if not is_moved and state not in ("running", "scheduled"):
        raise FairpostError(f"Campaign {name} is {state}, and cannot be resumed. Nothing was changed.")
    typer.echo(f"resumed {name}" if is_moved else f"{name} was not paused")


@app.command()
def cancel(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever looks.")] = None,
    workspace: Workspace = None,
) -> None:
    """Cancel a campaign, at once and for good; what is in flight finishes.

    \b
    Example: fairpost campaign cancel spring --reason "product recalled"
    """
    from fairpost.postgres import campaigns

    async def work(store: "Store", campaign: "Campaign") -> "tuple[bool, str]":
        return await campaigns.cancel(store, campaign, reason=reason, by=BY), str(campaign.state)

    is_moved, state = _with(name, workspace, work)
    if not is_moved and state != "cancelled":
        raise FairpostError(f"Campaign {name} is {state}: there is nothing left to cancel. Nothing was changed.")
    typer.echo(
        f"cancelled {name}; an engine takes what waited out of the queue"
        if is_moved
        else f"{name} was cancelled already"
    )


@app.command()
def stop(
    name: Name,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Who gets nothing more of it.")],
    reason: Annotated[str, typer.Option(help="Why, for whoever looks.")] = "stopped by hand",
    workspace: Workspace = None,
) -> None:
    """Stop a campaign for one prospect, for good.

    \b
    Example: fairpost campaign stop spring ann@example.com --reason "has replied"
    """
    from fairpost.postgres import campaigns
    from fairpost.postgres.prospects import known_by

    async def work(store: "Store", campaign: "Campaign") -> int:
        prospect = await known_by(store, campaign.workspace, address)
        return await campaigns.stop(store, prospect.id, campaign, reason=reason)

    stopped = _with(name, workspace, work)
    typer.echo(f"{address} gets nothing more of {name}: {_count(stopped, 'e-mail')} cancelled")


# ── looked at ─────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_campaigns(
    workspace: Workspace = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Those of all workspaces.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List campaigns, the newest first, and what each waits for.

    \b
    Example: fairpost campaign list
    """
    from fairpost.observe.campaigns import view_campaign
    from fairpost.postgres import campaigns

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
                view.waiting.words,
            )
            for view in views
        )
        columns = ("campaign", "state", ">sent", "now")
        print_table(("workspace", *columns) if everywhere else columns, rows)
    else:
        typer.echo("no campaigns; make one: fairpost campaign new --help")


@app.command()
def show(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show how a campaign stands, step by step, and what it waits for.

    \b
    Example: fairpost campaign show spring
    """
    from fairpost.cli.campaign_view import print_campaign
    from fairpost.observe.campaigns import view_campaign

    view = _with(name, workspace, view_campaign)
    if as_json:
        print_json(_facts(view))
    else:
        print_campaign(view)


@app.command()
def course(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show how a campaign comes along beside what was foreseen at its launch.

    An engine counts its e-mails every minute, more rarely where there are very many, and foresees anew what is left.

    \b
    Example: fairpost campaign course spring
    """
    from fairpost.cli.course_view import course_facts, print_course
    from fairpost.observe.courses import view_course

    view = _with(name, workspace, view_course)
    if as_json:
        print_json(course_facts(view))
    else:
        print_course(view)


@app.command()
def who(
    name: Name,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE", help=f"Only these: {', '.join(STATES)}. Again for more. [default: all that was not sent]"
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many. [default: 100; all with --json]")] = None,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for each, all of them.")] = False,
) -> None:
    """List who did not get it, and why; or, with --state, who did.

    \b
    Example: fairpost campaign who spring --state failed --state bounced
    """
    states = _states(state)
    shown = limit or (None if as_json else 100)

    async def work(store: "Store", campaign: "Campaign") -> "list[Receipt]":
        from fairpost.postgres import campaigns

        rows = []
        async for receipt in campaigns.receipts(store, campaign, states=states, most=shown):
            if as_json:
                _json_line(receipt)
            else:
                rows.append(receipt)
        return rows

    found = _with(name, workspace, work)
    if as_json:
        return
    if not found:
        typer.echo("nobody")
        return
    print_table(
        ("e-mail", ">step", "address", "state", "why", "account"),
        ((r.email_id, r.step, r.address, r.state, r.reason, r.account) for r in found),
    )
    if len(found) == shown:
        note(f"the first {shown}; see more with --limit, or all with --json")


@app.command()
def retry(
    name: Name,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE", help="failed, bounced, cancelled or suppressed. Again for more. [default: failed]"
        ),
    ] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Try again for those who did not get it, and only for those.

    What was sent is never sent again. A bounced address is suppressed: take it off that list first (fairpost unsuppress).

    \b
    Example: fairpost campaign retry spring --state failed
    """
    states = tuple(state or ("failed",))
    if wrong := [each for each in states if each not in ("failed", "bounced", "cancelled", "suppressed")]:
        raise typer.BadParameter(f"--state must be failed, bounced, cancelled or suppressed, got {wrong[0]}")

    async def work(store: "Store", campaign: "Campaign") -> int:
        from fairpost.model.ids import EmailId
        from fairpost.postgres import campaigns

        if campaign.state == "cancelled":
            raise FairpostError(f"Campaign {campaign.name} is cancelled, and stays so. Nothing was changed.")
        ids = [EmailId(r.email_id) async for r in campaigns.receipts(store, campaign, states=states)]
        pages = [ids[at : at + campaigns.PAGE] for at in range(0, len(ids), campaigns.PAGE)]
        return sum([await campaigns.retry(store, page) for page in pages])

    again = _with(name, workspace, work)
    if as_json:
        print_json({"retried": again})
    else:
        typer.echo(f"{_count(again, 'e-mail')} tried again")


@app.command()
def preview(
    name: Name,
    to: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="For this prospect. [default: the first on its lists]")
    ] = None,
    step: Annotated[int, typer.Option(min=1, help="Of this step.")] = 1,
    html: Annotated[bool, typer.Option("--html", help="Print the html part, to look at in a browser.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the whole message as it goes out, headers and all.")
    ] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Show an e-mail of a campaign as one prospect will get it.

    \b
    Example: fairpost campaign preview spring --to ann@example.com --step 2
    """

    async def work(store: "Store", campaign: "Campaign") -> "Preview":
        return await _previewed(store, campaign, to, step)

    shown = _with(name, workspace, work)
    if as_json:
        print_json(
            {
                "step": shown.step,
                "from": shown.sender,
                "to": shown.to,
                "subject": shown.said.subject,
                "text": shown.said.text,
                "html": shown.said.html,
                "raw": shown.raw.decode("utf-8", "replace"),
            }
        )
    elif raw:
        typer.echo(plain(shown.raw.decode("utf-8", "replace").replace("\r\n", "\n")), nl=False)
    elif html:
        if shown.said.html is None:
            raise FairpostError("This step has no html part. Look at its text: leave out --html")
        typer.echo(plain(shown.said.html) if sys.stdout.isatty() else shown.said.html)
    else:
        sender = f"{shown.sender.name} <{shown.sender.address}>" if shown.sender.name else shown.sender.address
        typer.echo(plain(f"From: {sender}\nTo: {shown.to}\nSubject: {shown.said.subject}\n"))
        typer.echo(plain(shown.said.text if shown.said.text is not None else "(made of the html part when it is sent)"))
        if shown.said.html is not None:
            typer.echo("\n(it has an html part as well: see --html or --raw)")


@app.command("send-test")
def send_test(
    name: Name,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Who gets the test.")],
    to: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With the words for this prospect. [default: the first on its lists]"),
    ] = None,
    step: Annotated[int, typer.Option(min=1, help="Of this step.")] = 1,
    workspace: Workspace = None,
) -> None:
    """Send one e-mail of a campaign to yourself, now.

    Through the campaign's own accounts, with the words that a prospect would get. It counts as no step of the campaign, and does not wait for
    its window.

    \b
    Example: fairpost campaign send-test spring me@example.com --step 2
    """
    from fairpost.campaigns.preview import trial_email

    async def work(store: "Store", campaign: "Campaign") -> int:
        shown = await _previewed(store, campaign, to, step)
        (row,) = await store.enqueue_many([trial_email(shown, campaign, address)])
        if row["error"] is not None:
            import json

            raise FairpostError(json.loads(row["error"])["message"])
        return int(row["id"])

    email_id = _with(name, workspace, work)
    typer.echo(f"e-mail {email_id} is on its way to {address}")
    _next(f"fairpost email show {email_id}")


# ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────


def _with(name: str, workspace: str | None, work: "Callable[[Store, Campaign], Awaitable[T]]") -> T:
    where = workspace or read_settings().workspace

    async def run(store: "Store") -> T:
        from fairpost.postgres.campaigns import campaign_named

        return await work(store, await campaign_named(store, where, name))

    return with_store(run)


async def _launched(store: "Store", campaign: "Campaign", *, skip_incomplete: bool) -> "SchedulingResult":
    from fairpost.campaigns import launching
    from fairpost.cli.progress import progress
    from fairpost.postgres import campaigns

    now = await store.value("SELECT clock_timestamp()")
    launched = await launching.launch(store, campaign, skip_incomplete=skip_incomplete, by=BY, now=now)
    if launched.state in ("failed", "cancelled"):
        raise FairpostError(
            f"Campaign {campaign.name} is {launched.state}, and cannot be launched. Nothing was changed."
        )
    with progress("scheduling", await campaigns.members(store, launched)) as reach:
        already = 0 if campaign.state == "draft" else None  # an engine may have begun before we do
        return await launching.schedule(store, launched, already=already, progress=reach)


async def _previewed(store: "Store", campaign: "Campaign", to: str | None, step: int) -> "Preview":
    from fairpost.campaigns.preview import preview as previewed
    from fairpost.postgres import campaigns
    from fairpost.postgres.prospects import known_by

    address = to or await campaigns.first_member(store, campaign)
    if address is None:
        raise FairpostError(
            f"Nobody is on {', '.join(campaign.lists)} yet. Bring people in: fairpost prospects import --help"
        )
    prospect = await known_by(store, campaign.workspace, address)
    return await previewed(store, campaign, step, prospect, now=await store.value("SELECT clock_timestamp()"))


def _tell_scheduled(result: "SchedulingResult") -> None:
    typer.echo(
        f"scheduled {result.scheduled:,}, skipped {result.skipped:,} (scheduled before), left out {result.left_out:,} (lack a field)"
    )
    for error in result.errors[:10]:
        typer.echo(f"  {error}")
    if not result.is_done:
        typer.echo("the campaign is paused or cancelled: the rest follows when it is resumed")


def _facts(view: "CampaignView") -> dict[str, object]:
    campaign, progress = view.campaign, view.progress
    return {
        "id": campaign.id,
        "workspace": campaign.workspace,
        "name": campaign.name,
        "state": campaign.state,
        "reason": campaign.reason,
        "waits_for": view.waiting.words,
        "waits_until": view.waiting.until,
        "sequence": campaign.sequence,
        "lists": campaign.lists,
        "route": campaign.route,
        "gap": campaign.gap,
        "steps": [
            {"template": step.template, "delay_s": step.delay_s, "emails": progress.by_step.get(number, {})}
            for number, step in enumerate(campaign.steps, 1)
        ],
        "prospects": progress.members,
        "scheduled": progress.scheduled,
        "skipped": progress.skipped,
        "left_out": progress.left_out,
        "created_at": campaign.created_at,
        "starts_at": campaign.starts_at,
        "launched_at": campaign.launched_at,
        "planned_at": campaign.planned_at,
        "finished_at": campaign.finished_at,
    }


def _emails_of(view: "CampaignView") -> int:
    return sum(sum(counts.values()) for counts in view.progress.by_step.values())


def _json_line(receipt: "Receipt") -> None:
    import json

    from fairpost.cli.output import jsonable

    typer.echo(json.dumps(jsonable(receipt), ensure_ascii=False))


def _states(given: list[str] | None) -> tuple[str, ...]:
    states = tuple(given or NOT_SENT)
    if wrong := [each for each in states if each not in STATES]:
        raise typer.BadParameter(f"--state must be one of {', '.join(STATES)}, got {wrong[0]}")
    return states


def _gap(text: str) -> "Gap | None":
    from fairpost.campaigns.words import gap

    try:
        return gap(text)
    except ValueError as error:
        raise typer.BadParameter(f"--gap {error}") from error


def _require_names(*, pool: str, user: str) -> None:
    """As a file of a campaign has them."""
    from fairpost.campaigns import values

    for option, check, given in (("--pool", values.pool, pool), ("--user", values.user, user or "nobody")):
        try:
            check(given)
        except ValueError as error:
            raise typer.BadParameter(f"{option} {error}") from error


def _named(campaign: "Campaign") -> str:
    return campaign.name if campaign.workspace == "default" else f"{campaign.name} --workspace {campaign.workspace}"


def _with_workspace(name: str, workspace: str | None) -> str:
    return f"{name} --workspace {workspace}" if workspace else name


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _next(*commands: str) -> None:
    for command in commands:
        typer.echo(f"next: {command}")
