"""Mask secrets in text from external sources. Only this module decides what counts as a token or a secret."""

import re

MASK = "***"
SHORT_CHARS_MAX = 3  # a secret of this length or less is easily confused with part of ordinary text
LONG_CHARS_MIN = 16  # a secret of this length or more is not an ordinary word, so it is masked everywhere
NAMED = r"(?:pass(?:word|wd)?|pwd|secret|token|key)\s*(?:is|was|[:=])?\s*"


def masked(text: str, *secrets: str | None) -> str:
    """Mask a secret that appears as a separate token, not inside a longer word.

    A very short secret is masked only if the context shows that it is a secret: it must be the whole text, be in quotes
    or brackets, or follow a word such as "password".
    """
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
