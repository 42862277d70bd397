"""Connections that see one workspace: every statement runs as the tenants' role, in a transaction that names the workspace.

Whatever a query forgets to ask for, the database's own policies show it this workspace's rows alone.
"""

from collections.abc import AsyncIterator  # noqa: TC003 - read at run time by asynccontextmanager
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from fairpost.model.errors import MigrationError
from fairpost.model.workspace import WORKSPACE_NAME
from fairpost.postgres.connections import Statements

if TYPE_CHECKING:
    from fairpost.postgres.connections import Connections

ROLE = "fairpost_tenant"


class TenantConnections(Statements):
    def __init__(self, connections: "Connections", workspace: str) -> None:
        self._connections = connections
        assert WORKSPACE_NAME.fullmatch(workspace)  # it stands in a statement as it is
        self._become = f"SET LOCAL ROLE {ROLE}; SET LOCAL fairpost.workspace = '{workspace}'"

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        async with self._connections.acquire() as conn, conn.transaction():
            await self._change_role(conn)
            yield conn

    async def _change_role(self, conn: "asyncpg.Connection") -> None:
        try:
            await conn.execute(self._become)
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
            raise MigrationError(f"No request can be answered: {error}. See what to do: fairpost api") from error

    async def close(self) -> None:
        """They belong to somebody else."""


async def require_role(conn: "asyncpg.Connection", *, region: str | None = None) -> None:
    """Raises MigrationError where this login cannot become a tenant, and says what an administrator has to type."""
    can = await conn.fetchval(
        "SELECT coalesce((SELECT pg_has_role(current_user, r.oid, 'MEMBER') FROM pg_roles r WHERE r.rolname = $1), false)",
        ROLE,
    )
    if not can:
        user = await conn.fetchval("SELECT quote_ident(current_user)")
        whose = "this PostgreSQL" if region is None else f"the PostgreSQL of {region}"
        raise MigrationError(
            f"The role {ROLE}, under which requests are answered, is not there or not granted to {user}. As an administrator of "
            f"{whose}, run: CREATE ROLE {ROLE} NOLOGIN; GRANT {ROLE} TO {user}; then: fairpost db migrate"
            f"{f' --region {region}' if region else ''}"
        )
