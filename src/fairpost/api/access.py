"""Authenticates callers by key or session. Each caller is bound to one workspace, and the database enforces this."""

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import Depends, Header, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from fairpost.api.errors import ApiError, not_found
from fairpost.api.service import Service, service_of
from fairpost.auth import codes, sessions
from fairpost.model.auth import Person, Role, Session
from fairpost.model.ids import EmailId
from fairpost.model.names import WORKSPACE_NAME
from fairpost.model.public_ids import PublicIds
from fairpost.model.workspace import SERVICE_WORKSPACE, Scope
from fairpost.regions.directory import HOME
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.store.workspaces import Entry, Turn

KEY = re.compile(r"fp_([a-z][a-z0-9-]{0,30})_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
SESSION_COOKIE = "fairpost_session"
SIGN_IN_COOKIE = "fairpost_sign_in"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PERSON_PER_MINUTE = 600

SCOPES: Mapping[Role, frozenset[str]] = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.SENDER: frozenset({Scope.READ, Scope.SEND}),
    Role.MANAGER: frozenset(Scope),
    Role.ADMIN: frozenset(Scope),
}

bearer = HTTPBearer(auto_error=False, scheme_name="key", description="A workspace's key: `Authorization: Bearer fp_…`")
cookie = APIKeyCookie(
    name=SESSION_COOKIE,
    auto_error=False,
    scheme_name="session",
    description="A signed-in person. Changes also require the header `X-CSRF-Token`.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A caller in one workspace.

    `store` sees only that workspace. `owner` sees everything, so pass it only to calls that take the workspace as an
    argument.
    """

    who: str
    workspace: str
    region: str
    scopes: frozenset[str]
    store: Store
    owner: Store = field(repr=False)
    ids: PublicIds  # converts public IDs for the region's database
    request_id: str = ""
    key_id: str | None = None  # None for a session
    person_id: int | None = None
    is_operator: bool = False  # an admin acting in the workspace

    @property
    def user(self) -> str:
        """The user assigned to e-mails without a `user` field. Callers cannot submit user names in this format
        themselves."""
        return f"key:{self.key_id}" if self.key_id else f"person:{self.person_id}"

    def email_id(self, text: str) -> EmailId | None:
        """Parses an e-mail ID. Returns None if the text is not an e-mail ID. Only operators may use plain numbers."""
        return self.ids.email_id(text, or_number=self.is_operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A signed-in person. `region` is the region whose database contains the person's record, or HOME for admins."""

    session: Session
    region: str
    token: str = field(repr=False)

    @property
    def person(self) -> Person:
        return self.session.person

    @property
    def who(self) -> str:
        return f"{self.person.role} {self.person.address}"


# ── callers with a key ────────────────────────────────────────────────────────────────────────────────────


async def _by_key(request: Request, service: Service, authorization: str) -> Caller:
    scheme, _, token = authorization.partition(" ")
    parts = KEY.fullmatch(token.strip()) if scheme.lower() == "bearer" else None
    if parts is None or parts[1] not in service.regions:
        raise _unknown()
    async with service.auth_store(parts[1]) as store:
        entry = await workspaces.enter(store, parts[2], parts[3])
    _note_actor(request, "key", entry.workspace)
    _require_entry(entry, request)
    _require_workspace(request, entry.workspace)
    owner = await service.store_of(parts[1])
    return Caller(
        who=f"key {parts[2]}",
        workspace=entry.workspace,
        region=parts[1],
        scopes=entry.scopes,
        store=owner.of_tenant(entry.workspace),
        owner=owner,
        ids=await owner.public_ids(),
        request_id=request.state.request_id,
        key_id=parts[2],
    )


def _require_entry(entry: Entry, request: Request) -> None:
    if entry.refused == "suspended":
        raise _suspended()
    if entry.refused is not None and entry.refused != "too_often":
        raise _unknown()
    _tell_turn(request, entry)
    if entry.refused == "too_often":
        raise _too_often(entry)


def _tell_turn(request: Request, entry: Turn) -> None:
    request.state.headers |= {
        "RateLimit-Limit": str(entry.per_minute),
        "RateLimit-Remaining": str(entry.remaining),
        "RateLimit-Reset": str(math.ceil(entry.reset_s)),
    }


def _too_often(entry: Turn) -> ApiError:
    assert entry.wait_s is not None
    words = f"Rate limit exceeded: {entry.per_minute:,} requests per minute."
    return ApiError("rate_limited", words, headers={"Retry-After": str(math.ceil(entry.wait_s))})


def _require_workspace(request: Request, own: str) -> None:
    """Raises an error if a header names another workspace, so a request never acts in the wrong workspace."""
    if any(named != own for named in request.headers.getlist("x-workspace")):
        raise _not_yours()


def _not_yours() -> ApiError:
    words = "You cannot act in the workspace named in the request. Nothing was changed."
    return ApiError("workspace_forbidden", words)


def _suspended() -> ApiError:
    return ApiError("workspace_suspended", "The operator has suspended this workspace.")


def _unknown() -> ApiError:
    """Returns the same error for every invalid key, so callers cannot tell which part was correct."""
    return ApiError(
        "unauthenticated", "This key is unknown, expired or revoked.", headers={"WWW-Authenticate": "Bearer"}
    )


# ── callers with a session ────────────────────────────────────────────────────────────────────────────────


async def signed_in_of(
    request: Request,
    service: Annotated[Service, Depends(service_of)],
    _: Annotated[Any, Security(cookie)],
    csrf_token: Annotated[str | None, Header(alias="X-CSRF-Token", max_length=200)] = None,
) -> SignedIn:
    region, _, token = request.cookies.get(SESSION_COOKIE, "").partition(".")
    if not token or (region != HOME and region not in service.regions):
        raise _not_signed_in()
    async with service.auth_store(region) as store:
        session = await sessions.session_of(store, token)
        if session is None or (session.person.workspace is None) != (region == HOME):
            raise _not_signed_in()
        turn = await workspaces.take_turn(store, f"person {session.person.id}", PERSON_PER_MINUTE)
    _note_actor(request, "admin" if session.person.role is Role.ADMIN else "person", session.person.workspace)
    _tell_turn(request, turn)
    if turn.wait_s is not None:
        raise _too_often(turn)
    if session.person.workspace is not None:
        _require_workspace(request, session.person.workspace)
    if request.method not in SAFE_METHODS:
        _require_own_page(request, service, token, csrf_token)
    return SignedIn(session=session, region=region, token=token)


def _require_own_page(request: Request, service: Service, token: str, csrf_token: str | None) -> None:
    """Checks that a change comes from our own page, not from another site that uses the browser's cookies."""
    origin = request.headers.get("origin")
    ours = {urlsplit(service.settings.public_url).netloc, request.headers.get("host", "")}
    if origin is not None and urlsplit(origin).netloc not in ours:
        raise ApiError("csrf", "Requests from other sites are not allowed.")
    if csrf_token is None or not codes.is_csrf_token(token, csrf_token):
        raise ApiError("csrf", "Send your session's csrf_token as X-CSRF-Token.")


def _not_signed_in() -> ApiError:
    return ApiError(
        "unauthenticated", "Authentication required: the key or session is missing, unknown, expired or revoked."
    )


async def _by_session(request: Request, service: Service, signed_in: SignedIn, chosen: str | None) -> Caller:
    workspace, region = signed_in.person.workspace, signed_in.region
    if workspace is None:
        if chosen is None or not WORKSPACE_NAME.fullmatch(chosen):
            raise ApiError("bad_request", "Specify a workspace in the X-Workspace header.")
        if chosen == SERVICE_WORKSPACE:  # this workspace's e-mails contain other people's sign-in links and codes
            raise _not_yours()
        workspace, region = chosen, await service.region_of(chosen)
        _note_actor(request, "admin", workspace)
    elif chosen is not None and chosen != workspace:
        raise _not_yours()
    is_admin = signed_in.person.role is Role.ADMIN
    async with service.auth_store(region) as store:
        found = await workspaces.find_workspace(store, workspace)
        if found is None and not (is_admin and await _is_in_use(store, workspace)):
            raise not_found("workspace", workspace, where="")
    owner = await service.store_of(region)
    if found is not None and found.suspended_at is not None and not is_admin:
        raise _suspended()
    return Caller(
        who=signed_in.who,
        workspace=workspace,
        region=region,
        scopes=SCOPES[signed_in.person.role],
        store=owner.of_tenant(workspace),
        owner=owner,
        ids=await owner.public_ids(),
        request_id=request.state.request_id,
        person_id=signed_in.person.id,
        is_operator=is_admin,
    )


async def _is_in_use(store: Store, workspace: str) -> bool:
    """Returns whether an unregistered workspace has any data."""
    return await workspaces.has_left_traces(store, workspace)


async def place_of(service: Service, workspace: str | None) -> str:
    """Returns a workspace's region, or HOME for admins."""
    return HOME if workspace is None else await service.region_of(workspace)


def client_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _note_actor(request: Request, actor: Literal["key", "person", "admin"], workspace: str | None) -> None:
    """Stores the actor for the request log."""
    request.state.actor = {"actor": actor} if workspace is None else {"actor": actor, "workspace": workspace}


# ── dependencies of routes ────────────────────────────────────────────────────────────────────────────────


async def caller_of(
    request: Request,
    service: Annotated[Service, Depends(service_of)],
    _: Annotated[Any, Security(bearer)],
    __: Annotated[Any, Security(cookie)],
    csrf_token: Annotated[str | None, Header(alias="X-CSRF-Token", max_length=200)] = None,
    chosen: Annotated[
        str | None, Header(alias="X-Workspace", max_length=100, description="For admins, the workspace to act in.")
    ] = None,
) -> Caller:
    known: Caller | None = getattr(request.state, "caller", None)
    if known is not None:  # the middleware has already authenticated the caller
        return known
    authorization = request.headers.get("authorization")
    if authorization is not None:
        caller = await _by_key(request, service, authorization)
        if chosen is not None and chosen != caller.workspace:
            raise _not_yours()
        return caller
    if SESSION_COOKIE not in request.cookies:
        words = "A key is required. Send it in a header: Authorization: Bearer fp_…"
        raise ApiError("unauthenticated", words, headers={"WWW-Authenticate": "Bearer"})
    return await _by_session(request, service, await signed_in_of(request, service, None, csrf_token), chosen)


def _needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    async def check(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        if scope not in caller.scopes:
            raise ApiError(
                "forbidden",
                f"This requires the {scope} scope, but {caller.who} has only {', '.join(sorted(caller.scopes))}.",
            )
        return caller

    return check


def _limited(limit: Literal["long", "trying", "writing"]) -> Callable[..., AsyncIterator[None]]:
    async def wait(
        caller: Annotated[Caller, Depends(caller_of)], service: Annotated[Service, Depends(service_of)]
    ) -> AsyncIterator[None]:
        async with getattr(service, limit).one_more(caller.workspace):
            yield

    return wait


async def _admin(signed_in: Annotated[SignedIn, Depends(signed_in_of)]) -> SignedIn:
    if signed_in.person.role is not Role.ADMIN:
        raise ApiError("forbidden", "Only admins can do this.")
    return signed_in


async def _admin_limited(
    _: Annotated[SignedIn, Depends(_admin)], service: Annotated[Service, Depends(service_of)]
) -> AsyncIterator[None]:
    async with service.trying.one_more(SERVICE_WORKSPACE):
        yield


Reads = Annotated[Caller, Depends(_needs(Scope.READ))]
Sends = Annotated[Caller, Depends(_needs(Scope.SEND))]
Manages = Annotated[Caller, Depends(_needs(Scope.MANAGE))]
LONG = [Depends(_limited("long"))]  # for slow requests
TRYING = [Depends(_limited("trying"))]  # for requests that connect to another server
WRITING = [Depends(_limited("writing"))]  # for requests that compile templates
FEW_ADMINS = [Depends(_admin_limited)]  # like TRYING, but for admin paths
SignedInPerson = Annotated[SignedIn, Depends(signed_in_of)]
Admin = Annotated[SignedIn, Depends(_admin)]
