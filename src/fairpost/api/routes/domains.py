"""Sending domains of a workspace. A DNS record verifies each domain."""

from functools import partial

from fastapi import Response, status

from fairpost.actions import domains as actions
from fairpost.api.access import Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, failures
from fairpost.api.errors import ApiError
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.domains import (
    Checked,
    CheckedKey,
    DomainOut,
    DomainPath,
    DomainWithHealth,
    FindingOut,
    KeyIn,
    KeyOut,
    RecordOut,
    SelectorPath,
)
from fairpost.model.dkim import DkimKey
from fairpost.model.errors import NotFound, VaultError
from fairpost.model.workspace import Domain
from fairpost.observe.domains import DomainHealth, read_health
from fairpost.policy.domain_health import Finding, worst
from fairpost.providers.domain_proof import WrongDomain, proof_record, provable_domain
from fairpost.reasons.rendering import sentence
from fairpost.store import dkim, workspaces
from fairpost.transports.verify import offered_tls

router = Router(prefix="/v1/domains", tags=["workspace"])


@router.get("", summary="List domains", responses=failures())
async def list_domains(caller: Reads) -> Answer[list[DomainWithHealth]]:
    known = {each.domain: each for each in await read_health(caller.store, workspace=caller.workspace)}
    found = await workspaces.domains(caller.store, caller.workspace)
    return Answer(data=[_with_health(each, known.get(each.domain)) for each in found])


@router.put(
    "/{domain}",
    status_code=status.HTTP_201_CREATED,
    summary="Add a domain",
    responses={
        200: {"model": Answer[DomainOut], "description": "The domain had already been added."},
        **failures("conflict"),
    },
)
async def claim_domain(domain: DomainPath, caller: Manages, response: Response) -> Answer[DomainOut]:
    done = await act(caller, actions.claim, actions.NamedDomain(workspace=caller.workspace, domain=domain))
    if not done.is_new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=_told(done.domain))


@router.post("/{domain}/check", summary="Check a domain's DNS records", responses=failures("not_found"))
async def check_domain(domain: DomainPath, caller: Manages, service: TheService) -> Answer[Checked]:
    asked = actions.CheckDomain(
        workspace=caller.workspace,
        domain=domain,
        resolver=service.resolver,
        ask_tls=partial(offered_tls, guard=service.guard),
    )
    done = await act(caller, actions.check, asked)
    keys = [CheckedKey(**_key(key).model_dump(), published=done.published[key.selector]) for key in done.keys]
    told = {**_told(done.domain).model_dump(), "found": done.proof.found, "words": done.proof.words}
    findings = [_finding(each) for each in done.findings]
    return Answer(data=Checked(**told, keys=keys, health=worst(done.findings), findings=findings))


@router.get("/{domain}/keys", summary="List a domain's DKIM keys", responses=failures("not_found"))
async def list_domain_keys(domain: DomainPath, caller: Reads) -> Answer[list[KeyOut]]:
    found = await _known(caller, domain)
    return Answer(data=[_key(each) for each in await dkim.keys_of(caller.store, caller.workspace, found.domain)])


@router.post(
    "/{domain}/keys",
    status_code=status.HTTP_201_CREATED,
    summary="Create a DKIM key for a domain",
    responses={
        200: {"model": Answer[KeyOut], "description": "A key is already waiting for its DNS record."},
        **failures("not_found"),
    },
)
async def create_domain_key(
    domain: DomainPath, given: KeyIn, caller: Manages, service: TheService, response: Response
) -> Answer[KeyOut]:
    request = actions.AddKey(
        workspace=caller.workspace, domain=domain, algorithm=given.algorithm, vault=service.vault, owner=caller.owner
    )
    try:
        done = await act(caller, actions.add_key, request)
    except VaultError:
        raise ApiError(
            "unavailable", "Secrets cannot be stored at the moment. Ask the operator to check the master key."
        ) from None
    if not done.is_new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=_key(done.key))


@router.delete("/{domain}/keys/{selector}", summary="Remove a DKIM key", responses=failures("not_found"))
async def delete_domain_key(domain: DomainPath, selector: SelectorPath, caller: Manages) -> Answer[KeyOut]:
    request = actions.RemoveKey(workspace=caller.workspace, domain=domain, selector=selector)
    return Answer(data=_key(await act(caller, actions.remove_key, request)))


@router.delete("/{domain}", summary="Remove a domain", responses=failures("not_found"))
async def delete_domain(domain: DomainPath, caller: Manages) -> Answer[DomainOut]:
    removed = await act(caller, actions.remove, actions.NamedDomain(workspace=caller.workspace, domain=domain))
    return Answer(data=_told(removed))


async def _known(caller: Caller, domain: str) -> Domain:
    try:
        return await workspaces.domain_named(caller.store, caller.workspace, provable_domain(domain))
    except (NotFound, WrongDomain):
        raise ApiError("not_found", "This domain does not exist.") from None


def _finding(finding: Finding) -> FindingOut:
    paste = finding.record
    return FindingOut(
        what=finding.what,
        grade=finding.grade,
        code=finding.reason.code,
        message=sentence(finding.reason),
        record=RecordOut(name=paste.name, type=paste.type, value=paste.value) if paste else None,
    )


def _key(key: DkimKey) -> KeyOut:
    return KeyOut(
        selector=key.selector,
        algorithm=key.algorithm,
        state=key.state,
        record=RecordOut(name=key.record_name, value=key.record_value),
        created_at=key.created_at,
        active_at=key.active_at,
        retired_at=key.retired_at,
    )


def _with_health(domain: Domain, known: DomainHealth | None) -> DomainWithHealth:
    return DomainWithHealth(
        **_told(domain).model_dump(),
        health=known.grade if known else None,
        findings=[_finding(each) for each in known.findings] if known else [],
    )


def _told(domain: Domain) -> DomainOut:
    record = proof_record(domain.domain, domain.token)
    return DomainOut(
        domain=domain.domain,
        is_proven=domain.proven_at is not None,
        proven_at=domain.proven_at,
        checked_at=domain.checked_at,
        record=RecordOut(name=record.name, value=record.value),
    )
