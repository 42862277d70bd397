"""Messages received by a peer, in the same form for all peers."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from tests.peers.process import POLL_S, PeerBroken, end_of


@dataclass(frozen=True, kw_only=True)
class Received:
    """smtp-sink has one for each transaction; the others store a copy for each recipient."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    """With what the peer put on top, and lines that end as the peer stores them, in LF."""

    @property
    def message(self) -> EmailMessage:
        parsed = message_from_bytes(self.content, policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed


@dataclass(frozen=True, kw_only=True)
class Server:
    host: str
    port: int
    """Plain, with STARTTLS where a certificate was given."""
    tls_port: int | None = None
    """TLS from the first byte; only where a certificate was given."""
    pid: int
    log: Path
    received: Callable[[], Sequence[Received]] = field(repr=False)

    def wait_for(self, count: int, *, timeout_s: float = 60.0) -> Sequence[Received]:
        """Returns the messages once this many have arrived: a server replies before it has delivered.

        Blocks. If the client runs in an event loop, use await asyncio.to_thread(server.wait_for, 1).
        """
        deadline = time.monotonic() + timeout_s
        while len(messages := self.received()) < count:
            if time.monotonic() > deadline:
                raise PeerBroken(
                    f"waited {timeout_s} s for {count} messages, have {len(messages)}:\n{end_of(self.log)}"
                )
            time.sleep(POLL_S)
        return messages
