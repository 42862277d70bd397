"""The application: routes, the middleware before them, and an answer for everything that can go wrong."""

import json
import traceback
from typing import Any

import asyncpg
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from fairpost import __version__
from fairpost.api.acting import refused
from fairpost.api.answered import tell
from fairpost.api.answers import failure
from fairpost.api.document import condensed
from fairpost.api.errors import CODES, DETAILS_MAX, ApiError
from fairpost.api.field_errors import mistakes
from fairpost.api.middleware import RequestMiddleware
from fairpost.api.preauth import PreAuth
from fairpost.api.routes import (
    accounts,
    all_accounts,
    auth,
    bulk,
    campaign_mail,
    campaign_progress,
    campaigns,
    domains,
    emails,
    events,
    health,
    installation,
    limits,
    live,
    members,
    metrics,
    operators,
    pages,
    pools,
    portals,
    privacy,
    prospects,
    providers,
    schedule,
    sequences,
    stops,
    suppressions,
    templates,
    transports,
    users,
    workspace,
)
from fairpost.api.service import Service
from fairpost.extras import Extra, is_installed
from fairpost.model.errors import (
    DatabaseUnavailable,
    FairpostError,
    InvalidEmail,
    MigrationError,
    NotFound,
    NotInstalled,
    Refusal,
)
from fairpost.model.reason import Log, Reason
from fairpost.store.trouble import DRIVER_ERRORS, Kind, trouble_of

_BY_STATUS = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}
RETRY_SOON_S, RETRY_LATER_S, RETRY_WHEN_MENDED_S = 1, 2, 60


def _inbox() -> Any:
    """The development inbox, where it is installed."""
    if is_installed(Extra.LOCAL):
        from fairpost.api.inbox import routes

        return routes
    from fairpost.api.routes import no_inbox

    return no_inbox


ROUTES: tuple[Any, ...] = (
    health,
    emails,
    bulk,
    accounts,
    pools,
    limits,
    providers,
    transports,
    prospects,
    suppressions,
    users,
    metrics,
    events,
    live,
    templates,
    sequences,
    schedule,
    campaigns,
    campaign_mail,
    campaign_progress,
    portals,
    privacy,
    workspace,
    domains,
    members,
    auth,
    operators,
    _inbox(),
    installation,
    all_accounts,
    stops,
    pages,
)
TAGS = [each.TAG for each in ROUTES if hasattr(each, "TAG")]


class App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = condensed(super().openapi())
        return self.openapi_schema


def build_app(service: Service | None, *, log: Log) -> FastAPI:
    """`service` None: only its document is wanted."""
    app = App(
        title="Fairpost",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        docs_url=None,  # a page of ours, which asks no other server for anything
        redoc_url=None,
    )
    app.state.service = service
    for routes in ROUTES:  # as they are: include_router would build each of them a second time, at the first request
        app.router.routes.extend(routes.router.routes)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)

    async def answer(request: Request, error: Exception) -> Response:
        trouble = trouble_of(error)
        if trouble is not None and not trouble.meaning.passes:  # somebody has to put it right
            log(Reason("request.failed", request_id=request.state.request_id, error=str(trouble.as_error())))
        return await _ours(request, error)

    for kind in (FairpostError, *DRIVER_ERRORS):
        app.add_exception_handler(kind, answer)

    def report(request_id: str, error: BaseException) -> None:
        told = "".join(traceback.format_exception(error)).rstrip()
        log(Reason("request.failed", request_id=request_id, error=told))

    def answered(scope: Scope, status: int, duration_s: float) -> None:
        tell(scope, app.state.service, log, status=status, duration_s=duration_s)

    app.add_middleware(PreAuth, answer=answer)
    app.add_middleware(RequestMiddleware, report=report, answered=answered)
    return app


DESCRIPTION = """Every e-mail is a row in PostgreSQL, let out fairly, sent once, and accounted for.

Every answer is `{"success": true, "data": …}` or `{"success": false, "error": {"code", "message", "details"}}`. Codes are stable:

""" + "\n".join(f"- `{code}` ({kind.status}): {kind.meaning}" for code, kind in CODES.items())


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _BY_STATUS.get(error.status_code, "bad_request")
    words = {"not_found": "There is nothing at this path.", "method_not_allowed": "This path has no such method."}
    answer = failure(ApiError(code, words.get(code, str(error.detail)), headers=error.headers))
    answer.status_code = error.status_code
    return answer


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    for each in error.errors():
        if each["type"] == "json_invalid":
            words = f"The body is not valid JSON: see character {each['loc'][-1]}."
            return failure(ApiError("bad_request", words))
    body_field = getattr(request.scope.get("route"), "body_field", None)
    model = None if body_field is None else body_field.field_info.annotation
    found = mistakes(error.errors(), error.body, model)[:DETAILS_MAX]
    first = found[0]
    words = f"{first['field']}: {first['message']}" if first["field"] else f"The body {first['message']}."
    return failure(ApiError("invalid", words, details=found))


async def _ours(request: Request, error: Exception) -> Response:
    """What our own code raises on purpose, and what the database says of values that it cannot hold."""
    match error:
        case ApiError():
            return failure(error)
        case Refusal():
            return failure(refused(error.reason))
        case NotFound():
            return failure(ApiError("not_found", error.message))
        case NotInstalled():
            return failure(ApiError("not_installed", str(error)))
        case MigrationError():
            words = "The database of this region is not ready to be worked on. Try again later."
            return failure(_unavailable(words, RETRY_WHEN_MENDED_S))
        case InvalidEmail():
            return failure(ApiError("invalid", str(error), details=[{"field": error.field, "message": error.message}]))
        case asyncpg.PostgresError() if error.sqlstate == "FP001":
            return failure(ApiError("invalid", str(error), details=_fields(error)))
        case asyncpg.PostgresError() if error.sqlstate == "FP005":
            return failure(
                ApiError(
                    "conflict",
                    "The operator has stopped this account, and only he lets it go again. Nothing was changed.",
                )
            )
        case asyncpg.PostgresError() if error.sqlstate == "FP004":
            return failure(ApiError("not_found", "It does not exist in this workspace."))
        case asyncpg.DataError() | asyncpg.CharacterNotInRepertoireError() | asyncpg.CheckViolationError():
            return failure(
                ApiError(
                    "invalid",
                    "A value is not one that can be stored.",
                    details=[{"field": "", "message": str(error)[:300]}],
                )
            )
        case asyncpg.ForeignKeyViolationError() | asyncpg.UniqueViolationError():
            return failure(
                ApiError("conflict", "Somebody changed what this needs at the same moment. Nothing was changed.")
            )
        case DatabaseUnavailable():
            return failure(_away(passes=error.passes))
        case FairpostError():
            return failure(ApiError("conflict", error.message))
    trouble = trouble_of(error)
    if trouble is None:
        raise error  # a fault of ours: the middleware logs it
    if trouble.kind is Kind.BUSY:
        return failure(_unavailable("Conflicting update. Try again.", RETRY_SOON_S))
    return failure(_away(passes=trouble.meaning.passes))


def _away(*, passes: bool) -> ApiError:
    return _unavailable("The database does not answer. Try again.", RETRY_LATER_S if passes else RETRY_WHEN_MENDED_S)


def _unavailable(words: str, retry_after_s: int) -> ApiError:
    return ApiError("unavailable", words, headers={"Retry-After": str(retry_after_s)})


def _fields(error: asyncpg.PostgresError) -> Any:
    try:
        return [json.loads(error.detail)]
    except (TypeError, ValueError):
        return None
