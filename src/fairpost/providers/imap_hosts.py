"""Derives a mailbox's IMAP server from its SMTP server, using a table and, for all servers that are not listed there, a
rule.
"""

import tomllib
from functools import cache
from importlib import resources


def imap_host_of(smtp_host: str) -> str:
    host = smtp_host.lower().rstrip(".")
    return _known().get(host) or ("imap." + host.removeprefix("smtp.") if host.startswith("smtp.") else host)


@cache
def _known() -> dict[str, str]:
    return tomllib.loads(resources.files(__package__).joinpath("imap_hosts.toml").read_text("utf-8"))
