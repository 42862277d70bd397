"""A database for a whole file: what is checked here is rolled back, or told apart by its ids."""

from collections.abc import Iterator

import pytest

from tests.conftest import Databases


@pytest.fixture(scope="module")
def file_url(databases: Databases) -> Iterator[str]:
    with databases.new() as url:
        yield url
