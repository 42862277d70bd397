"""What every peer of the comparison has: how it is installed, filled, started, and asked whether it is done."""

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
    """This peer cannot run here; the message says why."""


class CommandFailed(Exception):
    """The message is the command and what it said."""


class Database:
    """A peer's own. Counts what the comparison itself asks, which is no work of the peer's."""

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
        """As every client of PostgreSQL understands it."""
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
    """Where one run of one peer happens; nothing in it was there before, and nothing is kept."""

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
    """The processes of a peer that sends."""

    def have_ended(self) -> bool: ...

    def kill(self) -> None:
        """All of them at once, without a word."""

    def end(self) -> None: ...


class Peer(Protocol):
    title: str

    def install(self) -> None:
        """Once; raises Missing where it cannot be had."""

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        """Everything is in its queue when this returns, and nothing is sent yet."""

    def start(self) -> AtWork:
        """Begins to send, or goes on after a crash, as its documentation says."""

    def is_done(self) -> bool:
        """Nothing is left that it would still send without being told to."""

    def recover(self) -> None:
        """What its documentation says to do after a crash, besides starting it again."""

    def left(self) -> int:
        """How many it shows as not sent, for somebody to see to."""

    def close(self) -> None: ...


def make_emails(count: int) -> list[Email]:
    """5 KB of text and html each, once encoded, and no two alike."""
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
    """A virtual environment with exactly these; returns its python."""
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
