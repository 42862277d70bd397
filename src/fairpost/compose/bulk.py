"""Headers of campaign mail: one-click unsubscribe (RFC 2369, RFC 8058), and the IDs by which receivers group mail."""

import re

from fairpost.compose.headers import structured_header
from fairpost.model.email import Outgoing

ONE_CLICK = "List-Unsubscribe=One-Click"
_NOT_IN_A_LABEL = re.compile(r"[^a-z0-9-]+")


def bulk_headers(email: Outgoing, *, domain: str, mailto: str | None = None) -> bytes:
    """Returns the headers, or nothing if the e-mail is not campaign mail. `domain` is the sender's domain. A message to
    `mailto` unsubscribes its sender. The caller's own headers are not replaced.
    """
    bulk = email.bulk
    if bulk is None:
        return b""
    campaign, workspace = _label(bulk.campaign), _label(email.workspace)
    headers = {
        "List-Id": f"<{campaign}.{workspace}.{domain}>",
        "Feedback-ID": f"{campaign}:{workspace}:campaign:fairpost",
    }
    ways = [f"<{way}>" for way in (bulk.unsubscribe_url, mailto) if way is not None]
    if ways:
        headers["List-Unsubscribe"] = ", ".join(ways)
    if bulk.unsubscribe_url is not None:
        headers["List-Unsubscribe-Post"] = ONE_CLICK
    if not bulk.is_one_to_one:
        headers["Precedence"] = "bulk"
    given = {name.lower() for name in email.content.headers}
    if given & {"list-unsubscribe", "list-unsubscribe-post"}:  # the two headers belong together
        given |= {"list-unsubscribe", "list-unsubscribe-post"}
    return b"".join([structured_header(name, value) for name, value in headers.items() if name.lower() not in given])


def _label(name: str) -> str:
    """Converts the name to a part of a List-Id, which looks like a domain."""
    return _NOT_IN_A_LABEL.sub("-", name.lower()).strip("-")[:63] or "x"
