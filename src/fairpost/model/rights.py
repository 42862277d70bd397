"""A database privilege that Fairpost needs but lacks. store/rights.py lists all privileges that Fairpost needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

NAMED_MAX = 5
MIGRATE = "fairpost db migrate"


class RightKind(StrEnum):
    OWNER = "owner"  # the schema belongs to another role
    LOGIN = "login"  # needed by the engine, the service and commands
    TENANT = "tenant"  # needed by HTTP requests


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRight:
    """A missing privilege. `sql` is the statement that grants the privilege. If `sql` is None, `fairpost db migrate`
    grants the privilege.
    """

    kind: RightKind
    what: str
    sql: str | None = None


def names(missing: Sequence[MissingRight]) -> str:
    more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
    return ", ".join(right.what for right in missing[:NAMED_MAX]) + more


def how_to_grant(missing: Sequence[MissingRight], *, migrate: str = MIGRATE) -> str:
    """Return the commands to run: SQL for an administrator, then `migrate` if needed. If there are many commands, only
    the first few are included. Once those commands have been run, `fairpost doctor` shows the next ones.
    """
    statements = [right.sql for right in missing if right.sql][:NAMED_MAX]
    is_for_tenants = any(right.kind is RightKind.TENANT for right in missing)
    if not statements:
        return migrate
    return "; ".join(statements) + (f"; then: {migrate}" if is_for_tenants else "")
