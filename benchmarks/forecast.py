"""Measures the forecast for a million recipients and fifty accounts, compared with planning one e-mail at a time.

Reports elapsed time and CPU time, which a busy machine affects less. Needs only the package. `--json` prints only the
figures.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from time import perf_counter, process_time

from fairpost.model.account import Limits
from fairpost.model.campaign import HUMAN_GAP, Schedule
from fairpost.model.window import Quota, SendingWindow
from fairpost.policy.forecast import Plan, Sender, forecast, suggestions
from fairpost.policy.limits import Go, NotBefore, admit
from fairpost.providers.presets import read_presets

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAY_S = 86_400.0
RECIPIENTS = 1_000_000
ACCOUNTS = 50
SECONDS_MAX = 5.0
ONE_BY_ONE = 20_000  # e-mails
ROUNDS = 3

PRESETS = read_presets()
WORKDAYS = SendingWindow(timezone="Europe/Berlin", days=frozenset(range(1, 6)), start=time(9), end=time(17))
BERLIN = Schedule(timezone="Europe/Berlin", window=WORKDAYS)
SINGLE = Plan(recipients=RECIPIENTS)
SEQUENCE = Plan(recipients=RECIPIENTS, delays_s=(3 * DAY_S, 4 * DAY_S))
HUMAN = replace(SEQUENCE, gap=HUMAN_GAP)


def of_preset(name: str, accounts: int = ACCOUNTS) -> list[Sender]:
    return [Sender(name=f"{name}-{n}", limits=PRESETS[name].limits) for n in range(accounts)]


def subjects() -> dict[str, Callable[[], object]]:
    quota = replace(BERLIN, quota=Quota(daily_max=25_000, ramp_up_days=10))
    found: dict[str, Callable[[], object]] = {}
    for name in PRESETS:
        found[f"{name}, 1 step"] = _forecast(SINGLE, of_preset(name))
        found[f"{name}, 3 steps"] = _forecast(SEQUENCE, of_preset(name))
    found["gmail, 3 steps, gaps"] = _forecast(HUMAN, of_preset("gmail"))
    found["gmail, 3 steps, gaps, working hours"] = _forecast(replace(HUMAN, schedule=BERLIN), of_preset("gmail"))
    found["gmail, 3 steps, gaps, working hours, quota"] = _forecast(replace(HUMAN, schedule=quota), of_preset("gmail"))
    found["gmail, 1 step, what would help as well"] = lambda: suggestions(SINGLE, of_preset("gmail"), now=NOW)
    found["1,000 recipients, gmail, 3 steps, one account"] = _forecast(
        replace(HUMAN, recipients=1000, schedule=BERLIN), of_preset("gmail", 1)
    )
    return found


def _forecast(plan: Plan, senders: Sequence[Sender]) -> Callable[[], object]:
    return lambda: forecast(plan, senders, now=NOW)


def one_by_one(limits: Limits, emails: int) -> None:
    """Plans the e-mails with the same rules, one at a time."""
    usage, now = Sender(name="a", limits=limits).usage, NOW
    while emails:
        match admit(limits, usage, now=now):
            case Go(after):
                usage, emails = after, emails - 1
            case NotBefore(moment, _):
                now = moment or now + timedelta(days=1)


def measured(subject: Callable[[], object]) -> dict[str, float]:
    """Returns the figures of the fastest run, because other programs disturbed the slower ones."""
    rounds = []
    for _ in range(ROUNDS):
        started, worked = perf_counter(), process_time()
        subject()
        rounds.append((process_time() - worked, perf_counter() - started))
    cpu_s, clock_s = min(rounds)
    return {"cpu_s": round(cpu_s, 3), "clock_s": round(clock_s, 3)}


def main() -> None:
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
    figures = {
        name: measured(subject)
        for name, subject in subjects().items()
        if not wanted or any(word in name for word in wanted)
    }
    compared = measured(lambda: one_by_one(PRESETS["gmail"].limits, ONE_BY_ONE))
    compared["per_million_s"] = round(compared["cpu_s"] * 1_000_000 / ONE_BY_ONE, 1)
    if "--json" in sys.argv:
        print(json.dumps({"forecasts": figures, "one_by_one": compared}))
        return
    print(f"{RECIPIENTS:,} recipients, {ACCOUNTS} accounts, best of {ROUNDS}; load {os.getloadavg()[0]:.1f}")
    print(f"{'CPU s':>8} {'clock s':>8}  (to reach: {SECONDS_MAX:g} s)")
    for name, figure in figures.items():
        print(f"{figure['cpu_s']:>8.2f} {figure['clock_s']:>8.2f}  {name}")
    print(f"{compared['per_million_s']:>8.1f} {'':>8}  for comparison: gmail, one e-mail at a time, for each million")


if __name__ == "__main__":
    main()
