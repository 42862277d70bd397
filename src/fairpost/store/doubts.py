"""E-mails in doubt: which there are, and what providers, engines and people decide about them.

That an e-mail is in doubt is an outcome like others: see steps.py.
"""

import json
from datetime import datetime

from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId, EmailId, Epoch
from fairpost.model.report import Report
from fairpost.model.states import Decision
from fairpost.model.step import Begun
from fairpost.store.database import at
from fairpost.store.outgoing import OutgoingStore
from fairpost.store.steps import write_report
from fairpost.system import clock


class DoubtStore(OutgoingStore):
    async def accounts_in_doubt(self) -> list[AccountId]:
        """Those with an e-mail in doubt that its own policy wants sent again."""
        return [AccountId(row["id"]) for row in await self.fetch("SELECT * FROM fairpost.accounts_in_doubt() AS id")]

    async def accounts_to_ask(self) -> list[AccountId]:
        """Those with an e-mail in doubt about which their provider can be asked."""
        return [AccountId(row["id"]) for row in await self.fetch("SELECT * FROM fairpost.accounts_to_ask() AS id")]

    async def doubts(self, account_id: AccountId, *, most: int = 100) -> list[Outgoing]:
        ids = [row["id"] for row in await self.fetch("SELECT id FROM fairpost.doubts($1, $2)", account_id, most)]
        return await self.load(ids)

    async def has_doubts(self, account_id: AccountId) -> bool:
        return bool(await self.value("SELECT EXISTS (SELECT FROM fairpost.doubts($1, 1))", account_id))

    async def cut(
        self, account_id: AccountId, epoch: Epoch, email_id: EmailId, *, attempt: int, due_at: datetime
    ) -> str | None:
        """Its worker is dead for certain, and did not complete this attempt. The state it has now; None: it is another
        attempt's by now, or settled."""
        sql = "SELECT fairpost.cut($1, $2, $3, $4, $5, $6)"
        state: str | None = await self.value(sql, account_id, epoch, email_id, attempt, due_at, clock.stated())
        return state

    async def resolve(
        self,
        email_id: EmailId,
        decision: Decision,
        *,
        by: str,
        due_at: datetime | None = None,
        report: Report | None = None,
        now: datetime | None = None,
    ) -> str | None:
        """The stored state it has now; None when it was not in doubt. `report`: what the provider said of it."""
        sql = "SELECT fairpost.resolve($1, $2, $3, $4, $5, $6)"
        detail = json.dumps(write_report(report) if report else {})
        state: str | None = await self.value(sql, email_id, decision, by, due_at, detail, at(now))
        return state

    async def recheck(self, email_id: EmailId) -> Begun:
        """Whether an e-mail in doubt might still be sent now, and to whom not; as `begin` says it, and nothing changes."""
        row = await self.row("SELECT * FROM fairpost.recheck($1, $2)", email_id, clock.stated())
        return Begun(verdict=row["verdict"], skip=tuple(row["skip"] or ()), attempt=None, now=row["now"])

    async def leave_in_doubt(self, email_id: EmailId, why: str | None) -> None:
        """The provider was asked and cannot say: now its policy decides, or a person."""
        await self.value("SELECT fairpost.leave_in_doubt($1, $2)", email_id, why)
