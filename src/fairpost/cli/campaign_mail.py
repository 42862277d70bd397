"""The e-mails of a campaign: list and retry recipients, preview an e-mail, and send a test."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act
from fairpost.cli.campaign_session import Name, Workspace, count, tell_next, with_campaign
from fairpost.cli.output import AsJson, note, plain, print_json, print_table
from fairpost.model.errors import FairpostError
from fairpost.model.states import MISSED, ReceiptState, State
from fairpost.reasons.rendering import brief_or_none
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.campaigns.preview import Preview
    from fairpost.model.campaign import Campaign
    from fairpost.store.campaigns import Receipt
    from fairpost.store.store import Store

NOT_SENT = (*MISSED, State.IN_DOUBT)
STATES = tuple(map(str, ReceiptState))


def recipients(
    name: Name,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help=f"Only recipients with an e-mail in this state: {', '.join(STATES)}. Repeatable. [default: {', '.join(NOT_SENT)}]",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of recipients. [default: 100, or all with --json]")
    ] = None,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all recipients as JSON, one per line.")] = False,
) -> None:
    """List recipients who did not get the campaign, and why.

    \b
    Example: fairpost campaign recipients spring --state failed --state bounced
    """
    states = _states(state)
    shown = limit or (None if as_json else 100)

    async def work(store: "Store", campaign: "Campaign") -> "list[Receipt]":
        from fairpost.store import campaigns

        rows, ids = [], await store.public_ids()
        async for receipt in campaigns.receipts(store, campaign, states=states, most=shown):
            if as_json:
                _json_line(receipt, public_id=ids.email(receipt.email_id))
            else:
                rows.append(receipt)
        return rows

    found = with_campaign(name, workspace, work)
    if as_json:
        return
    if not found:
        typer.echo("No recipients.")
        return
    print_table(
        ("e-mail", ">step", "address", "state", "why", "account"),
        ((r.email_id, r.step, r.address, r.state, brief_or_none(r.reason), r.account) for r in found),
    )
    if len(found) == shown:
        note(f"showing the first {shown}; use --limit for more, --json for all")


def retry(
    name: Name,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help=f"State of the e-mails to retry: {', '.join(MISSED)}. Repeatable. [default: failed]",
        ),
    ] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Retry recipients who did not get the campaign.

    Sent e-mails are never sent again. Bounced addresses are suppressed: before you retry, remove them from the suppression list (fairpost suppress remove).

    \b
    Example: fairpost campaign retry spring --state failed
    """
    states = tuple(state or ("failed",))
    if wrong := [each for each in states if each not in MISSED]:
        raise typer.BadParameter(f"--state must be one of {', '.join(MISSED)}, got {wrong[0]}")

    from fairpost.actions import campaigns as actions

    where = workspace or read_settings().workspace
    again = act(actions.retry, actions.Retry(workspace=where, name=name, states=states)).retried
    if as_json:
        print_json({"retried": again})
    else:
        typer.echo(f"{count(again, 'e-mail')} queued again")


To = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Prospect to preview. [default: the first on the campaign's lists]"),
]


def preview(
    name: Name,
    to: To = None,
    step: Annotated[int, typer.Option(min=1, help="Step number.")] = 1,
    html: Annotated[bool, typer.Option("--html", help="Print the HTML part for viewing in a browser.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the whole message as sent, with headers.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Show a campaign e-mail as a given prospect will see it.

    \b
    Example: fairpost campaign preview spring --to ann@example.com --step 2
    """

    async def work(store: "Store", campaign: "Campaign") -> "Preview":
        return await _previewed(store, campaign, to, step)

    shown = with_campaign(name, workspace, work)
    if as_json:
        print_json(
            {
                "step": shown.step,
                "from": shown.sender,
                "to": shown.to,
                "subject": shown.said.subject,
                "is_subject_inherited": shown.is_subject_inherited,
                "leaves_thread": shown.leaves_thread,
                "text": shown.said.text,
                "html": shown.said.html,
                "raw": shown.raw.decode("utf-8", "replace"),
                "checks": shown.findings,
            }
        )
    elif raw:
        typer.echo(plain(shown.raw.decode("utf-8", "replace").replace("\r\n", "\n")), nl=False)
    elif html:
        if shown.said.html is None:
            raise FairpostError("This step has no HTML part. To see the step's text, omit --html")
        typer.echo(plain(shown.said.html) if sys.stdout.isatty() else shown.said.html)
    else:
        sender = f"{shown.sender.name} <{shown.sender.address}>" if shown.sender.name else shown.sender.address
        typer.echo(plain(f"From: {sender}\nTo: {shown.to}\nSubject: {shown.said.subject}\n"))
        typer.echo(
            plain(shown.said.text if shown.said.text is not None else "(generated from the HTML part when sent)")
        )
        if shown.leaves_thread:
            typer.echo("\n(the subject differs from step 1, so Gmail shows this e-mail outside the thread)")
        if shown.said.html is not None:
            typer.echo("\n(it also has an HTML part: see --html or --raw)")
        found = [each for each in shown.findings if each.level != "good"]
        if found:
            typer.echo("")
            print_table(("", "what", "finding"), ((each.level.value, each.what, each.text) for each in found))


def send_test(
    name: Name,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Address to send the test to.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Prospect whose fields are used. [default: the first on the campaign's lists]"
        ),
    ] = None,
    step: Annotated[int, typer.Option(min=1, help="Step number.")] = 1,
    workspace: Workspace = None,
) -> None:
    """Send yourself one campaign e-mail immediately.

    The e-mail is sent from one of the campaign's accounts, with the content that a prospect would see. The test e-mail
    does not count as a step and does not wait for the sending window.

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

    email_id = with_campaign(name, workspace, work)
    typer.echo(f"queued e-mail {email_id} to {address}")
    tell_next(f"fairpost email show {email_id}")


async def _previewed(store: "Store", campaign: "Campaign", to: str | None, step: int) -> "Preview":
    from fairpost.campaigns.preview import preview as previewed
    from fairpost.store import campaigns
    from fairpost.store.prospects import known_by

    address = to or await campaigns.first_member(store, campaign)
    if address is None:
        raise FairpostError(
            f"There are no recipients on {', '.join(campaign.lists)} yet. To import recipients, see: fairpost prospects import --help"
        )
    prospect = await known_by(store, campaign.workspace, address)
    return await previewed(
        store,
        campaign,
        step,
        prospect,
        now=await store.now(),
        public_url=read_settings().public_url,
    )


def _json_line(receipt: "Receipt", *, public_id: str) -> None:
    import json

    from fairpost.cli.output import jsonable

    typer.echo(json.dumps({**jsonable(receipt), "public_id": public_id}, ensure_ascii=False))


def _states(given: list[str] | None) -> tuple[str, ...]:
    states = tuple(each.replace(" ", "_") for each in given or NOT_SENT)  # earlier versions wrote "to follow"
    if wrong := [each for each in states if each not in STATES]:
        raise typer.BadParameter(f"--state must be one of {', '.join(STATES)}, got {wrong[0]}")
    return states
