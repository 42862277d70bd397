"""Members of a workspace: invited, given a role, kept out. They see their own workspace only."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Query, status
from pydantic import Field

from fairpost.api.access import Caller, Manages
from fairpost.api.answers import AddressPath, Answer, Given, Moment, facts_of, failures
from fairpost.api.errors import ApiError, not_found
from fairpost.api.routes.auth import Address, PersonName, PersonOut, person_out, refusal
from fairpost.api.routes.workspace import KeyOut, key_out
from fairpost.api.service import TheService
from fairpost.model.person import Offered, Person, Refused, Role
from fairpost.people import key_makers, membership
from fairpost.postgres import workspaces
from fairpost.postgres.store import Store

router = APIRouter(prefix="/api/members", tags=["people"])

INVITATIONS_A_DAY_MAX = 100  # of a workspace
INVITATIONS_AN_HOUR_MAX = 3  # to one address
MemberRole = Literal["manager", "sender", "viewer"]


class MemberIn(Given):
    address: Address
    role: MemberRole
    name: PersonName = ""


class RoleIn(Given):
    role: MemberRole


class MemberChanged(PersonOut):
    """With the keys that this member made and that still open: they are the workspace's, and go on doing so."""

    keys: Annotated[list[KeyOut], Field(description="Of one who is a manager still: none, for nothing has changed.")]
    keys_revoked: Annotated[list[KeyOut], Field(description="Those that this request revoked, with `keys=revoke`.")]


KeysAlso = Annotated[
    Literal["revoke"] | None,
    Query(description="Revoke the keys that this member made, too, unless the member is a manager still."),
]


class OfferedOut(PersonOut):
    link_expires_at: Annotated[Moment, Field(description="The link was sent by e-mail, and works once until then.")]


@router.get("", summary="All members", responses=failures())
async def listed(caller: Manages) -> Answer[list[PersonOut]]:
    return Answer(
        data=[PersonOut.model_validate(each) for each in await membership.people(caller.owner, caller.workspace)]
    )


@router.post(
    "", status_code=status.HTTP_201_CREATED, summary="Invite somebody, by e-mail", responses=failures("conflict")
)
async def invite(given: MemberIn, caller: Manages, service: TheService) -> Answer[OfferedOut]:
    async with caller.owner.together() as one:
        await _require_room(one, caller, given.address)
        offered = offered_out(
            await membership.invite(
                one,
                workspace=caller.workspace,
                address=given.address,
                name=given.name,
                role=Role(given.role),
                inviter=caller.workspace,
                mail=service.mail_of(caller.region),
            )
        )
        await caller.audit(one, "member.invite", offered.address, role=given.role)
    return Answer(data=offered)


@router.put(
    "/{address}/role",
    summary="Give another role; ends the member's sessions",
    responses=failures("not_found", "conflict"),
)
async def change_role(
    address: AddressPath, given: RoleIn, caller: Manages, keys: KeysAlso = None
) -> Answer[MemberChanged]:
    async def change(store: Store, person: Person) -> Person | Refused:
        return await membership.change_role(store, person.id, Role(given.role))

    return await _lowered(caller, address, change, keys, "member.role", role=given.role)


@router.post("/{address}/disable", summary="Keep a member out, at once", responses=failures("not_found"))
async def disable(address: AddressPath, caller: Manages, keys: KeysAlso = None) -> Answer[MemberChanged]:
    return await _lowered(
        caller, address, lambda store, person: membership.disable_person(store, person.id), keys, "member.disable"
    )


@router.post("/{address}/enable", summary="Let a member in again", responses=failures("not_found"))
async def enable(address: AddressPath, caller: Manages) -> Answer[PersonOut]:
    async with caller.owner.together() as one:
        person = await _find(one, caller, address)
        enabled = person_out(await membership.enable_person(one, person.id))
        await caller.audit(one, "member.enable", person.address)
    return Answer(data=enabled)


@router.post(
    "/{address}/reset", summary="Send a link to choose another password", responses=failures("not_found", "conflict")
)
async def reset(address: AddressPath, caller: Manages, service: TheService) -> Answer[OfferedOut]:
    async with caller.owner.together() as one:
        person = await _find(one, caller, address)
        await _require_room(one, caller, person.address)
        offered = offered_out(await membership.offer_reset(one, person.id, mail=service.mail_of(caller.region)))
        await caller.audit(one, "member.reset", person.address)
    return Answer(data=offered)


async def _lowered(
    caller: Caller,
    address: str,
    change: Callable[[Store, Person], Awaitable[Person | Refused]],
    keys: Literal["revoke"] | None,
    action: str,
    **detail: str,
) -> Answer[MemberChanged]:
    is_over = keys == "revoke"
    async with caller.owner.together() as one:
        person = await _find(one, caller, address)
        changed = await change(one, person)
        if isinstance(changed, Refused):
            raise refusal(changed)
        await caller.audit(one, action, person.address, **detail)
        left = await key_makers.keys_left_by(one, changed, revoke=is_over, who=caller.who, request_id=caller.request_id)
    told = [key_out(key) for key in left]
    return Answer(
        data=MemberChanged(
            **person_out(changed).model_dump(), keys=[] if is_over else told, keys_revoked=told if is_over else []
        )
    )


async def _require_room(store: Store, caller: Caller, address: str) -> None:
    """These e-mails go out through the service's own accounts, to people who may not know us: not too many."""
    sent, to_the_same = await workspaces.invitations_sent(store, caller.workspace, address)
    if sent >= INVITATIONS_A_DAY_MAX or to_the_same >= INVITATIONS_AN_HOUR_MAX:
        words = f"At most {INVITATIONS_A_DAY_MAX} invitations and resets go out in a day, and {INVITATIONS_AN_HOUR_MAX} an hour to one address."
        raise ApiError("rate_limited", words, headers={"Retry-After": "3600"})


async def _find(store: Store, caller: Caller, address: str) -> Person:
    person = await membership.person_named(store, caller.workspace, address)
    if person is None:
        raise not_found("member", address)
    return person


def offered_out(result: Offered | Refused) -> OfferedOut:
    """Raises ApiError."""
    if isinstance(result, Refused):
        raise refusal(result)
    return OfferedOut.model_validate({**facts_of(result.person), "link_expires_at": result.expires_at})
