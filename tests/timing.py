"""Where the time of a run goes: at its end, prints the folders and the longest tests, next to the last recorded run.

CPU includes the processes that run the tests, the processes they started and waited for, and their PostgreSQL servers.
`make record` writes recorded.json. Nothing here fails a test: the figures only inform.
"""

import json
import os
import platform
import resource
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).with_name("recorded.json")
RECORD = "FAIRPOST_TEST_RECORD"  # set: the run is recorded
LONGEST_SHOWN = 15
LONG_S = 3.0  # a file that takes this long is recorded by name, and starts early in later runs
UNSEEN_S_MAX = (
    0.05  # CPU of small tests that is attributed to the next one, because each measurement takes as long as one of them
)
TABLE_FROM_TESTS = 200  # smaller runs only show the longest tests

_servers: dict[int, float] = {}  # process id: CPU seconds when last seen


def count_server(pid: int) -> None:
    """Includes the CPU of this PostgreSQL server from now on."""
    _servers[pid] = 0.0


def cpu_s() -> float:
    """Returns the CPU of this process, of its children that have ended, and of its servers."""
    _servers.update((pid, max(seen_s, _server_cpu_s(pid))) for pid, seen_s in _servers.items())
    return _of(resource.RUSAGE_SELF) + _of(resource.RUSAGE_CHILDREN) + sum(_servers.values())


def _of(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _server_cpu_s(pid: int) -> float:
    """Returns the CPU of a server with its backends. 0 once it has ended, and without /proc."""
    try:
        backends = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ticks = sum(_ticks(pid)) + sum(sum(_ticks(int(each))[:2]) for each in backends)
    except OSError:
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """Returns the CPU of a process in user and system mode, and the same for its children that have ended."""
    return [int(each) for each in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]


@dataclass(slots=True)
class Spent:
    tests: int = 0
    setup_s: float = 0.0
    total_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, other: "Spent") -> None:
        self.tests += other.tests
        self.setup_s += other.setup_s
        self.total_s += other.total_s
        self.cpu_s += other.cpu_s


@dataclass(eq=False)
class Meter:
    """In each process that runs tests: adds the CPU to their reports."""

    before_s: float | None = None  # at the last measurement
    unseen_s: float = 0.0  # of tests since then
    is_last: bool = False  # whether it is the last of its folder

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        if self.before_s is None:
            self.before_s = cpu_s()
        self.is_last = nextitem is None or folder_of(item.nodeid) != folder_of(nextitem.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.unseen_s += report.duration
        if report.when == "teardown" and (self.is_last or self.unseen_s >= UNSEEN_S_MAX):
            now_s = cpu_s()
            report.user_properties.append(("cpu_s", now_s - (self.before_s or 0.0)))
            self.before_s, self.unseen_s = now_s, 0.0
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu_s"] = cpu_s()


@dataclass(eq=False)
class Reporter:
    """In the process that prints the report."""

    by_test: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    processes_cpu_s: float = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self.by_test[report.nodeid]
        spent.total_s += report.duration
        if report.when != "call":
            spent.setup_s += report.duration
        if report.when == "teardown":
            spent.tests = 1
            spent.cpu_s = sum(float(str(value)) for name, value in report.user_properties if name == "cpu_s")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.processes_cpu_s += getattr(node, "workeroutput", {}).get("cpu_s", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if not self.by_test:
            return
        write = terminalreporter.write_line
        folders = self.by_folder()
        whole = total(folders.values())
        is_alone = not self.processes_cpu_s
        cpu = cpu_s() if is_alone else self.processes_cpu_s + _of(resource.RUSAGE_SELF)
        recorded = read_record()
        terminalreporter.section("where the time went")
        if whole.tests >= TABLE_FROM_TESTS:
            write(f"{'folder':<18}{'tests':>7}{'seconds':>9}{'set-up':>8}{'CPU s':>8}{'recorded CPU s':>16}")
            for name, spent in sorted(folders.items(), key=lambda each: -each[1].cpu_s):
                before = recorded["folders"].get(name, {}).get("cpu_s")
                write(f"{name:<18}{_row(spent)}{'' if before is None else format(before, '.1f'):>16}")
        write(f"{'all':<18}{_row(whole)}")
        last = f"{recorded['cpu_s']:.0f} s for {recorded['tests']} tests" if "cpu_s" in recorded else "none"
        write(f"CPU with start-up and collection: {cpu:.0f} s; last recorded run: {last}")
        write("longest (seconds, of which set-up; CPU s):")
        for name, spent in sorted(self.by_test.items(), key=lambda each: -each[1].total_s)[:LONGEST_SHOWN]:
            write(f"{spent.total_s:8.1f}{spent.setup_s:8.1f}{spent.cpu_s:8.1f}  {name}")
        if os.environ.get(RECORD):
            record(folders, self.by_test, cpu=cpu)
            write(f"recorded in {RECORDED.relative_to(config.rootpath)}")

    def by_folder(self) -> dict[str, Spent]:
        folders: dict[str, Spent] = defaultdict(Spent)
        for name, spent in self.by_test.items():
            folders[folder_of(name)].add(spent)
        return folders


def folder_of(nodeid: str) -> str:
    return nodeid.split("::")[0].split("/")[1].removesuffix(".py")


def _row(spent: Spent) -> str:
    share = spent.setup_s / spent.total_s if spent.total_s else 0.0
    return f"{spent.tests:>7}{spent.total_s:>9.1f}{share:>8.0%}{spent.cpu_s:>8.1f}"


def total(many: Iterable[Spent]) -> Spent:
    whole = Spent()
    for each in many:
        whole.add(each)
    return whole


def read_record() -> dict[str, Any]:
    return dict(json.loads(RECORDED.read_text())) if RECORDED.exists() else {"folders": {}, "files_s": {}}


def record(folders: dict[str, Spent], by_test: dict[str, Spent], *, cpu: float) -> None:
    files_s: dict[str, float] = defaultdict(float)
    for name, spent in by_test.items():
        files_s[name.partition("::")[0]] += spent.total_s
    written = {
        "tests": len(by_test),
        "cpu_s": round(cpu, 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "folders": {
            name: {key: round(value, 1) for key, value in asdict(spent).items()}
            for name, spent in sorted(folders.items())
        },
        "files_s": {name: round(seconds) for name, seconds in sorted(files_s.items()) if seconds >= LONG_S},
    }
    RECORDED.write_text(json.dumps(written, indent=2) + "\n")


def register(config: pytest.Config) -> None:
    config.pluginmanager.register(Meter(), "fairpost-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(), "fairpost-reporter")
