"""Rules for names chosen by users: accounts, templates, lists, sequences, campaigns, keys, workspaces and pools."""

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_RULE = "1..100 letters, digits and ._-, starting with a letter or digit"
WORKSPACE_NAME = re.compile(
    r"[a-z0-9][a-z0-9._-]{0,99}"
)  # e-mail addresses are not allowed, because names appear in logs and in the directory
POOL_CHARS_MAX = 100
POOL_RULE = f"1..{POOL_CHARS_MAX} characters on one line, not starting with @"  # @ marks mail for a single account
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_FULL_NAME = re.compile(rf"(?=.{{4,253}}\Z)(?:{_LABEL}\.)+(?![0-9]+\Z){_LABEL}", re.IGNORECASE)
LENT_POOL = re.compile(r"[^@\x00-\x1f=,;/][^\x00-\x1f=,;/]{0,99}")  # loans are written as pool=sender,sender


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def is_pool(text: str) -> bool:
    return 1 <= len(text) <= POOL_CHARS_MAX and text.isprintable() and not text.startswith("@")


def is_full_name(host: str) -> bool:
    """Returns whether the text is a host name with a domain, in ASCII."""
    return _FULL_NAME.fullmatch(host) is not None
