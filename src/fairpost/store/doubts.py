"""Find e-mails in doubt, and record what providers report and what engines and people decide.

`in_doubt` itself is recorded like any other outcome (see steps.py).
"""

import json
from datetime import datetime, timedelta

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
    async def doubts_to_resend(self, account_id: AccountId | None = None) -> dict[EmailId, timedelta]:
        """Return the e-mails in doubt whose policy requires them to be sent again now, and how long each has been in
        doubt.
        """
        rows = await self.fetch("SELECT email_id, waited FROM fairpost.doubts_to_resend($1)", account_id)
        return {EmailId(row["email_id"]): row["waited"] for row in rows}

    async def accounts_to_ask(self) -> list[AccountId]:
        """Return the accounts that have e-mails in doubt about which Fairpost can ask the provider."""
        return [AccountId(row["id"]) for row in await self.fetch("SELECT * FROM fairpost.accounts_to_ask() AS id")]

    async def doubts(self, account_id: AccountId, *, most: int = 100) -> list[Outgoing]:
        ids = [row["id"] for row in await self.fetch("SELECT id FROM fairpost.doubts($1, $2)", account_id, most)]
        return await self.load(ids)

    async def has_doubts(self, account_id: AccountId) -> bool:
        return bool(await self.value("SELECT EXISTS (SELECT FROM fairpost.doubts($1, 1))", account_id))

    async def cut(
        self, account_id: AccountId, epoch: Epoch, email_id: EmailId, *, attempt: int, due_at: datetime
    ) -> str | None:
        """Record that the worker of this attempt died before completing it.

        Return the e-mail's new state, or None if it has been settled or belongs to another attempt.
        """
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
        """Resolve an e-mail in doubt. Return its new state, or None if it was not in doubt.

        `report` is the provider's report about the e-mail.
        """
        sql = "SELECT fairpost.resolve($1, $2, $3, $4, $5, $6)"
        detail = json.dumps(write_report(report) if report else {})
        state: str | None = await self.value(sql, email_id, decision, by, due_at, detail, at(now))
        return state

    async def recheck(self, email_id: EmailId) -> Begun:
        """Return whether an e-mail in doubt could be sent now, and the recipients to skip.

        The result is the same as that of `begin`, but nothing changes.
        """
        row = await self.row("SELECT * FROM fairpost.recheck($1, $2)", email_id, clock.stated())
        return Begun(verdict=row["verdict"], skip=tuple(row["skip"] or ()), attempt=None, now=row["now"])

    async def leave_in_doubt(self, email_id: EmailId, why: str | None) -> None:
        """Record that the provider was asked but does not know the outcome, so the policy or a person has to decide."""
        await self.value("SELECT fairpost.leave_in_doubt($1, $2)", email_id, why)
