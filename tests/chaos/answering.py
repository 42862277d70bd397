"""A process of the service, replaced whenever it is killed. Each is a fork of a process that has loaded everything,
because many of them are killed.

Usage: python -m tests.chaos.answering, with the settings in the environment. It prints its port; SIGTERM ends it.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from socket import socket

from fastapi import FastAPI

from fairpost.api.app import build_app
from fairpost.api.serve import listener_on, serving
from fairpost.model.reason import Reason
from fairpost.portals.loading import built_in_portals
from fairpost.settings import read_settings
from fairpost.startup.service import open_service


@contextmanager
def answering(settings: Mapping[str, str]) -> Iterator[int]:
    """Returns its port."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOST_", "PG"))}
    with subprocess.Popen(
        [sys.executable, "-m", __name__], env={**env, **settings}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def to_stderr(event: Reason) -> None:
    sys.stderr.write(f"{event}\n")


async def _serve(app: FastAPI, listener: socket) -> None:
    async with open_service(read_settings(), log=to_stderr) as service:
        app.state.service = service
        async with serving(app, listener):
            await asyncio.Event().wait()


def main() -> None:
    listener = listener_on("127.0.0.1", 0)
    app = build_app(None, log=to_stderr)
    built_in_portals()
    gc.freeze()  # existing objects stay shared with the forks
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    while pid := os.fork():
        signal.signal(signal.SIGTERM, lambda *_, pid=pid: _end(pid))
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
            sys.exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(_serve(app, listener))


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
