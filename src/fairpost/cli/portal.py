"""`fairpost portal`: the product's own e-mails by portal and type, with content from files or a workspace."""

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act
from fairpost.cli.arguments import Metadata, Tag, tag_values
from fairpost.cli.files import STANDARD, read_text
from fairpost.cli.names import Workspace, checked_workspace
from fairpost.cli.output import AsJson, iso, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, Refusal
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.portals.loading import Portals
    from fairpost.portals.template import PortalTemplate
    from fairpost.portals.workspace import Override, WorkspacePortals
    from fairpost.store.store import Store

app = typer.Typer(
    no_args_is_help=True,
    help="Edit product e-mails, such as the welcome e-mail.",
)

PortalName = Annotated[str, typer.Argument(metavar="PORTAL", help="Portal: hub, org, agency, admin, or your own.")]
TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="E-mail type: welcome, forgot_password, tfa and so on.")]
Fields = Annotated[list[str] | None, typer.Option("--field", metavar="NAME=VALUE", help="Field value. Repeatable.")]
InWorkspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        callback=checked_workspace,
        help="Use this workspace's content. [default: the template files' content]",
    ),
]


@app.command("list")
def list_(workspace: InWorkspace = None, as_json: AsJson = False) -> None:
    """List the product's e-mails and their fields.

    \b
    Example: fairpost portal list
    """
    portals = _portals()
    own = {} if workspace is None else with_store(lambda store: _overrides(store, portals, workspace))
    known = {(each.portal.key, each.type) for each in portals.list()}
    if as_json:
        print_json([_facts(each, own.get((each.portal.key, each.type))) for each in portals.list()])
        return
    rows = (
        (
            t.portal.key,
            t.type,
            "yes" if t.is_urgent else "",
            _fields_in_words(t),
            _origin(t, own.get((t.portal.key, t.type))),
        )
        for t in portals.list()
    )
    print_table(("portal", "type", "urgent", "fields", "from"), rows)
    for (portal, mail_type), override in own.items():
        if override.problem is not None:
            typer.echo(plain(f"{portal}/{mail_type}: {workspace}'s content is not used: {override.problem}"))
            verb = "override" if (portal, mail_type) in known else "reset"
            typer.echo(f"next: fairpost portal {verb} {portal} {mail_type} --workspace {quote(workspace or '')}")


@app.command()
def preview(
    portal: PortalName,
    mail_type: TypeName,
    field: Fields = None,
    html: Annotated[bool, typer.Option("--html", help="Print the HTML part for viewing in a browser.")] = False,
    source: Annotated[
        bool, typer.Option("--source", help="Print subject, text and HTML without filling in fields.")
    ] = False,
    workspace: InWorkspace = None,
    as_json: AsJson = False,
) -> None:
    """Preview an e-mail with sample values or your own.

    \b
    Example: fairpost portal preview admin tfa --field code=482913
    """
    portals = _portals()
    template = portals.get(portal, mail_type)
    if workspace is not None:
        template = with_store(lambda store: _desk(store, portals).template(workspace, portal, mail_type))
    said = template.words if source else template.render({**template.sample, **_given(field)})
    if as_json:
        print_json(said)
    elif html:
        typer.echo(plain(said.html or "") if sys.stdout.isatty() else said.html or "")
    else:
        typer.echo(plain(f"Subject: {said.subject}\n\n{said.text or ''}"))


@app.command()
def check(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="Folder with your templates. [default: templates in FAIRPOST_HOME]"),
    ] = None,
) -> None:
    """Check a folder of custom templates and list all errors.

    \b
    Example: fairpost portal check ./templates
    """
    if folder is not None and not folder.is_dir():
        raise FairpostError(f"There is no folder {folder}.")
    portals = _portals(folder)
    for warning in portals.warnings:
        typer.echo(plain(f"note: {warning}"))
    typer.echo(f"{len(portals.list())} e-mails are valid")


@app.command()
def send(
    portal: PortalName,
    mail_type: TypeName,
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="Recipient's address.")],
    field: Fields = None,
    pool: Annotated[str, typer.Option(help="Pool whose accounts send the e-mail.")] = "default",
    tag: Tag = None,
    metadata: Metadata = None,
    workspace: Workspace = "",
) -> None:
    """Queue an e-mail with the given field values.

    Urgent types are sent first. Expired e-mails are not sent.

    \b
    Example: fairpost portal send hub welcome --to ann@example.com --field sign_in_url=https://example.com
    """
    portals, values, tags = _portals(), _given(field), tag_values(tag)
    email_id = with_store(
        lambda store: _desk(store, portals).send(
            workspace, portal, mail_type, values, to=to, pool=pool, tags=tags, metadata=metadata
        )
    )
    typer.echo(f"queued e-mail {email_id} to {to}")
    typer.echo(f"next: fairpost email show {email_id}")


SubjectFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with the subject line, or `-` for standard input.")
]
Preheader = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Preview text that e-mail clients show after the subject.")
]
TextFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with the plain text, or `-` for standard input.")
]
HtmlFile = Annotated[str | None, typer.Option(metavar="FILE", help="File with the HTML, or `-` for standard input.")]


@app.command()
def override(
    portal: PortalName,
    mail_type: TypeName,
    subject: Annotated[str | None, typer.Option(metavar="TEXT", help="Subject line.")] = None,
    subject_file: SubjectFile = None,
    preheader: Preheader = None,
    text_file: TextFile = None,
    html_file: HtmlFile = None,
    workspace: Workspace = "",
    as_json: AsJson = False,
) -> None:
    """Set a workspace's own content for an e-mail.

    Parts that you omit keep the workspace's own content or, if there is none, the template files' content. Content with an error is not stored.

    \b
    Example: fairpost portal override hub welcome --subject 'Welcome to the shop' --text-file welcome.txt --html-file welcome.html
    """
    if (subject_file, text_file, html_file).count(STANDARD) > 1:
        raise typer.BadParameter("standard input can be used only once; use files for the other parts")
    if subject is not None and subject_file is not None:
        raise typer.BadParameter("specify either --subject or --subject-file")
    files = {"subject": subject_file, "text": text_file, "html": html_file}
    given = {part: words for part, words in (("subject", subject), ("preheader", preheader)) if words is not None}
    given |= {part: read_text(file) for part, file in files.items() if file is not None}
    if not given:
        raise typer.BadParameter(
            "specify at least one of --subject, --subject-file, --preheader, --text-file and --html-file"
        )
    from fairpost.actions import portals

    request = portals.OverridePortal(
        workspace=workspace, portal=portal, type=mail_type, portals=_portals(), parts=given
    )
    saved = act(portals.override, request).saved
    if as_json:
        print_json(
            {
                "portal": portal,
                "type": mail_type,
                "workspace": workspace,
                "is_new": saved.is_new,
                "warnings": list(map(str, saved.warnings)),
            }
        )
        return
    for warning in saved.warnings:
        typer.echo(plain(f"note: {warning}"))
    typer.echo(
        f"workspace {workspace} {'has' if saved.is_new else 'has changed'} its own content for {portal}/{mail_type}"
    )
    typer.echo(f"next: fairpost portal preview {portal} {mail_type} --workspace {quote(workspace)}")


@app.command()
def reset(portal: PortalName, mail_type: TypeName, workspace: Workspace = "") -> None:
    """Remove a workspace's own content for an e-mail.

    \b
    Example: fairpost portal reset hub welcome --workspace shop
    """
    from fairpost.actions import portals

    named = portals.NamedPortal(workspace=workspace, portal=portal, type=mail_type, portals=_portals())
    if not act(portals.reset, named):
        raise Refusal("portal.not_overridden", workspace=workspace, portal=portal, type=mail_type)
    typer.echo(f"workspace {workspace} uses the template files' content for {portal}/{mail_type} again")


def _portals(own: Path | None = None) -> "Portals":
    from fairpost.portals.folder import BUILT_IN
    from fairpost.portals.loading import load_portals, portals_at

    return load_portals(BUILT_IN, own) if own else portals_at(read_settings().home)


def _desk(store: "Store", portals: "Portals") -> "WorkspacePortals":
    from fairpost.portals.workspace import WorkspacePortals

    return WorkspacePortals(store, portals)


async def _overrides(store: "Store", portals: "Portals", workspace: str) -> "dict[tuple[str, str], Override]":
    found = await _desk(store, portals).overrides(workspace)
    return {(each.stored.portal, each.stored.type): each for each in found}


def _origin(template: "PortalTemplate", override: "Override | None") -> str:
    if override is None:
        return template.where
    since = f"{override.stored.workspace}, {iso(override.stored.changed_at)}"
    return since if override.problem is None else f"{template.where} ({since}: not used)"


def _given(fields: list[str] | None) -> dict[str, str]:
    pairs = [each.partition("=") for each in fields or []]
    if any(not sign or not name for name, sign, _ in pairs):
        raise typer.BadParameter("--field must be NAME=VALUE, for example code=482913")
    return {name: value for name, _, value in pairs}


def _fields_in_words(template: "PortalTemplate") -> str:
    return ", ".join(name if field.is_required else f"[{name}]" for name, field in template.fields.items())


def _facts(template: "PortalTemplate", override: "Override | None") -> dict[str, object]:
    return {
        "portal": template.portal.key,
        "type": template.type,
        "description": template.meta.description,
        "is_urgent": template.is_urgent,
        "expires_after_s": template.expires_after.total_seconds() if template.expires_after else None,
        "fields": {
            name: {"description": field.description, "is_required": field.is_required}
            for name, field in template.fields.items()
        },
        "where": template.where,
        "override": override
        and {
            "workspace": override.stored.workspace,
            "changed_at": override.stored.changed_at,
            "changed_by": override.stored.changed_by,
            "problem": override.problem,
        },
    }
