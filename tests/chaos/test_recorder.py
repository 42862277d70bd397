"""The recording server itself: what it records, and where it cuts connections."""

import smtplib
from collections.abc import Iterator

import pytest

from tests.chaos.recorder import NO_IDS, Cut, Recorder

ID = f"<{NO_IDS.email(31)}.00@x.test>"
MESSAGE = f"From: a@x.test\r\nMessage-ID: {ID}\r\n\r\n.hello\r\n".encode()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder().running() as recorder:
        yield recorder


def send(recorder: Recorder) -> None:
    with smtplib.SMTP("127.0.0.1", recorder.port, local_hostname="anna") as client:
        client.sendmail("a@x.test", ["b@x.test", "c@x.test"], MESSAGE)


def test_every_recipient_of_a_complete_message_is_remembered(recorder: Recorder) -> None:
    send(recorder)
    seen = [(t.sequence, t.email_id, t.message_id, t.recipient, t.account, t.answered) for t in recorder.taken]
    assert seen == [
        (0, 31, ID, "b@x.test", "anna", True),
        (1, 31, ID, "c@x.test", "anna", True),
    ]


@pytest.mark.parametrize(("cut", "taken"), [(Cut.GREETING, 0), (Cut.BEFORE_DOT, 0), (Cut.AFTER_DOT, 2)])
def test_a_cut_comes_once_and_where_it_was_asked_for(recorder: Recorder, cut: Cut, taken: int) -> None:
    recorder.cut_next(cut)
    with pytest.raises((smtplib.SMTPException, ConnectionError)):
        send(recorder)
    assert [t.answered for t in recorder.taken] == [False] * taken
    assert recorder.cuts[cut] == 1
    send(recorder)
    assert [t.answered for t in recorder.taken[taken:]] == [True, True]
