"""Applications that enqueue over SQL with their own login, and the workspaces each login may act for.

sql/rights/ defines and grants the privileges of these logins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.model.errors import Refusal
from fairpost.store.store import Store

ALL_WORKSPACES = "*"
_EXISTS = "SELECT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = $1)"


@dataclass(frozen=True, slots=True)
class Application:
    """An application's login and the workspaces it may act for.

    `workspaces` is `*` if it may act for all of them. `is_let_in` means that the login exists and has the required
    privileges.
    """

    login: str
    workspaces: tuple[str, ...]
    is_let_in: bool


async def grant(store: Store, login: str, workspaces: Sequence[str]) -> None:
    """Grant this login access to exactly these workspaces. Raises Refusal."""
    if not await store.value(_EXISTS, login):
        raise Refusal("login.no_role", login=login)
    if await store.value("SELECT pg_has_role($1, current_user, 'MEMBER')", login):
        raise Refusal("login.is_owner", login=login)
    await store.value("DELETE FROM fairpost.applications a WHERE a.role_name = $1", login)
    await store.value(
        """INSERT INTO fairpost.applications (role_name, workspace, created_at)
           SELECT $1, w, clock_timestamp() FROM unnest($2::text[]) w""",
        login,
        list(dict.fromkeys(workspaces)),
    )
    await store.value("SELECT fairpost.let_in($1)::text", login)


async def revoke(store: Store, login: str) -> None:
    """Revoke all access from this login. Raises Refusal if the login has no access."""
    if not await store.fetch("DELETE FROM fairpost.applications a WHERE a.role_name = $1 RETURNING 1", login):
        raise Refusal("login.unknown", login=login)
    await store.value("SELECT fairpost.keep_out($1)::text", login)


async def create_login(store: Store, login: str) -> bool:
    """Create a login without a password. Return False if the login already exists.

    No password is needed, because only this user on this machine can reach the socket of the embedded server.
    """
    if await store.value(_EXISTS, login):
        return False
    await store.value(f"CREATE ROLE {login} LOGIN")
    await store.value(f"GRANT USAGE, CREATE ON SCHEMA public TO {login}")
    return True


async def applications(store: Store) -> list[Application]:
    rows = await store.fetch(
        """SELECT a.role_name, array_agg(a.workspace ORDER BY a.workspace) AS workspaces,
                  coalesce((SELECT bool_and(r.is_granted) FROM pg_roles p, fairpost.app_rights(p.rolname) r WHERE p.rolname = a.role_name), false) AS is_let_in
           FROM fairpost.applications a GROUP BY 1 ORDER BY 1"""
    )
    return [Application(row["role_name"], tuple(row["workspaces"]), row["is_let_in"]) for row in rows]
