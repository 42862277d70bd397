"""What a token server says, as it may be shown: one line, not too long, and without our secrets."""

from fairpost.model.secrets import masked

CHARS_MAX = 300


def shown(text: object, *secrets: str | None) -> str:
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return " ".join(masked(line, *secrets).split())[:CHARS_MAX]
