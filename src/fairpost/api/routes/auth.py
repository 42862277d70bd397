"""Sign-in: a password, then a code by e-mail in the same browser."""

import asyncio
from typing import Annotated

from fastapi import Path, Request, Response, status

from fairpost.actions import sessions as actions
from fairpost.actions.acting import Actor
from fairpost.api.access import SESSION_COOKIE, SIGN_IN_COOKIE, SignedInPerson, client_of, place_of
from fairpost.api.acting import value_of
from fairpost.api.answers import Answer, Text, as_dict, failures
from fairpost.api.errors import ApiError
from fairpost.api.routing import Router
from fairpost.api.service import NO_ANSWER, Service, TheService
from fairpost.api.shapes.auth import (
    Accept,
    AcceptedOut,
    CodeIn,
    CodeSent,
    Done,
    Enter,
    NewPassword,
    PersonOut,
    SessionBegun,
    SessionNow,
    SessionOut,
    SetUp,
    SignInIn,
)
from fairpost.auth import sessions, signing_in
from fairpost.auth.codes import CODE_LIFE, csrf_token_of
from fairpost.auth.sessions import SESSION_LIFE
from fairpost.auth.signing_in import Candidate
from fairpost.extras import Extra, is_installed
from fairpost.model.auth import Person, Refused, SignedIn, SignInBegun
from fairpost.regions.directory import HOME

TAG = {"name": "people", "description": "Sign-in, sessions and members."}
router = Router(prefix="/v1/auth", tags=["people"])


_STATUS = {
    "wrong": "wrong_credentials",
    "expired": "wrong_credentials",
    "too_many": "rate_limited",
    "known": "conflict",
    "last_admin": "conflict",
    "disabled": "conflict",
    "several": "workspace_needed",
}


@router.post(
    "/sign-in",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Sign in with an address and password to get a code by e-mail",
    responses=failures("wrong_credentials", "workspace_needed"),
)
async def sign_in(given: SignInIn, request: Request, response: Response, service: TheService) -> Answer[CodeSent]:
    region, workspace = await _meant(given, request, service)
    store = await service.store_of(region)
    begun = await signing_in.begin_sign_in(
        store,
        workspace=workspace,
        address=given.address,
        password=given.password,
        client=client_of(request),
        mail=service.mail_of(region),
    )
    if isinstance(begun, Refused):
        raise refusal(begun)
    _set_cookie(
        response,
        service,
        SIGN_IN_COOKIE,
        f"{region}.{begun.browser_secret}",
        life_s=CODE_LIFE.total_seconds() * 3,
        path="/",
    )
    return Answer(data=_code_sent(begun))


async def _meant(given: SignInIn, request: Request, service: Service) -> tuple[str, str | None]:
    """Returns the region and workspace to sign in to. The workspace is None for admins."""
    if given.workspace is not None:
        workspace = given.workspace or None
        return await place_of(service, workspace), workspace
    address, home = given.address, await service.store_of(HOME)
    found = await signing_in.candidates(home, address, region=HOME, of_members=False)
    for there in await asyncio.gather(*(_members(service, region, address) for region in service.regions)):
        found += there
    meant = await signing_in.the_one_meant(found, password=given.password, client=client_of(request))
    if isinstance(meant, Refused):
        raise refusal(meant)
    return (HOME, None) if meant is None else (meant.region, meant.person.workspace)


async def _members(service: Service, region: str, address: str) -> list[Candidate]:
    """Returns the members with this address in a region, or an empty list if the region is unavailable.

    Members in an unavailable region must name their workspace, and then get an error about the region.
    """
    try:
        async with service.auth_store(region) as store:
            return await signing_in.candidates(store, address, region=region, of_members=True)
    except NO_ANSWER:
        return []


def _code_sent(begun: SignInBegun) -> CodeSent:
    person = begun.person
    named = (
        f"admin code {person.address}"
        if person.workspace is None
        else f"member code --workspace {person.workspace} {person.address}"
    )
    then = None if begun.is_on_its_way else f"fairpost {named}"
    return CodeSent(expires_at=begun.expires_at, is_on_its_way=begun.is_on_its_way, then=then)


@router.post(
    "/code", summary="Finish signing in with the code, in the same browser", responses=failures("wrong_credentials")
)
async def enter_code(given: CodeIn, request: Request, response: Response, service: TheService) -> Answer[SessionBegun]:
    region, secret = _begun(request, service)
    store = await service.store_of(region)
    finished = await signing_in.finish_sign_in(
        store, browser_secret=secret, code=given.code, agent=request.headers.get("user-agent", "")
    )
    if isinstance(finished, Refused):
        raise refusal(finished)
    response.delete_cookie(SIGN_IN_COOKIE, path="/")
    _begin_session(response, service, region, finished)
    return Answer(data=_session_begun(finished))


@router.post(
    "/enter",
    summary="Sign in an admin with a one-time link printed on the server",
    responses=failures("wrong_credentials"),
)
async def sign_in_by_link(
    given: Enter, request: Request, response: Response, service: TheService
) -> Answer[SessionBegun]:
    asked = actions.UseLink(token=given.token, agent=request.headers.get("user-agent", ""))
    entered = value_of(await actions.enter(_stranger(request), asked, service.home))
    if isinstance(entered, Refused):
        raise refusal(entered)
    begun = _session_begun(entered)
    _begin_session(response, service, HOME, entered)
    return Answer(data=begun)


@router.post(
    "/resend",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Send another code",
    responses=failures("wrong_credentials"),
)
async def resend_code(request: Request, service: TheService) -> Answer[CodeSent]:
    region, secret = _begun(request, service)
    store = await service.store_of(region)
    again = await signing_in.resend_code(
        store, browser_secret=secret, client=client_of(request), mail=service.mail_of(region)
    )
    if isinstance(again, Refused):
        raise refusal(again)
    return Answer(data=_code_sent(again))


@router.get("/session", summary="Get the signed-in person and the CSRF token for changes", responses=failures())
async def get_session(signed_in: SignedInPerson) -> Answer[SessionNow]:
    """Other sites cannot read the token, because the cookie is SameSite=Strict and no response allows other origins."""
    now = {
        "expires_at": signed_in.session.expires_at,
        "csrf_token": csrf_token_of(signed_in.token),
        "workspace_choice": signed_in.person.workspace is None,
        "has_inbox": is_installed(Extra.LOCAL),
    }
    return Answer(data=SessionNow.model_validate(as_dict(signed_in.person) | now))


@router.post("/sign-out", summary="End this session", responses=failures())
async def sign_out(
    signed_in: SignedInPerson, request: Request, response: Response, service: TheService
) -> Answer[Done]:
    own = actions.OwnSession(person=signed_in.person, token=signed_in.token)
    value_of(await actions.end(_self(signed_in, request), own, await service.store_of(signed_in.region)))
    response.delete_cookie(SESSION_COOKIE, path="/")
    return Answer(data=Done())


@router.get("/sessions", summary="List your sessions", responses=failures())
async def list_sessions(signed_in: SignedInPerson, service: TheService) -> Answer[list[SessionOut]]:
    store = await service.store_of(signed_in.region)
    found = await sessions.sessions_of(store, signed_in.person.id)
    return Answer(
        data=[
            SessionOut.model_validate({**as_dict(each), "is_this": each.id == signed_in.session.id}) for each in found
        ]
    )


@router.delete("/sessions/{session_id}", summary="End one of your sessions", responses=failures("not_found"))
async def end_session(
    session_id: Annotated[Text, Path(max_length=200)], signed_in: SignedInPerson, request: Request, service: TheService
) -> Answer[Done]:
    own = actions.OwnSession(person=signed_in.person, id=session_id)
    value_of(await actions.revoke(_self(signed_in, request), own, await service.store_of(signed_in.region)))
    return Answer(data=Done())


@router.post("/password", summary="Change your password", responses=failures("wrong_credentials"))
async def change_password(
    given: NewPassword, request: Request, signed_in: SignedInPerson, service: TheService
) -> Answer[PersonOut]:
    asked = actions.ChangePassword(person=signed_in.person, old=given.old, new=given.new, token=signed_in.token)
    store = await service.store_of(signed_in.region)
    return Answer(data=person_out(value_of(await actions.change_password(_self(signed_in, request), asked, store))))


@router.post(
    "/accept",
    summary="Choose a password with a one-time link",
    responses=failures("wrong_credentials", "conflict"),
)
async def accept_invitation(
    given: Accept, request: Request, response: Response, service: TheService
) -> Answer[AcceptedOut]:
    region, _, token = given.token.rpartition(".")
    store = await service.store_of(_known(region or HOME, service))
    agent = request.headers.get("user-agent", "")
    asked = actions.AcceptLink(token=token, password=given.password, name=given.name, agent=agent)
    accepted = value_of(await actions.accept(_stranger(request), asked, store))
    if isinstance(accepted, Refused):
        raise refusal(accepted)
    person, begun = accepted.person, accepted.signed_in
    if begun is not None:
        _begin_session(response, service, region or await place_of(service, person.workspace), begun)
    ends = {
        "expires_at": begun.expires_at if begun else None,
        "csrf_token": begun.csrf_token if begun else None,
    }
    return Answer(data=AcceptedOut.model_validate(as_dict(person) | ends))


@router.post(
    "/setup",
    summary="Become the first admin, with the link printed on the server",
    responses=failures("wrong_credentials", "conflict"),
)
async def set_up(given: SetUp, request: Request, service: TheService) -> Answer[PersonOut]:
    asked = actions.SetUp(token=given.token, address=given.address, password=given.password, name=given.name, agent="")
    made = value_of(await actions.set_up(_stranger(request), asked, await service.store_of(HOME)))
    return Answer(data=person_out(made))


def _stranger(request: Request) -> Actor:
    """Returns the actor for the audit log, used until the link reveals who is signing in."""
    return Actor(who="a link", request_id=request.state.request_id)


def _self(signed_in: SignedInPerson, request: Request) -> Actor:
    return Actor(who=signed_in.who, request_id=request.state.request_id)


def refusal(refused: Refused) -> ApiError:
    """Converts a refused sign-in attempt to an API error."""
    code_ = _STATUS.get(refused.kind, "invalid")
    details: dict[str, object] = {"kind": refused.kind} | (
        {"tries_left": refused.tries_left} if refused.kind == "wrong" else {}
    )
    if refused.kind == "several":
        details["workspaces"] = [each or "" for each in refused.workspaces]
    headers = {"Retry-After": str(refused.retry_after_s)} if refused.kind == "too_many" else {}
    return ApiError(code_, refused.message, details=details, headers=headers)


def person_out(result: Person | Refused) -> PersonOut:
    """Converts a person to a response. Raises ApiError if the action was refused."""
    if isinstance(result, Refused):
        raise refusal(result)
    return PersonOut.model_validate(result)


def _session_begun(finished: SignedIn) -> SessionBegun:
    return SessionBegun(
        person=PersonOut.model_validate(finished.person), expires_at=finished.expires_at, csrf_token=finished.csrf_token
    )


def _begin_session(response: Response, service: Service, region: str, begun: SignedIn) -> None:
    value = f"{region}.{begun.session_token}"
    _set_cookie(response, service, SESSION_COOKIE, value, life_s=SESSION_LIFE.total_seconds(), path="/")


def _begun(request: Request, service: Service) -> tuple[str, str]:
    """Returns the region and the secret of the sign-in that this browser started."""
    region, _, secret = request.cookies.get(SIGN_IN_COOKIE, "").partition(".")
    if not secret:
        raise ApiError(
            "wrong_credentials",
            "No sign-in is in progress in this browser, or the sign-in has expired. Enter your password.",
            details={"kind": "expired"},
        )
    return _known(region, service), secret


def _known(region: str, service: Service) -> str:
    if region != HOME and region not in service.regions:
        raise ApiError(
            "wrong_credentials", "This sign-in or link has expired. Start again.", details={"kind": "expired"}
        )
    return region


def _set_cookie(response: Response, service: Service, name: str, value: str, *, life_s: float, path: str) -> None:
    is_https = service.settings.public_url.startswith("https://")
    response.set_cookie(name, value, max_age=int(life_s), path=path, secure=is_https, httponly=True, samesite="strict")
