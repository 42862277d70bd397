"""README.md quotes the figures of benchmarks/figures.json, and no others."""

from benchmarks.core import FIGURES, README, ROWS, recorded_figures, written


def test_the_figures_are_those_that_were_recorded() -> None:
    text = README.read_text()
    assert written(text, recorded_figures()) == text, "run: make bench"


def test_every_row_of_the_table_was_measured() -> None:
    figures = {key for each in recorded_figures().values() for key in dict(each["figures"])}  # type: ignore[call-overload]
    assert FIGURES.exists()
    assert [what for what, form in ROWS if not all(key in figures for key in _keys(form))] == []


def _keys(form: str) -> list[str]:
    return [part.partition(":")[0] for part in form.split("{")[1:]]
