"""Tests Fairpost with every supported version of PostgreSQL: `make matrix`, or `make matrix ARGS='--quick --only 14'`.

Each version gets its own server, the tests that use SQL run against it, and a table shows the results. Missing versions
are downloaded (tests/peers/postgresql.py). A version that is not available is a failure.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from fairpost.model.errors import EmbeddedServerError
from fairpost.store.binaries import Binaries
from fairpost.store.embedded import EmbeddedServer
from tests.conftest import MEMORY, TEST_SETTINGS
from tests.peers import postgresql
from tests.peers.fetch import FetchError, peers_home

ROOT = Path(__file__).parents[1]
RUN_S_MAX = 3600.0
ENDED = (0, 1)  # pytest: all passed, or some failed

TESTS = (
    *("tests/accept", "tests/campaigns", "tests/engine", "tests/observe", "tests/auth", "tests/store"),
    *("tests/release", "tests/retention", "tests/settle", "tests/events", "tests/webhooks"),
    "tests/simulation/test_core_machine.py",
    *(
        "tests/api/test_walls.py",
        "tests/api/test_emails.py",
        "tests/api/test_campaigns.py",
        "tests/api/test_accounts.py",
    ),
    *("tests/cli/test_doctor.py", "tests/cli/test_status.py", "tests/deploy/test_roles.py"),
)
QUICK = (
    *(
        "tests/store/test_migrations.py",
        "tests/release/test_fairness.py",
        "tests/settle",
        "tests/deploy/test_roles.py",
    ),
    *("tests/accept/test_enqueue.py", "tests/campaigns/test_planning.py"),
)
# They have their own servers, of the version that comes with Fairpost.
NOT_OF_THE_GIVEN_SERVER = ("tests/store/test_embedded.py", "tests/observe/test_guard.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`trouble` is why there are no figures."""

    version: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    took_s: float = 0.0
    failures: tuple[str, ...] = ()
    trouble: str | None = None

    @property
    def is_good(self) -> bool:
        return self.trouble is None and self.failed == 0 and self.passed > 0


_running: set["subprocess.Popen[bytes]"] = set()


def tried(binaries: Binaries, tests: Sequence[str]) -> Outcome:
    with tempfile.TemporaryDirectory(
        prefix="fairpost-matrix-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None
    ) as home:
        server = EmbeddedServer(Path(home), settings=TEST_SETTINGS, binaries=binaries)
        try:
            url = server.start()
            return _run(binaries.version, url, tests, report=Path(home) / "report.xml")
        except EmbeddedServerError as error:
            return Outcome(version=binaries.version, trouble=str(error))
        finally:
            server.stop("immediate")


def _run(version: str, url: str, tests: Sequence[str], *, report: Path) -> Outcome:
    begun_s = perf_counter()
    ignored = [f"--ignore={path}" for path in NOT_OF_THE_GIVEN_SERVER]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", f"--junitxml={report}", *ignored, *tests]
    log = log_of(version)
    with log.open("wb") as file:
        environment = {**os.environ, "FAIRPOST_TEST_URL": url}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
    _running.add(process)
    try:
        code = process.wait(RUN_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return Outcome(version=version, trouble=f"did not end in {RUN_S_MAX:.0f} s; see {log}")
    finally:
        _running.discard(process)
    if code not in ENDED or not report.exists():
        return Outcome(version=version, trouble=f"pytest did not come to its end; see {log}")
    cases = list(ElementTree.parse(report).iter("testcase"))
    failures = tuple(name for case in cases if (name := _failure(case)))
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Outcome(
        version=version,
        passed=len(cases) - len(failures) - skipped,
        failed=len(failures),
        skipped=skipped,
        took_s=perf_counter() - begun_s,
        failures=failures,
    )


def _failure(case: ElementTree.Element) -> str | None:
    is_bad = case.find("failure") is not None or case.find("error") is not None
    return f"{case.get('classname')}::{case.get('name')}" if is_bad else None


def log_of(version: str) -> Path:
    peers_home().mkdir(parents=True, exist_ok=True)
    return peers_home() / f"matrix-{version}.log"


def gathered(majors: Sequence[int], given: Sequence[Path], *, may_fetch: bool) -> Iterator[tuple[int, Binaries | str]]:
    """Returns the programs of each version, or why there are none."""
    here = postgresql.found(given)
    for major in majors:
        if major in here or given:
            yield major, here.get(major, "not in the folders that were given")
        elif not may_fetch:
            yield major, "not on this machine (leave out --no-fetch)"
        else:
            try:
                yield major, postgresql.fetch(major)
            except (FetchError, OSError) as error:
                yield major, f"not on this machine, and cannot be fetched: {error}"


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [f"{'PostgreSQL':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    for one in outcomes:
        if one.trouble:
            rows.append(f"{one.version:<12}{one.trouble}")
        else:
            rows.append(f"{one.version:<12}{one.passed:>8}{one.failed:>8}{one.skipped:>9}{one.took_s:>9.0f}")
        rows += [f"{'':<12}failed: {name}" for name in one.failures]
        rows += [f"{'':<12}see {log_of(one.version)}"] if one.failures else []
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> int:
    asked = _parsed(arguments)
    tests = asked.tests or (QUICK if asked.quick else TESTS)
    majors = [int(major) for major in asked.only.split(",")] if asked.only else list(postgresql.MAJORS)

    def outcome(found: tuple[int, Binaries | str]) -> Outcome:
        major, binaries = found
        if isinstance(binaries, str):
            return Outcome(version=str(major), trouble=binaries)
        one = tried(binaries, tests)
        sys.stdout.write(f"{one.version}: done\n")
        sys.stdout.flush()
        return one

    with ThreadPoolExecutor(asked.jobs) as pool:
        outcomes = list(pool.map(outcome, gathered(majors, asked.bin, may_fetch=not asked.no_fetch)))
    sys.stdout.write(table(outcomes))
    return 0 if all(one.is_good for one in outcomes) else 1


def _end(*_: object) -> None:
    """Like Ctrl-C: ends what is running, and leaves no server behind."""
    for process in list(_running):
        process.terminate()
    raise KeyboardInterrupt


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--bin", type=Path, action="append", default=[], help="a folder with initdb and postgres")
    parser.add_argument("--only", metavar="14,15", help="these major versions")
    parser.add_argument("--quick", action="store_true", help="a minute for each version instead of a few")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="versions at once")
    parser.add_argument("--no-fetch", action="store_true", help="use only what is on this machine")
    parser.add_argument("tests", nargs="*", help="tests to run instead")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
