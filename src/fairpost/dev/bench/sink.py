"""Runs Postfix's smtp-sink, which accepts mail faster than any client sends it.

If smtp-sink is missing, explains how to install it.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fairpost.model.errors import FairpostError
from fairpost.system import clock

FETCHED = Path(".peers/postfix")  # the folder into which `make peers` unpacks smtp-sink
START_S_MAX = 10.0


def find_sink() -> tuple[str, dict[str, str]] | None:
    """Returns the program, and the additional environment it needs."""
    installed = shutil.which("smtp-sink", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if installed:
        return installed, {}
    fetched = FETCHED / "usr/sbin/smtp-sink"
    if fetched.is_file():
        folders = {str(library.parent.resolve()) for library in FETCHED.rglob("*.so*")}
        return str(fetched.resolve()), {"LD_LIBRARY_PATH": ":".join(sorted(folders))}
    return None


@asynccontextmanager
async def running_sink() -> AsyncIterator[tuple[str, int, int]]:
    """Yields the sink's host, port and PID."""
    found = find_sink()
    if found is None:
        raise FairpostError(
            "smtp-sink was not found. Install Postfix (apt-get install postfix), or run make peers in a checkout. To use another server that discards mail instead, run: fairpost bench smtp --server 127.0.0.1:2525"
        )
    program, environment = found
    port = _free_port()
    unprivileged = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = await asyncio.create_subprocess_exec(
        program, *unprivileged, "-4", "-m", "64", f"127.0.0.1:{port}", "64", env={**os.environ, **environment}
    )
    try:
        await _listening(port, process)
        yield "127.0.0.1", port, process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _listening(port: int, process: asyncio.subprocess.Process) -> None:
    for _ in _until(clock.monotonic() + START_S_MAX):
        if process.returncode is not None:
            break
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.01)  # an external process does not signal when it starts listening
    raise FairpostError("smtp-sink did not start")


def _until(deadline_s: float) -> Iterator[None]:
    while clock.monotonic() < deadline_s:
        yield
