"""The catalogue as the tables of docs/conditions.md: `python -m fairpost.reasons.reference` prints them."""

from collections.abc import Iterator

from fairpost.reasons.catalogue import CATALOGUE, Meaning

COLUMNS = ("code", "what it says", "next step")


def tables() -> str:
    return "\n".join(
        ["## What is going on", "", *_table(refusals=False), "", "## Refusals", "", *_table(refusals=True), ""]
    )


def _table(*, refusals: bool) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|---|---|"
    for code, meaning in CATALOGUE.items():
        if (meaning.kind is not None) is refusals:
            yield f"| `{code}` | {_sentence(meaning)} | {f'`{meaning.command}`' if meaning.command else ''} |"


def _sentence(meaning: Meaning) -> str:
    return f"{meaning.field}: {meaning.sentence}" if meaning.field else meaning.sentence


if __name__ == "__main__":
    print(tables())  # noqa: T201
