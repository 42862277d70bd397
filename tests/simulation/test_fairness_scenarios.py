"""The scenarios of `fairpost simulate fairness`: the guarantees of our algorithm, and that the others are measured as
they are."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from fairpost.dev.simulate.fair_algorithms import Email, Fairpost, Fifo, WholeShares
from fairpost.dev.simulate.fairness import START, Record, compare, emails_of, fair_shares, figures, run
from fairpost.dev.simulate.plot import draw
from fairpost.dev.simulate.scenarios import SCENARIOS, Arrival, Scenario, Sender, scenario
from fairpost.policy.inequality import jain
from fairpost.store.store import Store
from tests.simulation.world import SHARE


def sender(name: str, *, domains: tuple[str, ...] = (), user: str = "u") -> Sender:
    return Sender(name=name, group=name, workspace=name, domains=domains or (f"{name}.test",), user=user)


def with_fewer_small(chosen: Scenario) -> Scenario:
    """`make test` uses a tenth of the small senders, because each e-mail costs as much as a real one."""
    kept = {each for n, each in enumerate(chosen.senders) if not each.is_small or n % SHARE == 0}
    return replace(chosen, arrivals=tuple(arrival for arrival in chosen.arrivals if arrival.sender in kept))


async def ours(store: Store, chosen: Scenario, seed: int = 1) -> Record:
    return await run(chosen, await Fairpost.open(store, chosen, START), emails_of(chosen, seed=seed))


async def test_equal_senders_with_enough_waiting_get_the_same_in_any_ten_rounds(store: Store) -> None:
    senders = [sender(f"s{n}") for n in range(12)]
    equal = Scenario(
        name="equal",
        about="",
        minutes=20,
        slots_per_minute=35,  # which twelve cannot share evenly
        arrivals=tuple(Arrival(0, each, 100) for each in senders),
    )
    record = await ours(store, equal)
    for first in range(11):
        got: Counter[Sender] = Counter()
        for each in record.rounds[first : first + 10]:
            got.update(each.served)
        assert jain(got[each] for each in senders) >= 0.99
    assert (figures(record).jain or 0) >= 0.99


async def test_shares_are_in_proportion_to_the_weights(store: Store) -> None:
    groups = figures(await ours(store, scenario("tiers", seed=3))).groups
    for tier, weight in {"high": 2, "low": 0.5, "throttled": 0.1}.items():
        assert groups[tier].sent / groups["normal"].sent == pytest.approx(weight, rel=0.05)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_no_slot_is_unused_while_anything_is_eligible(store: Store, name: str) -> None:
    measured = figures(await ours(store, with_fewer_small(scenario(name, seed=2, scale=0.05))))
    assert measured.idle_slots == 0
    assert measured.sent > 0


async def test_a_newcomer_behind_a_large_backlog_is_served_in_the_round_in_which_it_comes(store: Store) -> None:
    chosen = scenario("whale", seed=4, scale=0.2)
    record = await ours(store, chosen)
    (newcomer,) = [email for email in record.left if email.sender.group == "newcomer"]
    assert record.rounds[newcomer.minute].eligible[chosen.arrivals[0].sender] > 1000
    assert record.wait_s(newcomer) == 0


async def test_nothing_of_a_throttled_sender_goes_out_and_the_others_fill_the_slots(store: Store) -> None:
    chosen = scenario("abuser", seed=5, scale=0.2)
    (throttle,) = chosen.throttles
    record = await ours(store, chosen)
    assert sum(throttle.sender in each.served for each in record.rounds[: throttle.minute]) > 10
    assert not any(throttle.sender in each.served for each in record.rounds[throttle.minute :])
    assert all(left is not None for email, left in record.left.items() if email.sender is not throttle.sender)


async def test_large_senders_get_the_same_however_many_domains_they_spread_over(store: Store) -> None:
    large = sender("large")
    spreader = sender("spreader", domains=tuple(f"d{n}.test" for n in range(9)))
    two = Scenario(
        name="spread",
        about="",
        minutes=10,
        slots_per_minute=20,
        arrivals=(Arrival(0, large, 200), Arrival(0, spreader, 200)),
    )
    records = await compare(store, two, seed=1)
    assert figures(records["fairpost"]).groups["spreader"].share == 0.5
    assert figures(records["seed"]).groups["spreader"].share == 0.9
    assert figures(records["seed"]).largest_share == 0.9


def mail(*senders: tuple[Sender, int]) -> list[Email]:
    return [Email(each, each.domains[n % len(each.domains)], 0) for each, count in senders for n in range(count)]


async def test_the_seeds_whole_shares_leave_slots_unused() -> None:
    a, b, c = (sender(name) for name in "abc")
    algorithm = WholeShares()
    await algorithm.put(mail((a, 50), (b, 1), (c, 50)), START)
    taken = await algorithm.take(11, START)
    assert Counter(email.sender.name for email in taken) == {"a": 3, "b": 1, "c": 3}, "⌊11 / 3⌋, with four slots unused"
    taken = await algorithm.take(1, START)
    assert [email.sender.name for email in taken] == ["a"], "at least one each, as far as there are slots"


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_seeds_whole_shares_leave_slots_unused_in_every_scenario(name: str) -> None:
    chosen = scenario(name, seed=1)
    measured = figures(await run(chosen, WholeShares(), emails_of(chosen, seed=1)))
    assert measured.idle_slots > 0


async def test_the_seeds_shares_inside_a_domain_are_by_user() -> None:
    ann, ben = (sender(name, domains=("same.test",), user=name) for name in ("ann", "ben"))
    algorithm = WholeShares()
    await algorithm.put(mail((ann, 50), (ben, 20)), START)
    taken = await algorithm.take(10, START)
    assert Counter(email.sender.name for email in taken) == {"ann": 5, "ben": 5}


async def test_first_come_first_served_lets_one_have_everything() -> None:
    chosen = scenario("whale", seed=1)
    measured = figures(await run(chosen, Fifo(), emails_of(chosen, seed=1)))
    assert measured.idle_slots == 0
    assert measured.largest_share == 1
    assert (measured.jain or 1) < 0.05
    assert (measured.small_wait_s_p50 or 0) > timedelta(hours=2).total_seconds()


def test_a_fair_share_is_poured_by_weight_and_what_one_cannot_use_goes_to_the_others() -> None:
    assert fair_shares(10, {"a": 2, "b": 50, "c": 50}, {"a": 1, "b": 1, "c": 1}) == {"a": 2, "b": 4, "c": 4}
    assert fair_shares(9, {"a": 50, "b": 50}, {"a": 2, "b": 1}) == {"a": 6, "b": 3}
    assert fair_shares(9, {"a": 1, "b": 2}, {"a": 1, "b": 1}) == {"a": 1, "b": 2}
    assert fair_shares(9, {}, {}) == {}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_the_same_for_the_same_seed_and_has_no_more_than_it_says(name: str) -> None:
    assert scenario(name, seed=7) == scenario(name, seed=7)
    assert scenario(name, seed=7) != scenario(name, seed=8)
    chosen = scenario(name, seed=7)
    minutes = [arrival.minute for arrival in chosen.arrivals]
    assert minutes == sorted(minutes)
    assert max(minutes) < chosen.minutes


async def test_the_same_courses_give_the_same_plot() -> None:
    chosen = scenario("tiers", seed=1, scale=0.1)
    arrivals = emails_of(chosen, seed=1)
    records = {"fifo": await run(chosen, Fifo(), arrivals), "seed": await run(chosen, WholeShares(), arrivals)}
    drawn = draw(records)
    assert drawn.startswith("<?xml")
    assert len(drawn) > 10_000
    assert drawn == draw(records)
