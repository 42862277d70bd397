"""Change the holds, weights and campaign gates in the tree of senders, which determines the release order.

Senders are in senders.py, and the global pause is in pauses.py.
"""

from datetime import datetime

from fairpost.model.reason import Reason, write_params
from fairpost.model.sender import NodeLevel
from fairpost.store.database import Database, at
from fairpost.system import clock


class NodeStore(Database):
    async def hold(
        self,
        workspace: str,
        level: NodeLevel,
        key: str = "",
        *,
        until: datetime | None = None,
        reason: str,
        now: datetime | None = None,
    ) -> None:
        """Hold everything below this node until `until`. If `until` is None, hold it until the hold is released
        manually. After the commit, no engine begins to send another e-mail below it.
        """
        sql = "SELECT fairpost.hold_and_wait($1, $2, $3, coalesce($4, 'infinity'::timestamptz), $5, $6, $7)"
        why = Reason("hold.by_hand", note=reason)
        await self.value(sql, workspace, level, key, until, why.code, write_params(why), at(now))

    async def release(self, workspace: str, level: NodeLevel, key: str = "", *, now: datetime | None = None) -> bool:
        return bool(await self.value("SELECT fairpost.release($1, $2, $3, $4)", workspace, level, key, at(now)))

    async def set_weight(self, workspace: str, level: NodeLevel, key: str = "", *, weight: float) -> None:
        await self.value("SELECT fairpost.set_weight($1, $2, $3, $4)", workspace, level, key, weight)

    async def set_gates(self, workspace: str, stream: str | None = None) -> None:
        """Open or close the gates of a workspace's campaigns according to their current hours and quota."""
        await self.value("SELECT fairpost.set_gates($1, $2, $3)", workspace, stream, clock.stated())
