"""Places where a process can be told to die, so that tests can kill it exactly there. Off unless the environment asks.

FAIRPOST_FAILPOINT=name or name:nth: SIGKILL to itself at the nth pass. FAIRPOST_FAILPOINT_FILE=path: only the process
that takes this file away (atomically: it is renamed to path.fired) dies, so the one that replaces it does not. The file
alone, without a name: who passes the point that stands in it dies there, so that a process can be told while it runs.
Read once, when the process starts; what it forks inherits it and counts its own passes.
"""

import os
import signal
from pathlib import Path

_NAME, _, _NTH = os.environ.get("FAIRPOST_FAILPOINT", "").partition(":")
_FILE = os.environ.get("FAIRPOST_FAILPOINT_FILE")
_IS_ON = bool(_NAME or _FILE)
_passes_left = int(_NTH or "1")


def failpoint(name: str) -> None:
    if _IS_ON:
        _pass(name)


def _pass(name: str) -> None:
    if _is_reached(name) and (_FILE is None or _is_taken(Path(_FILE))):
        os.kill(os.getpid(), signal.SIGKILL)


def _is_reached(name: str) -> bool:
    global _passes_left
    if not _NAME:
        return _FILE is not None and _named_in(Path(_FILE)) == name
    if name != _NAME:
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
