"""Resources used by processes, read from /proc. These figures are available only on Linux."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    processes: int
    cpu_s: float  # CPU time that the processes have used since they started
    rss_bytes: int  # shared pages are counted once for each process


def vitals_of(pids: Iterable[int], *, proc: Path = Path("/proc")) -> Vitals | None:
    """Return the total for these processes, or None if it is not available. Processes that have ended are not counted."""
    if not (proc / "self" / "stat").exists():
        return None
    found = [of_one for pid in pids if (of_one := _of_one(proc / str(pid) / "stat")) is not None]
    return Vitals(processes=len(found), cpu_s=sum(cpu_s for cpu_s, _ in found), rss_bytes=sum(rss for _, rss in found))


def _of_one(stat: Path) -> tuple[float, int] | None:
    try:
        # The name in parentheses may contain anything, including parentheses and spaces.
        after_name = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    user, system, rss_pages = int(after_name[11]), int(after_name[12]), int(after_name[21])
    return (user + system) / _TICKS, rss_pages * _PAGE
