"""Compares Fairpost with similar systems: python benchmarks/peers/run.py [--json] [--only NAME …] [--emails 2000]"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # otherwise, our pgqueuer.py would hide theirs

from benchmarks.peers.django_mailer import DjangoMailer
from benchmarks.peers.django_post_office import DjangoPostOffice
from benchmarks.peers.fairpost import Fairpost
from benchmarks.peers.measure import Damage, Speed, Unfinished, a_place, measure_damage, measure_speed
from benchmarks.peers.peer import Missing, make_emails
from benchmarks.peers.pgqueuer import Pgqueuer
from benchmarks.peers.postfix import Postfix
from benchmarks.peers.procrastinate import Procrastinate
from rich.console import Console
from rich.table import Table

from fairpost.store.embedded import EmbeddedServer

if TYPE_CHECKING:
    from benchmarks.peers.peer import Email, Peer

PEERS: "dict[str, Callable[[], Peer]]" = {
    "fairpost_hold": lambda: Fairpost("hold"),
    "fairpost_resend": lambda: Fairpost("resend"),
    "django_post_office": DjangoPostOffice,
    "django_mailer": DjangoMailer,
    "pgqueuer": lambda: Pgqueuer(batch=10),
    "pgqueuer_50": lambda: Pgqueuer(batch=50),
    "procrastinate": Procrastinate,
    "postfix": Postfix,
}
ROUNDS = 3


@dataclass(slots=True)
class Line:
    """The results of one peer. If some are missing, `why` says why."""

    title: str
    speed: Speed | None = None
    damage: Damage | None = None
    why: str | None = None


class Comparison:
    def __init__(self, server_url: str, emails: "Sequence[Email]", say: Callable[[str], None]) -> None:
        self._server_url = server_url
        self._emails = emails
        self._say = say

    def run(self, names: Sequence[str], *, rounds: int) -> dict[str, Line]:
        """Measures the peers in turns, so that a busy moment of the machine affects all of them."""
        lines = {name: Line(PEERS[name]().title) for name in names}
        speeds: dict[str, list[Speed]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names:
                self._say(f"{name}: round {turn + 1} of {rounds}")
                self._speed(name, lines[name], speeds[name])
        for name in names:
            if lines[name].why is None:
                lines[name].speed = sorted(speeds[name], key=lambda speed: speed.per_s)[rounds // 2]
                self._say(f"{name}: killed five times")
                self._damage(name, lines[name])
        return lines

    def _speed(self, name: str, line: Line, speeds: list[Speed]) -> None:
        if line.why is None:
            peer = PEERS[name]()
            try:
                peer.install()
                with a_place(self._server_url, name) as place:
                    speeds.append(measure_speed(peer, place, self._emails, self._server_url))
                self._say(f"  {speeds[-1].per_s:,.0f} e-mails/s")
            except (Missing, Unfinished) as error:
                line.why = str(error)

    def _damage(self, name: str, line: Line) -> None:
        peer = PEERS[name]()
        try:
            peer.install()
            with a_place(self._server_url, name) as place:
                line.damage = measure_damage(peer, place, self._emails)
            self._say(f"  {line.damage.repeated} repeated, {line.damage.missing} never arrived")
        except Unfinished as error:
            line.why = f"after the kills {error}"


def table_of(lines: dict[str, Line]) -> Table:
    table = Table(
        title="The same e-mails sent by each system, first without and then with five kills", title_justify="left"
    )
    table.add_column("")
    for column in ("e-mails/s", "commits per e-mail", "repeated", "never arrived", "left to a person", "recovery"):
        table.add_column(column, justify="right")
    for line in lines.values():
        table.add_row(line.title, *_cells(line))
    return table


def _cells(line: Line) -> list[str]:
    speed, damage = line.speed, line.damage
    fast = [f"{speed.per_s:,.0f}", "–" if speed.commits_each is None else f"{speed.commits_each:.2f}"] if speed else []
    if damage is None:
        return [*fast, line.why or ""]
    return [*fast, str(damage.repeated), str(damage.missing), str(damage.left), f"{damage.back_s:.1f} s"]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    parser.add_argument("--emails", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of speed measurements; the median counts")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="fp-bench-") as home:
        server = EmbeddedServer(Path(home))
        try:
            comparison = Comparison(server.start(), make_emails(given.emails), console.print)
            lines = comparison.run(given.only, rounds=given.rounds)
        finally:
            server.stop()
    if given.json:
        print(json.dumps({name: asdict(line) for name, line in lines.items()}, indent=2))
    else:
        Console(width=130).print(table_of(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
