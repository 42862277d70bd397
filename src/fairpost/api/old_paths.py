"""Deprecated paths under `/api/…`. These paths respond like their successors under `/v1/`, and a header names the
successor.

The deprecated paths are not in the OpenAPI document. Remove this file one version after the version that introduced
`/v1/`.
"""

import re

from starlette.types import Scope

OLD, NEW = "/api/", "/v1/"
RENAMED = (
    (re.compile(r"(/v1/campaigns/[^/]+)/course"), r"\1/progress"),
    (re.compile("/v1/admin/senders/lift"), "/v1/admin/senders/unthrottle"),
)
SINCE = "@1794873600"  # 17 November 2026, in the format of RFC 9745


def with_new_path(scope: Scope) -> Scope:
    if scope["type"] != "http" or not scope["path"].startswith(OLD):
        return scope
    raw: bytes = scope.get("raw_path") or b""
    return {**scope, "path": _successor(scope["path"]), "raw_path": _successor(raw.decode("latin-1")).encode("latin-1")}


def _successor(path: str) -> str:
    new = NEW + path.removeprefix(OLD)
    for old, now in RENAMED:
        if old.fullmatch(new):
            return old.sub(now, new)
    return new


def deprecation(asked: Scope, answered: Scope) -> dict[str, str]:
    if asked is answered:
        return {}
    successor = answered["raw_path"].partition(b"?")[0].decode("latin-1")
    return {"Deprecation": SINCE, "Link": f'<{successor}>; rel="successor-version"'}
