"""Addresses to which mail about one e-mail returns. `public_ids` defines the token that names the e-mail.

Reports go to bounces+TOKEN@DOMAIN. A request to unsubscribe goes there, too, or to the account's own mailbox if that is
read, with the token in its subject.
"""

import re
from urllib.parse import quote

NAME = "bounces"
REQUEST = "unsubscribe"
_SUBJECT = re.compile(rf"{REQUEST}(?: (\S{{1,100}}))?", re.IGNORECASE)


def return_path(token: str, *, domain: str) -> str:
    return f"{NAME}+{token}@{domain}"


def token_in(address: str) -> str | None:
    name, plus, token = address.strip("<> ").rpartition("@")[0].partition("+")
    return token if plus and name.lower() == NAME else None


def unsubscribe_mailto(token: str, *, bounce_domain: str | None, mailbox: str | None) -> str | None:
    """Return the URL of a request to unsubscribe, or None if no mail about the e-mail is read."""
    if not token:
        return None
    if bounce_domain is not None:
        return f"mailto:{return_path(token, domain=bounce_domain)}?subject={REQUEST}"
    return f"mailto:{quote(mailbox, safe='@+')}?subject={REQUEST}%20{token}" if mailbox else None


def token_of_request(subject: str) -> str | None:
    """Return the token in the subject of such a request, "" if it has none, or None if it is another mail."""
    found = _SUBJECT.fullmatch(subject.strip())
    return None if found is None else found[1] or ""
