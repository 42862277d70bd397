"""Members of a workspace: list, invite, change and disable them. Members see only their own workspace."""

from fastapi import status

from fairpost.actions import members as actions
from fairpost.actions import sessions
from fairpost.api.access import Manages
from fairpost.api.acting import act
from fairpost.api.answers import AddressPath, Answer, as_dict, failures
from fairpost.api.routes.workspace import key_out
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.auth import PersonOut
from fairpost.api.shapes.members import KeysAlso, MemberChanged, MemberIn, OfferedOut, RoleIn, SessionsEnded
from fairpost.auth import membership
from fairpost.model.auth import Offered, Role

router = Router(prefix="/v1/members", tags=["people"])


@router.get("", summary="List members", responses=failures())
async def list_members(caller: Manages) -> Answer[list[PersonOut]]:
    return Answer(
        data=[PersonOut.model_validate(each) for each in await membership.people(caller.owner, caller.workspace)]
    )


@router.post(
    "", status_code=status.HTTP_201_CREATED, summary="Invite a member by e-mail", responses=failures("conflict")
)
async def invite_member(given: MemberIn, caller: Manages, service: TheService) -> Answer[OfferedOut]:
    asked = actions.Invite(
        workspace=caller.workspace,
        address=given.address,
        name=given.name,
        role=Role(given.role),
        inviter=caller.workspace,
        mail=service.mail_of(caller.region),
    )
    return Answer(data=offered_out(await act(caller, actions.invite_member, asked, store=caller.owner)))


@router.put(
    "/{address}/role",
    summary="Change a member's role and end their sessions",
    responses=failures("not_found", "conflict"),
)
async def set_member_role(
    address: AddressPath, given: RoleIn, caller: Manages, keys: KeysAlso = None
) -> Answer[MemberChanged]:
    asked = actions.ChangeRole(
        workspace=caller.workspace, address=address, role=Role(given.role), revoke_keys=keys == "revoke"
    )
    return _lowered(await act(caller, actions.change_role, asked, store=caller.owner), asked)


@router.post("/{address}/disable", summary="Disable a member immediately", responses=failures("not_found"))
async def disable_member(address: AddressPath, caller: Manages, keys: KeysAlso = None) -> Answer[MemberChanged]:
    asked = actions.Disable(workspace=caller.workspace, address=address, revoke_keys=keys == "revoke")
    return _lowered(await act(caller, actions.disable_member, asked, store=caller.owner), asked)


@router.post("/{address}/enable", summary="Enable a member", responses=failures("not_found"))
async def enable_member(address: AddressPath, caller: Manages) -> Answer[PersonOut]:
    named = actions.NamedPerson(workspace=caller.workspace, address=address)
    enabled = await act(caller, actions.enable_member, named, store=caller.owner)
    return Answer(data=PersonOut.model_validate(enabled))


@router.post(
    "/{address}/reset",
    summary="Send a member a link to choose a new password",
    responses=failures("not_found", "conflict"),
)
async def reset_member_password(address: AddressPath, caller: Manages, service: TheService) -> Answer[OfferedOut]:
    asked = actions.Reset(workspace=caller.workspace, address=address, mail=service.mail_of(caller.region))
    return Answer(data=offered_out(await act(caller, actions.reset_member, asked, store=caller.owner)))


@router.post("/{address}/sign-out", summary="End all of a member's sessions", responses=failures("not_found"))
async def sign_out_member(address: AddressPath, caller: Manages) -> Answer[SessionsEnded]:
    named = actions.NamedPerson(workspace=caller.workspace, address=address)
    return Answer(data=SessionsEnded(sessions=await act(caller, sessions.sign_out_member, named, store=caller.owner)))


def _lowered(lowered: actions.Lowered, asked: actions.Disable) -> Answer[MemberChanged]:
    keys = [key_out(key) for key in lowered.keys]
    kept, revoked = ([], keys) if asked.revoke_keys else (keys, [])
    person = PersonOut.model_validate(lowered.person)
    return Answer(data=MemberChanged(**person.model_dump(), keys=kept, keys_revoked=revoked))


def offered_out(offered: Offered) -> OfferedOut:
    return OfferedOut.model_validate({**as_dict(offered.person), "link_expires_at": offered.expires_at})
