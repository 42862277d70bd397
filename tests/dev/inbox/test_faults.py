"""The syntax of faults: what is valid, what it means, and which faults apply."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.dev.inbox.faults import (
    REPLIES,
    Action,
    Answer,
    Cut,
    CutAfter,
    Delay,
    Fault,
    Kind,
    Stall,
    Step,
    parse,
    striking,
    tagged,
)

ALL = tuple(Step)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rcpt=reject:552 5.2.2 Full", Fault(step=Step.RCPT, action=Answer("552 5.2.2 Full"))),
        ("mail=tempfail:452 4.3.1 90% full", Fault(step=Step.MAIL, action=Answer("452 4.3.1 90% full"))),
        ("mail=tempfail:452 90% full%5", Fault(step=Step.MAIL, action=Answer("452 90% full"), percent=5)),
        ("data=delay:500ms", Fault(step=Step.DATA, action=Delay(0.5))),
        ("data=delay:5s%50", Fault(step=Step.DATA, action=Delay(5), percent=50)),
        ("ehlo=delay:30m", Fault(step=Step.EHLO, action=Delay(1800))),
        ("dot=cut%10", Fault(step=Step.DOT, action=Cut(), percent=10)),
        ("dot=cut-after", Fault(step=Step.DOT, action=CutAfter())),
        ("auth=stall%100", Fault(step=Step.AUTH, action=Stall())),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault) -> None:
    assert parse(text) == fault


@pytest.mark.parametrize(
    ("text", "codes"),
    [("rcpt=reject", "550 5.1.1 "), ("rcpt=reject:552", "552 5.1.1 "), ("connect=tempfail", "421 4.3.2 ")],
)
def test_an_answer_without_a_text_gets_one(text: str, codes: str) -> None:
    action = parse(text).action
    assert isinstance(action, Answer)
    assert action.reply.startswith(codes)
    assert len(action.reply) > len(codes)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["STEP=ACTION"]),
        ("rcpt", ["STEP=ACTION"]),
        ("RCPT=reject", ["STEP=ACTION"]),
        ("quit=cut", ["quit", "connect, ehlo, auth, mail, rcpt, data, dot"]),
        ("rcpt=explode", ["explode", "reject, tempfail"]),
        ("rcpt=cut-after", ["cut-after", "dot"]),
        ("rcpt=cut:5s", ["cut"]),
        ("rcpt=stall:", ["stall"]),
        ("rcpt=delay", ["delay", "1ms", "30m"]),
        ("rcpt=delay:0s", ["delay", "1ms", "30m"]),
        ("rcpt=delay:31m", ["delay", "1ms", "30m"]),
        ("rcpt=delay:-1s", ["delay", "1ms", "30m"]),
        ("rcpt=reject:451 no", ["reject", "500..559", "451"]),
        ("rcpt=tempfail:550 no", ["tempfail", "400..459", "550"]),
        ("rcpt=reject:250 yes", ["reject"]),
        ("rcpt=reject:", ["reject"]),
        ("rcpt=reject:550 a\r\n250 b", ["reject"]),
        ("rcpt=reject:550 " + "x" * 500, ["reject"]),
        ("rcpt=reject%0", ["1..100", "got 0"]),
        ("rcpt=reject%101", ["1..100", "101"]),
    ],
)
def test_an_invalid_fault_is_refused_with_the_reason(text: str, facts: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert [fact for fact in facts if fact not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("ann+rcpt-reject@example.com", "rcpt=reject"),
        ("Ann+RCPT-Reject@example.com", "rcpt=reject"),
        ("ann+rcpt-reject-552@example.com", "rcpt=reject:552"),
        ("ann+dot-cut@example.com", "dot=cut"),
        ("ann+dot-cut-after@example.com", "dot=cut-after"),
        ("ann+dot-cut-after%10@example.com", "dot=cut-after%10"),
        ("ann+dot-tempfail@example.com", "dot=tempfail"),
        ("ann+news+data-delay-5s%20@example.com", "data=delay:5s%20"),
        ('"ann lee+dot-stall"@example.com', "dot=stall"),
    ],
)
def test_a_tag_means_what_the_option_means(address: str, text: str) -> None:
    assert tagged(address, steps=ALL) == [parse(text)]


def test_an_address_may_have_several_faults_in_order() -> None:
    assert tagged("ann+data-delay-1s+dot-cut@x.test", steps=ALL) == [parse("data=delay:1s"), parse("dot=cut")]


@pytest.mark.parametrize(
    "address",
    ["ann@x.test", "ann+news@x.test", "ann+data-export@x.test", "rcpt-reject@x.test", "ann@dot-cut.test", "ann", ""],
)
def test_other_addresses_have_none(address: str) -> None:
    assert tagged(address, steps=ALL) == []


def test_a_tag_that_comes_too_late_or_is_misspelt_is_reported() -> None:
    with pytest.raises(ValueError, match=r"connect.*rcpt, dot"):
        tagged("ann+connect-cut@x.test", steps=(Step.RCPT, Step.DOT))
    with pytest.raises(ValueError, match=r"delay.*1ms.*30m"):
        tagged("ann+data-delay-soon@x.test", steps=ALL)


def test_only_the_faults_of_the_step_strike_in_their_order() -> None:
    faults = [parse("rcpt=delay:1s"), parse("dot=cut"), parse("rcpt=reject")]
    assert list(striking(faults, Step.RCPT, roll=pytest.fail)) == [Delay(1), faults[2].action]


def test_a_percentage_strikes_by_the_roll_and_nothing_else_rolls() -> None:
    faults = [parse("dot=delay:1s"), parse("dot=cut%10")]

    def struck(roll: float) -> list[Action]:
        rolls = iter([roll])
        return list(striking(faults, Step.DOT, roll=lambda: next(rolls)))

    assert struck(0.0) == struck(0.0999) == [Delay(1), Cut()]
    assert struck(0.1) == struck(0.9999) == [Delay(1)]


@given(st.text())
def test_no_address_does_more_than_raise_a_value_error(text: str) -> None:
    with suppress(ValueError):
        tagged(text, steps=ALL)


def test_every_step_and_action_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "inbox.md").read_text("utf-8")
    for step in Step:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{step}` |")]
        rejected, failed = REPLIES[step, Kind.REJECT], REPLIES[step, Kind.TEMPFAIL]
        assert row.endswith(f"| {rejected[0]} {rejected[1]} | {failed[0]} {failed[1]} |")
    for kind in Kind:
        assert f"`-{kind}" in page
        assert f"| `{kind}" in page
