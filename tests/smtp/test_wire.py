"""The wire without a network: any bytes in any pieces, any answers to any message."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.message import Message
from fairpost.model.report import Reached, Reply, Step
from fairpost.smtp.replies import LINE_BYTES_MAX, REPLY_BYTES_MAX, UNREAD_BYTES_MAX, Garbage, ReplyReader
from fairpost.smtp.wire import DATA, MAY_SAY, State, Wire, hello, mail_from, rcpt_to, read_features, stuffed
from tests.smtp.conversation import Conversation
from tests.thorough import times


def message_to(recipients: int) -> Message:
    to = tuple(f"r{n}@example.com" for n in range(recipients))
    return Message(sender="me@example.com", recipients=to, message_id="<1@x>", data=b"Subject: x\r\n\r\n.\r\n")


# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────────

codes = st.integers(200, 599)
texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=80)
replies = st.builds(lambda code, lines: Reply(code, "\n".join(lines)), codes, st.lists(texts, min_size=1, max_size=5))


def written(reply: Reply) -> bytes:
    *first, last = reply.text.split("\n")
    return "".join([*(f"{reply.code}-{line}\r\n" for line in first), f"{reply.code} {last}\r\n"]).encode()


def cut_up(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


def read_all(pieces: Sequence[bytes]) -> list[Reply | str]:
    reader = ReplyReader()
    found: list[Reply | str] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (reply := reader.next()) is not None:
                found.append(reply)
    except Garbage:
        found.append("garbage")
    return found


@given(st.lists(replies, max_size=5), st.lists(st.integers(0, 5000), max_size=20))
def test_replies_are_read_as_they_were_written_however_they_are_cut_up(said: list[Reply], cuts: list[int]) -> None:
    assert read_all(cut_up(b"".join(map(written, said)), cuts)) == said


almost_smtp = st.lists(
    st.one_of(
        st.sampled_from([b"250 ok\r\n", b"250-", b"250", b"\r\n", b"\n", b"\r", b"354 go\r\n", b"\x00", b" ", b"421 "]),
        st.binary(max_size=20),
    ),
    max_size=30,
).map(b"".join)


@given(almost_smtp, st.lists(st.integers(0, 700), max_size=20))
def test_any_bytes_are_read_alike_however_they_are_cut_up(data: bytes, cuts: list[int]) -> None:
    assert read_all(cut_up(data, cuts)) == read_all([data] if data else [])


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"hello\r\n", "not send a valid reply"),
        (b"25x ok\r\n", "not send a valid reply"),
        (b"199 ok\r\n", "not send a valid reply"),
        (b"600 ok\r\n", "not send a valid reply"),
        (b"2500 ok\r\n", "not send a valid reply"),
        (b"250_ok\r\n", "not send a valid reply"),
        (b"\r\n", "not send a valid reply"),
        (b"250-a\r\n251 b\r\n", "continued it with 251"),
        (b"2" * (LINE_BYTES_MAX + 1), "not send a valid reply"),
        (b"250 " + b"x" * LINE_BYTES_MAX + b"\r\n", "not send a valid reply"),
        ((b"250-" + b"x" * 1000 + b"\r\n") * (REPLY_BYTES_MAX // 1000 + 1), "larger than 32768 bytes"),
        (b"x" * (UNREAD_BYTES_MAX + 1), "unexpected bytes"),
    ],
)
def test_an_invalid_reply_is_refused(said: bytes, complaint: str) -> None:
    reader = ReplyReader()
    with pytest.raises(Garbage, match=complaint):  # noqa: PT012 - either may complain
        reader.feed(said)
        while reader.next():
            pass


@pytest.mark.parametrize("said", [b"250\r\n", b"250\n", b"250 \r\n"])
def test_a_reply_may_have_no_text(said: bytes) -> None:
    assert read_all([said]) == [Reply(250, "")]


def test_harmful_characters_are_removed_from_a_reply() -> None:
    assert read_all([b"250 a\x00b\x1b[2J\rc\xff\xc3\xbc\r\n"]) == [Reply(250, "a\ufffdb\ufffd[2J\ufffdc\\xffü")]


# ── features, commands ───────────────────────────────────────────────────────────────────────────────────────────────


def test_features_are_read_in_any_spelling() -> None:
    features = read_features(
        "mx.example.com hi\nSIZE 1000\npipelining\nAUTH=LOGIN\nAUTH PLAIN XOAUTH2\n\nStartTLS\nSMTPUTF8"
    )
    assert features.size_max == 1000
    assert features.pipelining
    assert features.starttls
    assert features.smtputf8
    assert not features.eight_bit
    assert features.auth == {"LOGIN", "PLAIN", "XOAUTH2"}


@pytest.mark.parametrize("size", ["SIZE", "SIZE 0", "SIZE lots", "SIZE -5", "SIZE ٣", "SIZE 9999999999999999999999"])
def test_a_size_that_says_nothing_limits_nothing(size: str) -> None:
    features = read_features(f"hi\n{size}")
    assert features.size_max is None
    assert features.takes_size


@given(texts.map(lambda text: f"hi\n{text}"))
def test_any_features_are_read(text: str) -> None:
    read_features(text)


def test_the_first_line_of_a_greeting_offers_nothing() -> None:
    assert not read_features("PIPELINING").pipelining


lines_of_a_message = st.lists(
    st.one_of(
        st.sampled_from([b"", b".", b"..", b".x", b"x."]),
        st.binary(max_size=30).map(lambda b: b.translate(None, b"\r\n")),
    ),
    min_size=1,
    max_size=10,
)


@given(lines_of_a_message)
def test_stuffing_is_undone_by_the_rule_of_the_rfc(lines: list[bytes]) -> None:
    data = b"".join(line + b"\r\n" for line in lines)
    on_the_wire = stuffed(data)
    assert b"\r\n.\r\n" not in b"\r\n" + on_the_wire
    received = [line.removeprefix(b".") for line in on_the_wire.split(b"\r\n")[:-1]]
    assert received == lines


def test_every_state_says_what_may_be_said() -> None:
    assert set(MAY_SAY) == set(State)


def ready_wire(*, pipelining: bool = True) -> Wire:
    wire = Wire()
    wire.receive(b"220 hi\r\n")
    wire.next_answer()
    wire.say(hello("me"))
    wire.receive(b"250-hi\r\n250 PIPELINING\r\n" if pipelining else b"250 hi\r\n")
    wire.next_answer()
    return wire


def test_nothing_is_said_out_of_turn() -> None:
    with pytest.raises(AssertionError):
        Wire().say(hello("me"))  # before the greeting
    wire = ready_wire()
    with pytest.raises(AssertionError):
        wire.say(hello("me"))
    with pytest.raises(AssertionError):
        wire.write_end(b"")  # before a 354
    wire.say(DATA)
    with pytest.raises(AssertionError):
        wire.say(DATA)  # before the answer


def test_a_group_needs_the_servers_word() -> None:
    mail = mail_from("a@x.test", size=None, eight_bit=False, smtputf8=False)
    group = (mail, rcpt_to("b@x.test"), DATA)
    assert ready_wire().say(*group) == b"MAIL FROM:<a@x.test>\r\nRCPT TO:<b@x.test>\r\nDATA\r\n"
    with pytest.raises(AssertionError):
        ready_wire(pipelining=False).say(*group)


def test_an_unexpected_reply_is_garbage_but_a_goodbye_is_not() -> None:
    wire = ready_wire()
    wire.receive(b"250 by the way\r\n")
    assert not wire.is_quiet
    with pytest.raises(Garbage, match="without a command"):
        wire.next_answer()
    wire = ready_wire()
    wire.receive(b"421 4.4.2 idle\r\n")
    answer = wire.next_answer()
    assert answer is not None
    assert (answer.step, wire.state) == (Step.QUIT, State.CLOSED)


# ── arbitrary servers ────────────────────────────────────────────────────────────────────────────────────────────────

HELLOS = ((b"220 hi\r\n", b"250-hi\r\n250 PIPELINING\r\n"), (b"220 hi\r\n", b"250 hi\r\n"))
sayings = st.one_of(
    st.sampled_from(
        [
            b"250 ok\r\n",
            b"354 go\r\n",
            b"550 no\r\n",
            b"451 later\r\n",
            b"421 bye\r\n",
            b"250-more\r\n",
            b"503 what\r\n",
        ]
    ),
    st.binary(max_size=4),
    st.integers(200, 599).map(lambda code: b"%d any\r\n" % code),
)


@settings(max_examples=times(250))
@given(st.sampled_from(HELLOS), st.lists(sayings, max_size=12), st.integers(1, 3))
def test_the_report_is_correct_for_any_server(greeting: tuple[bytes, ...], said: list[bytes], recipients: int) -> None:
    """The guarantees are in Conversation: the dot only if a recipient was accepted; in doubt only after the dot."""
    Conversation([*greeting, *said], message_to(recipients)).run()


@settings(max_examples=times(80))
@given(st.lists(st.binary(max_size=100), max_size=20))
def test_arbitrary_bytes_break_nothing(said: list[bytes]) -> None:
    Conversation(said, message_to(1)).run()


def test_the_promises_above_are_reached_at_all() -> None:
    """The random servers do reach the dot: a property that is never tested proves nothing."""
    good = [b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n", b"250 taken\r\n"]
    for greeting in HELLOS:
        report = Conversation([*greeting, *good], message_to(1)).run()
        assert report is not None
        assert report.reached is Reached.REPLIED
        report = Conversation([*greeting, *good[:3]], message_to(1)).run()
        assert report is not None
        assert report.reached is Reached.AFTER_DOT


def test_a_server_that_offers_dsn_is_told_what_to_report() -> None:
    said = mail_from("a@x.test", size=None, eight_bit=False, smtputf8=False, envelope_id="em+1=2@x.test")
    assert said.line == b"MAIL FROM:<a@x.test> RET=HDRS ENVID=em+2B1+3D2@x.test"
    assert rcpt_to("b@x.test", only_failures=True).line == b"RCPT TO:<b@x.test> NOTIFY=FAILURE"
    long = mail_from("a@x.test", size=None, eight_bit=False, smtputf8=False, envelope_id="x" * 101)
    assert long.line == b"MAIL FROM:<a@x.test> RET=HDRS"
    assert read_features("here\nDSN").dsn
    assert not read_features("here").dsn
