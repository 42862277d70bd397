"""`fairpost up`: everything in one command: database, engine, HTTP API, development inbox, and a demonstration of it at work."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.arguments import LogFormatOption
from fairpost.cli.output import console, note_event, plain
from fairpost.model.errors import FairpostError
from fairpost.model.urls import without_password
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    import asyncio
    import socket

    from fairpost.dev.demo.background import SecondAct
    from fairpost.dev.demo.burst import FirstAct, Progress
    from fairpost.dev.inbox.server import InboxServer
    from fairpost.store.store import Store

FRAMES_EVERY_S = 0.2
LINES_EVERY_S = 1.0
BAR_CHARS = 30
API_PORT = 8080
DEMO_EMAILS = 400
DEMO_EMAILS_MAX = 10_000
INBOX_PORTS = (1025, 0)  # any that is free, where somebody has the usual one
READY_S_MAX = 60.0
END_S_MAX = 30.0


def up(
    demo: Annotated[
        bool | None, typer.Option("--demo/--no-demo", help="[default: yes on the embedded database, else no]")
    ] = None,
    demo_emails: Annotated[
        int,
        typer.Option(
            min=1, max=DEMO_EMAILS_MAX, metavar="N", help="E-mails queued by the demonstration's largest sender."
        ),
    ] = DEMO_EMAILS,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the pages in your browser. [default: yes in a terminal on a desktop]"
        ),
    ] = None,
    log_format: LogFormatOption = None,
) -> None:
    """Start everything on this machine, with a demonstration.

    The database, the engine that sends through all accounts (unless FAIRPOST_ENGINE is off), the HTTP API, and the development inbox. The demonstration goes over SMTP
    into that inbox and no further: a rush of seconds, then half an hour of everyday mail, so that every page has something to show.

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
    asyncio.run(_up(settings, demo_emails if with_demo else 0, _has_desktop() if browser is None else browser))


def is_demo_wanted(settings: Settings, asked: bool | None) -> bool:
    """Unasked, only on the embedded database: on yours it would leave its traces."""
    if asked and not settings.engine:
        raise FairpostError(
            "The demonstration needs the engine, and FAIRPOST_ENGINE is off. Set it to on, or: --no-demo"
        )
    return settings.database_url is None and settings.engine if asked is None else asked


def _has_desktop() -> bool:
    """Somebody looks at a terminal, and at a screen that shows more than text."""
    import os
    import sys

    is_graphic = sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
    return sys.stdout.isatty() and is_graphic


async def _up(settings: Settings, demo_emails: int, with_browser: bool) -> None:
    """`demo_emails`: 0 for no demonstration."""
    from fairpost.startup.parts import embedded

    over = _until_a_signal()
    with _alone(settings.home):
        was_running = settings.home_database_url is not None or embedded(settings).status().running
        typer.echo("starting the database …" if not was_running else "looking at the database …")
        try:
            url = await _database(settings, over)
            if url is not None and not over.is_set():
                await _run(settings, url, demo_emails, with_browser, over)
        finally:
            if not was_running:
                embedded(settings).stop()
    typer.echo("stopped: everything that was started is ended")


async def _database(settings: Settings, over: "asyncio.Event") -> str | None:
    """The URL of one that answers; None: it is over before that."""
    import asyncio

    from fairpost.startup.parts import prepare_database
    from fairpost.store.outage import patiently

    opening = asyncio.create_task(patiently(lambda: prepare_database(settings), note_event))
    if settings.database_url:  # the embedded one is not left half started
        await _first(opening, over.wait(), timeout_s=None)
        if not opening.done():
            opening.cancel()
            return None
    return await opening


async def _run(settings: Settings, url: str, demo_emails: int, with_browser: bool, over: "asyncio.Event") -> None:
    from fairpost.auth.membership import first_admin_link, local_operator_link
    from fairpost.dev.demo.stage import put_workspaces
    from fairpost.startup.parts import kept, open_home, open_store

    async with AsyncExitStack() as stack:
        stack.enter_context(kept(settings.at_home(), note_event))
        store = await stack.enter_async_context(open_store(settings))
        inbox = await stack.enter_async_context(_inbox(store))
        if demo_emails:
            await stack.enter_async_context(_cleared_stage(store))
        api_url = await stack.enter_async_context(_api(settings))
        if settings.engine:
            await stack.enter_async_context(_engine(settings.home, over))
        async with open_home(settings) as home:
            links = Links(
                first_admin=await first_admin_link(home, api_url),
                here=await local_operator_link(home, api_url) if settings.home_database_url is None else None,
            )
        if demo_emails and settings.regions is None:  # with regions, a name belongs to one of them for good
            await put_workspaces(store)
        _say_ready(inbox, url, api_url, links, with_engine=settings.engine)
        if with_browser:
            _open(links.here or api_url)
        if demo_emails and not over.is_set():
            await _demonstrate(store, inbox, api_url, over, demo_emails)
        await over.wait()


@contextmanager
def _spared_by_trouble() -> Iterator[None]:
    """A demonstration is not worth ending everything else for: what the database's trouble cuts off is left out."""
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


@asynccontextmanager
async def _inbox(store: "Store") -> "AsyncIterator[InboxServer]":
    from fairpost.dev.inbox.server import InboxServer, ServerOptions

    for port in INBOX_PORTS:
        server = InboxServer(store, ServerOptions(port=port))
        try:
            await server.start()
            break
        except FairpostError:
            if port == INBOX_PORTS[-1]:
                raise
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def _cleared_stage(store: "Store") -> AsyncIterator[None]:
    """Clears the demonstration away after the engine has ended: until then some of it may be on its way out."""
    from fairpost.dev.demo import background as second_act

    try:
        yield
    finally:
        with _spared_by_trouble():
            await second_act.clear(store)


@asynccontextmanager
async def _api(settings: Settings) -> AsyncIterator[str]:
    """The HTTP API, in this process; gives its URL."""
    from fairpost.api.app import build_app
    from fairpost.api.serve import serving
    from fairpost.startup.logs import start_logging
    from fairpost.startup.service import client_limits, open_service

    with (settings.home / "api.log").open("a", encoding="utf-8", buffering=1) as file:
        log = start_logging(settings, stream=file)
        async with (
            open_service(settings, log=log) as service,
            serving(build_app(service, log=log), _api_listener(), limits=client_limits(settings)) as port,
        ):
            yield f"http://127.0.0.1:{port}"


def _api_listener() -> "socket.socket":
    from fairpost.api.serve import listener_on

    try:
        return listener_on("127.0.0.1", API_PORT)
    except FairpostError:
        return listener_on("127.0.0.1", 0)  # any that is free, where somebody has the usual one


@asynccontextmanager
async def _engine(home: Path, over: "asyncio.Event") -> AsyncIterator[None]:
    """`fairpost work` as a process of its own, up and ready. It hears of Ctrl-C from us, once."""
    import asyncio
    import sys

    log = home / "engine.log"
    with log.open("a", encoding="utf-8") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairpost", "work", "--ends-with-stdin"),
            stdin=asyncio.subprocess.PIPE,  # killed, we leave no engine behind
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        ready = asyncio.Event()
        reading = asyncio.create_task(_keep_log(process, file, ready))
        try:
            await _first(ready.wait(), reading, over.wait(), timeout_s=READY_S_MAX)
            if not ready.is_set() and not over.is_set():
                raise FairpostError(f"The engine did not start. See what it says: {log}")
            reading.add_done_callback(lambda _: over.set())  # without an engine there is nothing to show
            yield
            if reading.done():
                raise FairpostError(f"The engine has ended by itself. See what it says: {log}")
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
    """That work once. `here`: signs in whoever runs this, on a database of their own alone."""

    first_admin: str | None
    here: str | None


def _say_ready(inbox: "InboxServer", url: str, api_url: str, links: Links, *, with_engine: bool) -> None:
    if not with_engine:
        typer.echo("FAIRPOST_ENGINE is off: nothing is sent from here")
    typer.echo(
        f"ready: {'engine, ' if with_engine else ''}inbox and HTTP API run on {without_password(url)}; send to smtp://127.0.0.1:{inbox.port}, or: "
        "fairpost email send --to you@example.com --subject Hello --text Hi — Ctrl-C ends everything"
    )
    if links.here is not None:
        typer.secho(
            f"open this: {links.here} (signs you in, once, within ten minutes; another: fairpost admin link operator@localhost)",
            bold=True,
        )
    else:
        typer.echo(f"the pages: {api_url} (a link that signs you in: fairpost admin link ADDRESS)")
    typer.echo(f"HTTP API: {api_url}/docs (a key: fairpost workspace add acme, then fairpost key add acme)")
    if links.first_admin is not None:
        typer.echo(
            f"for good: {links.first_admin} (works once, for a day: become the first admin, with a password of your own)"
        )


def _open(link: str) -> None:
    """Where that cannot be done, the link stands above."""
    import webbrowser
    from contextlib import suppress

    with suppress(webbrowser.Error, OSError):
        webbrowser.open(link)


async def _demonstrate(store: "Store", inbox: "InboxServer", api_url: str, over: "asyncio.Event", emails: int) -> None:
    from fairpost.dev.demo.background import LASTS_S, SecondAct, clear
    from fairpost.dev.demo.burst import FirstAct
    from fairpost.model.transport import Security
    from fairpost.system import chance
    from fairpost.transports.smtp.settings import SmtpSettings

    server = SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
    first = FirstAct(store, server, flood=emails)
    second = SecondAct(store, server, dice=chance.roll)
    await _begin(first, over)
    await _watch(first, over)
    await _begin(second, over)
    if over.is_set():
        return
    typer.echo(
        f"A quiet demonstration goes on for {LASTS_S // 60} minutes, with a campaign and everything that can go wrong: "
        f"look at {api_url}, or: fairpost status, fairpost campaign list --workspace demo-shop"
    )
    await second.run(over)
    if not over.is_set():
        with _spared_by_trouble():
            await clear(store)
        typer.echo("The demonstration is over, and what was waiting of it is cancelled. Everything else goes on.")


async def _begin(act: "FirstAct | SecondAct", over: "asyncio.Event") -> None:
    """Again from its beginning, if the database goes away in the middle."""
    has_begun = False
    while not (has_begun or over.is_set()):
        with _spared_by_trouble():
            await act.begin()
            has_begun = True
        if not has_begun:
            await _first(over.wait(), timeout_s=LINES_EVERY_S)


async def _watch(first: "FirstAct", over: "asyncio.Event") -> None:
    screen = console()
    if screen.is_terminal:
        from rich.live import Live

        with Live(console=screen, auto_refresh=False) as live:
            await _follow(first, over, FRAMES_EVERY_S, lambda p: live.update(_picture(p), refresh=True))
    else:
        await _follow(first, over, LINES_EVERY_S, lambda progress: typer.echo(_line(progress)))
    if first.progress.is_done:
        typer.echo(_conclusion(first.progress))


async def _follow(first: "FirstAct", over: "asyncio.Event", every_s: float, show: Any) -> None:
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

    senders = Table(title=f"Who waits, who is served ({progress.elapsed_s:.1f} s)", title_justify="left", box=None)
    for column in ("sender", "served", "waiting", "", "done after"):
        senders.add_column(column, justify="right" if column in ("served", "waiting") else "left")
    for name, s in progress.senders.items():
        done = f"{s.done_after_s:.1f} s" if s.done_after_s is not None else ""
        senders.add_row(name, str(s.sent), str(s.total - s.sent), _bar(s.sent / s.total), done)
    accounts = Table(title="What each account does", title_justify="left", box=None)
    for column in ("account", "pace", "sent", "may send next"):
        accounts.add_column(column, justify="right" if column == "sent" else "left")
    for name, a in progress.accounts.items():
        moment = f"{a.next_at:%H:%M:%S.%f}"[:-3] if a.next_at else "now"
        accounts.add_row(name, f"every {a.delay_ms} ms", str(a.sent), moment if a.is_driven else "starting …")
    mails = Table(title="What arrives in the inbox", title_justify="left", box=None)
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
        return f"The demonstration is over, {unsent} of its e-mails were not sent. See why: fairpost status"
    return (
        f"{largest} queued its {progress.senders[largest].total} e-mails first and needed "
        f"{progress.senders[largest].done_after_s:.1f} s; the others, who came later, were all done after "
        f"{max(others):.1f} s. See them: fairpost inbox list"
    )
