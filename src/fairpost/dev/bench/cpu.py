"""The CPU time used by processes on this machine."""

import os
from collections.abc import Iterable
from pathlib import Path

from fairpost.store.store import Store

Spent = dict[int, float]
"""Seconds by process ID."""


def spent_s(pids: Iterable[int], *, program: str = "") -> Spent:
    """Returns the CPU time of these processes, except those that have exited or are not running `program`.

    The process IDs may come from a database on another machine.
    """
    found = {}
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if f"({program}" in stat:
            ticks = stat.rpartition(")")[2].split()[11:13]
            found[pid] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return found


async def spent_by_database(store: Store) -> Spent:
    """Returns the CPU time of the processes that serve this database's clients."""
    rows = await store.fetch("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    return spent_s((row["pid"] for row in rows), program="postgres")


def since(before: Spent, after: Spent) -> float:
    """Returns the seconds of CPU time used between two measurements by the processes that appear in both."""
    return sum(after[pid] - before[pid] for pid in after.keys() & before.keys())
