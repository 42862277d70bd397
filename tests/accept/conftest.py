"""A database for a whole file: what is checked here is rolled back, or told apart by its ids."""

import itertools
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def file_url(server_url: str) -> Iterator[str]:
    name = f"accept_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE pattern")
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
