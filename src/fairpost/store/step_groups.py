"""Take the ordinary steps of many accounts in one commit. See settle/group.sql for the definition of an ordinary step.

All other steps go through `Store.take_step`, one by one.
"""

import json
from collections.abc import Sequence

from fairpost.model.account import Usage
from fairpost.model.report import Report
from fairpost.model.step import Begun, StepAnswer, StepRequest
from fairpost.model.verdict import Sent
from fairpost.store.steps import write_report
from fairpost.store.store import Store
from fairpost.system import clock

_STEP = f"SELECT * FROM fairpost.step_group({', '.join(f'${n}' for n in range(1, 20))})"  # noqa: S608 - our own
_NO_REPORT = None, None, None, None, None, None
_NO_USAGE = None, 0, None, 0, 0.0, None, None


def is_ordinary(request: StepRequest) -> bool:
    """Return whether a step can be grouped.

    An e-mail that it settles must have been sent to all recipients, and an e-mail that it begins must not have a draft
    at the provider.
    """
    settles, begins = request.settles, request.begins
    if settles is not None and not (settles.verdict == Sent() and settles.report and not settles.soft_bounced):
        return False
    return begins is None or begins.evidence is None


async def take_steps(store: Store, requests: Sequence[StepRequest]) -> list[StepAnswer | None]:
    """Take the steps and return their results in the order of the requests.

    A result is None if nothing changed because the step is not ordinary or a row is locked.
    """
    columns = zip(*(_row(request) for request in requests), strict=True)
    row = await store.row(_STEP, *columns, clock.stated())
    begun_as = dict(zip(row["stepped"] or (), row["attempt"] or (), strict=True))
    return [
        StepAnswer(
            settled="settled" if request.settles is not None else None,
            begun=Begun(verdict="begun", skip=(), attempt=begun_as[request.lease.account_id], now=row["now"])
            if request.begins is not None
            else None,
        )
        if request.lease.account_id in begun_as
        else None
        for request in requests
    ]


def _row(request: StepRequest) -> tuple[object, ...]:
    lease, settles, begins = request.lease, request.settles, request.begins
    return (
        lease.account_id,
        lease.epoch,
        request.number,
        settles and settles.email_id,
        *(_report(settles.report) if settles is not None and settles.report is not None else _NO_REPORT),
        begins and begins.email_id,
        *(_usage(begins.usage) if begins is not None else _NO_USAGE),
    )


def _report(report: Report) -> tuple[object, ...]:
    *parts, each = write_report(report).values()
    return *parts, json.dumps(each) if each else None


def _usage(usage: Usage) -> tuple[object, ...]:
    return (
        usage.hour_started_at,
        usage.hour_used,
        usage.day_started_at,
        usage.day_used,
        usage.gap_roll,
        usage.warm_day,
        usage.charges[-1].units if usage.charges else None,
    )
