"""`fairpost up`: database, engine, HTTP API, development inbox and a demonstration in one command."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from fairpost.cli.arguments import LogFormatOption
from fairpost.cli.output import console, note_event, plain
from fairpost.model.errors import FairpostError
from fairpost.model.urls import without_password
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    import asyncio
    import socket

    from fairpost.dev.demo.background import Background
    from fairpost.dev.demo.burst import Burst, Progress
    from fairpost.dev.inbox.server import InboxServer
    from fairpost.store.store import Store
    from fairpost.transports.smtp.settings import SmtpSettings

FRAMES_EVERY_S = 0.2
LINES_EVERY_S = 1.0
BAR_CHARS = 30
API_PORT = 8080
DEMO_EMAILS = 400
DEMO_EMAILS_MAX = 10_000
INBOX_PORT = 1025
READY_S_MAX = 60.0
END_S_MAX = 30.0


Demo = Annotated[
    bool | None,
    typer.Option("--demo/--no-demo", help="Run the demonstration. [default: yes on the embedded database, else no]"),
]
DemoEmails = Annotated[
    int,
    typer.Option(
        min=1,
        max=DEMO_EMAILS_MAX,
        metavar="N",
        help="Number of e-mails that the demonstration's largest sender queues.",
    ),
]
Browser = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open", help="Open the dashboard in your browser. [default: yes in a terminal on a desktop]"
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        metavar="PORT",
        help="Port for the HTTP API and the web pages. [default: 8080, or a free port if it is in use]",
    ),
]
InboxPort = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        metavar="PORT",
        help="Port for the development inbox. [default: 1025, or a free port if it is in use]",
    ),
]


def up(
    demo: Demo = None,
    demo_emails: DemoEmails = DEMO_EMAILS,
    browser: Browser = None,
    port: Port = None,
    inbox_port: InboxPort = None,
    log_format: LogFormatOption = None,
) -> None:
    """Start Fairpost locally, with a demonstration.

    Starts the database, the engine (unless FAIRPOST_ENGINE is off), the HTTP API, and the development inbox. All mail
    from the demonstration is delivered to that inbox. The demonstration starts with a burst of mail that lasts a few
    seconds, followed by half an hour of everyday mail, so every page has data to show.

    \b
    Example: fairpost up
    """
    import asyncio

    from fairpost.startup.environment import given_account

    if log_format is not None:
        os.environ["FAIRPOST_LOG_FORMAT"] = log_format
    settings = read_settings()
    given_account(settings)
    with_demo = is_demo_wanted(settings, demo)
    wanted = Wanted(
        demo_emails=demo_emails if with_demo else 0,
        browser=_has_desktop() if browser is None else browser,
        port=port,
        inbox_port=inbox_port,
    )
    asyncio.run(_up(settings, wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to start. If `demo_emails` is 0, there is no demonstration. If a port is None, the default port or a free
    one is used.
    """

    demo_emails: int
    browser: bool
    port: int | None
    inbox_port: int | None


def is_demo_wanted(settings: Settings, asked: bool | None) -> bool:
    """Return whether to run the demonstration. By default, it runs only on the embedded database."""
    if asked and not settings.engine:
        raise FairpostError(
            "The demonstration requires the engine, but FAIRPOST_ENGINE is off. Set FAIRPOST_ENGINE to on, or add --no-demo"
        )
    return settings.database_url is None and settings.engine if asked is None else asked


def _has_desktop() -> bool:
    """Return whether a person is at a terminal with a graphical desktop."""
    import os
    import sys

    is_graphic = sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
    return sys.stdout.isatty() and is_graphic


async def _up(settings: Settings, wanted: Wanted) -> None:
    from fairpost.startup.parts import embedded

    over = _until_a_signal()
    with _alone(settings.home) as lock:
        was_running = settings.home_database_url is not None or embedded(settings).status().running
        typer.echo("starting the database …" if not was_running else "checking the database …")
        try:
            url = await _database(settings, over)
            if url is not None and not over.is_set():
                await _run(settings, url, wanted, lock, over)
        finally:
            if not was_running:
                embedded(settings).stop()
    typer.echo("stopped")


async def _database(settings: Settings, over: "asyncio.Event") -> str | None:
    """Return the URL of a database that responds, or None if the command is stopped first."""
    import asyncio

    from fairpost.startup.parts import prepare_database
    from fairpost.store.outage import patiently

    opening = asyncio.create_task(patiently(lambda: prepare_database(settings), note_event))
    if settings.database_url:  # do not leave the embedded server partly started
        await _first(opening, over.wait(), timeout_s=None)
        if not opening.done():
            opening.cancel()
            return None
    return await opening


async def _run(settings: Settings, url: str, wanted: Wanted, lock: TextIO, over: "asyncio.Event") -> None:
    from fairpost.auth.membership import first_admin_link, local_operator_link
    from fairpost.dev.demo.stage import put_workspaces
    from fairpost.startup.dev_account import put_dev_account
    from fairpost.startup.parts import kept, open_home, open_store

    async with AsyncExitStack() as stack:
        stack.enter_context(kept(settings.at_home(), note_event))
        store = await stack.enter_async_context(open_store(settings))
        inbox = await stack.enter_async_context(_inbox(store, wanted.inbox_port))
        if wanted.demo_emails:
            await stack.enter_async_context(_cleared_stage(store))
        api_url = await stack.enter_async_context(_api(settings, wanted.port))
        lock.write(f"\n{api_url}")
        lock.flush()
        if settings.home_database_url is None and settings.smtp_host is None:
            await put_dev_account(store, _server_of(inbox))
        if settings.engine:
            await stack.enter_async_context(_engine(settings, api_url, over))
        async with open_home(settings) as home:
            links = Links(
                first_admin=await first_admin_link(home, api_url),
                here=await local_operator_link(home, api_url) if settings.home_database_url is None else None,
            )
        if (
            wanted.demo_emails and settings.regions is None
        ):  # with regions, each workspace name permanently belongs to one region
            await put_workspaces(store)
        _say_ready(inbox, url, api_url, links, with_engine=settings.engine)
        if wanted.browser:
            _open(links.here or api_url)
        if wanted.demo_emails and not over.is_set():
            await _demonstrate(store, inbox, api_url, over, wanted.demo_emails)
        await over.wait()


@contextmanager
def _spared_by_trouble() -> Iterator[None]:
    """If the database fails, stop only the demonstration."""
    from fairpost.store.trouble import DRIVER_ERRORS, is_trouble

    try:
        yield
    except DRIVER_ERRORS as error:
        if not is_trouble(error):
            raise


def _until_a_signal() -> "asyncio.Event":
    import asyncio
    import signal

    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    return over


@contextmanager
def _alone(home: Path) -> Iterator[TextIO]:
    """Allow only one `fairpost up` per home. The lock is released when the process ends."""
    import fcntl
    import os

    from fairpost.startup.address import UP_LOCK

    home.mkdir(parents=True, exist_ok=True)
    with (home / UP_LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise FairpostError(
                f"fairpost up is already running in {home} (process {file.readline().strip()}). Stop that process first, or see: fairpost status"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file


@asynccontextmanager
async def _inbox(store: "Store", port: int | None) -> "AsyncIterator[InboxServer]":
    from fairpost.dev.inbox.server import InboxServer, ServerOptions

    server = InboxServer(store, ServerOptions(port=INBOX_PORT if port is None else port))
    try:
        await server.start()
    except FairpostError:
        if port is not None:
            raise
        server = InboxServer(store, ServerOptions(port=0))
        await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _server_of(inbox: "InboxServer") -> "SmtpSettings":
    from fairpost.model.transport import Security
    from fairpost.transports.smtp.settings import SmtpSettings

    return SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)


@asynccontextmanager
async def _cleared_stage(store: "Store") -> AsyncIterator[None]:
    """Remove the demonstration after the engine has stopped, because demonstration e-mails may be sent until then."""
    from fairpost.dev.demo import background

    try:
        yield
    finally:
        with _spared_by_trouble():
            await background.clear(store)


@asynccontextmanager
async def _api(settings: Settings, port: int | None) -> AsyncIterator[str]:
    """Run the HTTP API in this process and yield its URL."""
    from fairpost.api.app import build_app
    from fairpost.api.serve import serving
    from fairpost.startup.address import is_url_chosen
    from fairpost.startup.logs import start_logging
    from fairpost.startup.service import client_limits, open_service

    listener = _api_listener(port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if not is_url_chosen(settings):
        settings = replace(settings, public_url=url)
    with (settings.home / "api.log").open("a", encoding="utf-8", buffering=1) as file:
        log = start_logging(settings, stream=file)
        async with (
            open_service(settings, log=log) as service,
            serving(build_app(service, log=log), listener, limits=client_limits(settings)),
        ):
            yield url


def _api_listener(port: int | None) -> "socket.socket":
    from fairpost.api.serve import listener_on

    try:
        return listener_on("127.0.0.1", API_PORT if port is None else port)
    except FairpostError:
        if port is not None:
            raise
        return listener_on("127.0.0.1", 0)  # a free port, if the default port is in use


@asynccontextmanager
async def _engine(settings: Settings, api_url: str, over: "asyncio.Event") -> AsyncIterator[None]:
    """Run `fairpost work` as a separate process. The current process passes Ctrl-C on to that process."""
    import asyncio
    import os
    import sys

    from fairpost.startup.address import is_url_chosen

    log = settings.home / "engine.log"
    url = settings.public_url if is_url_chosen(settings) else api_url
    with log.open("a", encoding="utf-8") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairpost", "work", "--ends-with-stdin"),
            stdin=asyncio.subprocess.PIPE,  # closed when this process is killed, so that no engine keeps running
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "FAIRPOST_PUBLIC_URL": url},
        )
        ready = asyncio.Event()
        reading = asyncio.create_task(_keep_log(process, file, ready))
        try:
            await _first(ready.wait(), reading, over.wait(), timeout_s=READY_S_MAX)
            if not ready.is_set() and not over.is_set():
                raise FairpostError(f"The engine did not start. See its log: {log}")
            reading.add_done_callback(lambda _: over.set())  # without an engine, the demonstration has nothing to show
            yield
            if reading.done():
                raise FairpostError(f"The engine has stopped unexpectedly. See its log: {log}")
        finally:
            if process.returncode is None:
                process.terminate()
            await _first(process.wait(), timeout_s=END_S_MAX)
            if process.returncode is None:
                process.kill()
            await reading


async def _first(*awaited: Any, timeout_s: float | None) -> None:
    import asyncio

    tasks = [asyncio.ensure_future(one) for one in awaited]
    await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if not task.done() and task not in awaited:
            task.cancel()


async def _keep_log(process: "asyncio.subprocess.Process", file: Any, ready: "asyncio.Event") -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        file.write(line.decode(errors="replace"))
        file.flush()
        if b"engine.started" in line:
            ready.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """One-time links. `here` signs in the person at this machine, and is None unless the database is embedded."""

    first_admin: str | None
    here: str | None


def _say_ready(inbox: "InboxServer", url: str, api_url: str, links: Links, *, with_engine: bool) -> None:
    if not with_engine:
        typer.echo("FAIRPOST_ENGINE is off: no engine is running here")
    typer.echo(
        f"ready: {'engine, ' if with_engine else ''}inbox and HTTP API run on {without_password(url)}; send to smtp://127.0.0.1:{inbox.port}, or: "
        "fairpost email send --to you@example.com --subject Hello --text Hi — Ctrl-C stops all parts"
    )
    if links.here is not None:
        typer.secho(
            f"open this: {links.here} (signs you in once, within ten minutes; for another link: fairpost admin link operator@localhost)",
            bold=True,
        )
    else:
        typer.echo(f"dashboard: {api_url} (to sign in: fairpost admin link ADDRESS)")
    typer.echo(f"HTTP API: {api_url}/docs (for a key: fairpost key add --workspace default)")
    if links.first_admin is not None:
        typer.echo(
            f"to keep access: {links.first_admin} (become the first admin and choose a password; valid once, for a day)"
        )


def _open(link: str) -> None:
    """Open the link in a browser. If this fails, the user can open the printed link instead."""
    import webbrowser
    from contextlib import suppress

    with suppress(webbrowser.Error, OSError):
        webbrowser.open(link)


async def _demonstrate(store: "Store", inbox: "InboxServer", api_url: str, over: "asyncio.Event", emails: int) -> None:
    from fairpost.dev.demo.background import LASTS_S, Background, clear
    from fairpost.dev.demo.burst import Burst
    from fairpost.system import chance

    server = _server_of(inbox)
    first = Burst(store, server, flood=emails)
    second = Background(store, server, dice=chance.roll)
    await _begin(first, over)
    await _watch(first, over)
    await _begin(second, over)
    if over.is_set():
        return
    typer.echo(
        f"A quiet demonstration runs for another {LASTS_S // 60} minutes, with a campaign and typical problems: "
        f"see {api_url}, or run: fairpost status, fairpost campaign list --workspace demo-shop"
    )
    await second.run(over)
    if not over.is_set():
        with _spared_by_trouble():
            await clear(store)
        typer.echo(
            "The demonstration is over, and its queued e-mails have been cancelled. All other parts keep running."
        )


async def _begin(act: "Burst | Background", over: "asyncio.Event") -> None:
    """Run one act. If the database fails, start again from the beginning."""
    has_begun = False
    while not (has_begun or over.is_set()):
        with _spared_by_trouble():
            await act.begin()
            has_begun = True
        if not has_begun:
            await _first(over.wait(), timeout_s=LINES_EVERY_S)


async def _watch(first: "Burst", over: "asyncio.Event") -> None:
    screen = console()
    if screen.is_terminal:
        from rich.live import Live

        with Live(console=screen, auto_refresh=False) as live:
            await _follow(first, over, FRAMES_EVERY_S, lambda p: live.update(_picture(p), refresh=True))
    else:
        await _follow(first, over, LINES_EVERY_S, lambda progress: typer.echo(_line(progress)))
    if first.progress.is_done:
        typer.echo(_conclusion(first.progress))


async def _follow(first: "Burst", over: "asyncio.Event", every_s: float, show: Any) -> None:
    import asyncio
    from contextlib import suppress

    while not over.is_set():
        with _spared_by_trouble():
            progress = await first.look()
            show(progress)
            if progress.is_done:
                return
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), every_s)


def _line(progress: "Progress") -> str:
    senders = "  ".join(f"{name} {s.sent}/{s.total}" for name, s in progress.senders.items())
    accounts = ", ".join(f"{name} {a.sent}" for name, a in progress.accounts.items())
    return f"{progress.elapsed_s:5.1f} s  {senders}  (by {accounts})"


def _picture(progress: "Progress") -> Any:
    from rich.console import Group
    from rich.table import Table

    senders = Table(title=f"Senders ({progress.elapsed_s:.1f} s)", title_justify="left", box=None)
    for column in ("sender", "served", "waiting", "", "done after"):
        senders.add_column(column, justify="right" if column in ("served", "waiting") else "left")
    for name, s in progress.senders.items():
        done = f"{s.done_after_s:.1f} s" if s.done_after_s is not None else ""
        senders.add_row(name, str(s.sent), str(s.total - s.sent), _bar(s.sent / s.total), done)
    accounts = Table(title="Accounts", title_justify="left", box=None)
    for column in ("account", "pace", "sent", "may send next"):
        accounts.add_column(column, justify="right" if column == "sent" else "left")
    for name, a in progress.accounts.items():
        moment = f"{a.next_at:%H:%M:%S.%f}"[:-3] if a.next_at else "now"
        accounts.add_row(name, f"every {a.delay_ms} ms", str(a.sent), moment if a.is_driven else "starting …")
    mails = Table(title="Inbox", title_justify="left", box=None)
    for column in ("from", "to", "subject"):
        mails.add_column(column)
    for mail in progress.mails:
        mails.add_row(plain(mail.from_header), plain(", ".join(mail.recipients)), plain(mail.subject))
    return Group(senders, "", accounts, "", mails)


def _bar(share: float) -> str:
    return "█" * round(share * BAR_CHARS) + "░" * (BAR_CHARS - round(share * BAR_CHARS))


def _conclusion(progress: "Progress") -> str:
    largest = max(progress.senders, key=lambda name: progress.senders[name].total)
    others = [s.done_after_s or 0 for name, s in progress.senders.items() if name != largest]
    unsent = sum(s.total - s.sent for s in progress.senders.values())
    if unsent:
        return f"The demonstration is over; {unsent} of its e-mails were not sent. See why: fairpost status"
    return (
        f"{largest} queued its {progress.senders[largest].total} e-mails first and finished after "
        f"{progress.senders[largest].done_after_s:.1f} s; the others arrived later and finished after "
        f"{max(others):.1f} s. See them: fairpost inbox list"
    )
