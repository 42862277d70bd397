from collections.abc import Iterator

import pytest

from fairpost.store.store import Store
from fairpost.system import clock
from tests.campaigns.world import MONDAY, World


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    with clock.stopped_at(MONDAY) as manual:
        yield World(store, manual)
