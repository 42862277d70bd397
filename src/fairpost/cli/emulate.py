"""`fairpost emulate`: emulated mail providers on this machine. No mail leaves this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli import inbox
from fairpost.cli.output import plain
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.dev.emulate.app import Served
    from fairpost.dev.emulate.faults import Fault
    from fairpost.dev.emulate.server import EmulatorOptions, GmailEmulator

app = typer.Typer(no_args_is_help=True, help="Run emulated providers on this machine.")

KEY_FILE = "gmail-emulator.json"
FAULT_BYTES_MAX = 1_048_576

app.command("smtp")(inbox.serve)


def _user(text: str) -> str:
    if not 3 <= len(text) <= 254 or text.count("@") != 1 or text.startswith("@") or text.endswith("@"):
        raise typer.BadParameter(f"{text!r} is not an e-mail address")
    return text


Faults = Annotated[
    Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="JSON file with faults to inject.")
]


@app.command()
def gmail(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on. With 0, a free port is used.")
    ] = 8025,
    user: Annotated[
        list[Any] | None,
        typer.Option(parser=_user, metavar="ADDRESS", help="Mailbox address. Repeatable. [default: me@example.com]"),
    ] = None,
    credentials_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="File for the service account's key. The file is created if it does not exist.",
        ),
    ] = None,
    latency_ms: Annotated[
        int, typer.Option(min=0, max=600_000, help="Delay before each response, in milliseconds.")
    ] = 0,
    index_lag_s: Annotated[
        float, typer.Option(min=0, max=86_400, help="Delay before a new message appears in searches, in seconds.")
    ] = 5,
    quota_units: Annotated[
        int, typer.Option(min=1, max=10**9, help="Maximum number of quota units per mailbox per minute.")
    ] = 6_000,
    daily: Annotated[
        int, typer.Option(min=0, max=10**9, help="Maximum number of messages per mailbox in 24 hours.")
    ] = 2_000,
    faults: Faults = None,
    rewrite_message_id: Annotated[
        bool, typer.Option("--rewrite-message-id/--keep-message-id", help="Replace Message-IDs, as Gmail does.")
    ] = True,
) -> None:
    """Emulate Google's token endpoint and the Gmail API.

    Mailboxes are kept in memory and start out empty. To stop the emulator, press Ctrl-C.

    \b
    Example: fairpost emulate gmail --user ann@example.com --index-lag-s 30
    """
    import asyncio

    from fairpost.dev.emulate.mailbox import MessageIds, Rules
    from fairpost.dev.emulate.quota import Limits
    from fairpost.dev.emulate.server import EmulatorOptions

    options = EmulatorOptions(
        port=port,
        latency_s=latency_ms / 1_000,
        limits=Limits(units_per_minute=quota_units, messages_per_day=daily),
        rules=Rules(index_lag_s=index_lag_s, message_ids=MessageIds.REWRITE if rewrite_message_id else MessageIds.KEEP),
    )
    script = _script(faults) if faults else []
    key_file = credentials_file or read_settings().home / KEY_FILE
    asyncio.run(_play(options, users=user or ["me@example.com"], script=script, key_file=key_file))


def _script(path: Path) -> "list[Fault]":
    import json

    from fairpost.dev.emulate.faults import parse_all

    try:
        if path.stat().st_size > FAULT_BYTES_MAX:
            raise ValueError(f"it is larger than {FAULT_BYTES_MAX:,} bytes")
        return parse_all(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise FairpostError(f"{path} is not a valid fault script: {error}. See docs/emulate.md.") from error


async def _play(options: "EmulatorOptions", *, users: list[str], script: "list[Fault]", key_file: Path) -> None:
    import asyncio
    import signal

    from fairpost.dev.emulate.keys import made_or_reused
    from fairpost.dev.emulate.server import GmailEmulator

    over = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, over.set)
    async with GmailEmulator(users, options, faults=script, on_request=_say) as emulator:
        emulator.register(made_or_reused(key_file, token_url=emulator.token_url))
        typer.echo(_ready(emulator, users=users, key_file=key_file, faults=len(script)))
        await over.wait()
        count = len(emulator.sent())
    typer.echo(
        f"stopped: {count} {'message was' if count == 1 else 'messages were'} accepted; no e-mail left this machine"
    )


def _ready(emulator: "GmailEmulator", *, users: list[str], key_file: Path, faults: int) -> str:
    import shlex

    others = f" and {len(users) - 1} more" if len(users) > 1 else ""
    failing = f", {faults} faults" if faults else ""
    return (
        f"ready: Gmail is emulated at {emulator.url} for {users[0]}{others}{failing}, with the key {key_file} — "
        f"next: fairpost account add NAME --from {shlex.quote(users[0])} --gmail {shlex.quote(str(key_file))} "
        f"--gmail-url {emulator.url}"
    )


def _say(served: "Served") -> None:
    """Print a line. If the output is already closed, the emulator keeps running."""
    from contextlib import suppress

    status = "no answer" if served.status is None else str(served.status)
    fault = "  (fault)" if served.faults else ""
    with suppress(OSError):
        typer.echo(plain(f"{status}  {served.route}  {served.user or '-'}{fault}"), err=True)
