"""Messages that follow others: what they refer to, that foreign ids cannot break a header, and who is named in To."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.compose import compose, prepare
from fairpost.compose.threads import REFERENCES_MAX
from fairpost.model.email import Content, Earlier, Recipient
from tests.compose import strategies as some
from tests.compose.composing import ANN, NOW, SHOP
from tests.compose.reading import defects_of, read_by_stdlib
from tests.compose.test_wire_shape import head_of, lines_of
from tests.thorough import times

FIRST = "<CAFirst+x=y_z@mail.gmail.com>"
LAST = "<CALast@mail.gmail.com>"


def message_after(earlier: Earlier | None, content: Content | None = None) -> bytes:
    content = content or some.content_of()
    return compose(replace(some.email_of(content, ANN), follows=earlier), prepare(content), sender=SHOP, date=NOW).data


def test_a_follower_answers_the_last_and_refers_to_all() -> None:
    message = read_by_stdlib(message_after(Earlier(message_id=LAST, references=(FIRST,))))
    assert message["In-Reply-To"] == LAST
    assert message["References"] == f"{FIRST} {LAST}"


def test_an_email_that_follows_none_has_no_references() -> None:
    message = read_by_stdlib(message_after(None))
    assert message["In-Reply-To"] is None
    assert message["References"] is None


def test_each_is_named_once_and_the_last_one_last() -> None:
    message = read_by_stdlib(message_after(Earlier(message_id=LAST, references=(LAST, FIRST, FIRST))))
    assert message["References"] == f"{FIRST} {LAST}"


def test_the_first_and_the_newest_references_of_a_long_conversation_are_kept() -> None:
    ids = tuple(f"<{n}.{'x' * 60}@mail.example.com>" for n in range(100))
    data = message_after(Earlier(message_id=LAST, references=ids))
    kept = str(read_by_stdlib(data)["References"]).split()
    assert kept == [ids[0], *ids[1 - REFERENCES_MAX + 1 :], LAST]
    assert len(kept) == REFERENCES_MAX
    assert max(map(len, head_of(data))) <= 100


def test_an_id_that_is_none_is_left_out() -> None:
    bad = ("", "x", "<>", "<a b@c>", "<a>b@c>", "<a@b>\r\nBcc: x@y.example", "<ü@x>", "<" + "x" * 2_000 + "@y>", "<a@b")
    message = read_by_stdlib(message_after(Earlier(message_id=LAST, references=(*bad, FIRST))))
    assert message["References"] == f"{FIRST} {LAST}"
    for each in bad:
        data = message_after(Earlier(message_id=each, references=(FIRST,)))
        assert b"In-Reply-To" not in data
        assert b"References" not in data
        assert b"Bcc" not in data


def test_the_callers_headers_are_kept() -> None:
    content = some.content_of(headers={"in-reply-to": "<own@x.example>", "X-A": "b"})
    message = read_by_stdlib(message_after(Earlier(message_id=LAST), content))
    assert message.get_all("In-Reply-To") == ["<own@x.example>"]
    assert message["References"] == LAST


ids = st.one_of(
    st.from_regex(r"<[!-;=?-~]{1,80}@[a-z.]{1,20}>", fullmatch=True),
    st.text(max_size=60),
    st.builds(lambda text: f"<{text}@x.example>", st.text(max_size=20)),
    st.sampled_from(["<" + "a" * 896 + "@y>", "<" + "a" * 897 + "@y>", "<a@b>\n"]),
)


@settings(max_examples=times(40))
@given(ids, st.lists(ids, max_size=40))
def test_any_ids_make_a_sound_message(message_id: str, references: list[str]) -> None:
    data = message_after(Earlier(message_id=message_id, references=tuple(references)))
    head = head_of(data)
    assert max(map(len, lines_of(data))) <= 998
    assert not set(data.replace(b"\r\n", b"")) & set(b"\r\n\0")
    names = [line.partition(b":")[0] for line in head if line[:1] not in (b" ", b"\t")]
    known = {b"Date", b"From", b"To", b"Subject", b"Message-ID", b"In-Reply-To", b"References", b"MIME-Version"}
    assert {name for name in names if not name.startswith(b"Content-")} <= known
    assert data.isascii()
    assert not [defect for defect in defects_of(read_by_stdlib(data)) if "references" not in defect.lower()]


def addressed(people: tuple[Recipient, ...], envelope: tuple[str, ...]) -> bytes:
    content = some.content_of()
    email = replace(some.email_of(content, people), envelope=envelope)
    return compose(email, prepare(content), sender=SHOP, date=NOW, headers_are_envelope=True).data


@settings(max_examples=times(40))
@given(some.recipients(wide=False), st.sets(st.integers(0, 5)))
def test_where_headers_are_the_envelope_they_name_exactly_it(people: tuple[Recipient, ...], left_out: set[int]) -> None:
    everybody = list(dict.fromkeys(person.address for person in people))
    envelope = tuple(address for n, address in enumerate(everybody) if n not in left_out) or (everybody[0],)
    data = addressed(people, envelope)
    message = read_by_stdlib(data)
    found = [
        address.addr_spec
        for name in ("to", "cc", "bcc")
        if message[name] is not None
        for address in message[name].addresses
    ]
    content = some.content_of()
    by_smtp = compose(
        replace(some.email_of(content, people), envelope=envelope), prepare(content), sender=SHOP, date=NOW
    )
    assert set(found) == set(by_smtp.recipients)  # a domain written in two scripts is named as often as it was written
    assert f"Message-ID: {by_smtp.message_id}\r\n".encode() in data  # the same for every attempt
