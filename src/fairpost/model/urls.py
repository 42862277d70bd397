"""URLs of databases, as people may see them."""

import re


def without_password(url: str) -> str:
    """For messages, which may stand in a log for years. Hides too much rather than too little."""
    url = re.sub(r"(//[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"(password\s*=\s*)('(\\.|[^'])*'|[^&\s]*)", r"\1***", url)
