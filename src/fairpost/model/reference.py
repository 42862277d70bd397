"""The tables of the docs that follow from descriptions: `python -m fairpost.model.reference` prints them."""

import sys

from fairpost.model.account import LIMITS
from fairpost.model.limit import INTEGER_MAX, NONE, Limit

COLUMNS = ("limit", "option", "unit", "values", "default", "what it does")


def limits_table() -> str:
    return _table(COLUMNS, [_row(each) for each in LIMITS])


def _row(limit: Limit) -> tuple[str, ...]:
    return (f"`{limit.name}`", f"`{limit.option}`", limit.unit, _values(limit), _default(limit), limit.help)


def _values(limit: Limit) -> str:
    if limit.choices:
        return ", ".join(f"`{each}`" for each in limit.choices)
    if limit.parts:
        return limit.rule
    bounds = f"{limit.ge:g} or more" if limit.le == INTEGER_MAX else f"{limit.ge:g} to {limit.le:,}"
    return f"{bounds}, or `{NONE}`" if limit.is_optional else bounds


def _default(limit: Limit) -> str:
    if limit.default is None:
        return NONE
    return str(limit.default) if limit.choices else f"{limit.default:g}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(limits_table())
