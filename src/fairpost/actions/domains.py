"""Actions on a workspace's sending domains (add, check, grant and remove) and on their DKIM keys."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fairpost.actions.acting import Actor, action
from fairpost.model.account import Account
from fairpost.model.dkim import Algorithm, DkimKey, KeyState
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.transport import ServerSettings, Tls
from fairpost.model.workspace import Domain
from fairpost.policy.dkim_records import Published, published
from fairpost.policy.domain_health import Finding, SendingHost, judge
from fairpost.providers.domain_proof import Proof, WrongDomain, domain_of, find_proof, provable_domain
from fairpost.providers.domain_records import look_at
from fairpost.providers.lookups import look_up
from fairpost.store import dkim, workspaces
from fairpost.store.store import Store
from fairpost.system import chance, clock
from fairpost.system.failpoints import failpoint
from fairpost.transports.registry import kind_of
from fairpost.vault.dkim import new_private_key, public_text, write_private_key
from fairpost.vault.rotation import write_sealed
from fairpost.vault.vault import Vault

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

DOMAINS_MAX = 1_000  # maximum per workspace
SELECTOR_CHARS = 10

AskTls = Callable[[Account], Awaitable[Tls | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDomain:
    """A workspace's domain. `domain` may be written in any script."""

    workspace: str
    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDomain(NamedDomain):
    """A request to check a domain's DNS and servers. If `resolver` is None, the system's resolver is used.

    `ask_tls` finds out whether an account's server offers TLS. If `ask_tls` is None, TLS is not checked.
    """

    resolver: "Resolver | None" = None
    ask_tls: AskTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainClaimed:
    domain: Domain
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainChecked:
    """The result of a check. `published` is the state of each key's DNS record."""

    domain: Domain
    proof: Proof
    keys: tuple[DkimKey, ...] = ()
    published: Mapping[str, Published] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddKey(NamedDomain):
    """A request to add a DKIM key.

    `owner` is the store that records which vault keys are in use; None means the action's own store.
    """

    vault: Vault
    algorithm: Algorithm = Algorithm.RSA
    owner: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveKey(NamedDomain):
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAdded:
    key: DkimKey
    is_new: bool


@action("domain.add")
async def claim(actor: Actor, request: NamedDomain, store: Store) -> DomainClaimed:
    """Claims a domain, which must then be verified."""
    domain, is_new = await _claimed(request, store)
    if is_new:
        await _record(actor, store, "domain.add", request, domain)
    return DomainClaimed(domain=domain, is_new=is_new)


@action("domain.prove", in_one_commit=False)
async def check(actor: Actor, request: CheckDomain, store: Store) -> DomainChecked:
    """Checks the domain's DNS without holding a database connection. A domain that has been verified before stays
    verified.
    """
    before = await _domain(store, request)
    keys = await _keys(store, request.workspace, before.domain)
    hosts = await _hosts(store, request, before)
    proof, looked, states = await asyncio.gather(
        find_proof(before.domain, before.token, resolver=request.resolver),
        look_at(before.domain, hosts, resolver=request.resolver),
        asyncio.gather(*[_published(key, request.resolver) for key in keys]),
    )
    seen = {key.selector: state for key, state in zip(keys, states, strict=True)}
    async with store.together() as one:
        for key in keys:
            if key.domain == before.domain:
                await _key_seen(actor, one, request, key, seen[key.selector])
        by = "dns" if proof.is_proven else None
        after = await workspaces.domain_checked(one, request.workspace, before.domain, proven_by=by)
        if proof.is_proven and before.proven_at is None:
            await _record(actor, one, "domain.prove", request, after)
        keys = await _keys(one, request.workspace, before.domain)
        findings = judge(before.domain, looked, keys, seen, now=await one.now())
        await workspaces.put_health(one, request.workspace, before.domain, [_as_stored(each) for each in findings])
    own = tuple(key for key in keys if key.domain == before.domain)
    return DomainChecked(domain=after, proof=proof, keys=own, published=seen, findings=tuple(findings))


async def _keys(store: Store, workspace: str, domain: str) -> list[DkimKey]:
    """Returns the domain's keys. If none of these keys signs mail, also returns the nearest parent domain's keys that
    sign mail from this domain.
    """
    known = await dkim.keys_of(store, workspace)
    signing = {key.domain for key in known if key.state is KeyState.ACTIVE and f".{domain}".endswith(f".{key.domain}")}
    nearest = max(signing, key=len, default=domain)
    above = [key for key in known if key.domain == nearest != domain and key.state is KeyState.ACTIVE]
    return [*(key for key in known if key.domain == domain), *above]


def _as_stored(finding: Finding) -> dict[str, Any]:
    told = {"what": finding.what, "grade": finding.grade, "code": finding.reason.code, "params": finding.reason.params}
    return {**told, "record": asdict(finding.record) if finding.record else None}


async def _hosts(store: Store, request: CheckDomain, domain: Domain) -> list[SendingHost]:
    """Returns the servers of accounts that send from the domain or a subdomain, and the TLS support of each server.

    These accounts are the workspace's own and, once the domain is verified, those in pools lent to the workspace. If
    the workspace has also added a subdomain, the subdomain's own check covers its accounts.
    """
    known = [each.domain for each in await workspaces.domains(store, request.workspace)]
    below = tuple(f".{each}" for each in known if each.endswith(f".{domain.domain}"))
    workspace = await workspaces.workspace_named(store, request.workspace)
    serving = workspace.pools if domain.proven_at is not None else ()
    servers: dict[tuple[str, str], Account] = {}
    for account in await store.accounts(workspace=request.workspace, serving=serving):
        at = domain_of(account.address)
        is_here = f".{at}".endswith(f".{domain.domain}") and not f".{at}".endswith(below)
        if isinstance(account.transport, ServerSettings) and is_here:
            host = kind_of(account.transport).sending_host(account.transport)
            envelope = (kind_of(account.transport).bounce_domain(account.transport) or at).lower()
            if host is not None:
                servers.setdefault((host, envelope if envelope != domain.domain else ""), account)
    return list(
        await asyncio.gather(
            *[_host(name, envelope, account, request.ask_tls) for (name, envelope), account in servers.items()]
        )
    )


async def _host(name: str, envelope: str, account: Account, ask_tls: AskTls | None) -> SendingHost:
    assert isinstance(account.transport, ServerSettings)
    signs = kind_of(account.transport).provider_signs(account.transport)
    tls = await ask_tls(account) if ask_tls else None
    return SendingHost(name=name, envelope=envelope, signs=signs, is_own=not signs, tls=tls)


async def _published(key: DkimKey, resolver: "Resolver | None") -> Published:
    found = await look_up(key.record_name, "TXT", resolver=resolver)
    return published(key, found.records, error=found.error)


async def _key_seen(actor: Actor, store: Store, request: NamedDomain, key: DkimKey, seen: Published) -> None:
    if seen is Published.UNKNOWN or key.state is KeyState.RETIRED:
        return
    await dkim.key_checked(store, request.workspace, key.id, is_there=seen is Published.THERE)
    if seen is Published.THERE and key.state is KeyState.PENDING:
        await actor.record(store, "domain.use_key", key.domain, workspace=request.workspace, selector=key.selector)


@action("domain.add_key", in_one_commit=False)
async def add_key(actor: Actor, request: AddKey, store: Store) -> KeyAdded:
    """Adds a DKIM key. The key is used for signing once a check has found its DNS record; until then, the previous key
    is used.

    If a key is already waiting for its record, that key is returned instead.
    """
    domain = (await _domain(store, request)).domain
    for known in await dkim.keys_of(store, request.workspace, domain):
        if known.state is KeyState.PENDING and known.algorithm is request.algorithm:
            return KeyAdded(key=known, is_new=False)
    owner = request.owner or store
    private = await asyncio.to_thread(new_private_key, request.algorithm)
    key = DkimKey(
        id=await dkim.next_key_id(owner),
        domain=domain,
        selector=f"fp{chance.random_name(SELECTOR_CHARS)}",
        algorithm=request.algorithm,
        public=public_text(private),
        created_at=clock.now(),
    )

    async def write(sealed: str, keys: Sequence[str]) -> None:
        async with store.together() as one:
            await dkim.add_key(one, request.workspace, key, sealed=sealed, keys=keys)
            about = {"selector": key.selector, "algorithm": key.algorithm}
            await actor.record(one, "domain.add_key", domain, workspace=request.workspace, **about)
            failpoint("before_key_commit")

    failpoint("after_key_made")
    await write_sealed(owner, request.vault, write_private_key(private), owner=f"dkim {key.id}", write=write)
    return KeyAdded(key=key, is_new=True)


@action("domain.remove_key")
async def remove_key(actor: Actor, request: RemoveKey, store: Store) -> DkimKey:
    """Removes a key and returns it. The key no longer signs anything."""
    domain = (await _domain(store, request)).domain
    keys = {key.selector: key for key in await dkim.keys_of(store, request.workspace, domain)}
    if request.selector not in keys:
        raise Refusal("domain.key_unknown", domain=domain, selector=request.selector[:100])
    await dkim.remove_key(store, request.workspace, domain, request.selector)
    await actor.record(store, "domain.remove_key", domain, workspace=request.workspace, selector=request.selector)
    return keys[request.selector]


@action("domain.grant")
async def grant(actor: Actor, request: NamedDomain, store: Store) -> Domain:
    """Verifies a domain on the operator's authority."""
    claimed, _ = await _claimed(request, store)
    granted = await workspaces.domain_checked(store, request.workspace, claimed.domain, proven_by="the operator")
    await _record(actor, store, "domain.grant", request, granted)
    return granted


@action("domain.remove")
async def remove(actor: Actor, request: NamedDomain, store: Store) -> Domain:
    """Removes a domain and returns it."""
    domain = await _domain(store, request)
    await workspaces.remove_domain(store, request.workspace, domain.domain)
    await _record(actor, store, "domain.remove", request, domain)
    return domain


async def _claimed(request: NamedDomain, store: Store) -> tuple[Domain, bool]:
    """Returns the claimed domain and whether it is new."""
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
