"""Records every request: its duration for Prometheus, and a log line.

The record contains the route, but never the path, the query string or the body.
"""

from starlette.types import Scope

from fairpost.api.service import Service
from fairpost.model.reason import Log, Reason, Value
from fairpost.observe.http_durations import OTHER
from fairpost.settings import RequestLog

READS = frozenset({"GET", "HEAD"})


def tell(scope: Scope, service: Service | None, log: Log, *, status: int, duration_s: float) -> None:
    """Records one request. `service` is None until the process is connected to its database."""
    method: str = scope["method"]
    route: str | None = getattr(scope.get("route"), "path", None)
    if service is not None:
        service.durations.add(route=route, method=method, status=status, duration_s=duration_s)
    chosen = RequestLog.API if service is None else service.settings.log_requests
    if _is_logged(chosen, method, route, status):
        state = scope["state"]
        about: dict[str, Value] = {"method": method, "route": route or OTHER, "status": status}
        about |= {"duration_ms": round(1_000 * duration_s, 1), "request_id": state["request_id"]}
        log(Reason("request.answered", **about, **state.get("actor", {})))


def _is_logged(chosen: RequestLog, method: str, route: str | None, status: int) -> bool:
    match chosen:
        case RequestLog.ALL:
            return True
        case RequestLog.API:
            is_page = method in READS and not (route or "").startswith("/v1/")
            return status >= 400 or not is_page
        case RequestLog.FAILED:
            return status >= 400
        case RequestLog.OFF:
            return False
