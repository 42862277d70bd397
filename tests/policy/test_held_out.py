"""How well the rules classify replies that they were not written for.

replies_held_out.csv was set aside, by a hash of the text, before the rules were written, and none of its rows is looked
at to write a rule. A row that was looked at moves to replies.csv, and a new one takes its place.
"""

from tests.policy.reply_table import HELD_OUT, SEEN, Row, label, verdict_on

CLASS_MIN, RETRY_MIN = 0.95, 0.98


def said(row: Row) -> tuple[str, str, str, str]:
    return row["channel"], row["phase"], row["code"], row["text"]


def test_hundreds_of_replies_are_held_out_and_none_of_them_is_seen() -> None:
    assert len(SEEN) >= 700
    assert len(HELD_OUT) >= 347
    assert not {said(row) for row in SEEN} & {said(row) for row in HELD_OUT}
    assert all(row["source"] for row in HELD_OUT)


def test_held_out_replies_are_classified() -> None:
    right = [[a == b for a, b in zip(verdict_on(row), label(row), strict=True)] for row in HELD_OUT]
    classes, _, retries, _ = (sum(each) / len(HELD_OUT) for each in zip(*right, strict=True))
    assert classes >= CLASS_MIN
    assert retries >= RETRY_MIN


def test_no_held_out_reply_suppresses_a_live_address() -> None:
    assert not [row["text"] for row in HELD_OUT if verdict_on(row)[3] == "yes" and label(row)[3] == "no"]
