"""An e-mail as it is sent over the wire: its bytes and its envelope."""

from dataclasses import field

from fairpost.model.quick import quick


@quick(frozen=True, slots=True, kw_only=True)
class Message:
    """A message. Every line of `data` ends with CRLF, including the last; the SMTP client does the dot-stuffing."""

    sender: str  # envelope sender as in RFC 5321, with the domain in ASCII
    recipients: tuple[str, ...]  # envelope recipients
    message_id: str  # with angle brackets
    data: bytes = field(repr=False)
    needs_smtputf8: bool = False  # an address has non-ASCII characters before the @
