"""A transport's report on one send: how far the send got, and the replies. A report contains only facts. policy/ judges
them.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from fairpost.model.dkim import LockedKey
from fairpost.model.quick import quick


class Reached(StrEnum):
    UNTOUCHED = "untouched"  # no part of this e-mail was sent: no connection, or no permission to send
    BEFORE_DOT = "before_dot"  # interrupted before the message was complete, so the server cannot have accepted it
    AFTER_DOT = "after_dot"  # the message was complete, but no reply arrived, so the outcome is unknown
    REPLIED = "replied"
    UNSENDABLE = "unsendable"  # not sent, because this server cannot accept the message; a retry will not help


class Step(StrEnum):
    """Where the conversation with a server ended."""

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
    """The set of codes that a reply uses."""

    SMTP = "smtp"
    GOOGLE = "gmail"  # HTTP status codes; the text begins with Google's reason: "rateLimitExceeded: …"
    GRAPH = "graph"  # HTTP status codes; the text begins with Microsoft's code: "ErrorSendAsDenied: …"


class Reply(NamedTuple):
    code: int
    text: str


@quick(frozen=True, slots=True, kw_only=True)
class Report:
    """A report. `recipients` maps each recipient to its own reply. `reply` is the reply that ended the transaction."""

    reached: Reached
    channel: Channel = Channel.SMTP
    step: Step | None = None
    reply: Reply | None = None
    recipients: Mapping[str, Reply] = field(default_factory=dict)
    error: str | None = None
    message_id: str | None = None
    thread_id: str | None = None
    response_ms: int | None = None
    retry_at: datetime | None = None  # the server asked not to be contacted before this time
    is_barred: bool = False  # the operator forbids this destination
    locked_key: LockedKey | None = None  # nothing was sent; this key must sign the e-mail, but cannot be unsealed
    is_silent: bool = False  # the attempt ended because no answer arrived in time
