"""A right in the database that a part of Fairpost needs and does not have. Which are needed is in store/rights.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

NAMED_MAX = 5
MIGRATE = "fairpost db migrate"


class RightKind(StrEnum):
    OWNER = "owner"  # the schema belongs to another role
    LOGIN = "login"  # what engine, service and commands do
    TENANT = "tenant"  # what requests over HTTP do


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRight:
    """`sql` grants it. None: `fairpost db migrate` does."""

    kind: RightKind
    what: str
    sql: str | None = None


def names(missing: Sequence[MissingRight]) -> str:
    more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
    return ", ".join(right.what for right in missing[:NAMED_MAX]) + more


def how_to_grant(missing: Sequence[MissingRight], *, migrate: str = MIGRATE) -> str:
    """What to type: SQL for who may grant it, then the command. Of very many the first; `fairpost doctor` has the next."""
    statements = [right.sql for right in missing if right.sql][:NAMED_MAX]
    is_for_tenants = any(right.kind is RightKind.TENANT for right in missing)
    if not statements:
        return migrate
    return "; ".join(statements) + (f"; then: {migrate}" if is_for_tenants else "")
