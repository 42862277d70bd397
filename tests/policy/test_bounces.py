"""Who is stopped when too much bounces: the sender to blame, or the account."""

from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Limits
from fairpost.policy.bounces import TooMany, too_many_bounces
from tests.facts import missing

LIMITS = Limits()  # 5 %, from 20 on


def test_an_account_of_one_sender_pauses() -> None:
    assert too_many_bounces({"a": (100, 5)}, LIMITS) == TooMany()
    found = too_many_bounces({"a": (100, 6)}, LIMITS)
    assert found.is_account
    assert missing(found.words, "6 of 100", "5 %") == []


def test_a_few_bounces_prove_nothing() -> None:
    assert too_many_bounces({"a": (19, 19)}, LIMITS) == TooMany()
    assert too_many_bounces({}, LIMITS) == TooMany()


def test_where_several_share_an_account_the_one_to_blame_is_stopped() -> None:
    found = too_many_bounces({"good": (100, 1), "bad": (50, 20)}, LIMITS)
    assert (found.workspaces, found.is_account) == (("bad",), False)


def test_he_is_stopped_before_he_alone_has_sent_a_large_sample() -> None:
    found = too_many_bounces({"good": (10, 0), "bad": (10, 10)}, LIMITS)
    assert (found.workspaces, found.is_account) == (("bad",), False)


def test_the_account_pauses_when_the_others_exceed_it_too() -> None:
    many = {f"w{n}": (3, 1) for n in range(10)}  # a single bounce each is nobody's fault
    found = too_many_bounces({"bad": (50, 20), **many}, LIMITS)
    assert (found.workspaces, found.is_account) == (("bad",), True)
    assert too_many_bounces(many, LIMITS).is_account


def test_it_can_be_switched_off() -> None:
    assert too_many_bounces({"a": (100, 100)}, Limits(bounce_percent_max=None)) == TooMany()


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=4),
    st.floats(0, 100),
)
def test_nobody_is_stopped_while_the_account_is_within_its_limit(
    day: dict[str, tuple[int, int]], percent: float
) -> None:
    found = too_many_bounces(day, Limits(bounce_percent_max=percent))
    sent, bounced = sum(s for s, _ in day.values()), sum(b for _, b in day.values())
    exceeds = sent >= 20 and bounced * 100 > percent * sent
    assert exceeds or not (found.workspaces or found.is_account)
    rest = [counts for name, counts in day.items() if name not in found.workspaces]
    still = sum(s for s, _ in rest) >= 20 and sum(b for _, b in rest) * 100 > percent * sum(s for s, _ in rest)
    assert found.is_account or not still, "what is left is within the limit, or stopped"
