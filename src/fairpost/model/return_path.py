"""Addresses that receive mail about one e-mail, such as reports. `public_ids` defines the token that identifies the
e-mail.

Reports and unsubscribe requests are sent to bounces+TOKEN@DOMAIN. Without a bounce domain, both go to the account's own
mailbox. If the account's mailbox is read, unsubscribe requests have the token in the subject.
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
    """Return the `mailto:` URL for an unsubscribe request, or None if no mailbox can receive it."""
    if not token:
        return None
    if bounce_domain is not None:
        return f"mailto:{return_path(token, domain=bounce_domain)}?subject={REQUEST}"
    return f"mailto:{quote(mailbox, safe='@+')}?subject={REQUEST}%20{token}" if mailbox else None


def token_of_request(subject: str) -> str | None:
    """Return the token in the subject of an unsubscribe request, "" if the subject has none, or None for other mail."""
    found = _SUBJECT.fullmatch(subject.strip())
    return None if found is None else found[1] or ""
