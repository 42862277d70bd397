"""Reads the folder that Postfix, Exim and OpenSMTPD all deliver to."""

from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path

from tests.peers.received import Received


def read_maildir(folder: Path) -> list[Received]:
    """Returns the mails in the order of delivery."""
    found: list[tuple[int, bytes]] = []
    for file in (folder / "new").iterdir():
        with suppress(FileNotFoundError):
            found.append((file.stat().st_mtime_ns, file.read_bytes()))
    return [_parse(content) for _, content in sorted(found)]


def _parse(content: bytes) -> Received:
    stored = Received(sender="", recipients=(), content=content)
    return Received(
        sender=_address(stored.message, "Return-Path"),
        recipients=(_address(stored.message, "X-Original-To", "Envelope-to", "Delivered-To"),),
        content=content,
    )


def _address(message: EmailMessage, *headers: str) -> str:
    """Returns the value of the first of these headers that exists, because each server has its own."""
    return next(str(message[name]) for name in headers if name in message).strip().strip("<>")
