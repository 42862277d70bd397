"""`fairpost portal`: the product's own e-mails, by portal and type, from files: looked at, checked, sent."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.output import AsJson, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.postgres.store import Store
    from fairpost.templates.portals import Portals, PortalTemplate
    from fairpost.templates.rendering import Rendered

app = typer.Typer(
    no_args_is_help=True, help="The product's own e-mails (welcome, sign-in code …): list, preview, check, send."
)

PortalName = Annotated[str, typer.Argument(metavar="PORTAL", help="hub, org, agency, admin, or one of yours.")]
TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="welcome, forgot_password, tfa …")]
Fields = Annotated[
    list[str] | None, typer.Option("--field", metavar="NAME=VALUE", help="What to fill in. Again for others.")
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the e-mails there are, and the fields of each.

    \b
    Example: fairpost portal list
    """
    templates = _portals().list()
    if as_json:
        print_json([_facts(each) for each in templates])
        return
    rows = ((t.portal.key, t.type, "yes" if t.is_urgent else "", _fields_in_words(t), t.where) for t in templates)
    print_table(("portal", "type", "urgent", "fields", "from"), rows)


@app.command()
def preview(
    portal: PortalName,
    mail_type: TypeName,
    field: Fields = None,
    html: Annotated[bool, typer.Option("--html", help="Print the html part, to look at in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one, with sample values or your own.

    \b
    Example: fairpost portal preview admin tfa --field code=482913
    """
    template = _portals().get(portal, mail_type)
    said = template.render({**template.sample, **_given(field)})
    if as_json:
        print_json(said)
    elif html:
        typer.echo(plain(said.html or "") if sys.stdout.isatty() else said.html or "")
    else:
        typer.echo(plain(f"Subject: {said.subject}\n\n{said.text or ''}"))


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Of your own. [default: templates in FAIRPOST_HOME]")
    ] = None,
) -> None:
    """Check a folder of your own templates, and tell everything that is wrong.

    \b
    Example: fairpost portal check ./templates
    """
    if folder is not None and not folder.is_dir():
        raise FairpostError(f"There is no folder {folder}.")
    portals = _portals(folder)
    for warning in portals.warnings:
        typer.echo(plain(f"note: {warning}"))
    typer.echo(f"{len(portals.list())} e-mails are in order")


@app.command()
def send(
    portal: PortalName,
    mail_type: TypeName,
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="Who gets it.")],
    field: Fields = None,
    pool: Annotated[str, typer.Option(help="The accounts that send it.")] = "default",
    workspace: Annotated[str | None, typer.Option(help="Of this workspace. [default: FAIRPOST_WORKSPACE]")] = None,
) -> None:
    """Queue one, with the fields you give.

    What is urgent goes first; what is worthless after a while is not sent any more then.

    \b
    Example: fairpost portal send hub welcome --to ann@example.com --field sign_in_url=https://example.com
    """
    template = _portals().get(portal, mail_type)
    said = template.render(_given(field))
    where = workspace or read_settings().workspace

    async def work(store: "Store") -> int:
        return await _enqueue(store, template, said, to=to, pool=pool, workspace=where)

    email_id = with_store(work)
    typer.echo(f"e-mail {email_id} is on its way to {to}")
    typer.echo(f"next: fairpost email show {email_id}")


async def _enqueue(
    store: "Store", template: "PortalTemplate", said: "Rendered", *, to: str, pool: str, workspace: str
) -> int:
    email: dict[str, Any] = {"to": to, "subject": said.subject, "pool": pool, "workspace": workspace}
    email |= {part: words for part, words in (("text", said.text), ("html", said.html)) if words is not None}
    email["class"] = "urgent" if template.is_urgent else "bulk"
    if template.expires_after is not None:
        now = await store.value("SELECT clock_timestamp()")
        email["expires_at"] = (now + template.expires_after).isoformat()
    (row,) = await store.enqueue_many([email])
    if row["error"] is not None:
        import json

        raise FairpostError(json.loads(row["error"])["message"])
    return int(row["id"])


def _portals(own: Path | None = None) -> "Portals":
    from fairpost.app import OWN_TEMPLATES
    from fairpost.templates.portals import BUILT_IN, load_portals

    folder = own or read_settings().home / OWN_TEMPLATES
    return load_portals(BUILT_IN, folder) if folder.is_dir() else load_portals(BUILT_IN)


def _given(fields: list[str] | None) -> dict[str, str]:
    pairs = [each.partition("=") for each in fields or []]
    if any(not sign or not name for name, sign, _ in pairs):
        raise typer.BadParameter("--field must be NAME=VALUE, like code=482913")
    return {name: value for name, _, value in pairs}


def _fields_in_words(template: "PortalTemplate") -> str:
    return ", ".join(name if field.is_required else f"[{name}]" for name, field in template.fields.items())


def _facts(template: "PortalTemplate") -> dict[str, object]:
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
    }
