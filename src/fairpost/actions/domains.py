"""What people decide about domains in whose name a workspace writes: claimed, checked, granted, removed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.workspace import Domain
from fairpost.providers.domain_proof import Proof, WrongDomain, find_proof, provable_domain
from fairpost.store import workspaces
from fairpost.store.store import Store

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

DOMAINS_MAX = 1_000  # of a workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDomain:
    """`domain`: in any script."""

    workspace: str
    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDomain(NamedDomain):
    """`resolver` None: that of the system."""

    resolver: "Resolver | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainClaimed:
    domain: Domain
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainChecked:
    domain: Domain
    proof: Proof


@action("domain.add")
async def claim(actor: Actor, request: NamedDomain, store: Store) -> DomainClaimed:
    """Not proven yet."""
    domain, is_new = await _claimed(request, store)
    if is_new:
        await _record(actor, store, "domain.add", request, domain)
    return DomainClaimed(domain=domain, is_new=is_new)


@action("domain.prove", in_one_commit=False)
async def check(actor: Actor, request: CheckDomain, store: Store) -> DomainChecked:
    """Asks the DNS, which takes its time and needs no connection. What was proven before stays so."""
    before = await _domain(store, request)
    proof = await find_proof(before.domain, before.token, resolver=request.resolver)
    async with store.together() as one:
        by = "dns" if proof.is_proven else None
        after = await workspaces.domain_checked(one, request.workspace, before.domain, proven_by=by)
        if proof.is_proven and before.proven_at is None:
            await _record(actor, one, "domain.prove", request, after)
    return DomainChecked(domain=after, proof=proof)


@action("domain.grant")
async def grant(actor: Actor, request: NamedDomain, store: Store) -> Domain:
    """By the operator's word."""
    claimed, _ = await _claimed(request, store)
    granted = await workspaces.domain_checked(store, request.workspace, claimed.domain, proven_by="the operator")
    await _record(actor, store, "domain.grant", request, granted)
    return granted


@action("domain.remove")
async def remove(actor: Actor, request: NamedDomain, store: Store) -> Domain:
    """As it was."""
    domain = await _domain(store, request)
    await workspaces.remove_domain(store, request.workspace, domain.domain)
    await _record(actor, store, "domain.remove", request, domain)
    return domain


async def _claimed(request: NamedDomain, store: Store) -> tuple[Domain, bool]:
    """And whether it is new."""
    name = _name(request)
    if await workspaces.find_workspace(store, request.workspace) is None:
        raise Refusal("workspace.unknown", name=request.workspace)
    known = {each.domain for each in await workspaces.domains(store, request.workspace)}
    if name not in known and len(known) >= DOMAINS_MAX:
        raise Refusal("domain.too_many", workspace=request.workspace, most=DOMAINS_MAX)
    return await workspaces.add_domain(store, request.workspace, name), name not in known


async def _domain(store: Store, request: NamedDomain) -> Domain:
    name = _name(request)
    try:
        return await workspaces.domain_named(store, request.workspace, name)
    except NotFound:
        raise Refusal("domain.unknown", domain=name, workspace=request.workspace) from None


def _name(request: NamedDomain) -> str:
    try:
        return provable_domain(request.domain)
    except WrongDomain:
        raise Refusal("domain.invalid", domain=request.domain[:100]) from None


async def _record(actor: Actor, store: Store, action: str, request: NamedDomain, domain: Domain) -> None:
    await actor.record(store, action, domain.domain, workspace=request.workspace)
