"""Measures a peer in two runs: one for its speed, and one in which it is killed five times."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit, urlunsplit

import psycopg
from benchmarks.peers.peer import AtWork, Database, Email, Peer, Place
from benchmarks.peers.sink import running_sink

KILLS = 5
LOOK_S = 0.005
RESTART_S = 1.0  # a worker that has ended with work left is restarted after this time, as by cron or systemd
RECOVER_S = 90.0  # after this time without an arrival, does what the documentation says to do after a crash
STALL_S_MAX = 240.0  # after this time, nothing more is expected
LATE_S = 1.0  # when the queue is empty, e-mails in progress arrive within this time


@dataclass(frozen=True, slots=True)
class Speed:
    per_s: float
    commits_each: float | None
    """Database transactions per e-mail, including read-only ones. None if the peer has no database."""


@dataclass(frozen=True, slots=True)
class Damage:
    repeated: int
    """Number of e-mails that arrived more than once."""
    copies: int
    """Number of additional copies of these e-mails."""
    missing: int
    left: int
    """Number of e-mails that the peer itself shows as not sent. Some of them may have arrived."""
    back_s: float
    """Median time from a kill to the next arrival."""


class Unfinished(Exception):
    """The peer stopped before everything was sent. The message says how far it got."""


@contextmanager
def a_place(server_url: str, name: str) -> Iterator[Place]:
    database = f"peer_{name}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {database}".encode())
        own = Database(urlunsplit(urlsplit(server_url)._replace(path=f"/{database}")))
        try:
            with tempfile.TemporaryDirectory(prefix="fp-bench-") as folder, running_sink() as sink:
                yield Place(folder=Path(folder), database=own, sink=sink)
        finally:
            own.close()
            server.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


def measure_speed(peer: Peer, place: Place, emails: Sequence[Email], server_url: str) -> Speed:
    """Measures from the first arrival until all e-mails have arrived and are settled."""
    with psycopg.connect(server_url, autocommit=True) as server, _prepared(peer, place, emails):
        commits, asked = _commits(server, place), place.database.asked
        with _Running(peer, place) as running:
            running.until_arrived(len(emails))
            running.until(peer.is_done)
            done_s = time.monotonic()
        report = place.sink.report()
        assert report.first_s is not None
        mine = place.database.asked - asked
        time.sleep(LATE_S)  # until PostgreSQL has counted the commits of connections that have just ended
        spent = _commits(server, place) - commits - mine
        return Speed(len(emails) / (done_s - report.first_s), spent / len(emails) if spent > 0 else None)


def measure_damage(peer: Peer, place: Place, emails: Sequence[Email]) -> Damage:
    """Kills and restarts all processes of the peer whenever another sixth of the e-mails has arrived."""
    back_s = []
    with _prepared(peer, place, emails), _Running(peer, place) as running:
        for turn in range(1, KILLS + 1):
            running.until_arrived(len(emails) * turn // (KILLS + 1))
            back_s.append(running.kill())
        running.until(peer.is_done)
        time.sleep(LATE_S)
        report, left = place.sink.report(), peer.left()
    return Damage(
        repeated=report.repeated,
        copies=report.messages - report.distinct,
        missing=len(emails) - report.distinct,
        left=left,
        back_s=median(back_s),
    )


@contextmanager
def _prepared(peer: Peer, place: Place, emails: Sequence[Email]) -> Iterator[None]:
    try:
        peer.prepare(place, emails)
        yield
    finally:
        peer.close()


class _Running:
    def __init__(self, peer: Peer, place: Place) -> None:
        self._peer = peer
        self._place = place
        self._sink = place.sink

    def __enter__(self) -> "_Running":
        self._workers: AtWork = self._peer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.end()

    def kill(self) -> float:
        """Kills and restarts the peer. Returns the time in seconds until the next e-mail arrives."""
        killed_s = time.monotonic()
        self._workers.kill()
        before = self._sink.report().messages
        self._workers = self._peer.start()
        self.until(lambda: self._sink.report().messages > before)
        return time.monotonic() - killed_s

    def until_arrived(self, emails: int) -> None:
        self.until(lambda: self._sink.report().distinct >= emails)

    def until(self, is_so: Callable[[], bool]) -> None:
        seen, moved_s, recovered = 0, time.monotonic(), False
        while not is_so():
            time.sleep(LOOK_S)
            self._start_if_ended()
            now_s = time.monotonic()
            if (arrived := self._sink.report().messages) > seen:
                seen, moved_s = arrived, now_s
            if now_s > moved_s + RECOVER_S and not recovered:
                recovered = True
                self._peer.recover()
            if now_s > moved_s + STALL_S_MAX:
                raise Unfinished(f"nothing arrived for {STALL_S_MAX:.0f} s, after {seen}; {_last_words(self._place)}")

    def _start_if_ended(self) -> None:
        if self._workers.have_ended() and not self._peer.is_done():
            time.sleep(RESTART_S)
            self._workers = self._peer.start()


def _last_words(place: Place) -> str:
    lines = place.log.read_text(errors="replace").split("\n") if place.log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it wrote no log")


def _commits(server: "psycopg.Connection[tuple[object, ...]]", place: Place) -> int:
    name = place.database.environment["PGDATABASE"]
    row = server.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = %s", [name]).fetchone()
    assert row is not None
    return int(str(row[0]))
