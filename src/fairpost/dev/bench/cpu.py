"""What processes of this machine have used of its CPU."""

import os
from collections.abc import Iterable
from pathlib import Path

from fairpost.store.store import Store

Spent = dict[int, float]
"""Seconds, by process."""


def spent_s(pids: Iterable[int], *, program: str = "") -> Spent:
    """Those that are gone are left out, and those that are another program: the database may be on another machine."""
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
    """By the processes that serve this database's clients."""
    rows = await store.fetch("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    return spent_s((row["pid"] for row in rows), program="postgres")


def since(before: Spent, after: Spent) -> float:
    """In seconds, by those that were there all the time."""
    return sum(after[pid] - before[pid] for pid in after.keys() & before.keys())
