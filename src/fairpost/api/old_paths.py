"""The paths of the version before, `/api/…`. They answer as their successors under `/v1/` do, and name them in a header.

They are not in the document. Remove this file one version after /v1.
"""

from starlette.types import Scope

OLD, NEW = "/api/", "/v1/"
SINCE = "@1794873600"  # 17 November 2026, as RFC 9745 writes it


def with_new_path(scope: Scope) -> Scope:
    if scope["type"] != "http" or not scope["path"].startswith(OLD):
        return scope
    path: str = NEW + scope["path"].removeprefix(OLD)
    raw: bytes = scope.get("raw_path") or b""
    return {**scope, "path": path, "raw_path": NEW.encode() + raw.removeprefix(OLD.encode())}


def deprecation(asked: Scope, answered: Scope) -> dict[str, str]:
    if asked is answered:
        return {}
    successor = answered["raw_path"].partition(b"?")[0].decode("latin-1")
    return {"Deprecation": SINCE, "Link": f'<{successor}>; rel="successor-version"'}
