"""Domains as written in DNS and SMTP: `bücher.example` is `xn--bcher-kva.example`."""

import re
from functools import lru_cache

HOST = re.compile(r"[0-9A-Za-z._-]+")


@lru_cache(maxsize=4096)
def ascii_domain(domain: str) -> str:
    """Returns the domain in ASCII. Raises ValueError if it has no ASCII form.

    ASCII domains are left unchanged, even if IDNA rejects them.
    """
    if domain.isascii():
        return domain
    import idna  # idna's tables take 10 ms to load, and most mail never needs them

    encoded = idna.encode(domain, uts46=True).decode("ascii")
    if not HOST.fullmatch(encoded):
        raise ValueError(f"{encoded!r} is not a host name")
    return encoded
