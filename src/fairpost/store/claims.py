"""What a lease holder can do with e-mails that it has not sent yet: claim them in fair order, put them back in the
queue, or fail them.

sql/release/ decides the order.
"""

from collections.abc import Sequence
from datetime import datetime

from fairpost.model.account import Lease
from fairpost.model.engine import Claim, RouteWithWork
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.reason import Reason, write_params
from fairpost.store.database import Database, at
from fairpost.system import clock


class ClaimStore(Database):
    async def routes_with_work(self) -> list[RouteWithWork]:
        return [
            RouteWithWork(**row)
            for row in await self.fetch("SELECT * FROM fairpost.routes_with_work($1)", clock.stated())
        ]

    async def claim(self, lease: Lease, *, limit: int, now: datetime | None = None) -> Claim:
        sql = "SELECT * FROM fairpost.claim($1, $2, $3, $4)"
        row = await self.row(sql, lease.account_id, lease.epoch, limit, at(now))
        return Claim(verdict=row["verdict"], ids=tuple(row["ids"]), again=row["again"], next_at=row["next_at"])

    async def claim_together(
        self, pool: str, leases: Sequence[Lease], limits: Sequence[int], *, now: datetime | None = None
    ) -> dict[AccountId, Claim]:
        """Claim e-mails for several accounts of a pool at once.

        Accounts that are missing from the result must claim individually.
        """
        sql = "SELECT * FROM fairpost.claim_group($1, $2, $3, $4, $5)"
        accounts, epochs = [lease.account_id for lease in leases], [lease.epoch for lease in leases]
        return {
            AccountId(row["account"]): Claim(
                verdict="ok", ids=tuple(row["ids"]), again=row["again"], next_at=row["next_at"]
            )
            for row in await self.fetch(sql, pool, accounts, epochs, list(limits), at(now))
        }

    async def held(self, lease: Lease, *, now: datetime | None = None) -> tuple[EmailId, ...] | None:
        """Return the claimed e-mails whose sending has not started, or None if the lease is gone.

        Call this if the response to a claim was lost.
        """
        sql = "SELECT fairpost.held($1, $2, $3)"
        ids = await self.value(sql, lease.account_id, lease.epoch, at(now))
        return None if ids is None else tuple(ids)

    async def await_turn(self, lease: Lease) -> None:
        await self.value("SELECT fairpost.await_turn($1)", lease.account_id)

    async def give_back(self, lease: Lease, ids: Sequence[EmailId]) -> tuple[EmailId, ...]:
        """Put e-mails back in the queue. E-mails that are being cancelled are missing from the result."""
        sql = "SELECT fairpost.give_back($1, $2, $3)"
        return tuple(await self.value(sql, lease.account_id, lease.epoch, list(ids)))

    async def fail_claimed(self, lease: Lease, email_id: EmailId, reason: Reason) -> bool:
        """Fail an e-mail that can never be sent, before its attempt begins and without charging the account.

        Return False if the lease no longer holds the e-mail.
        """
        sql = "SELECT fairpost.fail_claimed($1, $2, $3, $4, $5, $6)"
        why = (reason.code, write_params(reason))
        return bool(await self.value(sql, lease.account_id, lease.epoch, email_id, *why, clock.stated()))

    async def next_urgent(self, lease: Lease, *, before: datetime) -> datetime | None:
        """Return the time at which the next urgent e-mail that this account may send becomes due."""
        moment: datetime | None = await self.value("SELECT fairpost.next_urgent($1, $2)", lease.account_id, before)
        return moment
