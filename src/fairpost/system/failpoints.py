"""Places where a process can be told to die, so that tests can kill it exactly there. Off unless the environment asks.

FAIRPOST_FAILPOINT=name or name:nth: SIGKILL to itself at the nth pass. FAIRPOST_FAILPOINT_FILE=path: only the process
that takes this file away (atomically: it is renamed to path.fired) dies, so the one that replaces it does not.
Read once, when the process starts; what it forks inherits it and counts its own passes.
"""

import os
import signal
from pathlib import Path

_NAME, _, _NTH = os.environ.get("FAIRPOST_FAILPOINT", "").partition(":")
_FILE = os.environ.get("FAIRPOST_FAILPOINT_FILE")
_IS_ON = bool(_NAME)
_passes_left = int(_NTH or "1")


def failpoint(name: str) -> None:
    if _IS_ON:
        _pass(name)


def _pass(name: str) -> None:
    global _passes_left
    if name != _NAME:
        return
    _passes_left -= 1
    if not _passes_left and (_FILE is None or _is_taken(Path(_FILE))):
        os.kill(os.getpid(), signal.SIGKILL)


def _is_taken(file: Path) -> bool:
    try:
        file.rename(f"{file}.fired")
    except FileNotFoundError:
        return False
    return True
