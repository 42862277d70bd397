"""Named points at which tests can kill a process. Failpoints are active only if an environment variable is set.

With `FAIRPOST_FAILPOINT=name` or `name:nth`, the process kills itself with SIGKILL the first or nth time it passes the
point. With `FAIRPOST_FAILPOINT_FILE=path`, a process must first rename this file to `path.fired`. Because renaming is
atomic, only one process dies, and its replacement survives. If only the file is given, a process dies at the point
named in the file, so the point can be chosen while the process is running. The variables are read once, when the
process starts. The forks of a process inherit the setting, and each fork counts its own passes. A fork made by a test
calls `arm` instead.
"""

import os
import signal
from pathlib import Path

_name, _, _nth = os.environ.get("FAIRPOST_FAILPOINT", "").partition(":")
_file = os.environ.get("FAIRPOST_FAILPOINT_FILE")
_is_on = bool(_name or _file)
_passes_left = int(_nth or "1")


def arm(point: str) -> None:
    """Make this process die at `name`, or on the nth pass for `name:nth`."""
    global _name, _file, _is_on, _passes_left
    _name, _, nth = point.partition(":")
    _file, _is_on, _passes_left = None, True, int(nth or "1")


def failpoint(name: str) -> None:
    if _is_on:
        _pass(name)


def _pass(name: str) -> None:
    if _is_reached(name) and (_file is None or _is_taken(Path(_file))):
        os.kill(os.getpid(), signal.SIGKILL)


def _is_reached(name: str) -> bool:
    global _passes_left
    if not _name:
        return _file is not None and _named_in(Path(_file)) == name
    if name != _name:
        return False
    _passes_left -= 1
    return _passes_left == 0


def _named_in(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None


def _is_taken(file: Path) -> bool:
    try:
        file.rename(f"{file}.fired")
    except FileNotFoundError:
        return False
    return True
