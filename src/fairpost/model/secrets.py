"""Secrets in texts that others wrote, as they may be shown. What a whole token is, and when a short secret counts as one, is decided here alone."""

import re

MASK = "***"
SHORT_CHARS_MAX = 3  # a secret of so few is a word or a letter of any sentence
LONG_CHARS_MIN = 16  # one of so many is no word: masked wherever it stands
NAMED = r"(?:pass(?:word|wd)?|pwd|secret|token|key)\s*(?:is|was|[:=])?\s*"


def masked(text: str, *secrets: str | None) -> str:
    """A secret is masked where it stands as a token of its own, not inside a longer word. A very short one only where the text shows
    that it is meant: as the whole text, in quotes or brackets, or after a word like password."""
    for secret in sorted({each for each in secrets if each}, key=len, reverse=True):
        text = _masked(text, secret)
    return text


def _masked(text: str, secret: str) -> str:
    plain = re.escape(secret)
    if len(secret) >= LONG_CHARS_MIN:
        return text.replace(secret, MASK)
    if text.strip() == secret:
        return MASK
    if len(secret) > SHORT_CHARS_MAX:
        return re.sub(rf"(?<!\w){plain}(?!\w)", lambda _: MASK, text)
    text = re.sub(rf"""(["'`<(\[{{]){plain}(["'`>)\]}}])""", rf"\g<1>{MASK}\g<2>", text)
    return re.sub(rf"(?i:\b({NAMED})){plain}(?!\w)", rf"\g<1>{MASK}", text)
