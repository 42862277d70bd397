"""What two independent parsers see in a message, in a common form."""

import email
import email.policy
import re
from dataclasses import dataclass
from email.errors import NonASCIILocalPartDefect
from email.header import decode_header, make_header
from email.headerregistry import AddressHeader
from email.message import EmailMessage
from email.utils import getaddresses

import fast_mail_parser


@dataclass(frozen=True)
class File:
    filename: str
    content_type: str
    content_id: str | None
    disposition: str | None
    data: bytes


@dataclass(frozen=True)
class Seen:
    subject: str
    sender: list[tuple[str, str]]
    reply_to: list[tuple[str, str]]
    to: list[tuple[str, str]]
    cc: list[tuple[str, str]]
    headers: dict[str, str]
    text: bytes | None
    html: bytes | None
    files: list[File]


def read_by_stdlib(data: bytes) -> EmailMessage:
    """The standard library's parser reads raw UTF-8 in headers only if it is given text."""
    if data.isascii():
        message = email.message_from_bytes(data, policy=email.policy.default)
    else:
        message = email.message_from_string(data.decode("utf-8"), policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def seen_by_stdlib(data: bytes) -> Seen:
    message = read_by_stdlib(data)
    leaves = [part for part in message.walk() if not part.is_multipart()]
    texts = [part for part in leaves if part["content-disposition"] is None and part.get_content_type() == "text/plain"]
    htmls = [part for part in leaves if part["content-disposition"] is None and part.get_content_type() == "text/html"]
    assert len(texts) == 1
    assert len(htmls) <= 1
    return Seen(
        subject=str(message["subject"]),
        sender=_people(data, "from"),
        reply_to=_people(data, "reply-to"),
        to=_people(data, "to"),
        cc=_people(data, "cc"),
        headers={name: str(value) for name, value in message.items() if name.startswith("X-")},
        text=_bytes_of(texts[0]),
        html=_bytes_of(htmls[0]) if htmls else None,
        files=[_file(part) for part in leaves if part["content-disposition"] is not None],
    )


def defects_of(message: EmailMessage) -> list[str]:
    """Leaves out the finding that only says that an address needs SMTPUTF8."""
    found = []
    for part in message.walk():
        found += [f"{part.get_content_type()}: {defect!r}" for defect in part.defects]
        for name, value in part.items():
            defects = [one for one in getattr(value, "defects", ()) if not isinstance(one, NonASCIILocalPartDefect)]
            found += [f"{name}: {defect!r}" for defect in defects]
    return found


def _people(data: bytes, name: str) -> list[tuple[str, str]]:
    header = read_by_stdlib(data)[name]
    if header is None:
        return []
    assert isinstance(header, AddressHeader)
    as_written = email.message_from_string(data.decode("utf-8"), policy=email.policy.compat32)[name].replace("\r\n", "")
    phrases = [phrase for phrase, _ in getaddresses([as_written])]
    if str(header) == "undisclosed-recipients:;":
        return []
    return [
        (_name(phrase, one.display_name), one.addr_spec) for phrase, one in zip(phrases, header.addresses, strict=True)
    ]


def _name(phrase: str, display_name: str) -> str:
    """The standard library's new parser (3.11) has two faults with encoded words in names, which its old parser does
    not have.

    It puts a space between two adjacent words, although RFC 2047 (6.2) says that white space between them is not shown;
    and inside a word, it reduces several spaces to one, including no-break spaces: `=?utf-8?q?Ann__Lee?=` is read as
    "Ann Lee".
    """
    decoded = str(make_header(decode_header(phrase))) if "=?" in phrase else display_name
    return decoded if phrase.count("=?") > 1 or re.search(r"\s\s", decoded) else display_name


def _bytes_of(part: EmailMessage) -> bytes:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload


def _file(part: EmailMessage) -> File:
    content_id = part["content-id"]
    return File(
        filename=part["content-disposition"].params[
            "filename"
        ],  # get_filename() strips blanks that are part of the name
        content_type=part.get_content_type(),
        content_id=str(content_id)[1:-1] if content_id else None,
        disposition=part.get_content_disposition(),
        data=_bytes_of(part),
    )


def _one_encoded_name_a_line(data: bytes) -> bytes:
    """The same message according to RFC 5322, folded so that the Rust parser reads it correctly.

    That parser does not decode an encoded word if raw UTF-8 precedes it on the same line: in `ü@x.example,
    =?utf-8?q?=C3=84?= <a@x.example>`, the name is returned as written, but after a line break it is "Ä".
    """
    head, empty_line, body = data.partition(b"\r\n\r\n")
    return data if data.isascii() else head.replace(b", =?", b",\r\n =?") + empty_line + body


def seen_by_rust(data: bytes) -> Seen:
    data = _one_encoded_name_a_line(data)
    mail = fast_mail_parser.parse_email(data, strict=True)
    leaves = [
        node for node in fast_mail_parser.walk(fast_mail_parser.parse_email_tree(data)) if node.content is not None
    ]
    bodies = {node.content_type: node.content for node in leaves if not node.filename}
    assert mail.warnings == []
    return Seen(
        subject=mail.subject,
        sender=[(mail.from_.display_name or "", mail.from_.address)] if mail.from_ else [],
        reply_to=[(one.display_name or "", one.address) for one in mail.reply_to],
        to=[(one.display_name or "", one.address) for one in mail.to],
        cc=[(one.display_name or "", one.address) for one in mail.cc],
        headers={name: values[0] for name, values in mail.headers.items() if name.startswith("X-")},
        text=bodies.get("text/plain"),
        html=bodies.get("text/html"),
        files=[
            File(node.filename, node.content_type, node.content_id, node.disposition, node.content or b"")
            for node in leaves
            if node.filename
        ],
    )
