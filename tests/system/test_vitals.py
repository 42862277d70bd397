"""Resources used by processes: by real ones, by one that is gone, and if the system does not report them."""

import os
import sys
from pathlib import Path

import pytest

from fairpost.system.vitals import vitals_of


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_process_uses_something_and_one_that_is_gone_nothing() -> None:
    found = vitals_of([os.getpid(), 2**22 + 1])
    assert found is not None
    assert found.processes == 1
    assert found.rss_bytes > 1_000_000
    before = found.cpu_s
    sum(i * i for i in range(3_000_000))
    after = vitals_of([os.getpid()])
    assert after is not None
    assert after.cpu_s > before


def test_a_process_name_with_parentheses_is_parsed(tmp_path: Path) -> None:
    for pid in ("self", "7"):
        (tmp_path / pid).mkdir()
        numbers = " ".join(str(i) for i in range(3, 53))
        (tmp_path / pid / "stat").write_text(f"7 (a) b (c)) {numbers}")
    found = vitals_of([7], proc=tmp_path)
    assert found is not None
    assert found.cpu_s == pytest.approx((14 + 15) / os.sysconf("SC_CLK_TCK"))
    assert found.rss_bytes == 24 * os.sysconf("SC_PAGE_SIZE")


def test_unavailable_figures_are_not_guessed(tmp_path: Path) -> None:
    assert vitals_of([1], proc=tmp_path) is None
