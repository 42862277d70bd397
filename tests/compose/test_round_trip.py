"""Composed messages read back unchanged with two independent parsers."""

import re
from email.message import MIMEPart

from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.compose.domains import ascii_domain
from fairpost.model.email import Attachment, Content, Mailbox, Recipient
from fairpost.model.message import Message
from tests.compose import strategies as some
from tests.compose.composing import message_of
from tests.compose.reading import Seen, defects_of, read_by_stdlib, seen_by_rust, seen_by_stdlib
from tests.thorough import times

many = settings(max_examples=times(25))


def both(message: Message) -> list[Seen]:
    assert defects_of(read_by_stdlib(message.data)) == []
    return [seen_by_stdlib(message.data), seen_by_rust(message.data)]


def on_the_wire(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{ascii_domain(domain)}"


def lines(text: str) -> bytes:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n").encode()


@many
@given(some.subjects)
def test_a_subject_comes_back_as_it_was(subject: str) -> None:
    for seen in both(message_of(some.content_of(subject))):
        assert seen.subject == subject


@many
@given(some.text_headers)
def test_headers_of_the_caller_come_back_as_they_were(headers: dict[str, str]) -> None:
    for seen in both(message_of(some.content_of(headers=headers))):
        assert seen.headers == headers


def named(person: Mailbox | Recipient) -> tuple[str, str]:
    return person.name or "", on_the_wire(person.address)


def named_by_rust(person: Mailbox | Recipient) -> tuple[str, str]:
    """The Rust parser strips white space from the end of an encoded name: `=?utf-8?q?Ann_?=` is "Ann " by RFC 2047 (4.2)."""
    name, address = named(person)
    return name if name.isascii() and "=?" not in name else name.rstrip(), address


@many
@given(some.mailboxes(), some.mailboxes(), some.recipients())
def test_names_and_addresses_come_back_as_they_were(
    sender: Mailbox, reply_to: Mailbox, people: tuple[Recipient, ...]
) -> None:
    message = message_of(some.content_of(reply_to=reply_to), people, sender)
    for seen, as_given in zip(both(message), (named, named_by_rust), strict=True):
        assert seen.sender == [as_given(sender)]
        assert seen.reply_to == [as_given(reply_to)]
        assert seen.to == [as_given(one) for one in people if one.kind == "to"]
        assert seen.cc == [as_given(one) for one in people if one.kind == "cc"]


@many
@given(some.bodies, some.bodies)
def test_text_and_html_come_back_but_for_their_line_ends(text: str, html: str) -> None:
    for seen in both(message_of(some.content_of(text=text, html=html))):
        assert seen.text == lines(text)
        assert seen.html == lines(html)


@many
@given(some.bodies)
def test_a_text_alone_comes_back_with_a_line_end_at_its_end(text: str) -> None:
    for seen in both(message_of(some.content_of(text=text))):
        assert seen.text is not None
        assert seen.text.removesuffix(b"\r\n") == lines(text).removesuffix(b"\r\n")


@many
@given(some.attachments, st.one_of(st.none(), st.just("<p>x</p>")))
def test_files_come_back_with_their_names(files: tuple[Attachment, ...], html: str | None) -> None:
    inline = [file for file in files if file.inline_id and html is not None]
    attached = [file for file in files if file not in inline]
    for seen in both(message_of(some.content_of(html=html, attachments=files))):
        assert [file.data for file in seen.files] == [file.data for file in inline + attached]
        assert [file.filename for file in seen.files] == [file.filename for file in inline + attached]
        assert [file.content_type for file in seen.files] == [file.content_type for file in inline + attached]
        assert [file.content_id for file in seen.files] == [file.inline_id for file in inline] + [None] * len(attached)
        assert [file.disposition for file in seen.files] == ["inline"] * len(inline) + ["attachment"] * len(attached)


@many
@given(some.recipients(count_max=50))
def test_fifty_recipients_come_back_in_order_and_the_bcc_ones_never(people: tuple[Recipient, ...]) -> None:
    message = message_of(some.content_of(), people)
    for seen, as_given in zip(both(message), (named, named_by_rust), strict=True):
        assert seen.to == [as_given(one) for one in people if one.kind == "to"]
        assert seen.cc == [as_given(one) for one in people if one.kind == "cc"]
    assert message.recipients == tuple(on_the_wire(one.address) for one in people)


@many
@given(some.contents(), some.recipients(), some.mailboxes())
def test_a_whole_email_comes_back(content: Content, people: tuple[Recipient, ...], sender: Mailbox) -> None:
    for seen in both(message_of(content, people, sender)):
        assert seen.subject == content.subject
        assert seen.headers == content.headers
        assert (seen.html is None) == (content.html is None)
        if content.html is not None:
            assert seen.html == lines(content.html)
        if content.text is not None and (content.html is not None or content.attachments):
            assert seen.text == lines(content.text)
        assert sorted(file.data for file in seen.files) == sorted(file.data for file in content.attachments)


@many
@given(some.contents())
def test_the_tree_has_no_level_that_holds_one_thing_only(content: Content) -> None:
    shape = shape_of(read_by_stdlib(message_of(content).data))
    inline = sum(file.inline_id is not None for file in content.attachments) if content.html is not None else 0
    files = len(content.attachments) - inline
    html = f"related(html{',file' * inline})" if inline else "html"
    body = f"alternative(plain,{html})" if content.html is not None else "plain"
    assert shape == (f"mixed({body}{',file' * files})" if files else body)


def shape_of(part: MIMEPart) -> str:
    if part.is_multipart():
        return f"{part.get_content_subtype()}({','.join(shape_of(child) for child in part.iter_parts())})"
    return "file" if part["content-disposition"] else part.get_content_subtype()


@many
@given(some.structured_values)
def test_structured_headers_pass_through_untouched(value: str) -> None:
    message = message_of(some.content_of(headers={"References": value, "List-Help": value}))
    for name in (b"References", b"List-Help"):
        (line,) = re.findall(rb"^%b: ?((?:.*\r\n)(?:[ \t].*\r\n)*)" % name, message.data, re.MULTILINE)
        assert line.replace(b"\r\n", b"").decode("utf-8") == value
    assert message.needs_smtputf8 == (not value.isascii())
    assert defects_of(read_by_stdlib(message.data)) == []
    if (
        "=?" not in value
    ):  # RFC 2047 (5) allows no encoded words in List-Help; the standard library treats it as free text
        assert str(read_by_stdlib(message.data)["list-help"]) == value
