"""Prints the catalogue as the tables in docs/conditions.md: `python -m fairpost.reasons.reference`."""

from collections.abc import Callable, Iterator

from fairpost.reasons.catalogue import CATALOGUE, Meaning

COLUMNS = ("Code", "Text", "Next step")


def tables() -> str:
    parts: tuple[tuple[str, Callable[[Meaning], bool]], ...] = (
        ("Conditions", lambda meaning: meaning.kind is None and not meaning.is_kept and not meaning.is_step),
        ("Stored reasons", lambda meaning: meaning.is_kept),
        ("Refusals", lambda meaning: meaning.kind is not None),
        ("Next steps after errors", lambda meaning: meaning.is_step),
    )
    return "\n".join(line for title, belongs in parts for line in (f"## {title}", "", *_table(belongs), ""))


def _table(belongs: Callable[[Meaning], bool]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|---|---|"
    for code, meaning in CATALOGUE.items():
        if belongs(meaning):
            yield f"| `{code}` | {_sentence(meaning)} | {f'`{meaning.command}`' if meaning.command else ''} |"


def _sentence(meaning: Meaning) -> str:
    if meaning.is_step:
        return f"{meaning.sentence.removesuffix('.')}:"
    return f"`{meaning.field}` {meaning.sentence}." if meaning.field else meaning.sentence


if __name__ == "__main__":
    print(tables())  # noqa: T201
