"""Checks that the tests catch faults: plants one fault at a time in a copy of the project and runs tests on it.

A mutant is a small change that a careful reviewer would call a bug. Its tests must fail: a mutant that survives reveals
a guarantee that no test checks. `make mutants` runs them all, `make mutants ARGS='--only lease'` some of them.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter, sleep

ROOT = Path(__file__).parents[1]
LOOK_S = 0.1
TEST_S_MAX = 60  # for a single test: some faults make one hang
SILENT_S_MAX = 330.0
END_S_MAX = 15.0  # a test that hangs may hang in its teardown as well
RUN_S_MAX = 900.0
WHOLE_RUN_S_MAX = 7200.0
NO_END = "it did not end"
FOLDERS_LINKED = (".peers",)  # not in git, and only read

# Shrinking a failing example takes minutes, and one example is enough here.
PLUGIN_NAME = "without_shrinking"
PLUGIN = """\
from hypothesis import Phase, settings


def pytest_configure():
    settings.register_profile("quick", parent=settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("quick")
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` describes the fault. `tests` are the ones most likely to catch it, fastest first."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


RELEASE = "src/fairpost/store/sql/release"
SETTLE = "src/fairpost/store/sql/settle"
GROUPS = "tests/settle/test_group.py"
SHARED_CLAIMS = "tests/release/test_claim_group.py"
CAMPAIGN_GROUPS = "tests/campaigns/test_together.py"
GROUP_CLOCK = "tests/campaigns/test_group_clock.py"
GROUP_PAUSES = "tests/campaigns/test_group_pauses.py"
GROUP_QUOTAS = "tests/campaigns/test_group_quotas.py"
ENGINE = "src/fairpost/engine"
POLICY = "src/fairpost/policy"

LEASES = "tests/settle/test_leases.py"
SUPPRESSIONS = "tests/settle/test_suppressions.py"
FAIRNESS = "tests/release/test_fairness.py"
HOMES = "tests/release/test_homes.py"
LANES = "tests/release/test_lanes.py"
PAUSE = "tests/release/test_pause.py"
RUNNER = "tests/engine/test_runner.py"
STOCK = "tests/engine/test_stock.py"
WORKER = "tests/engine/test_worker.py"
ORCHESTRATOR = "tests/engine/test_orchestrator.py"
HANDOVER = "tests/engine/test_handover.py"
FAILPOINTS = "tests/chaos/test_failpoints.py"
GMAIL = "tests/transports/gmail/test_runner.py"
TIMELINES = "tests/simulation/test_timelines.py"
LIMITS_HOLD = "tests/simulation/test_limits_hold.py"
BLAME = "tests/engine/test_blame.py"
BLOCKS = "tests/release/test_blocks.py"
CORE_MACHINE = "tests/simulation/test_core_machine.py"
LIMITS = "tests/policy/test_limits.py"
VERDICTS = "tests/policy/test_verdicts.py"

MUTANTS = (
    # Release
    Mutant(
        "a worker can claim under an old epoch",
        f"{RELEASE}/claim.sql",
        "IF lease.epoch IS DISTINCT FROM p_epoch OR lease.until <= t THEN",
        "IF lease.until <= t THEN",
        (LEASES, CORE_MACHINE),
    ),
    Mutant(
        "a sender's virtual time does not advance",
        f"{RELEASE}/take.sql",
        "vtime = c.vtime + CASE WHEN p_fifo THEN 0 ELSE t.live / c.weight END,",
        "vtime = c.vtime,",
        (FAIRNESS,),
    ),
    Mutant(
        "a claim waits for a cancellation under way",
        f"{RELEASE}/take.sql",
        "FROM fairpost.queue q WHERE q.id = c.id FOR UPDATE SKIP LOCKED) q",
        "FROM fairpost.queue q WHERE q.id = c.id FOR UPDATE) q",
        (LEASES,),
    ),
    Mutant(
        "a claim takes more than it was asked for",
        f"{RELEASE}/claim.sql",
        "urgent, p_limit - urgent, blocked,",
        "urgent, p_limit, blocked,",
        (FAIRNESS, CORE_MACHINE),
    ),
    Mutant(
        "one account of a shared claim gets what another should have",
        f"{RELEASE}/take.sql",
        "account_id = for_account[p_used + t.place]",
        "account_id = for_account[1 + t.place % cardinality(for_account)]",
        (SHARED_CLAIMS,),
    ),
    Mutant(
        "a shared commit takes a step twice",
        f"{SETTLE}/group.sql",
        "WHERE l.epoch = k.epoch AND l.step = k.step - 1 AND l.server",
        "WHERE l.epoch = k.epoch AND l.server",
        (GROUPS,),
    ),
    Mutant(
        "a shared commit begins what is held",
        f"{SETTLE}/group.sql",
        "AND greatest(o.held_until, o.throttled_until, o.closed_until) > step_group.now OFFSET 0) o)) b ON true",
        "AND o.held_until < step_group.now OFFSET 0) o)) b ON true",
        (GROUPS,),
    ),
    Mutant(
        "a shared commit begins beyond the quota",
        f"{SETTLE}/group.sql",
        "j.nth <= j.allowed AND j.quota_of = ANY (charged)",
        "j.nth <= j.allowed + 1 AND j.quota_of = ANY (charged)",
        (CAMPAIGN_GROUPS,),
    ),
    Mutant(
        "a shared commit that waited into another day uses its quota",
        f"{SETTLE}/group.sql",
        "WHERE l.day @> lock_quotas.now",
        "WHERE true",
        (GROUP_QUOTAS,),
    ),
    Mutant(
        "a refund is locked before the quota of an earlier workspace",
        f"{SETTLE}/settle.sql",
        "WHERE q.id = p_next AND q.workspace < email.workspace",
        "WHERE q.id = p_next AND q.workspace > email.workspace",
        (GROUP_QUOTAS,),
    ),
    Mutant(
        "a refund is lost if a new calendar replaces its day",
        "src/fairpost/store/sql/campaigns/gates.sql",
        "FOR look IN 1 .. 2 LOOP",
        "FOR look IN 1 .. 1 LOOP",
        (GROUP_QUOTAS,),
    ),
    Mutant(
        "a refund is lost if a new quota is computed in the meantime",
        "src/fairpost/store/sql/campaigns/gates.sql",
        "done := pg_advisory_xact_lock_shared(fairpost.pause_lock());",
        "NULL;",
        (GROUP_QUOTAS,),
    ),
    Mutant(
        "a shared commit waits for what a caller has locked",
        f"{SETTLE}/group.sql",
        "q.state = 'claimed' FOR UPDATE SKIP LOCKED) q\n            CROSS",
        "q.state = 'claimed' FOR UPDATE) q\n            CROSS",
        (GROUPS,),
    ),
    Mutant(
        "urgent mail starves bulk mail",
        f"{RELEASE}/claim.sql",
        "for_bulk CONSTANT integer := least(p_limit, (urgent_run + p_limit) / 10);",
        "for_bulk CONSTANT integer := 0;",
        (FAIRNESS,),
    ),
    Mutant(
        "a sender that wakes up is passed over",
        f"{RELEASE}/tree.sql",
        "WHERE c.ctid = s.spot AND s.vtime < s.start;",
        "WHERE false;",
        (FAIRNESS,),
    ),
    Mutant(
        "the next lease has the epoch of the last",
        f"{RELEASE}/lease.sql",
        "epoch := lease.epoch + 1;",
        "epoch := lease.epoch;",
        (LEASES,),
    ),
    Mutant(
        "a throttled sender is served",
        f"{RELEASE}/rules.sql",
        "greatest(r.held_until, r.throttled_until, r.closed_until, p_now)",
        "greatest(r.held_until, p_now)",
        ("tests/store/test_senders.py", "tests/simulation/test_fairness_scenarios.py"),
    ),
    Mutant(
        "a user has a place below every domain they write from",
        f"{RELEASE}/homes.sql",
        "CASE a.user_name WHEN '' THEN a.domain ELSE (",
        "CASE a.class WHEN a.class THEN a.domain ELSE (",
        (HOMES,),
    ),
    Mutant(
        "arrivals of a locked workspace are forgotten",
        f"{RELEASE}/stage.sql",
        "WHERE (SELECT true FROM fairpost.nodes n WHERE n.flow = a.flow AND n.path[1] = ANY (mine) LIMIT 1) IS NULL",
        "WHERE (SELECT true FROM fairpost.nodes n WHERE n.flow = a.flow LIMIT 1) IS NULL",
        (LEASES, CORE_MACHINE),
    ),
    Mutant(
        "a pause does not wait for the sends that are just beginning",
        f"{RELEASE}/pause.sql",
        "PERFORM pg_advisory_xact_lock(fairpost.pause_lock());",
        "PERFORM pg_advisory_xact_lock_shared(fairpost.pause_lock());",
        (PAUSE,),
    ),
    Mutant(
        "a hold returns before the sends that are just beginning",
        f"{RELEASE}/pause.sql",
        "p_reason, p_params, p_now);\n    PERFORM fairpost.await_begins();",
        "p_reason, p_params, p_now);",
        (GROUP_PAUSES,),
    ),
    Mutant(
        "a worker that lost its lease can still make the account rest",
        f"{RELEASE}/account.sql",
        """rest_detail = left(p_detail, 1000)
    WHERE l.account_id = p_account AND l.epoch = p_epoch;""",
        """rest_detail = left(p_detail, 1000)
    WHERE l.account_id = p_account;""",
        (LEASES, RUNNER, TIMELINES),
    ),
    Mutant(
        "the higher of two tiers counts",
        f"{RELEASE}/lanes.sql",
        "SELECT coalesce(least(",
        "SELECT coalesce(greatest(",
        (LANES,),
    ),
    # Settle
    Mutant(
        "a lease that expires while its step waits can still begin a send",
        f"{SETTLE}/begin.sql",
        "IF lease.until <= now THEN",
        "IF lease.until < '-infinity' THEN",
        (GROUP_CLOCK,),
    ),
    Mutant(
        "an e-mail in doubt can be begun again",
        f"{SETTLE}/begin.sql",
        "AND q.epoch = lease.epoch AND q.state = 'claimed' FOR UPDATE SKIP LOCKED;",
        "AND q.epoch = lease.epoch FOR UPDATE SKIP LOCKED;",
        (LEASES, RUNNER, CORE_MACHINE),
    ),
    Mutant(
        "a send begins while everything is paused",
        f"{SETTLE}/begin.sql",
        "RETURN EXISTS (SELECT FROM fairpost.pauses p WHERE p.everything AND p.until > p_now)",
        "RETURN EXISTS (SELECT FROM fairpost.pauses p WHERE p.restored AND p.until > p_now)",
        (PAUSE,),
    ),
    Mutant(
        "an address suppressed in all workspaces still gets mail",
        f"{SETTLE}/suppress.sql",
        "s.address = folded AND s.workspace IN (p_workspace, '*') AND",
        "s.address = folded AND s.workspace = p_workspace AND",
        (LEASES, SUPPRESSIONS),
    ),
    Mutant(
        "an e-mail that is not being sent can be settled",
        f"{SETTLE}/settle.sql",
        "ELSIF lease_epoch IS DISTINCT FROM p_epoch OR email.state <> 'sending' THEN",
        "ELSIF lease_epoch IS DISTINCT FROM p_epoch THEN",
        (LEASES, CORE_MACHINE),
    ),
    Mutant(
        "a send that never reached the server is charged to the day",
        f"{SETTLE}/count_step.sql",
        "ELSE greatest(0, l.day_used - untouched) END",
        "ELSE l.day_used END",
        (LEASES,),
    ),
    Mutant(
        "a retry goes again to recipients who have the e-mail",
        f"{SETTLE}/settle.sql",
        "addresses = coalesce((SELECT array_agg(a) FROM jsonb_array_elements_text(p_detail -> 'remaining') a), q.addresses)",
        "addresses = q.addresses",
        (LEASES, RUNNER),
    ),
    Mutant(
        "any late outcome counts as proof of delivery",
        f"{SETTLE}/settle.sql",
        "IF p_outcome = 'sent' AND (email.state = 'in_doubt'",
        "IF (email.state = 'in_doubt'",
        (LEASES,),
    ),
    Mutant(
        "an e-mail that a dead worker was sending is sent again",
        f"{SETTLE}/recover.sql",
        "WHERE q.id = ANY (held) AND q.state = 'claimed');",
        "WHERE q.id = ANY (held) AND q.state IN ('claimed', 'sending'));",
        (LEASES,),
    ),
    Mutant(
        "the second send of a batch costs the provider's quota nothing",
        f"{SETTLE}/count_step.sql",
        "IF is_begun AND p_usage ? 'units' THEN",
        "IF false THEN",
        (GROUPS, LIMITS_HOLD, TIMELINES),
    ),
    # The worker
    Mutant(
        "a message is completed in the last moments of the lease",
        f"{ENGINE}/lease.py",
        "return clock.monotonic() < self._deadline_s - self.lease_s * MARGIN",
        "return clock.monotonic() < self._deadline_s",
        (RUNNER, WORKER, LIMITS_HOLD),
    ),
    Mutant(
        "a worker keeps the charge of a send that never reached the server",
        f"{ENGINE}/pace.py",
        "self.usage = refund(self.usage)",
        "pass",
        (RUNNER,),
    ),
    Mutant(
        "a resting account keeps the mail it has claimed",
        f"{ENGINE}/consequences.py",
        "await self._batch.give_back_all()\n        self._pace.rest(rest)",
        "self._pace.rest(rest)",
        (RUNNER, STOCK),
    ),
    Mutant(
        "recipients suppressed after the claim still get the e-mail",
        f"{ENGINE}/settle.py",
        "Intent(without(asked.email, begun.skip), begun.attempt, asked.draft)",
        "Intent(asked.email, begun.attempt, asked.draft)",
        (RUNNER,),
    ),
    Mutant(
        "the pause that a server asks for is ignored",
        f"{POLICY}/troubles.py",
        "requested_pause(report, now=now) or now + delay",
        "now + delay",
        (TIMELINES,),
    ),
    Mutant(
        "a slow account claims as much as a fast one",
        f"{POLICY}/limits.py",
        "interval_s = max(each_s, longest_s, CLAIMED_AHEAD_S / limits.batch_max) if each_s is not None else math.inf",
        "interval_s = max(longest_s, CLAIMED_AHEAD_S / limits.batch_max)",
        (RUNNER, STOCK, LIMITS),
    ),
    Mutant(
        "a worker that is woken claims more and more",
        f"{ENGINE}/claim.py",
        "        await self._claim(1)\n        return self.first",
        "        await self._claim(5)\n        return self.first",
        (STOCK,),
    ),
    Mutant(
        "what is given back has cost its sender a turn",
        f"{SETTLE}/settle.sql",
        "PERFORM fairpost.note(back, 1, true);",
        "PERFORM fairpost.note(back, 1);",
        (STOCK,),
    ),
    Mutant(
        "an e-mail that is put off for ever is never to blame",
        f"{POLICY}/troubles.py",
        "if times >= SUSPECT_FROM and troubles.has_passed:",
        "if False:",
        (STOCK,),
    ),
    Mutant(
        "an account comes back with the e-mail that had hung",
        f"{ENGINE}/claim.py",
        "if email.id != other_than)",
        "if True)",
        (STOCK,),
    ),
    Mutant(
        "the two policies for e-mails in doubt are swapped",
        "src/fairpost/store/sql/settle/doubt.sql",
        "q.state = 'in_doubt' AND q.on_doubt = 'resend' AND",
        "q.state = 'in_doubt' AND q.on_doubt = 'hold' AND",
        (RUNNER,),
    ),
    Mutant(
        "an e-mail in doubt is sent again although its provider can be asked",
        "src/fairpost/store/sql/settle/doubt.sql",
        "AND (q.evidence IS NULL OR q.evidence ? 'unknown') AND NOT",
        "AND NOT",
        (GMAIL, RUNNER),
    ),
    Mutant(
        "a worker does not note that it completes a message",
        f"{ENGINE}/send.py",
        "self._note.complete()",
        "pass",
        (FAILPOINTS,),
    ),
    Mutant(
        "a worker forgets the e-mail before when it notes the next",
        f"{ENGINE}/handover.py",
        "turn = self._last if self._emails[self._last] == email_id else 1 - self._last",
        "turn = 0",
        (HANDOVER,),
    ),
    Mutant(
        "of two notes, one stands although its message is being completed",
        f"{ENGINE}/handover.py",
        "for at in self._at:",
        "for at in self._at[:1]:",
        (HANDOVER,),
    ),
    Mutant(
        "the notes of a worker that lives are believed",
        f"{ENGINE}/handover.py",
        "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n            seen",
        "seen",
        (HANDOVER,),
    ),
    Mutant(
        "a note is believed although a draft at the provider may have been sent since",
        f"{SETTLE}/cut.sql",
        " AND q.evidence IS NULL",
        "",
        (HANDOVER,),
    ),
    Mutant(
        "a note of another attempt is believed",
        f"{SETTLE}/cut.sql",
        "AND q.attempts = p_attempt ",
        "",
        (HANDOVER,),
    ),
    Mutant(
        "a silent worker is left alone",
        f"{ENGINE}/fleet.py",
        "if now_s <= worker.heard_s + BEAT_S_MAX and not stuck:",
        "if now_s <= worker.heard_s + BEAT_S_MAX or not stuck:",
        (ORCHESTRATOR,),
    ),
    # Limits, retries and verdicts
    Mutant(
        "an hour takes one e-mail too many",
        f"{POLICY}/limits.py",
        "and usage.hour_used >= limits.hourly_max:",
        "and usage.hour_used > limits.hourly_max:",
        (LIMITS,),
    ),
    Mutant(
        "a day takes one e-mail too many",
        f"{POLICY}/limits.py",
        "if most is None or _day_used(limits, usage, now) < most:",
        "if most is None or _day_used(limits, usage, now) <= most:",
        (LIMITS,),
    ),
    Mutant(
        "the provider's quota is exceeded by one send",
        f"{POLICY}/limits.py",
        "yield from _units_barrier(limits.units_per_minute - limits.units_per_send, ",
        "yield from _units_barrier(limits.units_per_minute, ",
        (LIMITS,),
    ),
    Mutant(
        "a day of bounces counts as a step of the warm-up",
        f"{POLICY}/limits.py",
        "return usage.day_used > 0 and usage.day_bounces * 100 <= WARM_UP_BOUNCE_PERCENT_MAX * usage.day_used",
        "return usage.day_used > 0",
        (LIMITS,),
    ),
    Mutant(
        "the first retry comes as late as the second",
        f"{POLICY}/retries.py",
        "delays[min(attempts, len(delays)) - 1]",
        "delays[min(attempts, len(delays) - 1)]",
        (VERDICTS,),
    ),
    Mutant(
        "an e-mail gets one attempt too many",
        f"{POLICY}/verdicts.py",
        "if attempts >= email.attempts_max:",
        "if attempts > email.attempts_max:",
        (VERDICTS,),
    ),
    Mutant(
        "a message that may have arrived is sent again",
        f"{POLICY}/verdicts.py",
        "return InDoubt()",
        "return Untouched()",
        (VERDICTS,),
    ),
    Mutant(
        "a sending window is still open at its closing time",
        f"{POLICY}/windows.py",
        "any(opens <= wall < closes for",
        "any(opens <= wall <= closes for",
        ("tests/policy/test_windows.py",),
    ),
    Mutant(
        "a daily quota lets one e-mail too many through",
        "src/fairpost/store/sql/campaigns/gates.sql",
        "p_n > 0 AND today.used >= today.allowed",
        "p_n > 0 AND today.used > today.allowed",
        ("tests/campaigns/test_schedules.py",),
    ),
    Mutant(
        "a blocked sender's mail is claimed",
        f"{RELEASE}/choose.sql",
        "AND c.vtime <= r.v + edge AND c.key <> ALL (blocked)",
        "AND c.vtime <= r.v + edge",
        (BLOCKS,),
    ),
    Mutant(
        "an e-mail of a sender blocked since it was claimed is begun",
        f"{SETTLE}/begin.sql",
        "ELSIF account.is_blocked THEN",
        "ELSIF false THEN",
        (BLAME, CORE_MACHINE),
    ),
    Mutant(
        "virtual time stands still behind a blocked sender",
        f"{RELEASE}/pick.sql",
        "IF blocked <> '{}' AND NOT p_fifo THEN",
        "IF false THEN",
        (BLAME,),
    ),
    Mutant(
        "a resumed account is blamed for what was before",
        f"{RELEASE}/account.sql",
        "PERFORM fairpost.begin_sample(changed);",
        "NULL;",
        (BLAME,),
    ),
    Mutant(
        "an unblocked sender is blamed for what was before",
        f"{RELEASE}/blocks.sql",
        "UPDATE fairpost.counters d SET sent = 0, bounced = 0, refused = 0,",
        "UPDATE fairpost.counters d SET sent = 0, bounced = 0,",
        (BLAME,),
    ),
    Mutant(
        "one sender's refusals are counted against the others",
        f"{POLICY}/blame.py",
        "if sum(s.streak for s in others) >= REFUSALS_MAX:",
        "if sum(s.streak for s in sample.suspects) >= REFUSALS_MAX:",
        (BLAME,),
    ),
)


def problem_of(mutant: Mutant, root: Path) -> str | None:
    """Returns why the fault cannot be planted here, or None if it can."""
    path = root / mutant.path
    if not path.is_file():
        return f"{mutant.path} does not exist"
    text = path.read_text("utf-8")
    if (times := text.count(mutant.old)) != 1:
        return f"{mutant.path} must contain this once, but has it {times} times: {mutant.old}"
    if mutant.old == mutant.new:
        return "it changes nothing"
    if path.suffix == ".py":
        try:
            compile(text.replace(mutant.old, mutant.new), mutant.path, "exec")
        except SyntaxError as error:
            return f"it is not valid Python: {error}"
    return None


def problems(root: Path = ROOT) -> list[str]:
    """Returns what is wrong with the list of mutants; empty if nothing is."""
    found = [f"{m.name}: {why}" for m in MUTANTS if (why := problem_of(m, root))]
    found += [f"{m.name}: {test} does not exist" for m in MUTANTS for test in m.tests if not (root / test).exists()]
    found += [f"{m.name}: it names no tests" for m in MUTANTS if not m.tests]
    names = [m.name for m in MUTANTS]
    return found + [f"{name}: the name is used twice" for name in {n for n in names if names.count(n) > 1}]


# ── one run ───────────────────────────────────────────────────────────────────────────────────────────────────


class Result(StrEnum):
    CAUGHT = "caught"
    SURVIVED = "survived"
    INAPPLICABLE = "does not apply"
    BROKEN = "could not be tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    mutant: Mutant
    result: Result
    caught_by: str = ""
    why: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        timed_out = " (timed out)" if "Timeout" in self.why or self.why == NO_END else ""
        return f"{self.caught_by or self.result.upper()}{timed_out}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of pytest. `code` is negative if it was killed."""

    code: int
    output: str

    @property
    def has_passed(self) -> bool:
        return self.code == 0

    @property
    def has_failed(self) -> bool:
        return self.code in (1, 2) or self.code < 0  # 2: the first failure ended a run with several processes

    def failures(self) -> list[tuple[str, str]]:
        """Returns the tests that failed, and why. A killed run has no summary, so this is then the test it was running."""
        found = re.findall(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - (.*))?$", self.output, re.MULTILINE)
        if found or self.code in (0, 2):
            return [(str(id_), str(why)) for id_, why in found]
        started = re.findall(r"^(tests/\S+::.+?)(?: [A-Z]+ +\[ *\d+%\])? *$", self.output, re.MULTILINE)
        return [(str(started[-1]), NO_END)] if started else []


class Tree:
    """A copy of the project, in which faults are planted one at a time."""

    def __init__(self, source: Path, home: Path) -> None:
        self.root = home / "tree"
        self._home = home
        python = source / ".venv/bin/python"
        self._python = str(python) if python.exists() else sys.executable
        _copy(source, self.root)
        (home / f"{PLUGIN_NAME}.py").write_text(PLUGIN, "utf-8")
        self._assert_it_is_imported()

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.root / "src"), str(self._home)])
        environment = os.environ | {"PYTHONPATH": path, "COLUMNS": "240"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return environment

    def _assert_it_is_imported(self) -> None:
        """The package may be installed in place, and the tests could use that instead of the copy."""
        asked = [self._python, "-c", "import fairpost; print(fairpost.__file__)"]
        environment = self._environment()
        done = subprocess.run(asked, cwd=self.root, env=environment, capture_output=True, text=True, check=True)
        found = Path(done.stdout.strip()).resolve()
        assert found.is_relative_to(self.root.resolve()), f"tests would import {found}, not the copy"

    def test(self, *arguments: str, s_max: float) -> Run:
        command = [self._python, "-m", "pytest", "-v", "--tb=no", "--hypothesis-seed=0"]
        plugins = ["-p", "no:cacheprovider", "-p", PLUGIN_NAME]
        said = self._home / "said"
        with (
            said.open("w") as output,
            subprocess.Popen(
                [*command, *plugins, *arguments],
                cwd=self.root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            _await(process, said, s_max=s_max)
        return Run(code=process.returncode, output=said.read_text("utf-8", errors="replace"))

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.path
        right = path.read_text("utf-8")
        try:
            self._write(path, right.replace(mutant.old, mutant.new))
            yield
        finally:
            self._write(path, right)

    def _write(self, path: Path, text: str) -> None:
        """Also deletes the compiled file, because two versions written within a second look the same to Python."""
        path.write_text(text, "utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()


def _await(process: subprocess.Popen[bytes], said: Path, *, s_max: float) -> None:
    """Kills the run if it takes too long in total, prints nothing for too long, or does not end after a failure."""
    begun_s = changed_s = perf_counter()
    failed_s: float | None = None
    size = 0
    while process.poll() is None:
        sleep(LOOK_S)
        now_s = perf_counter()
        if (text := said.read_text("utf-8", errors="replace")) and len(text) != size:
            size, changed_s = len(text), now_s
            if failed_s is None and re.search(r" (FAILED|ERROR)\b", text):
                failed_s = now_s
        is_over = failed_s is not None and now_s > failed_s + END_S_MAX
        if is_over or now_s > changed_s + SILENT_S_MAX or now_s > begun_s + s_max:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _copy(source: Path, target: Path) -> None:
    """Returns every file that git tracks or would add."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(asked, cwd=source, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if not (source / name).is_file():  # deleted but not committed, or a link to a folder
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)
    for name in FOLDERS_LINKED:
        if (source / name).is_dir():
            (target / name).symlink_to((source / name).resolve())


def try_mutant(mutant: Mutant, tree: Tree, *, is_whole: bool) -> Outcome:
    begun_s = perf_counter()
    if why := problem_of(mutant, tree.root):
        return Outcome(mutant=mutant, result=Result.INAPPLICABLE, why=why)
    known = [test for test in mutant.tests if (tree.root / test).exists()]
    runs = [(["-x", "-n0", f"--timeout={TEST_S_MAX}", *known], RUN_S_MAX)] if known else []
    runs += [(["-x", "-n2"], WHOLE_RUN_S_MAX)] if is_whole else []
    result, caught_by, why = Result.SURVIVED, "", ""
    with tree.planted(mutant):
        for arguments, s_max in runs:
            run = tree.test(*arguments, s_max=s_max)
            if run.has_passed:
                continue
            failures = run.failures() if run.has_failed else []
            result = Result.CAUGHT if failures else Result.BROKEN
            caught_by, why = failures[0] if failures else ("", run.output.strip()[-300:])
            break
    if not runs:
        result, why = Result.BROKEN, "none of its tests exist here"
    return Outcome(mutant=mutant, result=result, caught_by=caught_by, why=why, seconds=perf_counter() - begun_s)


# ── all of them ───────────────────────────────────────────────────────────────────────────────────────────────


def try_all(mutants: Sequence[Mutant], source: Path, scratch: Path, *, is_whole: bool, jobs: int) -> list[Outcome]:
    trees: SimpleQueue[Tree] = SimpleQueue()
    done = 0

    def work(mutant: Mutant) -> Outcome:
        nonlocal done
        tree = trees.get()
        try:
            outcome = try_mutant(mutant, tree, is_whole=is_whole)
        finally:
            trees.put(tree)
        done += 1
        _say(f"[{done:2}/{len(mutants)}] {outcome.result:<14} {outcome.seconds:6.1f} s  {mutant.name}")
        return outcome

    for n in range(jobs):
        (scratch / str(n)).mkdir()
        trees.put(Tree(source, scratch / str(n)))
    for missing in sorted({test for m in mutants for test in m.tests if not (source / test).exists()}):
        _say(f"skipped, does not exist here: {missing}")
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(work, mutants))
    _assert_they_pass_without_a_fault(trees.get(), outcomes)
    return outcomes


def _assert_they_pass_without_a_fault(tree: Tree, outcomes: Sequence[Outcome]) -> None:
    """A test that fails anyway has caught nothing."""
    caught_by = sorted({outcome.caught_by for outcome in outcomes if outcome.caught_by})
    if caught_by:
        run = tree.test("-n0", f"--timeout={TEST_S_MAX}", *caught_by, s_max=RUN_S_MAX)
        failed = [id_ for id_, _ in run.failures()]
        if not run.has_passed:
            sys.exit("These tests also fail without a fault:\n" + "\n".join(failed or [run.output[-2000:]]))
        _say(f"without a fault, all {len(caught_by)} tests that caught a mutant pass")


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [("mutant", "caught by", "seconds")]
    rows += [(o.mutant.name, str(o), f"{o.seconds:.1f}") for o in outcomes]
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    lines = [f"{a:<{first}} | {b:<{second}} | {c:>7}" for a, b, c in rows]
    return "\n".join([lines[0], re.sub(r"[^|]", "-", lines[0]), *lines[1:]])


def summary(outcomes: Sequence[Outcome]) -> str:
    count = {result: sum(o.result is result for o in outcomes) for result in Result}
    others = [f"{n} {result}" for result, n in count.items() if n and result is not Result.CAUGHT]
    return ", ".join([f"{count[Result.CAUGHT]} of {len(outcomes)} caught", *others])


def as_json(outcomes: Sequence[Outcome], *, seconds: float) -> str:
    rows = [{**asdict(o), "seconds": round(o.seconds, 1)} for o in outcomes]
    return json.dumps({"summary": summary(outcomes), "seconds": round(seconds, 1), "mutants": rows}, indent=1) + "\n"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="NAME_PART", default="", help="only mutants with this in their names")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument(
        "--whole", action="store_true", help="run the whole suite on mutants that survive their own tests"
    )
    parser.add_argument("--repo", metavar="DIR", type=Path, help="another checkout of the project to test")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the outcomes to this file")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=1, help="number of mutants to try at a time (default: 1)"
    )
    given = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS if given.only.lower() in mutant.name.lower()]
    if given.list:
        for mutant in mutants:
            _say(f"{mutant.name}  ({mutant.path})")
        return 0
    if given.repo is None and (found := problems()):
        sys.exit("Some mutants no longer apply. Update tests/mutants.py:\n" + "\n".join(found))
    if not mutants:
        sys.exit(f'No mutant has "{given.only}" in its name.')
    begun_s = perf_counter()
    with tempfile.TemporaryDirectory(prefix="fairpost-mutants-") as scratch:
        outcomes = try_all(
            mutants, (given.repo or ROOT).resolve(), Path(scratch), is_whole=given.whole, jobs=max(1, given.jobs)
        )
    seconds = perf_counter() - begun_s
    if given.json is not None:
        given.json.write_text(as_json(outcomes, seconds=seconds), "utf-8")
    _say(f"\n{table(outcomes)}\n")
    for outcome in outcomes:
        if outcome.result in (Result.BROKEN, Result.INAPPLICABLE):
            _say(f"{outcome.mutant.name}: {outcome.result}: {outcome.why}")
    _say(f"{seconds:.0f} s")
    _say(summary(outcomes))
    return int(any(outcome.result in (Result.SURVIVED, Result.BROKEN) for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
