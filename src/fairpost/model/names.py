"""Names that people give: of accounts, templates, lists, sequences, campaigns, keys, workspaces and pools."""

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_RULE = "1..100 letters, digits and ._-, beginning with a letter or digit"
WORKSPACE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")  # never an address: it stands in logs and in the directory
POOL_CHARS_MAX = 100
POOL_RULE = f"1..{POOL_CHARS_MAX} characters on one line, not beginning with @"  # which marks the mail of one account
LENT_POOL = re.compile(r"[^@\x00-\x1f=,;/][^\x00-\x1f=,;/]{0,99}")  # as loans are written: pool=sender,sender


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def is_pool(text: str) -> bool:
    return 1 <= len(text) <= POOL_CHARS_MAX and text.isprintable() and not text.startswith("@")
