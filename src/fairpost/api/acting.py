"""Runs actions for requests. Returns the result, or raises an API error if the action is refused."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from fastapi import Request

from fairpost.actions.acting import Action, Actor, Done, Refused
from fairpost.api.access import Caller, SignedIn
from fairpost.api.errors import ApiError, invalid
from fairpost.api.names import own_name
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.reasons.catalogue import CATALOGUE, Kind
from fairpost.reasons.rendering import field, mistake_in_words, mistakes, sentence
from fairpost.store.store import Store

R = TypeVar("R")
T = TypeVar("T")


Fields = Mapping[str, str]  # maps field names of an action to those of the HTTP request, if they differ
IN_PLACE: Fields = {"line": "line {line}"}


async def act(
    caller: Caller, action: Action[R, T], request: R, *, store: Store | None = None, fields: Fields = IN_PLACE
) -> T:
    """Runs an action in the caller's workspace. Pass `store` if the action needs access to more than the caller's own
    store offers.

    Raises ApiError if the action is refused.
    """
    actor = Actor(
        who=caller.who,
        workspace=caller.workspace,
        scopes=caller.scopes,
        is_operator=caller.is_operator,
        request_id=caller.request_id,
    )
    outcome = await action(actor, request, store or caller.store)
    return value_of(Refused(_as_known(outcome.reason, caller)) if isinstance(outcome, Refused) else outcome, fields)


async def act_as_admin(
    admin: SignedIn, request: Request, store: Store, action: Action[R, T], asked: R, *, fields: Fields = IN_PLACE
) -> T:
    """Runs an action on a whole region. Raises ApiError if the action is refused."""
    actor = Actor(who=admin.who, is_operator=True, request_id=request.state.request_id)
    return value_of(await action(actor, asked, store), fields)


def value_of(outcome: Done[T] | Refused, fields: Fields = IN_PLACE) -> T:
    match outcome:
        case Done(value):
            return value
        case Refused(reason):
            raise refused(reason, fields)


def refused(reason: Reason, fields: Fields = IN_PLACE) -> ApiError:
    meaning = CATALOGUE[reason.code]
    if meaning.field:
        name = field(reason)
        return invalid(fields.get(name, name), sentence(reason), reason=reason.code)
    assert meaning.kind is not None, f"{reason.code} is not a refusal"
    words = sentence(reason) if meaning.kind is Kind.NOT_FOUND else f"{sentence(reason)} Nothing was changed."
    if meaning.kind is Kind.INVALID:
        return _with_mistakes(reason, fields)
    headers = {"Retry-After": str(reason.params["retry_after_s"])} if meaning.kind is Kind.RATE_LIMITED else None
    details = {"reason": reason.code, **_as_json(reason.params)}
    return ApiError(meaning.kind, words, details=details, headers=headers)


def _with_mistakes(reason: Reason, fields: Fields) -> ApiError:
    """Returns an error that lists all mistakes as details. The error's message contains the first mistake, for clients
    that do not show details."""
    found = mistakes(reason)
    words = f"{sentence(reason)} {mistake_in_words(found[0]).rstrip('.')}. Nothing was changed."
    return ApiError("invalid", words, details=[_mistake(each, fields) for each in found])


def _mistake(mistake: dict[str, Any], fields: Fields) -> dict[str, Any]:
    if "field" in mistake:
        return mistake
    rest = {name: value for name, value in mistake.items() if name != "line"}
    return {"field": fields["line"].format(line=mistake["line"]), **rest}


def _as_known(reason: Reason, caller: Caller) -> Reason:
    """Replaces the IDs and names in the reason with those that the caller knows."""
    known = dict(reason.params)
    match known:
        case {"id": str(number)}:
            known["id"] = caller.ids.email(EmailId(int(number)))
        case {"pool": str(pool)}:
            known["pool"] = own_name(pool, caller)
        case {"account": str(account)}:
            known["account"] = own_name(account, caller)
    return Reason(reason.code, **known)


def _as_json(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case dict():
            return {name: _as_json(each) for name, each in value.items()}
        case str():
            return value
        case Sequence():
            return [_as_json(each) for each in value]
    return value
