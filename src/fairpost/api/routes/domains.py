"""Domains in whose name a workspace may write: claimed, and shown to be its own by a DNS record."""

from typing import Annotated

from fastapi import APIRouter, Path, Response, status
from pydantic import Field

from fairpost.api.access import Caller, Manages, Reads
from fairpost.api.answers import Answer, Model, Moment, Text, failures
from fairpost.api.errors import ApiError, invalid, not_found
from fairpost.api.service import TheService
from fairpost.model.errors import NotFound
from fairpost.model.workspace import Domain
from fairpost.postgres import workspaces
from fairpost.providers.domain_proof import WrongDomain, find_proof, proof_record, provable_domain

router = APIRouter(prefix="/api/domains", tags=["workspace"])

DOMAINS_MAX = 1_000
DomainPath = Annotated[Text, Path(max_length=260, description="The domain, in any script.")]


class RecordOut(Model):
    name: str
    type: str = "TXT"
    value: str


class DomainOut(Model):
    domain: str
    is_proven: bool
    proven_at: Moment | None
    checked_at: Moment | None
    record: Annotated[RecordOut, Field(description="What to publish in the DNS.")]


class Checked(DomainOut):
    found: Annotated[str, Field(description="proven, not_found or dns_error")]
    words: str


@router.get("", summary="All that were claimed", responses=failures())
async def listed(caller: Reads) -> Answer[list[DomainOut]]:
    return Answer(data=[_told(each) for each in await workspaces.domains(caller.store, caller.workspace)])


@router.put(
    "/{domain}",
    status_code=status.HTTP_201_CREATED,
    summary="Claim a domain",
    responses={200: {"model": Answer[DomainOut], "description": "It was claimed before."}, **failures("conflict")},
)
async def claim(domain: DomainPath, caller: Manages, response: Response) -> Answer[DomainOut]:
    name = _name(domain)
    async with caller.store.together() as one:
        known = await workspaces.domains(one, caller.workspace)
        if name in {each.domain for each in known}:
            response.status_code = status.HTTP_200_OK
        elif len(known) >= DOMAINS_MAX:
            raise ApiError("conflict", f"A workspace has at most {DOMAINS_MAX:,} domains. Nothing was changed.")
        else:
            await caller.audit(one, "domain.add", name)
        return Answer(data=_told(await workspaces.add_domain(one, caller.workspace, name)))


@router.post("/{domain}/check", summary="Ask the DNS for the record", responses=failures("not_found"))
async def check(domain: DomainPath, caller: Manages, service: TheService) -> Answer[Checked]:
    claimed = await _find(caller, domain)
    proof = await find_proof(claimed.domain, claimed.token, resolver=service.resolver)
    async with caller.store.together() as one:
        by = "dns" if proof.is_proven else None
        after = await workspaces.domain_checked(one, caller.workspace, claimed.domain, proven_by=by)
        if proof.is_proven and claimed.proven_at is None:
            await caller.audit(one, "domain.prove", claimed.domain)
    return Answer(data=Checked(**_told(after).model_dump(), found=proof.found, words=proof.words))


@router.delete("/{domain}", summary="Write in its name no more", responses=failures("not_found"))
async def remove(domain: DomainPath, caller: Manages) -> Answer[DomainOut]:
    claimed = await _find(caller, domain)
    async with caller.store.together() as one:
        await workspaces.remove_domain(one, caller.workspace, claimed.domain)
        await caller.audit(one, "domain.remove", claimed.domain)
    return Answer(data=_told(claimed))


async def _find(caller: Caller, domain: str) -> Domain:
    try:
        return await workspaces.domain_named(caller.store, caller.workspace, _name(domain))
    except NotFound:
        raise not_found("domain", domain) from None


def _name(domain: str) -> str:
    try:
        return provable_domain(domain)
    except WrongDomain as error:
        raise invalid("domain", str(error)) from None


def _told(domain: Domain) -> DomainOut:
    record = proof_record(domain.domain, domain.token)
    return DomainOut(
        domain=domain.domain,
        is_proven=domain.proven_at is not None,
        proven_at=domain.proven_at,
        checked_at=domain.checked_at,
        record=RecordOut(name=record.name, value=record.value),
    )
