"""`fairpost work`: the engine that sends, for production. `fairpost up` runs it together with everything else."""

from typing import Annotated

import typer

from fairpost.cli.arguments import LogFormatOption
from fairpost.model.reason import Log, Reason
from fairpost.settings import read_settings


def work(
    region: Annotated[
        str | None, typer.Option(metavar="NAME", help="The region whose mail it sends. [default: FAIRPOST_REGION]")
    ] = None,
    accounts_per_process: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="How many accounts share one process. [default: accounts without a pause share one, others have their own]",
            show_default=False,
        ),
    ] = None,
    processes_max: Annotated[int, typer.Option(min=1, max=10_000, help="Most worker processes at once.")] = 1000,
    poll_only: Annotated[
        bool, typer.Option("--poll-only", help="Do not LISTEN. Chosen by itself behind a pooler.")
    ] = False,
    lease_s: Annotated[
        float, typer.Option(min=1, max=3600, help="How long an account stays taken when its worker vanishes.")
    ] = 60.0,
    idle_s: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="After so long without work a worker ends.")
    ] = 60.0,
    ends_with_stdin: Annotated[
        bool, typer.Option("--ends-with-stdin", help="End when standard input does: for programs that start it.")
    ] = False,
    log_format: LogFormatOption = None,
) -> None:
    """Run the engine: send what is waiting.

    Starts processes for the accounts that have work. Any number of machines may run it on one database. With regions, it
    knows only its own. With FAIRPOST_ENGINE=off it sends nothing, and waits for the signal. The first signal finishes what is under way and gives the rest back; the second ends at once.

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
    from fairpost.startup.engine import EngineOptions, run_engine  # an engine that is off costs no memory

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
    """Until it is ended. Not at once: whoever keeps it running would start it again and again."""
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
