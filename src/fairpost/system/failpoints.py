"""Places where a process can be told to die, so that tests can kill it exactly there. Off unless the environment asks.

FAIRPOST_FAILPOINT=name or name:nth: SIGKILL to itself at the nth pass. FAIRPOST_FAILPOINT_FILE=path: only the process
that takes this file away (atomically: it is renamed to path.fired) dies, so the one that replaces it does not. The file
alone, without a name: who passes the point that stands in it dies there, so that a process can be told while it runs.
Read once, when the process starts; what it forks inherits it and counts its own passes. A fork that a test made itself
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
    """From now on, this process dies at `name`, or at the nth pass of `name:nth`."""
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
