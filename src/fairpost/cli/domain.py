"""`fairpost domain`: the domains a workspace may send from."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act, outcome_of, value_of
from fairpost.cli.names import Workspace
from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from fairpost.model.dkim import DkimKey
    from fairpost.model.workspace import Domain
    from fairpost.policy.domain_health import Finding
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, check and remove sending domains and DKIM keys.")

ARGUMENTS = {"domain": "DOMAIN"}
Name = Annotated[
    str, typer.Argument(metavar="DOMAIN", help="Domain name, in any script. Internationalised names are accepted.")
]


@app.command()
def add(domain: Name, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Add a domain and print the DNS record that proves ownership.

    \b
    Example: fairpost domain add --workspace acme acme.example
    """
    from fairpost.actions import domains
    from fairpost.providers.domain_proof import proof_record

    found = act(domains.claim, domains.NamedDomain(workspace=workspace, domain=domain), fields=ARGUMENTS).domain
    record = proof_record(found.domain, found.token)
    if as_json:
        print_json({"domain": found, "record": {"name": record.name, "type": "TXT", "value": record.value}})
    else:
        typer.echo(f"publish: {record}")
        typer.echo(f"next: fairpost domain check --workspace {workspace} {found.domain}")


@app.command()
def check(domain: Name, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Check a domain's DNS records and servers.

    Checks ownership, SPF, DKIM, DMARC, MX, and the names and TLS of the servers that send the domain's mail. Prints the records to publish.

    \b
    Example: fairpost domain check --workspace acme acme.example
    """
    from functools import partial

    from fairpost.actions.domains import CheckDomain
    from fairpost.actions.domains import check as checked
    from fairpost.policy.domain_health import worst
    from fairpost.reasons.rendering import sentence
    from fairpost.settings import read_settings
    from fairpost.startup.parts import network_guard
    from fairpost.transports.verify import offered_tls

    request = CheckDomain(
        workspace=workspace, domain=domain, ask_tls=partial(offered_tls, guard=network_guard(read_settings()))
    )
    done = act(checked, request, fields=ARGUMENTS)
    proof = done.proof
    if as_json:
        keys = [{**_key_as_dict(key), "published": done.published[key.selector]} for key in done.keys]
        findings = [_finding_as_dict(each) for each in done.findings]
        found = {"domain": proof.domain, "found": proof.found, "words": proof.words}
        print_json({**found, "keys": keys, "health": worst(done.findings), "findings": findings})
        return
    for finding in done.findings:
        typer.echo(f"{finding.what}: {finding.grade}. {sentence(finding.reason)}")
        if finding.record is not None and finding.what != "dkim":
            typer.echo(f"  publish: {finding.record.name} {finding.record.type} {txt_value(finding.record.value)}")
    for key in done.keys:
        typer.echo(
            f"DKIM key {key.selector} ({key.algorithm}): {key.state}, and its DNS record is {done.published[key.selector]}"
        )
        if key.state == "pending":
            typer.echo(f"publish: {key.record_name} TXT {txt_value(key.record_value)}")
    if not proof.is_proven:
        raise FairpostError(proof.words)
    typer.echo(proof.words)


@app.command("add-key")
def add_key(
    domain: Name,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="ALGORITHM",
            help="Algorithm: rsa (2048 bits), or ed25519 as an additional key. So far, few receivers verify ed25519 signatures.",
        ),
    ] = "rsa",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Add a DKIM key to a domain and print the key's DNS record.

    The key is used to sign the domain's mail once `fairpost domain check` has found the record. Until then, the
    previous key is used. Afterwards, keep the previous key's record for another week.

    \b
    Example: fairpost domain add-key --workspace acme acme.example
    """
    from fairpost.actions import domains
    from fairpost.model.dkim import Algorithm
    from fairpost.settings import read_settings
    from fairpost.startup.parts import vault_of

    if algorithm not in list(Algorithm):
        raise FairpostError(f"{algorithm!r} is not a DKIM algorithm. Use rsa or ed25519")
    request = domains.AddKey(
        workspace=workspace, domain=domain, algorithm=Algorithm(algorithm), vault=vault_of(read_settings())
    )
    key = act(domains.add_key, request, fields=ARGUMENTS).key
    if as_json:
        print_json(_key_as_dict(key))
    else:
        typer.echo(f"publish: {key.record_name} TXT {txt_value(key.record_value)}")
        typer.echo(f"next: fairpost domain check --workspace {workspace} {key.domain}")


@app.command()
def keys(domain: Name, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List a domain's DKIM keys and their DNS records.

    \b
    Example: fairpost domain keys --workspace acme acme.example
    """
    from fairpost.providers.domain_proof import provable_domain
    from fairpost.store import dkim, workspaces

    async def work(store: "Store") -> "list[DkimKey]":
        found = await workspaces.domain_named(store, workspace, provable_domain(domain))
        return await dkim.keys_of(store, workspace, found.domain)

    found = with_store(work)
    if as_json:
        print_json([_key_as_dict(key) for key in found])
    elif found:
        for key in found:
            typer.echo(f"{key.selector} ({key.algorithm}): {key.state}")
            typer.echo(f"  {key.record_name} TXT {txt_value(key.record_value)}")
    else:
        typer.echo(f"No keys, so mail is not signed. Add one: fairpost domain add-key --workspace {workspace} {domain}")


@app.command("remove-key")
def remove_key(
    domain: Name,
    selector: Annotated[str, typer.Argument(metavar="SELECTOR", help="Key selector.")],
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Remove a DKIM key. Fairpost stops signing mail with the key.

    \b
    Example: fairpost domain remove-key --workspace acme acme.example fp3k9x2m7qa1
    """
    from fairpost.actions import domains

    request = domains.RemoveKey(workspace=workspace, domain=domain, selector=selector)
    removed = act(domains.remove_key, request, fields=ARGUMENTS)
    if as_json:
        print_json(_key_as_dict(removed))
    else:
        typer.echo(f"removed {removed.selector}; keep the DNS record {removed.record_name} for another week")


def _finding_as_dict(finding: "Finding") -> dict[str, object]:
    from fairpost.reasons.rendering import sentence

    told = {"what": finding.what, "grade": finding.grade, "code": finding.reason.code}
    return {**told, "message": sentence(finding.reason), "record": finding.record}


def _key_as_dict(key: "DkimKey") -> dict[str, object]:
    record = {"name": key.record_name, "type": "TXT", "value": key.record_value}
    moments = {"created_at": key.created_at, "active_at": key.active_at, "retired_at": key.retired_at}
    return {"selector": key.selector, "algorithm": key.algorithm, "state": key.state, "record": record, **moments}


def txt_value(text: str) -> str:
    """Return the value as written in zone files: strings of at most 255 characters."""
    return " ".join(f'"{text[start : start + 255]}"' for start in range(0, len(text), 255))


@app.command()
def grant(domain: Name, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Allow a workspace to send from a domain without a DNS check.

    \b
    Example: fairpost domain grant --workspace acme acme.example
    """
    from fairpost.actions import domains

    found = act(domains.grant, domains.NamedDomain(workspace=workspace, domain=domain), fields=ARGUMENTS)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{workspace} may send from {found.domain}")


@app.command("list")
def list_domains(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List a workspace's domains.

    \b
    Example: fairpost domain list --workspace acme
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
        typer.echo(f"No domains. Add one: fairpost domain add --workspace {workspace} DOMAIN")


@app.command()
def remove(domain: Name, as_json: AsJson = False, workspace: Workspace = "") -> None:
    """Remove a domain from a workspace.

    \b
    Example: fairpost domain remove --workspace acme acme.example
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
        typer.echo(f"removed {removed.domain} from {workspace}")
