"""Take an account's steps: begin an e-mail, settle one, or do both in one commit.

E-mails whose outcome is unknown are handled in doubts.py.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, assert_never

from fairpost.model.account import Lease, Usage
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason, as_json
from fairpost.model.report import Report
from fairpost.model.step import Begun, SettleVerdict, StepAnswer, StepRequest
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.store.database import Database, at


class StepStore(Database):
    async def take_step(self, request: StepRequest) -> StepAnswer:
        """Settle an e-mail, begin one, or both, in one commit."""
        lease, step, settles, begins = request.lease, request.number, request.settles, request.begins
        if settles is None:
            assert begins is not None
            begun = await self.begin(lease, begins.email_id, usage=begins.usage, evidence=begins.evidence, step=step)
            return StepAnswer(begun=begun)
        settled_as = lease, settles.email_id, settles.verdict, settles.report
        if begins is None:
            settled = await self.settle(
                *settled_as, reason=settles.reason, soft_bounced=settles.soft_bounced, step=step
            )
            return StepAnswer(settled=settled)
        assert begins.evidence is None, "an e-mail with a draft must begin alone"
        settled, begun = await self.settle_and_begin(
            *settled_as,
            follower=begins.email_id,
            usage=begins.usage,
            reason=settles.reason,
            soft_bounced=settles.soft_bounced,
            step=step,
        )
        return StepAnswer(settled=settled, begun=begun)

    async def begin(
        self,
        lease: Lease,
        email_id: EmailId,
        *,
        usage: Usage,
        evidence: Mapping[str, str] | None = None,
        step: int | None = None,
        now: datetime | None = None,
    ) -> Begun:
        """Begin sending an e-mail.

        `evidence` identifies the e-mail in case Fairpost has to ask the provider about it later. `step` is the number
        of this step within the lease.
        """
        sql = "SELECT * FROM fairpost.begin_send($1, $2, $3, $4, $5, $6, $7)"
        written = json.dumps(dict(evidence)) if evidence is not None else None
        row = await self.row(sql, lease.account_id, lease.epoch, email_id, _usage_json(usage), written, at(now), step)
        return _begun(row)

    async def settle(
        self,
        lease: Lease,
        email_id: EmailId,
        verdict: Verdict,
        report: Report | None = None,
        *,
        reason: Reason | None = None,
        soft_bounced: Sequence[str] = (),
        step: int | None = None,
        now: datetime | None = None,
    ) -> SettleVerdict:
        """Settle an e-mail.

        `reason` says why the e-mail was not sent. `soft_bounced` lists recipients that are not tried again because
        their mailbox did not accept the e-mail.
        """
        outcome, detail = _outcome(verdict, report, reason, soft_bounced)
        sql = "SELECT fairpost.settle($1, $2, $3, $4, $5, $6, $7)"
        result: SettleVerdict = await self.value(
            sql, lease.account_id, lease.epoch, email_id, outcome, json.dumps(detail), at(now), step
        )
        return result

    async def settle_and_begin(
        self,
        lease: Lease,
        email_id: EmailId,
        verdict: Verdict,
        report: Report | None,
        *,
        follower: EmailId,
        usage: Usage,
        reason: Reason | None = None,
        soft_bounced: Sequence[str] = (),
        step: int | None = None,
        now: datetime | None = None,
    ) -> tuple[SettleVerdict, Begun]:
        """Settle one e-mail and begin the next in one commit."""
        outcome, detail = _outcome(verdict, report, reason, soft_bounced)
        row = await self.row(
            "SELECT * FROM fairpost.settle_and_begin($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            *(
                lease.account_id,
                lease.epoch,
                email_id,
                outcome,
                json.dumps(detail),
                follower,
                _usage_json(usage),
                at(now),
                step,
            ),
        )
        return row["settled"], _begun(row)


def _begun(row: Any) -> Begun:
    return Begun(verdict=row["verdict"], skip=tuple(row["skip"] or ()), attempt=row["attempt"], now=row["now"])


def _usage_json(usage: Usage) -> str:
    def moment(value: datetime | None) -> str | None:
        return value.isoformat() if value else None

    return json.dumps(
        {
            "hour_started_at": moment(usage.hour_started_at),
            "hour_used": usage.hour_used,
            "day_started_at": moment(usage.day_started_at),
            "day_used": usage.day_used,
            "gap_roll": usage.gap_roll,
            "warm_day": usage.warm_day,
            **({"units": usage.charges[-1].units} if usage.charges else {}),
        }
    )


def _outcome(
    verdict: Verdict, report: Report | None, reason: Reason | None, soft_bounced: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    detail = write_report(report) if report else {}
    if reason is not None and not isinstance(verdict, Sent):
        detail |= {"reason": reason.code, "params": as_json(reason)}
    if soft_bounced:
        detail["soft_bounced"] = list(soft_bounced)
    match verdict:
        case Sent(bounced):
            return "sent", {**detail, "bounced": bounced}
        case Retry(due_at, remaining, bounced):
            return "retry", {
                **detail,
                "due_at": due_at.isoformat(),
                "remaining": remaining,
                "bounced": bounced,
            }
        case Bounced(bounced):
            return "bounced", {**detail, "bounced": bounced}
        case Failed():
            return "failed", detail
        case InDoubt():
            return "in_doubt", detail
        case Untouched(due_at):
            return "untouched", {**detail, "due_at": due_at and due_at.isoformat()}
        case Deferred(_, due_at):
            return "deferred", {**detail, "due_at": due_at and due_at.isoformat()}
        case _:
            assert_never(verdict)


def write_report(report: Report) -> dict[str, Any]:
    each = {a: {"code": r.code, "text": r.text[:500]} for a, r in report.recipients.items()}
    return {
        "code": report.reply and report.reply.code,
        "reply": report.reply.text if report.reply else report.error,
        "response_ms": report.response_ms,
        "message_id": report.message_id,
        "thread_id": report.thread_id,
        "recipients": each or None,
    }
