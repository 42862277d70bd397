"""The one sentence: says what is so, and never that nothing is wrong when something is."""

from datetime import UTC, datetime, timedelta

import pytest

from fairpost.model.ids import AccountId
from fairpost.policy.diagnosis import Cause, Facts, InHand, Pause, Reason, Route
from fairpost.policy.headline import TONES, headline
from tests.facts import missing

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
WAITING = Facts(now=NOW, routes=[Route(route="default", waiting=1200)])


def reason(cause: Cause, until: datetime | None = None) -> Reason:
    return Reason(cause=cause, text=f"Because of {cause}.", then="do something", until=until)


def test_every_cause_has_its_tone() -> None:
    assert set(TONES) == set(Cause)


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.IN_DOUBT])
def test_what_keeps_mail_from_going_out_is_said_with_its_end(cause: Cause) -> None:
    said = headline(WAITING, [reason(cause, LATER)], per_s=0)
    assert f"Because of {cause}." in said.text
    assert (said.tone, said.until) == (TONES[cause], LATER)


def test_of_several_the_worst_is_said() -> None:
    said = headline(WAITING, [reason(Cause.SCHEDULED, LATER), reason(Cause.NO_WORKER)], per_s=0)
    assert said.tone == "bad"
    assert "Because of no worker." in said.text
    assert "Because of scheduled." not in said.text


def test_a_pause_is_said_also_while_the_last_ones_go_out() -> None:
    pause = Pause(since=NOW, until=None, reason="a test", paused_by="Ann")
    facts = Facts(now=NOW, pause=pause)
    assert headline(facts, [reason(Cause.PAUSED)], per_s=12).tone == "bad"


@pytest.mark.parametrize(
    ("per_s", "facts"),
    [
        (14.2, ("14 e-mails", "second")),
        (1.0, ("1 e-mail ", "second")),
        (0.05, ("3 e-mails", "minute")),
        (0.001, ("1 e-mail ", "minute")),
    ],
)
def test_the_pace_and_what_waits_are_said(per_s: float, facts: tuple[str, ...]) -> None:
    said = headline(WAITING, [], per_s=per_s)
    assert said.tone == "good"
    assert missing(said.text, *facts, "1,200") == []


def test_a_pace_does_not_hide_what_is_held_back() -> None:
    held, free = headline(WAITING, [reason(Cause.HELD)], per_s=5), headline(WAITING, [], per_s=5)
    assert held.text != free.text


def test_nothing_to_do_is_quiet_and_doubt_is_not() -> None:
    assert headline(Facts(now=NOW), [], per_s=0).tone == "quiet"
    in_doubt = Facts(now=NOW, in_hand={AccountId(1): InHand(in_doubt=1, undecided=1)})
    assert headline(in_doubt, [reason(Cause.IN_DOUBT)], per_s=0).tone == "wait"
    assert headline(Facts(now=NOW, in_hand={AccountId(1): InHand(sending=1)}), [], per_s=0).tone == "good"
    assert headline(WAITING, [], per_s=0).tone == "good"
