"""Who is stopped if too much bounces or is rejected: the sender to blame, or the account."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import AccountStatus, Limits
from fairpost.model.fault import Bounces, Refusals, Sample, Suspect, fault_code, read_fault, write_fault
from fairpost.model.reason import Reason
from fairpost.policy.blame import BLOCKS_MAX, ESTABLISHED_AGE, ESTABLISHED_SENT, REFUSALS_MAX, Blame, blame, reason_of

LIMITS = Limits()  # 5%, from 20 on
NOW = datetime(2030, 1, 7, tzinfo=UTC)
REPLY = "550 5.7.1 go away"


def suspect(workspace: str, *, since: datetime = NOW, **counts: Any) -> Suspect:
    return Suspect(workspace=workspace, since=since, refusal=REPLY if counts.get("refused") else None, **counts)


def of_bounces(day: dict[str, tuple[int, int]], limits: Limits = LIMITS, **more: Any) -> Blame:
    suspects = [suspect(name, sent=sent, bounced=bounced) for name, (sent, bounced) in day.items() if bounced]
    others = sum(sent for sent, bounced in day.values() if not bounced)
    shared = len(day) > 1
    return blame(Sample(suspects=suspects, others_sent=others, is_shared=shared, **more), limits, now=NOW)


def of_refusals(*suspects: Suspect, is_shared: bool = True, **more: Any) -> Blame:
    return blame(Sample(suspects=suspects, is_shared=is_shared, **more), LIMITS, now=NOW)


def refused(workspace: str, n: int = REFUSALS_MAX, *, broken: bool = False, **more: Any) -> Suspect:
    """`broken` means that another sender's e-mail was accepted in between, and one was rejected since."""
    return suspect(workspace, refused=n, streak=1 if broken else n, is_unbroken=not broken, refused_since=NOW, **more)


def names(found: Blame) -> list[str]:
    return [each.workspace for each in found.accused]


OLD: dict[str, Any] = {"since": NOW - ESTABLISHED_AGE, "accepted": ESTABLISHED_SENT}


def test_an_account_of_one_sender_pauses() -> None:
    assert of_bounces({"a": (100, 5)}) == Blame()
    found = of_bounces({"a": (100, 6)})
    assert found.accused == ()
    assert found.stop is not None
    assert (found.stop.status, found.stop.fault) == (
        AccountStatus.PAUSED,
        Bounces(sent=100, bounced=6, percent_max=5.0),
    )
    assert reason_of(found.stop.fault) == Reason("account.too_many_bounces", bounced=6, sent=100, percent_max=5.0)


def test_a_few_bounces_prove_nothing() -> None:
    assert of_bounces({"a": (19, 19)}) == Blame()
    assert of_bounces({}) == Blame()


def test_where_several_share_an_account_the_one_to_blame_is_blocked_for_its_own_figures() -> None:
    found = of_bounces({"good": (100, 1), "bad": (50, 20)})
    (accused,) = found.accused
    assert (accused.workspace, accused.fault) == ("bad", Bounces(sent=50, bounced=20, percent_max=5.0))
    assert found.stop is None


def test_it_is_blocked_before_it_alone_has_sent_a_large_sample() -> None:
    found = of_bounces({"good": (10, 0), "bad": (10, 10)})
    assert (names(found), found.stop) == (["bad"], None)


def test_the_account_pauses_when_the_others_exceed_it_too() -> None:
    many = {f"w{n}": (3, 1) for n in range(10)}  # a single bounce each is not held against a sender
    found = of_bounces({"bad": (50, 20), **many})
    assert names(found) == ["bad"]
    assert found.stop is not None
    assert found.stop.fault == Bounces(sent=30, bounced=10, percent_max=5.0)
    assert of_bounces(many).stop is not None


def test_it_can_be_switched_off() -> None:
    assert of_bounces({"a": (100, 100)}, Limits(bounce_percent_max=None)) == Blame()


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=4),
    st.floats(0, 100),
)
def test_no_sender_is_stopped_while_the_account_is_within_its_limit(
    day: dict[str, tuple[int, int]], percent: float
) -> None:
    found = of_bounces(day, Limits(bounce_percent_max=percent))
    sent, bounced = sum(s for s, _ in day.values()), sum(b for _, b in day.values())
    exceeds = sent >= 20 and bounced * 100 > percent * sent
    assert exceeds or found == Blame()
    rest = [counts for name, counts in day.items() if name not in names(found)]
    still = sum(s for s, _ in rest) >= 20 and sum(b for _, b in rest) * 100 > percent * sum(s for s, _ in rest)
    assert found.stop or not still, "the remaining rate is within the limit, or the account stops"


def test_refusals_in_a_row_suspend_an_account_of_one_sender() -> None:
    assert of_refusals(refused("a", REFUSALS_MAX - 1), is_shared=False) == Blame()
    found = of_refusals(refused("a"), is_shared=False)
    assert found.stop is not None
    assert (found.accused, found.stop.status) == ((), AccountStatus.SUSPENDED)
    assert found.stop.fault == Refusals(refused=REFUSALS_MAX, since=NOW, reply=REPLY)
    said = reason_of(found.stop.fault)
    assert (said.code, said.params["refused"], said.params["reply"]) == (
        "account.refused_in_a_row",
        REFUSALS_MAX,
        REPLY,
    )


def test_only_the_refused_sender_among_several_is_blocked() -> None:
    for broken in (False, True):
        found = of_refusals(refused("bad", broken=broken))
        (accused,) = found.accused
        assert (accused.workspace, found.stop) == ("bad", None)
        assert accused.fault == Refusals(refused=REFUSALS_MAX, since=NOW, reply=REPLY)


def test_a_streak_across_senders_is_the_accounts_fault() -> None:
    others = [refused(f"w{n}", 1) for n in range(REFUSALS_MAX)]
    found = of_refusals(*others)
    assert found.stop is not None
    assert (found.accused, found.stop.status) == ((), AccountStatus.SUSPENDED)
    assert of_refusals(*others[1:]) == Blame()
    assert names(of_refusals(refused("bad"), *others[1:])) == ["bad"]
    both = of_refusals(refused("bad"), *others)
    assert both.stop is not None
    assert both.accused == (), "if the account itself stops, no sender is blamed"


def test_an_established_sender_refused_where_nothing_passes_any_more_is_the_accounts_trouble() -> None:
    assert of_refusals(refused("old", **OLD)).stop is not None
    assert of_refusals(refused("bad"), refused("old", 1, **OLD)).stop is not None
    assert of_refusals(refused("old", broken=True, **OLD)).stop is None, "an e-mail of another sender passed meanwhile"
    for not_yet in (OLD | {"accepted": ESTABLISHED_SENT - 1}, OLD | {"since": NOW - timedelta(days=6, hours=23)}):
        found = of_refusals(refused("young", **not_yet))
        assert (names(found), found.stop) == (["young"], None)


def test_an_account_has_a_hundred_blocks_and_is_stopped_by_the_next() -> None:
    assert of_refusals(refused("bad"), blocks=BLOCKS_MAX - 1).stop is None
    full = of_refusals(refused("bad"), blocks=BLOCKS_MAX)
    assert full.stop is not None
    assert (full.accused, full.stop.status) == ((), AccountStatus.SUSPENDED)
    two = of_bounces({"a": (20, 20), "b": (20, 20), "c": (100, 0)}, blocks=BLOCKS_MAX - 1)
    assert two.stop is not None
    assert (names(two), two.stop.status) == (["a"], AccountStatus.PAUSED)


def test_a_sender_that_bounces_and_is_refused_is_blocked_once() -> None:
    both = replace(refused("bad", broken=True), sent=50, bounced=20)
    found = blame(Sample(suspects=[both], others_sent=50, is_shared=True), LIMITS, now=NOW)
    assert names(found) == ["bad"]


@given(
    st.one_of(
        st.builds(Bounces, sent=st.integers(0), bounced=st.integers(0), percent_max=st.floats(0, 100)),
        st.builds(Refusals, refused=st.integers(0), since=st.none() | st.just(NOW), reply=st.text()),
    )
)
def test_a_fault_that_was_written_down_is_read_again(fault: Bounces | Refusals) -> None:
    assert read_fault(fault_code(fault), write_fault(fault)) == fault
