"""The benchmarks of the service, on a small scale: they run, and every figure they print is explained."""

import math
from functools import partial

import pytest

from fairpost.cli.bench import MEANING
from fairpost.dev.bench import api, pages
from tests.cli.conftest import Cli
from tests.cli.test_simulate import empty_already


def is_measured(figures: dict[str, float]) -> bool:
    return figures.keys() <= MEANING.keys() and all(math.isfinite(figure) and figure > 0 for figure in figures.values())


@pytest.fixture(autouse=True)
def on_the_tests_own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for bench in (api, pages):
        monkeypatch.setattr(bench, "bench_database", empty_already)


def test_the_api_is_measured_beside_the_framework_and_the_database(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "BULK_LINES", dict.fromkeys(api.BULK_LINES, 10))
    figures = cli.json("bench", "api", "--seconds", "0.1", "--processes", "1", "--connections", "1")
    assert is_measured(figures)
    assert {
        "framework_per_s",
        "database_single_per_s",
        "api_single_per_s",
        "api_bulk_per_s_1000",
        "api_bulk_per_s_10000",
        "api_list_ms_p99",
    } <= figures.keys()


def test_pages_are_measured_beside_offset_and_the_bare_index(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "bench_pages", partial(pages.bench_pages, looks=2))
    figures = cli.json("bench", "pages", "--emails", "1000")
    assert is_measured(figures)
    assert {"page_ms_big_last", "page_ms_small_failed_p99", "offset_ms_big_last", "index_ms_small"} <= figures.keys()
