"""Whole engines against the zoo, in virtual time: what must hold with every provider. `fairpost simulate providers`
runs all cases."""

import pytest

from fairpost.dev.simulate import providers
from fairpost.dev.simulate.checks import Check
from fairpost.dev.simulate.providers import CASES, FORMS, START, Case, Result, run_case, simulate_providers
from fairpost.dev.simulate.virtual_time import run_virtually, virtual_store
from fairpost.dev.simulate.zoo import ZOO, Matter
from fairpost.model.states import EmailClass
from tests.simulation.world import broken_promises
from tests.thorough import IS_FREE

LASTS_S = 13.0  # the last newcomer arrives after 10


@pytest.fixture(autouse=True)
def looked_at_half_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each observation costs the database as much as an e-mail, and delays are at least a second."""
    if not IS_FREE:
        monkeypatch.setattr(providers, "LOOK_S", 2 * providers.LOOK_S)


def simulated(url: str, case: Case) -> Result:
    """In a database whose counts are checked afterwards."""

    async def run() -> Result:
        async with virtual_store(url) as store:
            result = await run_case(store, case, seed=1)
            assert await broken_promises(store) == {}
            return result

    return run_virtually(START, run)


def broken(result: Result) -> dict[tuple[Check, str], str]:
    return {(each.check, each.whose): each.about for each in result.violations}


@pytest.mark.parametrize(
    "case",
    [
        Case(behaviour="healthy", form="100 ms", lasts_s=LASTS_S),
        Case(behaviour="healthy", form="200 ms", whale=EmailClass.URGENT, lasts_s=LASTS_S),
        Case(behaviour="hangs-at-dot", form="200 ms", beside=1, lasts_s=LASTS_S),
        Case(behaviour="defers-one", form="1 s", whale=None, attempts_max=2, lasts_s=120),
        Case(behaviour="gmail-503-for-one", form="1 s", attempts_max=2, lasts_s=180),
        Case(behaviour="refuses-a-sender", form="200 ms", whale=None, lasts_s=LASTS_S),
        Case(behaviour="greylisting", form="1 s", whale=None, lasts_s=70),
    ],
    ids=lambda case: case.name.replace(" ", "-"),
)
def test_every_promise_holds_with(case: Case, url: str) -> None:
    assert broken(simulated(url, case)) == {}


@pytest.mark.fresh
def test_the_same_seed_gives_the_same_figures(url: str) -> None:
    case = Case(behaviour="random-4xx", form="1 s", beside=1, engines=2, lasts_s=8)

    async def twice() -> list[Result]:
        return await simulate_providers(url, [case, case], seed=7)

    first, second = run_virtually(START, twice)
    assert first == second
    assert first.conversations > 0


def test_each_provider_and_each_form_of_account_has_a_case() -> None:
    assert {case.behaviour for case in CASES} == set(ZOO)
    assert {case.form for case in CASES} == set(FORMS)
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.engines for case in CASES} == {1, 2}
    assert {case.is_packed for case in CASES} == {True, False}
    assert {case.provider.matter for case in CASES} == set(Matter)
