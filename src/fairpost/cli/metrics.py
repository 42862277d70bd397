"""`fairpost metrics`: the figures of `fairpost fairness` for Prometheus."""

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import LogFormatOption, host_and_port, span
from fairpost.settings import LogFormat, Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from fairpost.observe.figures import FiguresReader
    from fairpost.regions.stores import RegionStores
    from fairpost.store.store import Store

FIGURES_S_MAX = 8.0  # maximum wait per region, because Prometheus waits only ten seconds


def metrics(
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve the metrics at /metrics until Ctrl-C instead of printing them."),
    ] = None,
    window: Annotated[str, typer.Option(metavar="SPAN", help="Time window for the counts: 1h to 24h.")] = "1h",
    by_account: Annotated[
        bool,
        typer.Option(
            "--by-account", help="Add counts per account. Use this option only if the number of accounts is limited."
        ),
    ] = False,
    log_format: LogFormatOption = None,
) -> None:
    """Print or serve metrics for Prometheus.

    Includes HTTP request durations and the figures from `fairpost fairness`, but no sender names. Do not expose the
    metrics outside your network. The command reads the database at most once a second. If there are several regions and
    none is selected, the metrics cover all regions and have the label `region`.

    \b
    Example: fairpost metrics --listen 127.0.0.1:9464
    """
    import asyncio

    length = span(window)
    if listen is None:
        asyncio.run(_print(length, by_account=by_account))
    else:
        host, port = host_and_port(listen, default="127.0.0.1:9464")
        asyncio.run(_serve(host, port, window=length, by_account=by_account, log_format=log_format))


async def _look(store: "Store", reader: "FiguresReader", *, by_account: bool) -> bytes:
    from fairpost.observe.exposition import exposition

    return exposition(await reader.read(store), by_account=by_account)


async def _look_at_all(stores: "RegionStores", readers: "Mapping[str, FiguresReader]", *, by_account: bool) -> bytes:
    """Read all regions, each with the label `region`. For a region that does not respond, only this fact is shown."""
    import asyncio

    from fairpost.model.errors import FairpostError
    from fairpost.observe.exposition import exposition_of_regions
    from fairpost.observe.figures import Figures
    from fairpost.store.trouble import DRIVER_ERRORS

    async def look(region: str) -> Figures | None:
        try:
            async with stores.at(region) as store:
                return await readers[region].read(store)
        except (FairpostError, *DRIVER_ERRORS):
            return None

    names = stores.directory.names
    found = dict(zip(names, await asyncio.gather(*map(look, names)), strict=True))
    return exposition_of_regions(found, by_account=by_account)


@asynccontextmanager
async def _opened(
    settings: Settings, window: timedelta, *, by_account: bool
) -> "AsyncIterator[Callable[[], Awaitable[bytes]]]":
    """Read the selected region, or all regions if none is selected."""
    from fairpost.observe.figures import FiguresReader
    from fairpost.regions.stores import RegionStores
    from fairpost.startup.parts import open_store

    if settings.regions is not None and settings.region is None:
        async with RegionStores(settings.regions, answer_s_max=FIGURES_S_MAX) as stores:
            readers = {name: FiguresReader(window) for name in stores.directory.names}
            yield lambda: _look_at_all(stores, readers, by_account=by_account)
    else:
        async with open_store(settings, connections_max=1) as store:
            reader = FiguresReader(window)
            yield lambda: _look(store, reader, by_account=by_account)


async def _print(window: timedelta, *, by_account: bool) -> None:
    async with _opened(read_settings(), window, by_account=by_account) as look:
        typer.echo(await look(), nl=False)


async def _serve(host: str, port: int, *, window: timedelta, by_account: bool, log_format: LogFormat | None) -> None:
    import asyncio
    import signal

    from fairpost.observe.scrape import served
    from fairpost.startup.logs import start_logging
    from fairpost.startup.parts import kept

    over = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, over.set)
    settings = read_settings()
    async with _opened(settings, window, by_account=by_account) as look:
        await look()  # errors are printed here and not sent to Prometheus
        async with served(look, host=host, port=port) as bound:
            shown = f"[{host}]" if ":" in host else host
            typer.echo(f"ready: metrics for Prometheus at http://{shown}:{bound}/metrics")
            with kept(settings, start_logging(settings, log_format=log_format)):
                await over.wait()
