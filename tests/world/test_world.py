"""The zoo on real sockets, with a real engine, for some seconds; `make world` runs every provider."""

from pathlib import Path

import pytest

from fairpost.dev.simulate.checks import Check
from fairpost.dev.simulate.providers import Case
from tests.world.world import run_for_real

LASTS_S = 5.0
BY_THE_CLOCK = {Check.NEWCOMER, Check.IDLE, Check.LIMITS}  # a busy machine violates these, rather than the engine


@pytest.mark.parametrize("behaviour", ["defers-one", "hangs-at-dot"])
async def test_an_engine_keeps_its_promises_with(behaviour: str, url: str, tmp_path: Path) -> None:
    case = Case(behaviour=behaviour, form="200 ms", beside=1, lasts_s=LASTS_S)
    result = await run_for_real(url, case, tmp_path)
    assert [each for each in result.violations if each.check not in BY_THE_CLOCK] == []
    assert result.conversations > 0
    assert result.stopped == 0
