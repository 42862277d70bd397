"""Addresses in headers and running text."""

import re

CHARS_MAX = 320  # 64 characters before the @ and 255 after it

# Chinese, Japanese and Korean text has no spaces around an address: 收件人ann@example.com不存在.
_CJK = r"\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_MARKS = r"\s<>()\[\]{}:;,\"'@*|\\`=«»“”‘’\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_LABEL = rf"\w(?:(?!(?<=[A-Za-z0-9])[{_CJK}])[\w-]){{0,62}}"
# Limited on both sides of the @ so that no input can make the search slow.
ADDRESS = re.compile(
    rf"(?:(?<![^{_MARKS}/])|(?<=[{_CJK}])(?=[\x21-\x7e]))"
    rf"((?:\"[^\s\"<>\\]{{1,64}}\"|(?:(?![{_CJK}][\x21-\x3f\x41-\x7e])[^{_MARKS}]){{1,128}})@(?:{_LABEL}\.){{0,10}}{_LABEL})",
)
_BRACKETED = re.compile(r"<\s*(\"?[^<>\"]{0,128}\"?@[\w.-]{1,255}|[^\s<>@]{1,128}@[\w.-]{1,255})\s*>")


def addresses_in(text: str) -> list[str]:
    """Returns the addresses in order, without duplicates."""
    return list(dict.fromkeys(match[1].rstrip(".") for match in ADDRESS.finditer(text)))


def address_of(value: str) -> str:
    """Returns the address in a field such as From, or "" if there is none. If the field contains an address in angle
    brackets, that address is used; otherwise, the first address is used.
    """
    if match := _BRACKETED.search(value):
        return match[1].strip()
    found = addresses_in(value)
    return found[0] if found else ""


def same(one: str, other: str) -> bool:
    return one.strip().lower() == other.strip().lower()
