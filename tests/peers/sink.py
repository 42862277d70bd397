"""Postfix's smtp-sink: accepts any mail at any speed, and fails on request. Needs neither root nor a configuration."""

import os
import pwd
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.peers.fetch import require
from tests.peers.process import HOST, free_port, running
from tests.peers.received import Received, Server

CONNECTIONS_MAX = 4096  # smtp-sink's own default is 256; the kernel caps the backlog at somaxconn, 4096 by default
COUNTERS = re.compile(r"sess=(\d+) quit=(\d+) mesg=(\d+)")
COUNTERS_BYTES_MAX = 1000  # each update appends about 30 bytes; the last one counts
UNPRIVILEGED = "nobody"  # when started by root, smtp-sink insists on switching to another user


@dataclass(frozen=True, kw_only=True)
class Counters:
    sessions: int
    quits: int
    messages: int


@dataclass(frozen=True, kw_only=True)
class Sink(Server):
    def counters(self) -> Counters:
        """Only with `count=True`."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - COUNTERS_BYTES_MAX))
            seen = COUNTERS.findall(file.read().decode(errors="replace"))
        sessions, quits, messages = map(int, seen[-1]) if seen else (0, 0, 0)
        return Counters(sessions=sessions, quits=quits, messages=messages)


@contextmanager
def smtp_sink(*, flags: Sequence[str] = (), dump: bool = False, count: bool = False) -> Iterator[Sink]:
    """`flags` are smtp-sink's own: ["-r", "RCPT"] defers every recipient, ["-q", "."] disconnects instead of replying.

    `dump` stores each message in a file; `count` only stores numbers. Both cost speed.
    """
    software = require("postfix")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="fp-sink-") as name:
        home = Path(name)
        dumps = home / "dumps"
        dumps.mkdir()
        command = [str(software.root / software.program("smtp-sink")), "-4", "-m", str(CONNECTIONS_MAX)]
        if os.geteuid() == 0:
            command += ["-u", UNPRIVILEGED]
            os.chown(dumps, pwd.getpwnam(UNPRIVILEGED).pw_uid, -1)
        if dump:
            command += ["-d", "mail."]  # relative, because that user may not enter root's folder
        if count:
            command += ["-c"]
        command += [*flags, f"{HOST}:{port}", str(CONNECTIONS_MAX)]
        log = home / "log"
        with running(
            command, name="smtp-sink", ports=[port], log=log, environment=software.environment(), cwd=dumps
        ) as pid:
            yield Sink(host=HOST, port=port, pid=pid, log=log, received=lambda: _read_dumps(dumps, pid))


def _read_dumps(dumps: Path, pid: int) -> list[Received]:
    """Returns messages in the order of completion, without transactions still in progress."""
    found = list(dumps.iterdir())
    open_now = _open_files(pid)
    done: list[tuple[int, bytes]] = []
    for file in found:
        if file.name not in open_now:
            with suppress(FileNotFoundError):  # just given up by the client
                done.append((file.stat().st_mtime_ns, file.read_bytes()))
    return [_parse(dump) for _, dump in sorted(done)]


def _open_files(pid: int) -> set[str]:
    names: set[str] = set()
    with suppress(FileNotFoundError):  # it has ended after n messages, as requested
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                names.add(link.readlink().name)
    return names


def _parse(dump: bytes) -> Received:
    head, mark, content = dump.partition(b"Received: from ")
    arguments = [line.partition(": ")[::2] for line in head.decode(errors="surrogateescape").splitlines()]
    return Received(
        sender=next(_path(value) for name, value in arguments if name == "X-Mail-Args"),
        recipients=tuple(_path(value) for name, value in arguments if name == "X-Rcpt-Args"),
        content=(mark + content).removesuffix(b"\n"),
    )


def _path(argument: str) -> str:
    return argument[argument.index("<") + 1 : argument.index(">")]
