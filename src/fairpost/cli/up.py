"""`fairpost up`: the database, and a look at the engine at work, in one command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.output import console
from fairpost.model.errors import FairpostError
from fairpost.settings import Settings, read_settings, without_password

if TYPE_CHECKING:
    from fairpost.cli.demo import Demonstration, Progress

FRAMES_EVERY_S = 0.1
LINES_EVERY_S = 1.0
BAR_CHARS = 30


def up(
    demo: Annotated[
        bool | None, typer.Option("--demo/--no-demo", help="[default: yes on the embedded database, else no]")
    ] = None,
) -> None:
    """Start the database and show the engine at work.

    The demonstration takes some seconds, sends nothing to anybody, and ends by itself. The database stays up.

    \b
    Example: fairpost up
    """
    import asyncio

    settings = read_settings()
    asyncio.run(_up(settings, settings.database_url is None if demo is None else demo))


async def _up(settings: Settings, with_demo: bool) -> None:
    from fairpost.app import prepare_database

    typer.echo("starting the database …" if settings.database_url is None else "looking at the database …")
    url = await prepare_database(settings)
    with _alone(settings.home):
        if with_demo:
            await _demonstrate(settings)
    typer.echo(
        f"ready: the database runs at {without_password(url)} — next: fairpost status, or: "
        "fairpost email send --to you@example.com --subject Hello --text Hi"
    )


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One `up` per home. The lock goes with the process, however it ends."""
    import fcntl
    import os

    home.mkdir(parents=True, exist_ok=True)
    with (home / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise FairpostError(
                f"fairpost up is already running in {home} (process {file.read().strip()}). Let it end, or look: fairpost status"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


async def _demonstrate(settings: Settings) -> None:
    import asyncio
    import signal
    import socket

    from fairpost.app import open_store
    from fairpost.cli.demo import CONNECTIONS_MAX, Demonstration

    over, caught = asyncio.Event(), list[int]()

    def end(signum: int) -> None:
        caught.append(signum)
        over.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, end, signum)
    async with open_store(settings, connections_max=CONNECTIONS_MAX) as store:
        owner = f"fairpost up in {settings.home} on {socket.gethostname()}"
        demonstration = Demonstration(store, owner=owner, over=over)
        await _show(demonstration)
    if caught:
        typer.echo("stopped: nothing is left of the demonstration, and the database stays up (fairpost db stop)")
        raise typer.Exit(128 + caught[0])
    typer.echo(_conclusion(demonstration.progress))


async def _show(demonstration: "Demonstration") -> None:
    screen = console()
    if not screen.is_terminal:
        await demonstration.run(lambda progress: typer.echo(_line(progress)), every_s=LINES_EVERY_S)
        return
    from rich.live import Live

    with Live(console=screen, auto_refresh=False) as live:
        await demonstration.run(lambda progress: live.update(_picture(progress), refresh=True), every_s=FRAMES_EVERY_S)


def _line(progress: "Progress") -> str:
    senders = "  ".join(f"{name} {s.sent}/{s.total}" for name, s in progress.senders.items())
    accounts = ", ".join(f"{name} {a.sent}" for name, a in progress.accounts.items())
    return f"{progress.elapsed_s():5.1f} s  {senders}  (by {accounts})"


def _picture(progress: "Progress") -> Any:
    from rich.console import Group
    from rich.table import Table

    senders = Table(title=f"Who waits, who is served ({progress.elapsed_s():.1f} s)", title_justify="left", box=None)
    for column in ("sender", "served", "waiting", "", "done after"):
        senders.add_column(column, justify="right" if column in ("served", "waiting") else "left")
    for name, s in progress.senders.items():
        done = f"{s.done_after_s:.1f} s" if s.done_after_s is not None else ""
        senders.add_row(name, str(s.sent), str(s.total - s.sent), _bar(s.sent / s.total), done)
    accounts = Table(title="What each account does", title_justify="left", box=None)
    for column in ("account", "pace", "sent", "may send next"):
        accounts.add_column(column, justify="right" if column == "sent" else "left")
    for name, a in progress.accounts.items():
        accounts.add_row(
            name, f"every {a.delay_ms} ms", str(a.sent), f"{a.next_at:%H:%M:%S.%f}"[:-3] if a.next_at else "now"
        )
    return Group(senders, "", accounts)


def _bar(share: float) -> str:
    return "█" * round(share * BAR_CHARS) + "░" * (BAR_CHARS - round(share * BAR_CHARS))


def _conclusion(progress: "Progress") -> str:
    left = sum(s.total - s.sent for s in progress.senders.values())
    if left:
        return f"The demonstration ended with {left} e-mails unsent: this machine is busy, or its accounts are paused."
    largest = max(progress.senders, key=lambda name: progress.senders[name].total)
    others = [s.done_after_s or 0 for name, s in progress.senders.items() if name != largest]
    return (
        f"{largest} queued its {progress.senders[largest].total} e-mails first and needed "
        f"{progress.senders[largest].done_after_s:.1f} s; the others, who came later, were all done after {max(others):.1f} s."
    )
