"""The application: routes, middleware, and a response for every error."""

import json
import traceback
from http import HTTPStatus
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
    conversations,
    domains,
    emails,
    events,
    health,
    installation,
    limits,
    live,
    log_entries,
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
    unsubscribe,
    users,
    webhooks,
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
    """Returns the development inbox, if it is installed."""
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
    conversations,
    suppressions,
    users,
    metrics,
    events,
    log_entries,
    webhooks,
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
    unsubscribe,
    pages,
)
TAGS = [each.TAG for each in ROUTES if hasattr(each, "TAG")]


class App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = condensed(super().openapi())
        return self.openapi_schema


def build_app(service: Service | None, *, log: Log) -> FastAPI:
    """Builds the application. `service` may be None if only the OpenAPI document is needed."""
    app = App(
        title="Fairpost",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        docs_url=None,  # replaced by our own page, which loads nothing from other servers
        redoc_url=None,
    )
    app.state.service = service
    for routes in ROUTES:  # include_router would build each route a second time on the first request
        app.router.routes.extend(routes.router.routes)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)

    async def answer(request: Request, error: Exception) -> Response:
        trouble = trouble_of(error)
        if trouble is not None and not trouble.meaning.passes:  # an operator must fix the problem
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


DESCRIPTION = """Send e-mails fairly and reliably, on PostgreSQL.

Every response is `{"success": true, "data": …}` or `{"success": false, "error": {"code", "message", "details"}}`. These codes are stable:

""" + "\n".join(f"- `{code}` ({kind.status}): {kind.meaning}" for code, kind in CODES.items())


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND and _wants_a_page(request):
        return pages.missing()
    code = _BY_STATUS.get(error.status_code, "bad_request")
    words = {"not_found": "Path not found.", "method_not_allowed": "Method not allowed for this path."}
    answer = failure(ApiError(code, words.get(code, str(error.detail)), headers=error.headers))
    answer.status_code = error.status_code
    return answer


def _wants_a_page(request: Request) -> bool:
    is_api = request.url.path.startswith(("/v1/", "/api/"))
    return request.method == "GET" and not is_api and "text/html" in request.headers.get("accept", "")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    for each in error.errors():
        if each["type"] == "json_invalid":
            words = f"The body is not valid JSON (character {each['loc'][-1]})."
            return failure(ApiError("bad_request", words))
    body_field = getattr(request.scope.get("route"), "body_field", None)
    model = None if body_field is None else body_field.field_info.annotation
    found = mistakes(error.errors(), error.body, model)[:DETAILS_MAX]
    first = found[0]
    words = f"{first['field']}: {first['message']}" if first["field"] else f"The body {first['message']}."
    return failure(ApiError("invalid", words, details=found))


async def _ours(request: Request, error: Exception) -> Response:
    """Handles errors raised by Fairpost's own code, and database errors caused by values that cannot be stored."""
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
            words = "This region's database is being upgraded or is not set up. Try again later."
            return failure(_unavailable(words, RETRY_WHEN_MENDED_S))
        case InvalidEmail():
            return failure(ApiError("invalid", str(error), details=[{"field": error.field, "message": error.message}]))
        case asyncpg.PostgresError() if error.sqlstate == "FP001":
            return failure(ApiError("invalid", str(error), details=_fields(error)))
        case asyncpg.PostgresError() if error.sqlstate == "FP005":
            return failure(
                ApiError(
                    "conflict",
                    "The operator suspended this account, and only the operator can resume it. Nothing was changed.",
                )
            )
        case asyncpg.PostgresError() if error.sqlstate == "FP004":
            return failure(ApiError("not_found", "Not found in this workspace."))
        case asyncpg.DataError() | asyncpg.CharacterNotInRepertoireError() | asyncpg.CheckViolationError():
            words = "One of the values cannot be stored."  # the driver's text could contain the value
            return failure(ApiError("invalid", words, details=[{"field": "", "message": "cannot be stored"}]))
        case asyncpg.ForeignKeyViolationError() | asyncpg.UniqueViolationError():
            return failure(ApiError("conflict", "Conflicting update. Nothing was changed. Try again."))
        case DatabaseUnavailable():
            return failure(_away(passes=error.passes))
        case FairpostError():
            return failure(ApiError("conflict", error.message))
    trouble = trouble_of(error)
    if trouble is None:
        raise error  # this is a bug, which the middleware logs
    if trouble.kind is Kind.BUSY:
        return failure(_unavailable("Conflicting update. Try again.", RETRY_SOON_S))
    return failure(_away(passes=trouble.meaning.passes))


def _away(*, passes: bool) -> ApiError:
    return _unavailable("The database is not responding. Try again.", RETRY_LATER_S if passes else RETRY_WHEN_MENDED_S)


def _unavailable(words: str, retry_after_s: int) -> ApiError:
    return ApiError("unavailable", words, headers={"Retry-After": str(retry_after_s)})


def _fields(error: asyncpg.PostgresError) -> Any:
    try:
        return [json.loads(error.detail)]
    except (TypeError, ValueError):
        return None
