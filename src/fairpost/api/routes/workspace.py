"""The workspace itself: its keys, and who changed what in it."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, status
from pydantic import Field

from fairpost.actions import keys as actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Id, Moment, Page, RequestModel, ResponseModel, Text, When, as_dict, failures
from fairpost.api.pages import Cursor, Limit, number_at, page_of, sealed
from fairpost.auth.key_makers import MadeKey, made_keys
from fairpost.model.outside import detail_outside, subject_outside
from fairpost.model.person import Role
from fairpost.model.public_ids import Kind, PublicIds
from fairpost.model.workspace import ApiKey, AuditEntry, Scope
from fairpost.store import workspaces

TAG = {"name": "workspace", "description": "The workspace itself: keys, domains, audit."}
router = APIRouter(prefix="/api", tags=["workspace"])


class WorkspaceOut(ResponseModel):
    name: str
    region: str
    pools: Annotated[list[str], Field(description="Of the operator's, that it may send through.")]
    created_at: Moment
    you: str
    scopes: list[Scope]


class KeyOut(ResponseModel):
    id: str
    name: str
    scopes: list[Scope]
    per_minute: int
    created_at: Moment
    created_by: Annotated[str, Field(description="A manager, a key, the operator or the command line.")]
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None


class ListedKey(KeyOut):
    maker: Annotated[
        str | None,
        Field(description="The address of the member who made it, himself or with a key that he had made."),
    ]
    maker_role: Annotated[Role | None, Field(description="What this member is now.")]
    is_maker_member: Annotated[
        bool | None,
        Field(description="False: whoever made it is disabled, and may have the key still. Null: no member."),
    ]


class NewKey(KeyOut):
    key: Annotated[str, Field(description="Shown this once.")]


class KeyIn(RequestModel):
    name: Annotated[Text, Field(max_length=200)] = ""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=3)]
    per_minute: Annotated[int, Field(ge=1, le=100_000)] = workspaces.RATE_DEFAULT
    expires_at: When | None = None


class AuditOut(ResponseModel):
    id: Id
    at: Moment
    who: str
    action: str
    subject: str
    detail: dict[str, Any] | None
    request_id: str | None


@router.get("/workspace", summary="Whose key this is", responses=failures())
async def shown(caller: Reads) -> Answer[WorkspaceOut]:
    found = await workspaces.workspace_named(caller.store, caller.workspace)
    return Answer(
        data=WorkspaceOut(
            name=found.name,
            region=caller.region,
            pools=list(found.pools),
            created_at=found.created_at,
            you=caller.who,
            scopes=sorted(Scope(scope) for scope in caller.scopes),
        )
    )


@router.get("/keys", summary="All keys, the newest first", responses=failures())
async def keys(caller: Manages) -> Answer[list[ListedKey]]:
    return Answer(data=[_listed(each) for each in await made_keys(caller.owner, caller.workspace)])


@router.post(
    "/keys", status_code=status.HTTP_201_CREATED, summary="Make a key, shown once", responses=failures("conflict")
)
async def add_key(given: KeyIn, caller: Manages) -> Answer[NewKey]:
    asked = actions.AddKey(workspace=caller.workspace, region=caller.region, **given.model_dump())
    done = await act(caller, actions.add, asked)
    return Answer(data=NewKey(**key_out(done.key).model_dump(), key=done.text))


@router.delete("/keys/{key_id}", summary="Revoke a key", responses=failures("not_found"))
async def revoke_key(key_id: Annotated[Text, Path(max_length=100)], caller: Manages) -> Answer[KeyOut]:
    asked = actions.RevokeKey(workspace=caller.workspace, key=key_id)
    return Answer(data=key_out(await act(caller, actions.revoke, asked)))


@router.get("/audit", summary="Who changed what, the newest first", responses=failures())
async def audit(caller: Manages, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[AuditOut]]:
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
    """Who of the operators it was, and on which machine, is their own affair."""
    if who.startswith("cli "):
        return "cli"
    return "the operator" if who.startswith(f"{Role.ADMIN} ") else who
