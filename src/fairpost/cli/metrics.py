"""`fairpost metrics`: the figures of `fairpost fairness` for Prometheus, once or for as long as it runs."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import host_and_port, span
from fairpost.cli.output import note
from fairpost.cli.session import with_store
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.postgres.store import Store


def metrics(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve them on /metrics until Ctrl-C, instead of printing.")
    ] = None,
    window: Annotated[str, typer.Option(metavar="SPAN", help="What counts as served: 1h to 24h.")] = "1h",
) -> None:
    """Print figures for Prometheus, or serve them.

    The same that `fairpost fairness` shows, without names of senders. However many scrapers ask, it looks once a second.

    \b
    Example: fairpost metrics --listen 127.0.0.1:9464
    """
    import asyncio

    length = span(window)
    if listen is None:
        typer.echo(with_store(lambda store: _look(store, length), connections_max=3), nl=False)
    else:
        host, port = host_and_port(listen, default="127.0.0.1:9464")
        asyncio.run(_serve(host, port, window=length))


async def _look(store: "Store", window: timedelta) -> bytes:
    from fairpost.observe.exposition import exposition
    from fairpost.observe.fairness import read_fairness

    return exposition(await read_fairness(store, window=window))


async def _serve(host: str, port: int, *, window: timedelta) -> None:
    import asyncio
    import signal

    from fairpost.app import kept, open_store
    from fairpost.observe.scrape import served

    over = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, over.set)
    settings = read_settings()
    async with open_store(settings, connections_max=1) as store:
        await _look(store, window)  # what is wrong is said here, and not to Prometheus
        async with served(lambda: _look(store, window), host=host, port=port) as bound:
            shown = f"[{host}]" if ":" in host else host
            typer.echo(f"ready: Prometheus finds the figures at http://{shown}:{bound}/metrics")
            with kept(settings, note):
                await over.wait()
