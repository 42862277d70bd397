"""`fairpost inbox`: a development mail server that keeps every message, and commands to read them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.output import AsJson, iso, jsonable, note, note_event, plain, print_json, print_pairs, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, NotFound, Refusal
from fairpost.settings import read_settings

if TYPE_CHECKING:
    import ssl

    from fairpost.dev.inbox.deleting import Deleted
    from fairpost.dev.inbox.faults import Fault
    from fairpost.dev.inbox.mails import Mail, MailId
    from fairpost.dev.inbox.server import InboxServer, ServerOptions
    from fairpost.model.email import AttachedFile, Attachment
    from fairpost.quality.check import Checked
    from fairpost.quality.reading import Reading
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Run a development mail server that keeps all mail.")

LATEST = 0  # means the newest message; real IDs start at 1
ID_MAX = 2**63 - 1  # the maximum of PostgreSQL's `bigint`
MEGABYTE = 1_048_576
LINES_SHOWN_MAX = 500
LINKS_SHOWN_MAX = 50
SHOWN_HEADERS = ("From", "To", "Cc", "Bcc", "Reply-To", "Subject", "Date", "Message-ID")


def _mail_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:20]) <= ID_MAX:
        raise typer.BadParameter(f"{text!r} is not a message ID. To list messages, run: fairpost inbox list")
    return int(text)


def _mail_id_or_latest(text: str) -> int:
    return LATEST if text == "latest" else _mail_id(text)


def _fault(text: str) -> "Fault":
    from fairpost.dev.inbox.faults import parse

    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Id = Annotated[
    int,
    typer.Argument(
        parser=_mail_id_or_latest, metavar="ID", help="Message ID, or `latest` for the most recent message."
    ),
]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of messages.")]
Before = Annotated[
    int | None,
    typer.Option(
        parser=_mail_id, metavar="ID", help="Only messages older than the one with this ID, for the next page."
    ),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")]
PemFile = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="PEM file for TLS.")]


def _provider(name: str) -> Any:
    from fairpost.dev.simulate.zoo import ZOO
    from fairpost.system import chance

    servers = {each.name: each.smtp for each in ZOO.values() if each.smtp is not None}
    if name not in servers:
        raise typer.BadParameter(f"there is no {name}. Use one of: {', '.join(servers)}")
    return servers[name](chance.roll)


@app.command()
def serve(
    host: Host = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on. With 0, a free port is used.")
    ] = 1025,
    fault: Annotated[
        list[Any] | None,
        typer.Option(
            parser=_fault, metavar="STEP=ACTION", help="Fault to inject, for example rcpt=reject. Repeatable."
        ),
    ] = None,
    provider: Annotated[
        Any,
        typer.Option(
            parser=_provider, metavar="NAME", help="Behave like this simulated provider, for example greylisting."
        ),
    ] = None,
    tls_cert: PemFile = None,
    tls_key: PemFile = None,
    implicit_tls: Annotated[bool, typer.Option("--implicit-tls", help="Use implicit TLS instead of STARTTLS.")] = False,
    size_mb: Annotated[int, typer.Option(min=1, max=200, help="Maximum message size in MB.")] = 50,
    keep_mails: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of messages to keep.")] = 10_000,
    keep_mb: Annotated[int, typer.Option(min=1, max=1_000_000, help="Total size of messages to keep, in MB.")] = 1_024,
) -> None:
    """Accept mail and store it in the database.

    Accepts any sender, recipient and password, and forwards nothing. To stop the server, press Ctrl-C.

    \b
    Example: fairpost inbox serve --port 1025 --fault 'dot=tempfail%10'
    """
    import asyncio

    from fairpost.dev.inbox.server import ServerOptions, is_loopback

    options = ServerOptions(
        host=host or "127.0.0.1",
        port=port,
        beyond_loopback=host is not None,
        faults=tuple(fault or ()),
        decide=provider,
        tls=_tls(tls_cert, tls_key, implicit=implicit_tls),
        implicit_tls=implicit_tls,
        message_bytes_max=size_mb * MEGABYTE,
        keep_mails=keep_mails,
        keep_bytes=keep_mb * MEGABYTE,
    )
    if not is_loopback(options.host):
        note(f"warning: anyone who can reach {options.host} can write to this inbox, with any password")
    asyncio.run(_serve(options))


@app.command("list")
def list_(
    limit: Limit = 50,
    after: Annotated[
        int | None, typer.Option(parser=_mail_id, metavar="ID", help="Only messages newer than the one with this ID.")
    ] = None,
    before: Before = None,
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only messages to this address.")] = None,
    as_json: AsJson = False,
) -> None:
    """List messages, newest first.

    \b
    Example: fairpost inbox list --to ann@example.com --limit 1 --json
    """
    _print_list(limit=limit, as_json=as_json, after=after, before=before, to=to)


@app.command()
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS...", help="Words to find. A message must contain all of the words.")
    ],
    limit: Limit = 50,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Find messages by words in the subject, addresses or text.

    The search ignores case and does not support wildcards.

    \b
    Example: fairpost inbox search welcome ann@example.com
    """
    _print_list(limit=limit, as_json=as_json, before=before, words=words)


@app.command()
def show(
    id_: Id,
    html: Annotated[bool, typer.Option("--html", help="Print only the HTML part.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a message: sender, recipients, text and attachments.

    \b
    Example: fairpost inbox show latest
    """
    mail, reading = _read(id_)
    if as_json:
        print_json(_everything(mail, reading))
    elif not html:
        _print_mail(mail, reading)
    elif reading.html is None:
        raise NotFound(f"Message {mail.id} has no HTML. To see the message's text, run: fairpost inbox show {mail.id}")
    else:
        typer.echo(_tamed(reading.html))


@app.command()
def source(id_: Id) -> None:
    """Print a message exactly as received.

    \b
    Example: fairpost inbox source latest > mail.eml
    """
    typer.echo(_open(id_)[1], nl=False)


@app.command()
def attachments(
    id_: Id,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="Directory to save the attachments in. The directory is created if it does not exist.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """List or save a message's attachments.

    Attachments are saved under safe names, without directories or a leading dot. Existing files are kept unless you add
    --force.

    \b
    Example: fairpost inbox attachments latest --save downloads
    """
    mail, reading = _read(id_)
    paths = _save(reading.attachments, save, force=force) if save else []
    if as_json:
        saved = [{"saved_as": str(path)} for path in paths] or [{}] * len(mail.attachments)
        print_json([{**jsonable(file), **where} for file, where in zip(mail.attachments, saved, strict=True)])
    elif not reading.attachments:
        typer.echo(f"message {mail.id} has no attachments")
    elif save:
        for path in paths:
            typer.echo(f"saved {plain(str(path))}")
    else:
        print_table(
            ("name", "type", ">bytes"), ((f.filename, f.content_type, f"{f.bytes:,}") for f in mail.attachments)
        )


@app.command("check")
def check_(
    id_: Annotated[
        int | None,
        typer.Argument(
            parser=_mail_id_or_latest,
            metavar="ID",
            help="Message ID. [default: latest, which is the most recent message]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the quality of a message.

    Checks links, images, headers, parts, unsubscribe options and signatures. Does not open any links.

    \b
    Example: fairpost inbox check latest
    """
    from fairpost.quality.check import check
    from fairpost.quality.reading import read

    mail, raw = _open(LATEST if id_ is None else id_)
    checked = check(raw, read(raw))
    if as_json:
        print_json({"id": mail.id, "checks": checked.findings, "links": checked.links})
    else:
        _print_checked(mail, checked)


@app.command()
def delete(
    ids: Annotated[
        list[int] | None,
        typer.Argument(
            parser=_mail_id_or_latest,
            metavar="ID...",
            help="One or more message IDs, or `latest` for the most recent message.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all messages. Requires --yes.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that all messages should be deleted.")] = False,
) -> None:
    """Delete messages from the inbox.

    \b
    Example: fairpost inbox delete --all --yes
    """
    if bool(ids) == everything:
        raise typer.BadParameter("specify message IDs or --all")
    if everything and not yes:
        raise FairpostError(
            "This deletes every message in the inbox. To confirm, run: fairpost inbox delete --all --yes"
        )
    gone = _delete(ids)
    typer.echo(f"deleted {gone.count} {'message' if gone.count == 1 else 'messages'}")
    if gone.missing:
        raise Refusal("inbox.unknown_mail", mail=", ".join(map(str, gone.missing)))


def _tls(cert: Path | None, key: Path | None, *, implicit: bool) -> "ssl.SSLContext | None":
    import ssl

    if cert is None or key is None:
        if cert or key or implicit:
            raise typer.BadParameter("TLS requires both --tls-cert and --tls-key")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password="")  # otherwise OpenSSL prompts on the terminal
    except (OSError, ValueError) as error:
        raise FairpostError(
            f"{cert} and {key} are not a certificate and its private key: {error}. Use PEM files without a password."
        ) from error
    return context


async def _serve(options: "ServerOptions") -> None:
    import asyncio
    import signal

    from fairpost.dev.inbox.mails import prune
    from fairpost.dev.inbox.server import InboxServer
    from fairpost.startup.parts import kept, open_store

    over = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, over.set)
    settings = read_settings()
    async with open_store(settings) as store:
        await prune(store, keep_mails=options.keep_mails, keep_bytes=options.keep_bytes)
        server = InboxServer(store, options, on_mail=_say_kept, on_trouble=_say_trouble)
        await server.start()
        try:
            typer.echo(_ready(options, server))
            with kept(settings, note_event):
                await over.wait()
        finally:
            await server.stop()
    typer.echo("stopped; the messages are kept (fairpost inbox list)")


def _ready(options: "ServerOptions", server: "InboxServer") -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    security = ("implicit TLS" if options.implicit_tls else "STARTTLS") if options.tls else "no TLS"
    faults = f", {len(options.faults)} faults" if options.faults else ""
    return (
        f"ready: the inbox accepts mail at smtp://{host}:{server.port} ({security}{faults}) — "
        "next: send a message to it, then run: fairpost inbox show latest"
    )


def _say_kept(mail: "Mail") -> None:
    _say(f"{mail.id}  {mail.sender or '<>'} -> {_to(mail)}  {mail.subject or '(no subject)'}  {mail.size:,} bytes")


def _say_trouble(message: str) -> None:
    _say(f"error: {message}", err=True)


def _say(line: str, *, err: bool = False) -> None:
    """Print a line.

    If the output is closed, the line is dropped without an error, because the message is kept and its sender must still
    get the reply.
    """
    from contextlib import suppress

    with suppress(OSError):
        typer.echo(plain(line).replace("\n", " "), err=err)


def _print_list(*, limit: int, as_json: bool, **which: Any) -> None:
    from fairpost.dev.inbox.mails import list_mails

    found = with_store(lambda store: list_mails(store, most=limit, **which))
    if as_json:
        print_json([_for_programs(mail) for mail in found])
        return
    if not found:
        typer.echo("no messages")
        return
    print_table(("id", "received", "from", "to", "subject", ">bytes", ">files"), map(_row, found))
    if len(found) == limit:
        note(f"more: --before {found[-1].id}")


def _row(mail: "Mail") -> tuple[object, ...]:
    received = f"{mail.received_at:%Y-%m-%d %H:%M:%S}"
    sender = mail.from_header or mail.sender or "<>"
    return mail.id, received, sender, _to(mail), mail.subject, f"{mail.size:,}", len(mail.attachments) or ""


def _to(mail: "Mail") -> str:
    first, *others = mail.recipients
    return f"{first} +{len(others)}" if others else first


def _open(id_: int) -> tuple["Mail", bytes]:
    from fairpost.dev.inbox.mails import open_mail

    async def work(store: "Store") -> tuple["Mail", bytes]:
        return await open_mail(store, await _resolved(store, id_))

    return with_store(work)


def _read(id_: int) -> tuple["Mail", "Reading"]:
    from fairpost.quality.reading import read

    mail, raw = _open(id_)
    return mail, read(raw)


async def _resolved(store: "Store", id_: int) -> "MailId":
    from fairpost.dev.inbox.mails import MailId, newest

    return await newest(store) if id_ == LATEST else MailId(id_)


def _delete(ids: Sequence[int] | None) -> "Deleted":
    from fairpost.dev.inbox.deleting import DeleteMails, delete

    async def work(store: "Store") -> "Deleted":
        wanted = None if not ids else [await _resolved(store, id_) for id_ in ids]
        return await act_on(store, delete, DeleteMails(ids=wanted))

    return with_store(work)


def _for_programs(mail: "Mail") -> dict[str, Any]:
    return {"from" if name == "from_header" else name: value for name, value in jsonable(mail).items()}


def _everything(mail: "Mail", reading: "Reading") -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in reading.headers]
    return {**_for_programs(mail), "headers": headers, "text": reading.text, "html": reading.html}


def _print_mail(mail: "Mail", reading: "Reading") -> None:
    print_pairs(
        [
            ("id", mail.id),
            ("received", iso(mail.received_at)),
            ("sent by", mail.sender or "<>"),
            ("sent to", ", ".join(mail.recipients)),
            *((name.lower(), value) for key in SHOWN_HEADERS for name, value in reading.headers if _same(name, key)),
            ("size", f"{mail.size:,} bytes"),
            ("came from", f"{mail.peer}, {mail.helo}, {mail.tls or 'no TLS'}"),
            ("logged in", mail.auth_user),
            *(("attached", _file(file)) for file in mail.attachments),
        ]
    )
    typer.echo()
    _print_text(mail, reading)


def _same(name: str, key: str) -> bool:
    return name.lower() == key.lower()


def _file(file: "AttachedFile") -> str:
    return f"{file.filename} ({file.content_type}, {file.bytes:,} bytes)"


def _print_text(mail: "Mail", reading: "Reading") -> None:
    if reading.text is None:
        typer.echo(
            f"(no text; to print the HTML: fairpost inbox show {mail.id} --html)" if reading.html else "(no text)"
        )
        return
    lines = reading.text.split("\n")
    typer.echo(_tamed("\n".join(lines[:LINES_SHOWN_MAX])))
    if len(lines) > LINES_SHOWN_MAX:
        note(f"… and {len(lines) - LINES_SHOWN_MAX} more lines (to show them all: --json)")


def _print_checked(mail: "Mail", checked: "Checked") -> None:
    from collections import Counter

    print_pairs([("mail", mail.id), ("subject", mail.subject)])
    typer.echo()
    print_table(("", "check", "result"), ((each.level.value, each.what, each.text) for each in checked.findings))
    if checked.links:
        typer.echo()
        print_table(
            ("link", "shown as", "in"), ((link.url, link.text, link.part) for link in checked.links[:LINKS_SHOWN_MAX])
        )
    levels = Counter(each.level.value for each in checked.findings)
    typer.echo(f"\n{levels['bad']} bad, {levels['note']} to note, {levels['good']} good")


def _tamed(text: str) -> str:
    return plain(text.expandtabs())


def _save(files: "Sequence[Attachment]", folder: Path, *, force: bool) -> list[Path]:
    """Save all files or none, as far as this can be checked beforehand. Never follow an existing link."""
    from fairpost.dev.inbox.filenames import safe_names

    paths = [folder / name for name in safe_names([file.filename for file in files])]
    taken = [path for path in paths if path.is_symlink() or path.exists()]
    if taken and not force:
        raise FairpostError(f"{taken[0]} already exists. Nothing was saved. To overwrite the file, add --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, file in zip(paths, files, strict=True):
            path.unlink(missing_ok=True)
            with path.open("xb") as out:
                out.write(file.data)
    except OSError as error:
        raise FairpostError(
            f"Cannot save to {folder}: {error.strerror or error}. Use a different directory: --save DIR"
        ) from error
    return paths
