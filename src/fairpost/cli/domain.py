"""`fairpost domain`: in whose name a workspace may write."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, NotFound

if TYPE_CHECKING:
    from fairpost.model.workspace import Domain
    from fairpost.postgres.store import Store
    from fairpost.providers.domain_proof import Proof

app = typer.Typer(no_args_is_help=True, help="Add, check, grant, list and remove domains of workspaces.")

BY = "cli"
Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
Name = Annotated[str, typer.Argument(metavar="DOMAIN", help="The domain, in any script.")]


@app.command()
def add(workspace: Workspace, domain: Name, as_json: AsJson = False) -> None:
    """Claim a domain for a workspace, and print the DNS record that proves it.

    \b
    Example: fairpost domain add acme acme.example
    """
    from fairpost.providers.domain_proof import proof_record

    found = with_store(lambda store: _claimed(store, workspace, domain))
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
    from fairpost.postgres import workspaces
    from fairpost.providers.domain_proof import find_proof, provable_domain

    async def work(store: "Store") -> "Proof":
        claimed = await workspaces.domain_named(store, workspace, provable_domain(domain))
        proof = await find_proof(claimed.domain, claimed.token)
        async with store.together() as one:
            by = "dns" if proof.is_proven else None
            await workspaces.domain_checked(one, workspace, claimed.domain, proven_by=by)
            if proof.is_proven and claimed.proven_at is None:
                await workspaces.write_audit(
                    one, workspace=workspace, who=BY, action="domain.prove", subject=claimed.domain
                )
        return proof

    proof = with_store(work)
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
    from fairpost.postgres import workspaces

    async def work(store: "Store") -> "Domain":
        async with store.together() as one:
            claimed = await _claimed(one, workspace, domain)
            await workspaces.write_audit(
                one, workspace=workspace, who=BY, action="domain.grant", subject=claimed.domain
            )
            return await workspaces.domain_checked(one, workspace, claimed.domain, proven_by="the operator")

    found = with_store(work)
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
    from fairpost.postgres import workspaces

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
    from fairpost.postgres import workspaces
    from fairpost.providers.domain_proof import provable_domain

    name = provable_domain(domain)

    async def work(store: "Store") -> bool:
        async with store.together() as one:
            removed = await workspaces.remove_domain(one, workspace, name)
            if removed:
                await workspaces.write_audit(one, workspace=workspace, who=BY, action="domain.remove", subject=name)
            return removed

    removed = with_store(work)
    if as_json:
        print_json({"removed": removed})
    elif removed:
        typer.echo(f"{workspace} writes as {name} no more")
    else:
        raise NotFound(f"There is no domain {name} in workspace {workspace}. See: fairpost domain list {workspace}")


async def _claimed(store: "Store", workspace: str, domain: str) -> "Domain":
    from fairpost.postgres import workspaces
    from fairpost.providers.domain_proof import provable_domain

    name = provable_domain(domain)
    async with store.together() as one:
        await workspaces.workspace_named(one, workspace)
        if name not in {each.domain for each in await workspaces.domains(one, workspace)}:
            await workspaces.write_audit(one, workspace=workspace, who=BY, action="domain.add", subject=name)
        return await workspaces.add_domain(one, workspace, name)
