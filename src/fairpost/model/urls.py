"""Remove the password from a database URL or replace its login."""

import re
from urllib.parse import quote, urlsplit, urlunsplit


def without_password(url: str) -> str:
    """Return the URL in a form suitable for messages, which may stay in a log for years. When in doubt, this function
    hides more than necessary.
    """
    url = re.sub(r"(//[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"(password\s*=\s*)('(\\.|[^'])*'|[^&\s]*)", r"\1***", url)


def as_login(url: str, login: str, password: str = "") -> str:
    """Return the URL of the same database with a different login."""
    parts = urlsplit(url)
    who = f"{quote(login)}:{quote(password)}" if password else quote(login)
    return urlunsplit(parts._replace(netloc=f"{who}@{parts.netloc.rpartition('@')[2]}"))
