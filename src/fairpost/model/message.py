"""An e-mail as it goes over the wire: its bytes, and the envelope around them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`data` ends every line with CRLF, the last one too; dots are stuffed by whoever speaks SMTP."""

    sender: str  # of the envelope, as RFC 5321 writes it: the domain in ASCII
    recipients: tuple[str, ...]  # of the envelope
    message_id: str  # with its angle brackets
    data: bytes = field(repr=False)
    needs_smtputf8: bool = False  # an address before whose @ there is more than ASCII
