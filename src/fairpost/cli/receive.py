"""`fairpost receive`: receive mail at bounce addresses, as an SMTP or LMTP server or from a pipe."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import LogFormatOption, host_and_port
from fairpost.cli.output import AsJson, error_line, print_json
from fairpost.model.errors import FairpostError
from fairpost.settings import LogFormat, Settings, read_settings

if TYPE_CHECKING:
    from fairpost.maintenance.returns import TakenIn
    from fairpost.model.public_ids import PublicIds

TRY_AGAIN = 75  # EX_TEMPFAIL: mail servers keep the mail and try again


def receive(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address and port to listen on.")] = "127.0.0.1:2525",
    lmtp: Annotated[bool, typer.Option("--lmtp", help="Use LMTP instead of SMTP.")] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="Additional address to accept mail for, such as one for complaints. Repeatable."
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read the message in this file and exit, instead of listening. Use `-` for standard input.",
        ),
    ] = None,
    to: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="With --message: envelope recipient.")] = None,
    as_json: AsJson = False,
    log_format: LogFormatOption = None,
) -> None:
    """Receive bounces, complaints and replies.

    For accounts with `bounces=DOMAIN` in their URL, each e-mail has its own address at that domain for reports. Point
    the domain's MX record, or a transport in your mail server, at this command. The command accepts mail only for these
    addresses and relays nothing.

    With --message, the command reads a single message, so your mail server can pipe messages to it. The command exits with code 75 if your mail server should keep the message and try again later.

    \b
    Example: fairpost receive --listen 127.0.0.1:2525 --also complaints@bounces.example.com
    """
    import asyncio

    settings = read_settings()
    if message is not None:
        _take_one(settings, message, to or [], as_json=as_json)
        return
    host, port = host_and_port(listen, default="127.0.0.1:2525")
    addresses = frozenset(each.lower() for each in also or ())
    asyncio.run(_serve(settings, host, port, is_lmtp=lmtp, also=addresses, log_format=log_format))


def _take_one(settings: Settings, source: str, recipients: list[str], *, as_json: bool) -> None:
    import asyncio

    from fairpost.receive.pipe import take_one
    from fairpost.returns.mail import BYTES_MAX
    from fairpost.startup.parts import open_store
    from fairpost.store.trouble import DRIVER_ERRORS

    async def work() -> "tuple[TakenIn, PublicIds]":
        async with open_store(settings, connections_max=1) as store:
            return await take_one(
                store, raw, recipients=recipients, reply_stops=settings.reply_stops
            ), await store.public_ids()

    try:
        raw = sys.stdin.buffer.read(BYTES_MAX) if source == "-" else Path(source).read_bytes()[:BYTES_MAX]
        taken, public_ids = asyncio.run(work())
    except (OSError, FairpostError, *DRIVER_ERRORS) as error:
        error_line(str(error))
        raise typer.Exit(TRY_AGAIN) from error
    findings = [
        {
            "email": public_ids.email(each.email_id) if each.email_id is not None else None,
            "address": each.address,
            "effect": each.effect,
            "is_new": each.is_new,
        }
        for each in taken.findings
    ]
    if as_json:
        print_json({"kind": taken.kind, "findings": findings})
        return
    typer.echo(taken.kind.replace("_", " "))
    for each in findings:
        seen = "" if each["is_new"] else ", known before"
        typer.echo(f"{each['address']}: {each['effect']}, e-mail {each['email'] or 'uncertain'}{seen}")


async def _serve(
    settings: Settings, host: str, port: int, *, is_lmtp: bool, also: frozenset[str], log_format: LogFormat | None
) -> None:
    import asyncio
    import signal

    from fairpost.receive.server import Receiver, ReceiverOptions, serve
    from fairpost.startup.logs import start_logging
    from fairpost.startup.parts import kept, open_store

    over = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, over.set)
    protocol = "LMTP" if is_lmtp else "SMTP"
    log = start_logging(settings, log_format=log_format)
    with kept(settings, log):
        async with open_store(settings, connections_max=4) as store:
            receiver = Receiver(
                store,
                ReceiverOptions(host=host, port=port, is_lmtp=is_lmtp, also=also, reply_stops=settings.reply_stops),
                log,
            )
            await serve(receiver, until=over, on_start=lambda at: typer.echo(f"ready: {protocol} on {host}:{at}"))
