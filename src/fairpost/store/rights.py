"""Find the privileges that this login and the tenants' role lack, and the statements that grant them.

This module changes nothing. sql/rights/ defines and grants the tenants' privileges. docs/deployment.md explains the
roles.
"""

import asyncpg

from fairpost.model.rights import MissingRight, RightKind

TENANT = "fairpost_tenant"

_OWNER = """
SELECT quote_ident(pg_get_userbyid(n.nspowner)) FROM pg_namespace n WHERE n.nspname = 'fairpost' AND NOT pg_has_role(n.nspowner, 'USAGE')
"""

# The privileges needed to alter a table and to see all its rows.
_OF_OTHERS = """
SELECT format('TABLE fairpost.%I', c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'fairpost' AND c.relkind IN ('r', 'p') AND NOT pg_has_role(c.relowner, 'USAGE')
UNION ALL
SELECT format('FUNCTION fairpost.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'fairpost' AND NOT pg_has_role(p.proowner, 'USAGE')
"""

# Reads only names and privileges from the catalogs, so that it also works for a login without access to the schema.
_OF_LOGIN = """
WITH schema AS (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'fairpost')
SELECT format('%s ON SCHEMA fairpost', asked) FROM schema s, unnest('{USAGE,CREATE}'::text[]) asked WHERE NOT has_schema_privilege(s.oid, asked)
UNION ALL
SELECT format('%s ON fairpost.%I', asked, c.relname) FROM schema s JOIN pg_class c ON c.relnamespace = s.oid, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) asked
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT has_table_privilege(c.oid, asked)
UNION ALL
SELECT format('USAGE ON SEQUENCE fairpost.%I', c.relname) FROM schema s JOIN pg_class c ON c.relnamespace = s.oid
WHERE CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') END
UNION ALL
SELECT format('EXECUTE ON FUNCTION fairpost.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) FROM schema s JOIN pg_proc p ON p.pronamespace = s.oid
WHERE NOT has_function_privilege(p.oid, 'EXECUTE')
UNION ALL
SELECT format('TEMPORARY ON DATABASE %I', current_database()) WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')
"""

_OF_TENANT = """
SELECT format('TEMPORARY ON DATABASE %I', current_database()) WHERE NOT has_database_privilege($1, current_database(), 'TEMPORARY')
"""


_OF_APPLICATIONS = """
SELECT DISTINCT r.what FROM (SELECT 'fairpost_app' AS name UNION SELECT a.role_name FROM fairpost.applications a) a
JOIN pg_roles p ON p.rolname = a.name, fairpost.app_rights(a.name) r WHERE NOT r.is_granted
"""


async def missing_rights(conn: "asyncpg.Connection") -> list[MissingRight]:
    """Return the missing privileges without which engines, the service and commands do not work."""
    if of_login := await _of_login(conn):
        return [*of_login, *await _membership(conn)]
    return await missing_of_tenant(conn)


async def missing_of_tenant(conn: "asyncpg.Connection") -> list[MissingRight]:
    """Return the privileges that the tenants' role lacks. Requires a login that may use the schema."""
    if not await _has_role(conn, TENANT):
        return await _membership(conn)
    by_others = [_tenant(row[0], sql=f"GRANT {row[0]} TO {TENANT}") for row in await conn.fetch(_OF_TENANT, TENANT)]
    ours = [_tenant(what) for what in await ungranted(conn)]
    return [*await _membership(conn), *by_others, *ours]


async def ungranted(conn: "asyncpg.Connection") -> list[str]:
    """Return the privileges that `migrate` would grant to the tenants' role.

    The list is empty if the schema is older than its description.
    """
    if not await _is_described(conn, "tenant_rights()") or not await _has_role(conn, TENANT):
        return []
    return [row[0] for row in await conn.fetch("SELECT r.what FROM fairpost.tenant_rights() r WHERE NOT r.is_granted")]


async def ungranted_to_applications(conn: "asyncpg.Connection") -> list[str]:
    """Return the privileges that `migrate` would grant to the applications' role and to every login that acts for a
    workspace.
    """
    if not await _is_described(conn, "app_rights(text)"):
        return []
    return [row[0] for row in await conn.fetch(_OF_APPLICATIONS)]


async def right_to_lay(conn: "asyncpg.Connection") -> MissingRight | None:
    """Return the privilege that is needed to create a schema that does not exist yet."""
    if await conn.fetchval(
        "SELECT to_regnamespace('fairpost') IS NOT NULL OR has_database_privilege(current_database(), 'CREATE')"
    ):
        return None
    database = await conn.fetchval("SELECT quote_ident(current_database())")
    sql = f"CREATE SCHEMA fairpost AUTHORIZATION {await _me(conn)}"
    return MissingRight(kind=RightKind.LOGIN, what=f"CREATE ON DATABASE {database}", sql=sql)


async def _of_login(conn: "asyncpg.Connection") -> list[MissingRight]:
    if to_lay := await right_to_lay(conn):
        return [to_lay]
    me = await _me(conn)
    if owner := await conn.fetchval(_OWNER):
        sql = f"GRANT {owner} TO {me}; ALTER ROLE {me} SET role = {owner}"
        return [MissingRight(kind=RightKind.OWNER, what=owner, sql=sql)]
    foreign = [
        MissingRight(kind=RightKind.LOGIN, what=f"ownership of {row[0]}", sql=f"ALTER {row[0]} OWNER TO {me}")
        for row in await conn.fetch(_OF_OTHERS)
    ]
    return foreign + [
        MissingRight(kind=RightKind.LOGIN, what=row[0], sql=f"GRANT {row[0]} TO {me}")
        for row in await conn.fetch(_OF_LOGIN)
    ]


async def _membership(conn: "asyncpg.Connection") -> list[MissingRight]:
    me = await _me(conn)
    if not await _has_role(conn, TENANT):
        return [_tenant(f"the role {TENANT}", sql=f"CREATE ROLE {TENANT} NOLOGIN; GRANT {TENANT} TO {me}")]
    if await _can_become_tenant(conn):
        return []
    # Since PostgreSQL 16, a member of a role may lack the privilege to assume it.
    is_member = await conn.fetchval("SELECT pg_has_role($1, 'MEMBER')", TENANT)
    return [_tenant(f"SET ROLE {TENANT}", sql=f"GRANT {TENANT} TO {me}{' WITH SET TRUE' if is_member else ''}")]


async def _can_become_tenant(conn: "asyncpg.Connection") -> bool:
    """Return whether this login can assume the tenants' role. The only reliable test is to try, because the required
    privilege depends on the PostgreSQL version.
    """
    trial = conn.transaction()
    await trial.start()
    try:
        await conn.execute(f"SET LOCAL ROLE {TENANT}")
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        await trial.rollback()
    return True


async def _has_role(conn: "asyncpg.Connection", name: str) -> bool:
    found: bool = await conn.fetchval("SELECT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = $1)", name)
    return found


async def _is_described(conn: "asyncpg.Connection", function: str) -> bool:
    """Return whether this login may call the function that describes the privileges. Only the schema's owner may call
    it.
    """
    sql = "SELECT coalesce(has_function_privilege(to_regprocedure($1), 'EXECUTE'), false)"
    found: bool = await conn.fetchval(sql, f"fairpost.{function}")
    return found


async def _me(conn: "asyncpg.Connection") -> str:
    me: str = await conn.fetchval("SELECT quote_ident(current_user)")
    return me


def _tenant(what: str, *, sql: str | None = None) -> MissingRight:
    return MissingRight(kind=RightKind.TENANT, what=what, sql=sql)
