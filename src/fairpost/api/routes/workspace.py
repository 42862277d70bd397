"""The workspace itself: its settings, its keys and its audit log."""

from typing import Annotated

from fastapi import Path, status

from fairpost.actions import keys as actions
from fairpost.actions import workspaces as workspace_actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, Text, as_dict, failures
from fairpost.api.pages import Cursor, Limit, number_at, page_of, sealed
from fairpost.api.routing import Router
from fairpost.api.shapes.workspace import (
    AuditOut,
    KeyIn,
    KeyOut,
    ListedKey,
    NewKey,
    SettingsIn,
    SettingsOut,
    WorkspaceOut,
)
from fairpost.auth.key_makers import MadeKey, made_keys
from fairpost.model.auth import Role
from fairpost.model.outside import detail_outside, subject_outside
from fairpost.model.public_ids import Kind, PublicIds
from fairpost.model.workspace import ApiKey, AuditEntry, Scope
from fairpost.store import workspace_settings, workspaces

TAG = {"name": "workspace", "description": "The workspace itself, with its keys, domains and audit log."}
router = Router(prefix="/v1", tags=["workspace"])


@router.get("/workspace", summary="Get the workspace that this key or session belongs to", responses=failures())
async def get_workspace(caller: Reads) -> Answer[WorkspaceOut]:
    found = await workspaces.workspace_named(caller.store, caller.workspace)
    settings = await workspace_settings.settings_of(caller.store, caller.workspace)
    return Answer(
        data=WorkspaceOut(
            name=found.name,
            region=caller.region,
            pools=list(found.pools),
            created_at=found.created_at,
            you=caller.who,
            scopes=sorted(Scope(scope) for scope in caller.scopes),
            settings=SettingsOut.model_validate(settings),
        )
    )


@router.patch("/workspace", summary="Change the workspace's settings", responses=failures())
async def change_workspace(given: SettingsIn, caller: Manages) -> Answer[SettingsOut]:
    changes = given.model_dump(exclude_unset=True)
    asked = workspace_actions.ChangeSettings(workspace=caller.workspace, changes=changes)
    return Answer(data=SettingsOut.model_validate(await act(caller, workspace_actions.change_settings, asked)))


@router.get("/keys", summary="List keys, newest first", responses=failures())
async def list_keys(caller: Manages) -> Answer[list[ListedKey]]:
    return Answer(data=[_listed(each) for each in await made_keys(caller.owner, caller.workspace)])


@router.post(
    "/keys",
    status_code=status.HTTP_201_CREATED,
    summary="Create a key, which is shown only once",
    responses=failures("conflict"),
)
async def create_key(given: KeyIn, caller: Manages) -> Answer[NewKey]:
    asked = actions.AddKey(workspace=caller.workspace, region=caller.region, **given.model_dump())
    done = await act(caller, actions.add, asked)
    return Answer(data=NewKey(**key_out(done.key).model_dump(), key=done.text))


@router.delete("/keys/{key_id}", summary="Revoke a key", responses=failures("not_found"))
async def revoke_key(key_id: Annotated[Text, Path(max_length=100)], caller: Manages) -> Answer[KeyOut]:
    asked = actions.RevokeKey(workspace=caller.workspace, key=key_id)
    return Answer(data=key_out(await act(caller, actions.revoke, asked)))


@router.get("/audit", summary="List the changes made in the workspace, newest first", responses=failures())
async def list_audit_entries(caller: Manages, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[AuditOut]]:
    before, ids = number_at(cursor, caller.ids), caller.ids
    found = await workspaces.audit(caller.store, caller.workspace, before=before, most=limit + 1)
    return page_of(found, limit, shown=lambda entry: _entry(entry, ids), place=lambda entry: sealed(entry.id, ids))


def key_out(key: ApiKey) -> KeyOut:
    told = KeyOut.model_validate(key)
    return told.model_copy(update={"created_by": _as_told(key.created_by)})


def _listed(made: MadeKey) -> ListedKey:
    return ListedKey(
        **key_out(made.key).model_dump(),
        maker=made.maker,
        maker_role=made.maker_role,
        is_maker_member=made.is_maker_member if made.maker is not None else None,
    )


def _entry(entry: AuditEntry, ids: PublicIds) -> AuditOut:
    return audit_out(entry, ids).model_copy(update={"who": _as_told(entry.who)})


def audit_out(entry: AuditEntry, ids: PublicIds) -> AuditOut:
    told = {
        "id": ids.public(Kind.AUDIT, entry.id),
        "subject": subject_outside(entry.subject, ids),
        "detail": detail_outside(entry.detail, ids),
    }
    return AuditOut.model_validate({**as_dict(entry), **told})


def _as_told(who: str) -> str:
    """Returns an audit entry's actor as workspaces see it, without the name of the operator or machine."""
    if who.startswith("cli "):
        return "cli"
    return "the operator" if who.startswith(f"{Role.ADMIN} ") else who
