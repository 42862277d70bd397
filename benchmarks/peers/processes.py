"""Starts a peer's processes, ends them gracefully, or kills them with everything they have started."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

END_S_MAX = 20.0


class Workers:
    def __init__(
        self, *commands: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path | None = None
    ) -> None:
        with log.open("ab") as output:
            self._processes = [
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=os.environ | environment,
                    cwd=cwd,
                    start_new_session=True,
                )
                for command in commands
            ]

    def have_ended(self) -> bool:
        return all(process.poll() is not None for process in self._processes)

    def kill(self) -> None:
        kill_trees([process.pid for process in self._processes if process.poll() is None])
        for process in self._processes:
            process.wait()

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        deadline_s = time.monotonic() + END_S_MAX
        while not self.have_ended() and time.monotonic() < deadline_s:
            time.sleep(0.02)
        self.kill()


def is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def kill_trees(roots: Sequence[int]) -> None:
    """Kills processes with their descendants. First stops all of them, so that none notices that another has died."""
    family = [pid for root in roots for pid in _family(root)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))
