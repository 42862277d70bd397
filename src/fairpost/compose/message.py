"""Composes a message from the content that all recipients share and the parts that are specific to one e-mail."""

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from hashlib import blake2s

from fairpost.compose.addresses import address_header, plain_address
from fairpost.compose.bulk import bulk_headers
from fairpost.compose.dkim import SigningKey, hash_of_body, signatures
from fairpost.compose.headers import custom_header, text_header
from fairpost.compose.parts import tree_of
from fairpost.compose.threads import thread_headers
from fairpost.model.email import Content, Mailbox, Outgoing, Recipient
from fairpost.model.message import Message

WEEKDAYS = (b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun")
MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
UNDISCLOSED = b"To: undisclosed-recipients:;\r\n"
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # the same conversion as in the database


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Content as bytes. Identical content yields identical bytes, which can be cached and used for all recipients."""

    reply_to: bytes = field(repr=False)
    subject: bytes = field(repr=False)
    headers: bytes = field(repr=False)  # the caller's headers and the MIME headers
    body: bytes = field(repr=False)
    needs_smtputf8: bool = False

    @property
    def size(self) -> int:
        """The size in bytes, which caches use."""
        return len(self.reply_to) + len(self.subject) + len(self.headers) + len(self.body)

    @cached_property
    def body_hash(self) -> bytes:
        """The hash for DKIM, computed once when the first e-mail is signed."""
        return hash_of_body(self.body)


def prepare(content: Content) -> Prepared:
    reply_to = address_header(b"Reply-To", [content.reply_to]) if content.reply_to else b""
    custom = b"".join([custom_header(name, value) for name, value in content.headers.items()])
    tree = tree_of(content)
    end = b"" if not tree.body or tree.body.endswith(b"\r\n") else b"\r\n"
    return Prepared(
        reply_to=reply_to,
        subject=text_header(b"Subject", content.subject),
        headers=b"%bMIME-Version: 1.0\r\n%b" % (custom, tree.headers),
        body=tree.body + end,
        needs_smtputf8=not (reply_to.isascii() and custom.isascii()),
    )


def compose(
    email: Outgoing,
    prepared: Prepared,
    *,
    sender: Mailbox,
    date: datetime,
    headers_are_envelope: bool = False,
    extra: bytes = b"",
    keys: Sequence[SigningKey] = (),
    return_path: str | None = None,
    mailto: str | None = None,
) -> Message:
    """Composes a message.

    `headers_are_envelope` is for a provider that reads the recipients from the headers. `extra` contains additional
    header lines for this provider. The message is signed with `keys`. Reports go to `return_path` instead of the
    sender, and requests to unsubscribe go to `mailto`.
    """
    envelope_sender = plain_address(sender.address)
    recipients = tuple([plain_address(address) for address in email.envelope])
    message_id = message_id_of(email, domain=envelope_sender.rpartition("@")[2])
    shown = _envelope_shown(email) if headers_are_envelope else _recipients_shown(email.recipients) or UNDISCLOSED
    addressed = _from_header(sender) + prepared.reply_to + shown
    own = thread_headers(email) + extra if email.follows else extra
    if email.bulk is not None:
        own = bulk_headers(email, domain=envelope_sender.rpartition("@")[2], mailto=mailto) + own
    head = b"Date: %b\r\n%b%bMessage-ID: %b\r\n%b%b" % (
        *(date_of(date), addressed, prepared.subject, message_id.encode("ascii"), own, prepared.headers),
    )
    signed = signatures(keys, head, body_hash=prepared.body_hash, at=date) if keys else b""
    return Message(
        sender=return_path or envelope_sender,
        recipients=recipients,
        message_id=message_id,
        data=b"%b%b\r\n%b" % (signed, head, prepared.body),
        needs_smtputf8=prepared.needs_smtputf8 or not (addressed.isascii() and "".join(recipients).isascii()),
    )


def _recipients_shown(people: Sequence[Recipient]) -> bytes:
    to = [person for person in people if person.kind == "to"]
    cc = [person for person in people if person.kind == "cc"]
    return (address_header(b"To", to) if to else b"") + (address_header(b"Cc", cc) if cc else b"")


def _envelope_shown(email: Outgoing) -> bytes:
    """Formats exactly the envelope recipients, including those in Bcc, each of them once. Recipients who are left out
    (suppressed or already reached) must not be named, although this means that the other recipients cannot see them.
    """
    left = {address.translate(LOWER): address for address in email.envelope}
    named = [person for person in email.recipients if left.pop(person.address.translate(LOWER), None) is not None]
    unnamed = [Recipient(kind="bcc", address=address) for address in left.values()]
    hidden = [person for person in named if person.kind == "bcc"] + unnamed
    return (_recipients_shown(named) or UNDISCLOSED) + (address_header(b"Bcc", hidden) if hidden else b"")


def message_id_of(email: Outgoing, *, domain: str) -> str:
    """Returns the Message-ID, which is the same for every attempt.

    Installations that share a domain may assign the same e-mail ID; the hash keeps their Message-IDs distinct. The hash
    does not include the internal number, because a recipient could find it by trial and error.
    """
    people = [person.address for person in email.recipients]
    origin = "\0".join([email.public_id or str(email.id), email.workspace, *people]).encode("utf-8", "replace")
    return f"<{email.name_in_headers}.{blake2s(origin, digest_size=8).hexdigest()}@{domain}>"


@lru_cache(maxsize=256)
def _from_header(sender: Mailbox) -> bytes:
    return address_header(b"From", [sender])


@lru_cache(maxsize=2)  # e-mails sent in the same second share this value
def _date_of_second(second: int) -> bytes:
    utc = datetime.fromtimestamp(second, UTC)
    day = b"%b, %02d %b %04d" % (WEEKDAYS[utc.weekday()], utc.day, MONTHS[utc.month - 1], utc.year)
    return b"%b %02d:%02d:%02d +0000" % (day, utc.hour, utc.minute, utc.second)


def date_of(moment: datetime) -> bytes:
    assert moment.tzinfo, "a date needs a time zone"
    return _date_of_second(int(moment.timestamp() // 1))
