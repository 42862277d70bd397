"""What a transport reports of one send: how far it came, and what was answered. Facts only; policy judges them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Reached(StrEnum):
    UNTOUCHED = "untouched"  # nothing of this e-mail left us: no connection, or no permission to send
    BEFORE_DOT = "before_dot"  # cut before the message was complete: the server cannot have taken it
    AFTER_DOT = "after_dot"  # the message was complete, the answer never came: nobody knows
    REPLIED = "replied"
    UNSENDABLE = "unsendable"  # nothing left us: this server cannot take such a message, and trying again will not help


class Step(StrEnum):
    """Where a conversation with a server stood when it ended."""

    CONNECT = "connect"
    GREETING = "greeting"
    HELLO = "hello"
    STARTTLS = "starttls"
    TLS = "tls"
    AUTH = "auth"
    RESET = "reset"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    BODY = "body"
    DOT = "dot"
    QUIT = "quit"


class Channel(StrEnum):
    """Whose codes a reply speaks in."""

    SMTP = "smtp"
    GOOGLE = "gmail"  # HTTP status codes; the text begins with Google's reason: "rateLimitExceeded: …"
    GRAPH = "graph"  # HTTP status codes; the text begins with Microsoft's code: "ErrorSendAsDenied: …"


class Reply(NamedTuple):
    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`recipients` has each recipient's own reply; `reply` is the one that ended the transaction."""

    reached: Reached
    channel: Channel = Channel.SMTP
    step: Step | None = None
    reply: Reply | None = None
    recipients: Mapping[str, Reply] = field(default_factory=dict)
    error: str | None = None
    message_id: str | None = None
    thread_id: str | None = None
    response_ms: int | None = None
    retry_at: datetime | None = None  # the server asked not to be asked again before
    is_barred: bool = False  # the operator does not let the account go there
    is_silent: bool = False  # it ended because nothing came in time
