"""One database per file. Its tests roll back, or use distinct ids."""

from collections.abc import Iterator

import pytest

from tests.conftest import Databases


@pytest.fixture(scope="module")
def file_url(databases: Databases) -> Iterator[str]:
    with databases.new() as url:
        yield url
