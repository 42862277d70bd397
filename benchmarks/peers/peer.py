"""The interface of a peer, one of the systems compared: install it, fill its queue, start it, and see whether it is done."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import psycopg
from benchmarks.peers.sink import Sink

from fairpost.dev.bench.compose import HTML, SUBJECT, TEXT

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".bench"
SCRIPTS = Path(__file__).parent / "workers"
SENDER = "shop@example.com"

Email = Mapping[str, str]


class Missing(Exception):
    """This peer cannot run here. The message says why."""


class CommandFailed(Exception):
    """A command exited with an error. The message contains the command and its output."""


class Database:
    """The peer's own database. Counts the queries of the comparison, so that they are not counted as the peer's."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self._conn = psycopg.connect(url, autocommit=True)

    def value(self, sql: str) -> Any:
        self.asked += 1
        row = self._conn.execute(sql.encode()).fetchone()
        return row and row[0]

    def close(self) -> None:
        self._conn.close()

    @property
    def environment(self) -> dict[str, str]:
        """The connection as environment variables that every PostgreSQL client understands."""
        parts = urlsplit(self.url)
        options = parse_qs(parts.query)
        return {
            "PGHOST": options["host"][0],
            "PGPORT": options["port"][0],
            "PGUSER": parts.username or "",
            "PGDATABASE": parts.path.lstrip("/"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folder, database and mail server of one run. All are empty at first and removed afterwards."""

    folder: Path
    database: Database
    sink: Sink

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.database.environment,
            "SINK_HOST": self.sink.host,
            "SINK_PORT": str(self.sink.port),
            "PYTHONPATH": str(SCRIPTS),
        }

    @property
    def log(self) -> Path:
        return self.folder / "log"


class AtWork(Protocol):
    """The peer's processes that send."""

    def have_ended(self) -> bool: ...

    def kill(self) -> None:
        """Kills all of them at once."""

    def end(self) -> None: ...


class Peer(Protocol):
    title: str

    def install(self) -> None:
        """Installs the peer. Raises Missing if it is not available."""

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        """Puts all e-mails into the peer's queue without sending any."""

    def start(self) -> AtWork:
        """Starts sending, or continues after a crash, as documented."""

    def is_done(self) -> bool:
        """Returns whether nothing is left that the peer would still send by itself."""

    def recover(self) -> None:
        """Does what the peer's documentation says to do after a crash, besides restarting it."""

    def left(self) -> int:
        """Returns the number of e-mails that the peer shows as not sent and leaves to a person."""

    def close(self) -> None: ...


def make_emails(count: int) -> list[Email]:
    """Returns different e-mails, each with 5 KB of text and HTML, unencoded."""
    return [
        {
            "to": f"reader{n}@example.org",
            "sender": SENDER,
            "subject": f"{SUBJECT} ({n})",
            "text": f"Dear reader {n},\n\n{TEXT}",
            "html": f"<p>Dear reader {n},</p>\n{HTML}",
        }
        for n in range(count)
    ]


def install(name: str, *packages: str) -> Path:
    """Creates a virtual environment with exactly these packages, and returns the path of its Python."""
    folder = HOME / name
    python, stamp = folder / "bin/python", folder / ".installed"
    wanted = "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    HOME.mkdir(exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        run([*pip, *packages])
    except CommandFailed as error:
        raise Missing(f"it could not be installed: {str(error).splitlines()[-1]}") from error
    stamp.write_text(wanted)
    return python


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None, stdin: str = "") -> str:
    done = subprocess.run(
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | dict(environment or {}),
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)}:\n{done.stdout.strip()}")
    return done.stdout
