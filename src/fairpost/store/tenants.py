"""Connections restricted to one workspace. Every statement runs as the tenants' role, in a transaction that names the
workspace.

Even if a query omits the filter, the database's row policies show it only this workspace's rows.
"""

from collections.abc import AsyncIterator  # noqa: TC003 - read at run time by asynccontextmanager
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
from asyncpg.transaction import Transaction, TransactionState

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
        assert WORKSPACE_NAME.fullmatch(workspace)  # the name is inserted into a statement without quotes
        self._become = f"SET LOCAL ROLE {TENANT}; SET LOCAL fairpost.workspace = '{workspace}'"

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.Connection]":
        async with self._connections.acquire() as conn, _Begun(conn, self._become):
            yield conn

    async def close(self) -> None:
        """Do nothing, because another object owns the connections."""


class _Begun(Transaction):  # type: ignore[misc]
    """A transaction that sends BEGIN together with its first statements, because short requests spend most of their
    time on round trips.
    """

    def __init__(self, conn: "asyncpg.Connection", then: str) -> None:
        super().__init__(conn, None, False, False)
        self._then = then

    async def start(self) -> None:
        conn = self._connection
        try:
            await conn.execute(f"BEGIN; {self._then}")
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
            conn.terminate()  # the transaction has begun but cannot continue
            raise MigrationError(
                f"The service cannot handle requests: {error}.", next_step=Reason("step.doctor")
            ) from error
        conn._top_xact, self._state = self, TransactionState.STARTED


async def require_tenant(conn: "asyncpg.Connection", *, region: str | None = None) -> None:
    """Raise MigrationError if the database is not ready for requests. The error names the commands to run."""
    missing = await missing_of_tenant(conn)
    if not missing:
        return
    migrate = f"{MIGRATE} --region {region}" if region else MIGRATE
    whose = f"{region}'s PostgreSQL" if region else "this PostgreSQL"
    raise MigrationError(
        f"The service handles requests as role {TENANT}, which lacks these privileges: {names(missing)}. "
        f"As an administrator of {whose}, run: {how_to_grant(missing, migrate=migrate)}"
    )
