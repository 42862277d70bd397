"""Applications that enqueue over SQL with a login of their own, and which workspaces each of them acts for.

The rights themselves are described and granted in sql/rights/.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.model.errors import FairpostError, NotFound
from fairpost.postgres.store import Store

ALL_WORKSPACES = "*"


@dataclass(frozen=True, slots=True)
class Application:
    """`workspaces`: `*` for all of them. `is_let_in`: it has the rights; a login that is gone has none."""

    login: str
    workspaces: tuple[str, ...]
    is_let_in: bool


async def grant(store: Store, login: str, workspaces: Sequence[str]) -> None:
    """Lets this login in, for these workspaces and no others."""
    if not await store.value("SELECT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = $1)", login):
        raise NotFound(
            f"There is no role {login} on this server. Create it as an administrator: "
            f"CREATE ROLE \"{login}\" LOGIN PASSWORD '…'; then run this command again"
        )
    if await store.value("SELECT pg_has_role($1, current_user, 'MEMBER')", login):
        raise FairpostError(f"{login} owns Fairpost's schema, or is a superuser: it may do everything already")
    await store.value("DELETE FROM fairpost.applications a WHERE a.role_name = $1", login)
    await store.value(
        """INSERT INTO fairpost.applications (role_name, workspace, created_at)
           SELECT $1, w, clock_timestamp() FROM unnest($2::text[]) w""",
        login,
        list(dict.fromkeys(workspaces)),
    )
    await store.value("SELECT fairpost.let_in($1)::text", login)


async def revoke(store: Store, login: str) -> None:
    """From now on it can do nothing here. Raises NotFound where it acted for no workspace."""
    if not await store.fetch("DELETE FROM fairpost.applications a WHERE a.role_name = $1 RETURNING 1", login):
        raise NotFound(f"{login} acts for no workspace; see: fairpost db logins")
    await store.value("SELECT fairpost.keep_out($1)::text", login)


async def applications(store: Store) -> list[Application]:
    rows = await store.fetch(
        """SELECT a.role_name, array_agg(a.workspace ORDER BY a.workspace) AS workspaces,
                  coalesce((SELECT bool_and(r.is_granted) FROM pg_roles p, fairpost.app_rights(p.rolname) r WHERE p.rolname = a.role_name), false) AS is_let_in
           FROM fairpost.applications a GROUP BY 1 ORDER BY 1"""
    )
    return [Application(row["role_name"], tuple(row["workspaces"]), row["is_let_in"]) for row in rows]
