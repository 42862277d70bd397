"""Accounts of a workspace: add, read, change, pause, resume and remove. Passwords are never returned.

Paths use the workspace's own names for its accounts, without a prefix.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from fastapi import Response, status

from fairpost.actions import accounts as actions
from fairpost.api import verification
from fairpost.api.access import TRYING, Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import (
    Answer,
    Page,
    Removed,
    failures,
)
from fairpost.api.conditions import told_reason
from fairpost.api.errors import ApiError, invalid, not_found
from fairpost.api.limits import LimitsOut, with_given
from fairpost.api.names import full_name, own_name
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.routing import Router
from fairpost.api.servers import (
    check_server,
    given_kind,
    given_server,
    server_out,
)
from fairpost.api.service import Service, TheService
from fairpost.api.shapes.accounts import (
    AccountChange,
    AccountIn,
    AccountName,
    AccountOut,
    PatienceOut,
    Pause,
    RestOut,
    UsageOut,
    Verified,
)
from fairpost.api.versions import WITH_TAG, IfMatch, changed_meanwhile, revision_to_change, tag_of
from fairpost.model.account import Account, AccountRuntime, Limits, Rest
from fairpost.model.errors import ChangedMeanwhile, KeysChanged, NotFound, VaultError
from fairpost.model.ids import AccountId
from fairpost.model.limit import NONE
from fairpost.model.reason import Reason
from fairpost.model.report import Step
from fairpost.model.transport import ServerSettings
from fairpost.observe.reading import reading_facts, reading_of
from fairpost.observe.status import read_account, read_accounts
from fairpost.policy.limits import day_errors, day_max, may_send, used
from fairpost.policy.mailboxes import Unfit, doubt_about, same_mailbox
from fairpost.providers.presets import CUSTOM, Preset, by_domain, read_presets
from fairpost.reasons.rendering import brief, coded
from fairpost.store import workspaces
from fairpost.system import clock
from fairpost.transports.registry import write_transport
from fairpost.vault.rotation import write_sealed

TAG = {"name": "accounts", "description": "The accounts that the workspace sends through."}
router = Router(prefix="/v1/accounts", tags=["accounts"])

ACCOUNTS_MAX = 1_000  # per workspace
LOGINS_PER_MINUTE = 10  # limit on logins that verify addresses; it keeps callers from guessing passwords


# ── read ──────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("", summary="List accounts by name", responses=failures())
async def list_accounts(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[AccountOut]]:
    after = full_name(name_at(cursor) or "", caller)
    found = await read_accounts(caller.store, workspace=caller.workspace, after=after, most=limit + 1)
    now = clock.now()
    return page_of(
        found,
        limit,
        shown=lambda post: _shown(post, caller, now),
        place=lambda post: own_name(post.account.name, caller),
    )


@router.get(
    "/{name}",
    summary="Get an account: settings, limits, usage and condition",
    responses={200: WITH_TAG, **failures("not_found")},
)
async def get_account(name: AccountName, caller: Reads, response: Response) -> Answer[AccountOut]:
    return await _look(caller, name, response)


# ── add and change ────────────────────────────────────────────────────────────────────────────────────────


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Add an account",
    responses={201: WITH_TAG, **failures("conflict")},
)
async def create_account(
    given: AccountIn, caller: Manages, service: TheService, response: Response
) -> Answer[AccountOut]:
    address = await _address(caller, service, given.address)
    server, secret = given_server(given, None, mailbox=address)
    await check_server(server, service.guard)
    mailbox = await _proven_mailbox(caller, service, address, server, secret)
    limits, provider = _begun_limits(given, address, service)
    id_ = await caller.owner.next_account_id()

    async def write(sealed: str | None, keys: Sequence[str] | None) -> None:
        request = actions.AddAccount(
            id=id_,
            name=full_name(given.name, caller),
            address=address,
            pool=full_name(given.pool, caller),
            display_name=_line(given.display_name),
            limits=limits,
            provider=provider,
            server=server and replace(server, secret=sealed),
            keys=keys,
            mailbox=actions.Mailbox(name=mailbox, address=address),
        )
        await act(caller, actions.add, request)

    await _seal(caller, service, secret, id_, write)
    return await _look(caller, given.name, response)


@router.patch(
    "/{name}",
    summary="Change the given fields of an account",
    responses={200: WITH_TAG, **failures("not_found", "changed_meanwhile")},
)
async def update_account(
    name: AccountName,
    given: AccountChange,
    caller: Manages,
    service: TheService,
    response: Response,
    if_match: IfMatch = None,
) -> Answer[AccountOut]:
    account = (await _post(caller, name)).account
    revision = revision_to_change(account, if_match, caller.ids)
    address = await _address(caller, service, given.address) if "address" in given.model_fields_set else account.address
    server, secret = given_server(given, account.transport, mailbox=address)
    await check_server(server, service.guard)
    changes = _changes(given, account, address, caller, service)
    if server is not None:
        changes["transport"] = write_transport(replace(server, secret=None))
        if server.secret is None:
            changes["secret"] = None  # overridden if a new secret is sealed below
    if not changes:
        return await _look(caller, name, response)
    is_another = server is not None or "address" in changes
    mailbox = await _proven_again(caller, service, name, address, server, secret) if is_another else None

    async def write(sealed: str | None, keys: Sequence[str] | None) -> None:
        request = actions.ChangeAccount(
            name=full_name(name, caller),
            changes=changes if sealed is None else {**changes, "secret": sealed},
            server=server,
            has_new_secret=secret is not None,
            keys=keys,
            revision=revision,
            mailbox=actions.Mailbox(name=mailbox, address=address) if is_another else None,
        )
        await act(caller, actions.change, request)

    try:
        await _seal(caller, service, secret, account.id, write)
    except ChangedMeanwhile:
        raise changed_meanwhile() from None
    return await _look(caller, name, response)


@router.post("/{name}/pause", summary="Pause an account", responses={200: WITH_TAG, **failures("not_found")})
async def pause_account(name: AccountName, given: Pause, caller: Manages, response: Response) -> Answer[AccountOut]:
    request = actions.PauseAccount(name=full_name(name, caller), reason=given.reason, until=given.until)
    await act(caller, actions.pause, request)
    return await _look(caller, name, response)


@router.post(
    "/{name}/resume",
    summary="Resume a paused or suspended account",
    responses={200: WITH_TAG, **failures("not_found")},
)
async def resume_account(name: AccountName, caller: Manages, response: Response) -> Answer[AccountOut]:
    await act(caller, actions.resume, actions.AccountNamed(name=full_name(name, caller)))
    return await _look(caller, name, response)


@router.post(
    "/{name}/verify",
    summary="Connect and sign in to the account's server without sending anything",
    responses=failures("not_found"),
    dependencies=TRYING,
)
async def verify_account(name: AccountName, caller: Manages, service: TheService) -> Answer[Verified]:
    try:
        # The owner's store also reads the sealed secret, which tenants cannot see.
        account = await caller.owner.account_named(full_name(name, caller))
    except NotFound:
        raise not_found("account", name) from None
    tried = await verification.verify(account, service)
    if tried.steps and (tried.ok or tried.steps[-1].step == Step.AUTH):
        await workspaces.mailbox_tried(caller.owner, account.id, is_open=tried.ok)
    return Answer(data=tried)


@router.delete(
    "/{name}",
    summary="Remove an account and its password",
    description="Rejected while the account has e-mails that are claimed, being sent or in doubt, or while some e-mails can be sent only through this account. `details` contains the counts.",
    responses=failures("not_found", "conflict"),
)
async def delete_account(name: AccountName, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove, actions.AccountNamed(name=full_name(name, caller)))
    return Answer(data=Removed())


async def _seal(
    caller: Caller,
    service: Service,
    secret: str | None,
    account_id: AccountId,
    write: Callable[[str | None, Sequence[str] | None], Awaitable[None]],
) -> None:
    """Seals the secret, then calls `write`. Uses the owner's store, because determining which keys are in use requires
    access to all accounts.
    """
    if secret is None:
        await write(None, None)
        return
    try:
        await write_sealed(caller.owner, service.vault, secret, account_id=account_id, write=write)
    except KeysChanged:
        raise ApiError("unavailable", "The master key is being rotated. Try again.", headers=_SOON) from None
    except VaultError:
        raise ApiError(
            "unavailable", "Secrets cannot be stored at the moment. Ask the operator to check the master key."
        ) from None


_SOON = {"Retry-After": "1"}


# ── parse requests ────────────────────────────────────────────────────────────────────────────────────────


async def _address(caller: Caller, service: Service, text: str) -> str:
    """Parses an address that the workspace can verify, either by the address's domain or by logging in to the provider."""
    address = await caller.store.parse_address(text)
    if address is None:
        raise invalid("address", "must be an e-mail address")
    if _provider_host(service, address) is None and not await workspaces.owns_domain_of(
        caller.store, caller.workspace, address
    ):
        raise invalid("address", _UNFIT[Unfit.NO_PROVIDER].format(domain=address.rpartition("@")[2]))
    return address


def _provider_host(service: Service, address: str) -> str | None:
    provider = by_domain(read_presets(service.settings.home / "providers.toml"), address.rpartition("@")[2])
    return provider.smtp.host if provider and provider.smtp else None


async def _proven_mailbox(
    caller: Caller, service: Service, address: str, server: ServerSettings | None, secret: str | None
) -> str | None:
    """Verifies the address by logging in to its provider. Returns None if the domain is already verified. Raises
    ApiError.
    """
    if await workspaces.owns_domain_of(caller.store, caller.workspace, address):
        return None
    host = _provider_host(service, address)
    doubt = doubt_about(address, server.login if server else None, host)
    if doubt is not None:
        words = _UNFIT[doubt.reason].format(domain=address.rpartition("@")[2], host=host, address=address)
        raise invalid(doubt.field, words)
    assert server is not None, "an address without a login is not verified"
    if secret is None:
        raise invalid("smtp.password", "is required, because a login verifies the address")
    turn = await workspaces.take_turn(caller.owner, f"logins {caller.workspace}", LOGINS_PER_MINUTE)
    if turn.wait_s is not None:
        headers = {"Retry-After": str(math.ceil(turn.wait_s))}
        raise ApiError(
            "rate_limited",
            f"Too many logins. The limit is {LOGINS_PER_MINUTE} per minute for each workspace.",
            headers=headers,
        )
    async with service.trying.one_more(caller.workspace):
        tried = await verification.log_in(server, secret, address, service)
    if not tried.ok:
        raise invalid("smtp", f"could not be verified because the login failed. {tried.words}")
    return same_mailbox(address)


async def _proven_again(
    caller: Caller, service: Service, name: str, address: str, server: ServerSettings | None, secret: str | None
) -> str | None:
    """Verifies the address of an existing account by logging in. Omitted fields keep their values."""
    # The owner's store also reads the sealed secret, which tenants cannot see.
    known = await caller.owner.account_named(full_name(name, caller))
    old = known.transport if isinstance(known.transport, ServerSettings) else None
    if secret is None and old is not None and old.secret is not None and (server or old).secret is not None:
        try:
            secret = service.vault.open(old.secret, account_id=known.id, name=known.name)
        except VaultError:
            secret = None  # the stored secret cannot be read, so the request must contain it again
    return await _proven_mailbox(caller, service, address, server or old, secret)


_UNFIT: Mapping[Unfit, str] = {
    Unfit.NO_PROVIDER: "{domain} is not one of this workspace's verified domains",
    Unfit.NO_LOGIN: "is required: logging in to {host} verifies that {address} is yours",
    Unfit.OTHER_HOST: "must be {host}: only a login there verifies that {address} is yours",
    Unfit.NOT_VERIFIED: "must be `implicit` or `starttls`, with a verifiable certificate",
    Unfit.OTHER_USER: "must be {address}: a login with a different name does not verify that this address is yours",
}


def _line(name: str | None) -> str | None:
    if name and not name.isprintable():
        raise invalid("display_name", "must be one line of printable characters")
    return name or None


def _changes(given: AccountChange, account: Account, address: str, caller: Caller, service: Service) -> dict[str, Any]:
    """Returns the database columns that the request changes, with their new values."""
    changes: dict[str, Any] = {}
    if "address" in given.model_fields_set:
        changes["address"] = address
    if "pool" in given.model_fields_set:
        changes["pool"] = full_name(given.pool, caller)
    if "display_name" in given.model_fields_set:
        changes["display_name"] = _line(given.display_name)
    if given.provider is not None:
        limits, preset = _begun_limits(given, address, service)
        changes |= {**asdict(limits), "provider": preset}
    elif given.limits is not None:
        with_given(account.limits, given.limits)
        changes |= given.limits.model_dump(exclude_unset=True)
    return changes


def _begun_limits(given: AccountIn | AccountChange, address: str, service: Service) -> tuple[Limits, str | None]:
    """Returns a new account's limits and the provider's name. Limits in the request override the provider's
    limits.
    """
    preset = _preset(given, address.rpartition("@")[2], service)
    return with_given(preset.limits if preset else Limits(), given.limits), preset.name if preset else None


def _preset(given: AccountIn | AccountChange, domain: str, service: Service) -> Preset | None:
    presets = read_presets(service.settings.home / "providers.toml")
    if given.provider == NONE:
        return None
    if given.provider is not None:
        if given.provider not in presets:
            raise invalid("provider", f"must be `none` or one of {', '.join(sorted(presets))}")
        return presets[given.provider]
    known = by_domain(presets, domain)
    kind = given_kind(given)
    if kind is not None and kind.preset is not None:
        return presets[kind.presets.get(known.name if known else "", kind.preset)]
    # If the provider is unknown, limits in the request replace the default preset completely.
    return known or (None if given.limits is not None else presets[CUSTOM])


# ── render ────────────────────────────────────────────────────────────────────────────────────────────────


async def _post(caller: Caller, name: str) -> AccountRuntime:
    try:
        return await read_account(caller.store, full_name(name, caller))
    except NotFound:
        raise not_found("account", name) from None


async def _look(caller: Caller, name: str, response: Response) -> Answer[AccountOut]:
    post = await _post(caller, name)
    response.headers["ETag"] = tag_of(post.account, caller.ids)
    return Answer(data=_shown(post, caller, clock.now()))


def _shown(post: AccountRuntime, caller: Caller, now: datetime) -> AccountOut:
    shown = account_out(post, now)
    reading = reading_of(post, now)
    told = told_reason(reading.condition.reason if reading else None, caller, "reading")
    return shown.model_copy(update={"name": own_name(shown.name, caller), "pool": own_name(shown.pool, caller), **told})


def account_out(post: AccountRuntime, now: datetime) -> AccountOut:
    """Converts an account to a response. The response contains the names as stored in the database."""
    account = post.account
    hour_used, day_used = used(post.account, now)
    may_send_at, waits_for = may_send(post.account, now)
    return AccountOut(
        name=account.name,
        address=account.address,
        display_name=account.display_name,
        pool=account.pool,
        provider=account.provider,
        status=account.status,
        **coded(account.status_reason, "status_reason"),
        status_until=account.status_until,
        rest=_rest_out(post.rest(now)),
        patience=PatienceOut.model_validate(asdict(account.patience)) if account.patience else None,
        server=server_out(account.transport),
        limits=LimitsOut.model_validate(asdict(account.limits)),
        usage=UsageOut(
            hour_used=hour_used,
            day_used=day_used,
            day_max=day_max(post.account, now),
            day_bounces=account.usage.day_bounces if day_used else 0,
            day_errors=day_errors(post.account, now),
            last_used_at=account.usage.last_begun_at,
            sent_total=post.sent_total,
        ),
        may_send_at=may_send_at,
        **coded(waits_for, "waits_for"),
        is_driven=post.is_driven(now),
        **reading_facts(reading_of(post, now)),
    )


def _rest_out(rest: Rest | None) -> RestOut | None:
    if rest is None:
        return None
    return RestOut(until=rest.until, reason=brief(Reason(rest.reason)), reason_code=rest.reason, detail=rest.detail)
