"""Record which engines exist, how their workers ended, and whether the engines have confirmed the current server.

A single worker's operations are in leases.py, claims.py and steps.py.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from uuid import UUID

from fairpost.model.engine import Confirmation
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason, write_params
from fairpost.store.database import Database
from fairpost.system import clock
from fairpost.system.vitals import Vitals


class EngineStore(Database):
    async def engine_here(self, engine: str, *, asleep: bool) -> int:
        """Register this engine. Return how many engines there are, including this one."""
        sql = "SELECT fairpost.engine_here($1, $2, $3)"
        return int(await self.value(sql, engine, asleep, clock.stated()))

    async def engine_uses(self, engine: str, vitals: Vitals | None) -> None:
        """Record the resources that the engine's processes use, or None if they are unknown."""
        sql = "UPDATE fairpost.engines SET vitals = $2 WHERE id = $1"
        await self.value(sql, engine, json.dumps(asdict(vitals)) if vitals else None)

    async def engine_gone(self, engine: str) -> None:
        await self.value("SELECT fairpost.engine_gone($1)", engine)

    async def reclaim_engine(self, engine: str, *, heir: str | None = None) -> int:
        """Release the accounts of an engine that has no processes left. Return how many accounts were released.

        `heir` is the engine that has taken over the dead engine's state.
        """
        return int(await self.value("SELECT fairpost.reclaim_engine($1, $2)", engine, heir))

    async def worker_died(self, account_id: AccountId, *, deaths_max: int) -> int:
        """Record that a process running only this worker died. Return the number of consecutive deaths across all
        engines.

        Once this number reaches `deaths_max`, the account is suspended.
        """
        sql = "SELECT fairpost.worker_died($1, $2, $3)"
        return int(await self.value(sql, account_id, deaths_max, clock.stated()))

    async def accounts_of_engines(self, engines: Sequence[str]) -> list[str]:
        """Return the names of the accounts that these engines hold."""
        sql = """SELECT a.name FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id
                 WHERE l.owner = ANY ($1) ORDER BY a.name"""
        return [row["name"] for row in await self.fetch(sql, list(engines))]

    async def handover_key(self) -> UUID:
        """Return the key that identifies handover notes for this database."""
        return UUID(str(await self.value("SELECT fairpost.handover_key()")))

    async def newest_migration(self) -> int:
        return int(await self.value("SELECT max(version) FROM fairpost.migrations"))

    async def current_life(self) -> UUID | None:
        """Return the current life of the database, or None if no engine has worked on it yet."""
        life: UUID | None = await self.value("SELECT fairpost.current_life()")
        return life

    async def ask_about_server(self) -> bool:
        """Return whether the engines have confirmed this server. If they have not, ask them to confirm it."""
        return bool(await self.value("SELECT fairpost.ask_about_server($1)", clock.stated()))

    async def confirm_server(self, engine: str, *, life: UUID | None, steps: Mapping[AccountId, int]) -> Confirmation:
        """Report the last step recorded by this engine for each account."""
        sql = "SELECT * FROM fairpost.confirm_server($1, $2, $3, $4, $5)"
        row = await self.row(sql, engine, life, list(steps), list(steps.values()), clock.stated())
        return Confirmation(
            verdict=row["verdict"],
            waits_for=tuple(row["waits_for"] or ()),
            behind=dict(zip(row["behind"], row["behind_at"], strict=True)),
        )

    async def pause_restored(self, reason: Reason, by: str, *, life: UUID | None) -> None:
        """Pause all sending until it is resumed manually, because commits from this life of the database are missing."""
        sql = "SELECT fairpost.pause_restored($1, $2, $3, $4, $5)"
        await self.value(sql, reason.code, write_params(reason), by, life, clock.stated())

    async def pause_for_engines(self, reason: Reason, by: str, engines: Sequence[str]) -> None:
        """Pause all sending until these engines have answered or sending is resumed manually."""
        sql = "SELECT fairpost.pause_for_engines($1, $2, $3, $4, $5)"
        await self.value(sql, reason.code, write_params(reason), by, list(engines), clock.stated())
