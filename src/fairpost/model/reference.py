"""Print a table for the docs: `python -m fairpost.model.reference limits` or `… emails`."""

import sys
from collections.abc import Sequence

from fairpost.model.account import LIMITS
from fairpost.model.email_fields import EMAIL_FIELDS, EmailField
from fairpost.model.limit import INTEGER_MAX, NONE, Limit


def limits_table() -> str:
    columns = ("limit", "option", "unit", "values", "default", "meaning")
    rows = [
        (f"`{each.name}`", f"`{each.option}`", each.unit, _values(each), _default(each), each.help) for each in LIMITS
    ]
    return _table(columns, rows)


def emails_table() -> str:
    columns = ("field", "in Python, if different", "type", "default", "limit", "meaning")
    return _table(columns, [_email_row(each) for each in EMAIL_FIELDS])


def _email_row(field: EmailField) -> tuple[str, ...]:
    python = f"`{field.python}`" if field.python else field.python_type
    return (f"`{field.name}`", python, field.type, field.default, field.limit, field.help)


def _values(limit: Limit) -> str:
    if limit.choices:
        return ", ".join(f"`{each}`" for each in limit.choices)
    if limit.parts:
        return f"for example {limit.type.FORM}, or `{NONE}`" if limit.is_optional else limit.rule
    bounds = f"{limit.ge:g} or more" if limit.le == INTEGER_MAX else f"{limit.ge:g} to {limit.le:,}"
    return f"{bounds}, or `{NONE}`" if limit.is_optional else bounds


def _default(limit: Limit) -> str:
    if limit.default is None:
        return NONE
    return str(limit.default) if limit.choices else f"{limit.default:g}"


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES = {"limits": limits_table, "emails": emails_table}


if __name__ == "__main__":
    sys.stdout.write(TABLES[sys.argv[1]]())
