"""Domains as DNS and SMTP write them: `bücher.example` is `xn--bcher-kva.example`."""

import re
from functools import lru_cache

HOST = re.compile(r"[0-9A-Za-z._-]+")


@lru_cache(maxsize=4096)
def ascii_domain(domain: str) -> str:
    """ASCII domains stay as they are, whatever IDNA thinks of them. ValueError: there is no ASCII form."""
    if domain.isascii():
        return domain
    import idna  # its tables take 10 ms to load, and most mail never needs them

    encoded = idna.encode(domain, uts46=True).decode("ascii")
    if not HOST.fullmatch(encoded):
        raise ValueError(f"{encoded!r} is no host name")
    return encoded
