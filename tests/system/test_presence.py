"""Proof that all processes of a program are gone, in real processes that fork."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from fairpost.system.presence import Presence, announced, if_gone

FORKS = """
import os, sys, time
from pathlib import Path
from fairpost.system.presence import Presence
kept = Presence.announce(Path(sys.argv[1]), "engine")
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


KILLED = """
import sys
from pathlib import Path
from fairpost.system.presence import Presence
Presence.announce(Path(sys.argv[1]), "engine")
"""


def is_gone(folder: Path) -> bool:
    with if_gone(folder, "engine") as gone:
        return gone


def test_it_is_gone_with_the_last_process_and_not_before(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", FORKS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert announced(tmp_path) == ["engine"]
    assert not is_gone(tmp_path)
    os.kill(child, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert not is_gone(tmp_path), "its child is frozen, and might continue"
    os.kill(child, signal.SIGKILL)
    while not is_gone(tmp_path):
        pass
    assert announced(tmp_path) == []


def test_one_that_ends_properly_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "engines"
    assert announced(folder) == []
    presence = Presence.announce(folder, "one")
    Presence.announce(folder, "other").withdraw()
    assert announced(folder) == ["one"]
    presence.withdraw()
    assert announced(folder) == []


def test_the_cleanup_runs_once(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)
    assert announced(tmp_path) == ["engine"]
    with if_gone(tmp_path, "engine") as first, if_gone(tmp_path, "engine") as second:
        assert (first, second) == (True, False)
    assert not is_gone(tmp_path), "it is forgotten"
