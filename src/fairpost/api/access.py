"""Who asks. A key, or somebody who has signed in; each bound to one workspace, and seen by the database as that workspace."""

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from fairpost.api.errors import ApiError
from fairpost.api.service import Service, service_of
from fairpost.model.workspace import Scope
from fairpost.postgres import workspaces
from fairpost.postgres.store import Store
from fairpost.postgres.workspaces import Entry

KEY = re.compile(r"fp_([a-z][a-z0-9-]{0,30})_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")

bearer = HTTPBearer(
    auto_error=False, scheme_name="key", description="A key of a workspace: `Authorization: Bearer fp_…`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`store` sees this workspace and nothing else; `owner` sees everything, and is for calls that name the workspace themselves."""

    who: str
    workspace: str
    region: str
    scopes: frozenset[str]
    store: Store
    owner: Store = field(repr=False)
    request_id: str = ""

    async def audit(self, store: Store, action: str, subject: str, **detail: Any) -> None:
        """Writes down who changed what, in the commit of the change."""
        await workspaces.write_audit(
            store,
            workspace=self.workspace,
            who=self.who,
            action=action,
            subject=subject,
            detail=detail,
            request_id=self.request_id,
        )


async def caller_of(
    request: Request, service: Annotated[Service, Depends(service_of)], _: Annotated[Any, Security(bearer)]
) -> Caller:
    authorization = request.headers.get("authorization")
    if authorization is None:
        raise ApiError(
            "unauthenticated", "A key is needed: Authorization: Bearer fp_…", headers={"WWW-Authenticate": "Bearer"}
        )
    return await _by_key(request, service, authorization)


async def _by_key(request: Request, service: Service, authorization: str) -> Caller:
    scheme, _, token = authorization.partition(" ")
    parts = KEY.fullmatch(token.strip()) if scheme.lower() == "bearer" else None
    if parts is None or parts[1] not in service.stores.names:
        raise _unknown()
    owner = await service.stores.of(parts[1])
    entry = await workspaces.enter(owner, parts[2], parts[3])
    _require_entry(entry, request)
    return Caller(
        who=f"key {parts[2]}",
        workspace=entry.workspace,
        region=parts[1],
        scopes=entry.scopes,
        store=owner.of_tenant(entry.workspace),
        owner=owner,
        request_id=request.state.request_id,
    )


def _require_entry(entry: Entry, request: Request) -> None:
    if entry.refused == "suspended":
        raise ApiError("workspace_suspended", "The operator has suspended this workspace.")
    if entry.refused is not None and entry.refused != "too_often":
        raise _unknown()
    request.state.headers |= {
        "RateLimit-Limit": str(entry.per_minute),
        "RateLimit-Remaining": str(entry.remaining),
        "RateLimit-Reset": str(math.ceil(entry.reset_s)),
    }
    if entry.refused == "too_often":
        assert entry.wait_s is not None
        raise ApiError(
            "rate_limited",
            f"This key may ask {entry.per_minute} times a minute, and has done so.",
            headers={"Retry-After": str(math.ceil(entry.wait_s))},
        )


def _unknown() -> ApiError:
    """The same words for every key that does not open: nobody learns which part was right."""
    return ApiError(
        "unauthenticated", "This key is unknown, expired or revoked.", headers={"WWW-Authenticate": "Bearer"}
    )


def _needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    async def check(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        if scope not in caller.scopes:
            raise ApiError(
                "forbidden", f"This needs the scope {scope}, and {caller.who} has {', '.join(sorted(caller.scopes))}."
            )
        return caller

    return check


Reads = Annotated[Caller, Depends(_needs(Scope.READ))]
Sends = Annotated[Caller, Depends(_needs(Scope.SEND))]
Manages = Annotated[Caller, Depends(_needs(Scope.MANAGE))]
