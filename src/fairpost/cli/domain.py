"""`fairpost domain`: in whose name a workspace may write."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act, outcome_of, value_of
from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from fairpost.model.workspace import Domain
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, check, grant, list and remove sending domains.")

ARGUMENTS = {"domain": "DOMAIN"}
Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
Name = Annotated[str, typer.Argument(metavar="DOMAIN", help="The domain, in any script.")]


@app.command()
def add(workspace: Workspace, domain: Name, as_json: AsJson = False) -> None:
    """Claim a domain for a workspace, and print the DNS record that proves it.

    \b
    Example: fairpost domain add acme acme.example
    """
    from fairpost.actions import domains
    from fairpost.providers.domain_proof import proof_record

    found = act(domains.claim, domains.NamedDomain(workspace=workspace, domain=domain), fields=ARGUMENTS).domain
    record = proof_record(found.domain, found.token)
    if as_json:
        print_json({"domain": found, "record": {"name": record.name, "type": "TXT", "value": record.value}})
    else:
        typer.echo(f"publish: {record}")
        typer.echo(f"next: fairpost domain check {workspace} {found.domain}")


@app.command()
def check(workspace: Workspace, domain: Name, as_json: AsJson = False) -> None:
    """Ask the DNS whether a workspace owns a domain.

    \b
    Example: fairpost domain check acme acme.example
    """
    from fairpost.actions.domains import CheckDomain
    from fairpost.actions.domains import check as checked

    proof = act(checked, CheckDomain(workspace=workspace, domain=domain), fields=ARGUMENTS).proof
    if as_json:
        print_json({"domain": proof.domain, "found": proof.found, "words": proof.words})
    elif proof.is_proven:
        typer.echo(proof.words)
    else:
        raise FairpostError(proof.words)


@app.command()
def grant(workspace: Workspace, domain: Name, as_json: AsJson = False) -> None:
    """Let a workspace write in the name of a domain, by your word.

    \b
    Example: fairpost domain grant acme acme.example
    """
    from fairpost.actions import domains

    found = act(domains.grant, domains.NamedDomain(workspace=workspace, domain=domain), fields=ARGUMENTS)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{workspace} may write as {found.domain}")


@app.command("list")
def list_domains(workspace: Workspace, as_json: AsJson = False) -> None:
    """List the domains of a workspace.

    \b
    Example: fairpost domain list acme
    """
    from fairpost.store import workspaces

    async def work(store: "Store") -> "list[Domain]":
        await workspaces.workspace_named(store, workspace)
        return await workspaces.domains(store, workspace)

    found = with_store(work)
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("domain", "proven", "by"),
            ((d.domain, f"{d.proven_at:%Y-%m-%d}" if d.proven_at else "not yet", d.proven_by) for d in found),
        )
    else:
        typer.echo(f"no domains; add one: fairpost domain add {workspace} DOMAIN")


@app.command()
def remove(workspace: Workspace, domain: Name, as_json: AsJson = False) -> None:
    """Take a domain from a workspace.

    \b
    Example: fairpost domain remove acme acme.example
    """
    from fairpost.actions import domains
    from fairpost.actions.acting import Refused

    outcome = outcome_of(domains.remove, domains.NamedDomain(workspace=workspace, domain=domain))
    if as_json and isinstance(outcome, Refused) and outcome.reason.code == "domain.unknown":
        print_json({"removed": False})
        return
    removed = value_of(outcome, fields=ARGUMENTS)
    if as_json:
        print_json({"removed": True})
    else:
        typer.echo(f"{workspace} writes as {removed.domain} no more")
