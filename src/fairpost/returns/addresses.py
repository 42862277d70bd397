"""Addresses in headers and running text."""

import re

# Bounded on both sides of the @, so that no text makes the search slow.
ADDRESS = re.compile(
    r"(?<![^\s<>()\[\]{}:;,\"'=*|/\\`])"
    r"([^\s<>()\[\]{}:;,\"'@*|\\`=]{1,128}@(?:\w[\w-]{0,62}\.){0,10}\w[\w-]{0,62})",
)
_BRACKETED = re.compile(r"<\s*(\"?[^<>\"]{0,128}\"?@[\w.-]{1,255}|[^\s<>@]{1,128}@[\w.-]{1,255})\s*>")


def addresses_in(text: str) -> list[str]:
    """Returns the addresses in order, without duplicates."""
    return list(dict.fromkeys(match[1].rstrip(".") for match in ADDRESS.finditer(text)))


def address_of(value: str) -> str:
    """Returns the address in a field such as From, or "": the one in angle brackets, otherwise the first."""
    if match := _BRACKETED.search(value):
        return match[1].strip()
    found = addresses_in(value)
    return found[0] if found else ""


def same(one: str, other: str) -> bool:
    return one.strip().lower() == other.strip().lower()
