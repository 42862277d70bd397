"""`fairpost work`: the engine, for production. `fairpost up` runs the engine together with all other parts."""

from typing import Annotated

import typer

from fairpost.cli.arguments import LogFormatOption
from fairpost.model.reason import Log, Reason
from fairpost.settings import read_settings

Region = Annotated[str | None, typer.Option(metavar="NAME", help="Region to send mail for. [default: FAIRPOST_REGION]")]
AccountsPerProcess = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000,
        help="Accounts per process. [default: accounts without a pause share a process; every other account has its own]",
        show_default=False,
    ),
]
PollOnly = Annotated[
    bool,
    typer.Option("--poll-only", help="Poll the database instead of using LISTEN. Behind a pooler, this is automatic."),
]
LeaseS = Annotated[
    float, typer.Option(min=1, max=3600, help="Number of seconds before another worker can take over an account.")
]
IdleS = Annotated[float, typer.Option(min=0.1, max=86_400, help="Number of idle seconds after which a worker exits.")]
EndsWithStdin = Annotated[
    bool,
    typer.Option(
        "--ends-with-stdin",
        help="Stop when standard input is closed. A parent process can use this to stop the engine.",
    ),
]


def work(
    region: Region = None,
    accounts_per_process: AccountsPerProcess = None,
    processes_max: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of worker processes.")] = 1000,
    poll_only: PollOnly = False,
    lease_s: LeaseS = 60.0,
    idle_s: IdleS = 60.0,
    ends_with_stdin: EndsWithStdin = False,
    log_format: LogFormatOption = None,
) -> None:
    """Run the engine, which sends queued e-mails.

    Starts processes for the accounts that have work to do. You can run the engine on any number of machines that share
    one database. If there are several regions, the engine sends mail for only one of them. With FAIRPOST_ENGINE=off,
    the engine sends nothing and waits until it is stopped. On the first SIGTERM or Ctrl-C, the engine finishes the
    sends in progress and returns the other e-mails to the queue. On the second signal, the engine stops immediately.

    \b
    Example: fairpost work --accounts-per-process 50
    """
    from fairpost.startup.environment import given_account
    from fairpost.startup.logs import start_logging
    from fairpost.startup.parts import require_region

    settings = read_settings()
    settings = settings.at(region) if region else settings
    require_region(settings)
    given_account(settings)
    if not settings.engine:
        _send_nothing(start_logging(settings, log_format=log_format), ends_with_stdin=ends_with_stdin)
        return
    from fairpost.startup.engine import EngineOptions, run_engine  # saves memory if the engine is off

    options = EngineOptions(
        accounts_per_process=accounts_per_process,
        processes_max=processes_max,
        poll_only=poll_only,
        lease_s=lease_s,
        idle_s_max=idle_s,
        ends_with_stdin=ends_with_stdin,
    )
    if not run_engine(settings, options, log=start_logging(settings, log_format=log_format)):
        raise typer.Exit(1)


def _send_nothing(log: Log, *, ends_with_stdin: bool) -> None:
    """Wait until stopped. If this process exited, a process manager would keep restarting it."""
    import asyncio
    import os
    import signal

    async def wait() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        if ends_with_stdin:
            loop.add_reader(0, lambda: over.set() if not os.read(0, 4096) else None)
        log(Reason("engine.off"))
        await over.wait()

    asyncio.run(wait())
