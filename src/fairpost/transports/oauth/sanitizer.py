"""Makes text from a token server safe to display: one line, limited in length, without secrets."""

from fairpost.model.secrets import masked

CHARS_MAX = 300


def shown(text: object, *secrets: str | None) -> str:
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return " ".join(masked(line, *secrets).split())[:CHARS_MAX]
