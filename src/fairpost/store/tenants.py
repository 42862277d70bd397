"""Connections that see one workspace: every statement runs as the tenants' role, in a transaction that names the workspace.

Whatever a query forgets to ask for, the database's own policies show it this workspace's rows alone.
"""

from collections.abc import AsyncIterator  # noqa: TC003 - read at run time by asynccontextmanager
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from fairpost.model.errors import MigrationError
from fairpost.model.names import WORKSPACE_NAME
from fairpost.model.reason import Reason
from fairpost.model.rights import MIGRATE, how_to_grant, names
from fairpost.store.connections import Statements
from fairpost.store.rights import TENANT, missing_of_tenant

if TYPE_CHECKING:
    from fairpost.store.connections import Connections


class TenantConnections(Statements):
    def __init__(self, connections: "Connections", workspace: str) -> None:
        self._connections = connections
        assert WORKSPACE_NAME.fullmatch(workspace)  # it stands in a statement as it is
        self._become = f"SET LOCAL ROLE {TENANT}; SET LOCAL fairpost.workspace = '{workspace}'"

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        async with self._connections.acquire() as conn, conn.transaction():
            await self._change_role(conn)
            yield conn

    async def _change_role(self, conn: "asyncpg.Connection") -> None:
        try:
            await conn.execute(self._become)
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
            raise MigrationError(f"No request can be answered: {error}.", next_step=Reason("step.doctor")) from error

    async def close(self) -> None:
        """They belong to somebody else."""


async def require_tenant(conn: "asyncpg.Connection", *, region: str | None = None) -> None:
    """Raises MigrationError where requests could not be answered, and says what has to be typed."""
    missing = await missing_of_tenant(conn)
    if not missing:
        return
    migrate = f"{MIGRATE} --region {region}" if region else MIGRATE
    whose = f"the PostgreSQL of {region}" if region else "this PostgreSQL"
    raise MigrationError(
        f"Requests are answered as the role {TENANT}, and this is missing: {names(missing)}. "
        f"As an administrator of {whose}, run: {how_to_grant(missing, migrate=migrate)}"
    )
