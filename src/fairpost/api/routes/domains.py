"""Domains in whose name a workspace may write: claimed, and shown to be its own by a DNS record."""

from fastapi import Response, status

from fairpost.actions import domains as actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, failures
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.domains import Checked, DomainOut, DomainPath, RecordOut
from fairpost.model.workspace import Domain
from fairpost.providers.domain_proof import proof_record
from fairpost.store import workspaces

router = Router(prefix="/v1/domains", tags=["workspace"])


@router.get("", summary="List claimed domains", responses=failures())
async def list_domains(caller: Reads) -> Answer[list[DomainOut]]:
    return Answer(data=[_told(each) for each in await workspaces.domains(caller.store, caller.workspace)])


@router.put(
    "/{domain}",
    status_code=status.HTTP_201_CREATED,
    summary="Claim a domain",
    responses={200: {"model": Answer[DomainOut], "description": "It was claimed before."}, **failures("conflict")},
)
async def claim_domain(domain: DomainPath, caller: Manages, response: Response) -> Answer[DomainOut]:
    done = await act(caller, actions.claim, actions.NamedDomain(workspace=caller.workspace, domain=domain))
    if not done.is_new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=_told(done.domain))


@router.post("/{domain}/check", summary="Look up the DNS record that proves a domain", responses=failures("not_found"))
async def check_domain(domain: DomainPath, caller: Manages, service: TheService) -> Answer[Checked]:
    asked = actions.CheckDomain(workspace=caller.workspace, domain=domain, resolver=service.resolver)
    done = await act(caller, actions.check, asked)
    return Answer(data=Checked(**_told(done.domain).model_dump(), found=done.proof.found, words=done.proof.words))


@router.delete("/{domain}", summary="Give up a domain", responses=failures("not_found"))
async def delete_domain(domain: DomainPath, caller: Manages) -> Answer[DomainOut]:
    removed = await act(caller, actions.remove, actions.NamedDomain(workspace=caller.workspace, domain=domain))
    return Answer(data=_told(removed))


def _told(domain: Domain) -> DomainOut:
    record = proof_record(domain.domain, domain.token)
    return DomainOut(
        domain=domain.domain,
        is_proven=domain.proven_at is not None,
        proven_at=domain.proven_at,
        checked_at=domain.checked_at,
        record=RecordOut(name=record.name, value=record.value),
    )
