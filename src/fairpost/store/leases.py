"""Take, renew and release leases on accounts, and record what the lease holder reports about the account.

A lease holder's operations on e-mails are in claims.py and steps.py.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from fairpost.model.account import AccountStatus, Charge, Lease, Rest
from fairpost.model.engine import TakenUp
from fairpost.model.fault import Sample, Suspect
from fairpost.model.ids import AccountId, EmailId, Epoch
from fairpost.model.reason import Reason, write_params
from fairpost.model.troubles import Troubles
from fairpost.store.account_rows import write_troubles
from fairpost.store.database import Database, at
from fairpost.system import clock


class LeaseStore(Database):
    async def take_lease(
        self, account_id: AccountId, *, owner: str, seconds: float, again: bool = False, now: datetime | None = None
    ) -> Lease | None:
        """Take a lease. Return None if another worker holds the lease. `again` means that the worker got no response to
        its first request.
        """
        sql = "SELECT * FROM fairpost.take_lease($1, $2, $3, $4, $5)"
        row = await self.row(sql, account_id, owner, seconds, at(now), again)
        if not row["taken"]:
            return None
        return Lease(account_id=account_id, epoch=Epoch(row["epoch"]), until=row["until"], step=row["step"])

    async def take_up(self, lease: Lease, *, seconds: float, life: UUID | None, now: datetime | None = None) -> TakenUp:
        """Resume the lease after a database outage, unless another worker has taken it. Claimed e-mails return to the
        queue.
        """
        sql = "SELECT * FROM fairpost.take_up($1, $2, $3, $4, $5, $6)"
        row = await self.row(sql, lease.account_id, lease.epoch, seconds, life, lease.step, at(now))
        return TakenUp(**row)

    async def renew_lease(self, lease: Lease, *, seconds: float, now: datetime | None = None) -> Lease | None:
        """Renew the lease. Return None if the lease is gone, in which case the holder must stop."""
        until = await self.value(
            "SELECT fairpost.renew_lease($1, $2, $3, $4)", lease.account_id, lease.epoch, seconds, at(now)
        )
        return until and replace(lease, until=until)

    async def drop_lease(self, lease: Lease, *, now: datetime | None = None) -> bool:
        sql = "SELECT fairpost.drop_lease($1, $2, $3)"
        return bool(await self.value(sql, lease.account_id, lease.epoch, at(now)))

    async def reap_leases(self, *, now: datetime | None = None) -> int:
        return int(await self.value("SELECT fairpost.reap_leases($1)", at(now)))

    async def set_status(
        self, lease: Lease, status: AccountStatus, *, reason: Reason, until: datetime | None = None
    ) -> bool:
        """Set the account's status. Return False if the lease is gone.

        The account becomes active again at `until`. If `until` is None, the account must be resumed manually.
        """
        sql = "SELECT fairpost.set_status($1, $2, $3, $4, $5, $6, $7)"
        whose, why = (lease.account_id, lease.epoch), (reason.code, write_params(reason))
        return bool(await self.value(sql, *whose, status, *why, until, clock.stated()))

    async def rest(self, lease: Lease, rest: Rest) -> bool:
        """Prevent the account from sending until `rest.until`. Return False if the lease is gone."""
        sql = "SELECT fairpost.rest($1, $2, $3, $4, $5)"
        return bool(await self.value(sql, lease.account_id, lease.epoch, rest.until, rest.reason, rest.detail))

    async def set_troubles(self, lease: Lease, troubles: Troubles, *, forgiven: Sequence[EmailId] = ()) -> bool:
        """Store the account's failures, and give one attempt back to each forgiven e-mail. Return False if the lease is
        gone.
        """
        stored = write_troubles(troubles)
        sql = "SELECT fairpost.set_troubles($1, $2, $3, $4, $5)"
        return bool(await self.value(sql, lease.account_id, lease.epoch, stored, list(forgiven), clock.stated()))

    async def charges(self, account_id: AccountId) -> tuple[Charge, ...]:
        """Return the sends from the past day, oldest first, if the account has limits that need them."""
        rows = await self.fetch("SELECT at, units FROM fairpost.charges_of($1)", account_id)
        return tuple(Charge(row["at"], row["units"]) for row in rows)

    async def book(
        self, lease: Lease, outcomes: Sequence[Mapping[str, Any]], measures: Sequence[Mapping[str, Any]]
    ) -> Sample | None:
        """Record the account's outcomes. Return the figures needed to decide whether a sender or the account is to
        blame.

        Return None if nothing bounced or was refused.
        """
        sql = "SELECT * FROM fairpost.book($1, $2, $3, $4, $5)"
        written = json.dumps(outcomes), json.dumps(measures)
        row = await self.row(sql, lease.account_id, lease.epoch, *written, clock.stated())
        return _sample(row) if row is not None else None


def _sample(row: Any) -> Sample:
    return Sample(
        suspects=[_suspect(each) for each in json.loads(row["suspects"])],
        others_sent=row["others_sent"],
        is_shared=row["senders"] > 1,
        blocks=row["blocks"],
    )


def _suspect(given: dict[str, Any]) -> Suspect:
    moments = {name: datetime.fromisoformat(given[name]) for name in ("since", "refused_since") if given[name]}
    return Suspect(**{**given, **moments})
