"""URLs of databases: as people may see them, and with another login."""

import re
from urllib.parse import quote, urlsplit, urlunsplit


def without_password(url: str) -> str:
    """For messages, which may stand in a log for years. Hides too much rather than too little."""
    url = re.sub(r"(//[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"(password\s*=\s*)('(\\.|[^'])*'|[^&\s]*)", r"\1***", url)


def as_login(url: str, login: str, password: str = "") -> str:
    """The same database, asked as another role."""
    parts = urlsplit(url)
    who = f"{quote(login)}:{quote(password)}" if password else quote(login)
    return urlunsplit(parts._replace(netloc=f"{who}@{parts.netloc.rpartition('@')[2]}"))
