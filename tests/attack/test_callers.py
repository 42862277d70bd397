"""Every route, asked by every kind of caller, with every word and id of another workspace."""

from collections.abc import Iterator

import httpx2 as httpx
import pytest

from fairpost.settings import Settings
from tests.api.asking import Asked, operations
from tests.api.conftest import ANSWER_S_MAX
from tests.api.neighbours import Neighbours, settle_in
from tests.api.served import Served, document, served
from tests.api.test_isolation import NONSENSE, ask, try_out, words_of
from tests.attack.callers import NEIGHBOURS, SHUT_OUT
from tests.thorough import times

pytestmark = [pytest.mark.attack, pytest.mark.slow, pytest.mark.thorough]

EXAMPLES = times(1, own="FAIRPOST_ATTACK_EXAMPLES")  # of each route for each caller
REFUSED = {400, 401, 403, 404, 405, 408, 413, 415, 422, 429}

# What is open to everyone: signing in and its help. It tells nothing of anyone, which is checked all the same.
PUBLIC = ("/api/auth/", "/healthz", "/readyz", "/api/openapi", "/metrics")


@pytest.fixture
def world(settings: Settings) -> Iterator[tuple[Served, Neighbours]]:
    with served(settings) as it:
        yield it, it.run(settle_in)


@pytest.mark.parametrize("kind", [*SHUT_OUT, *NEIGHBOURS])
def test_nobody_gets_at_another_workspace(world: tuple[Served, Neighbours], kind: str) -> None:
    it, neighbours = world
    caller = {**SHUT_OUT, **NEIGHBOURS}[kind]
    headers = it.run(lambda store: caller(store, neighbours))
    words = [*words_of(neighbours.b), *NONSENSE]
    before = it.run(neighbours.changed)
    with httpx.Client(base_url=it.url, headers=headers, timeout=ANSWER_S_MAX) as client:

        def nothing_is_told(asked: Asked) -> None:
            answer = ask(client, asked)
            assert answer.status_code < 500, (asked, answer.text)
            assert neighbours.b.secret not in f"{answer.text} {dict(answer.headers)}", (asked, answer.text)
            if kind in SHUT_OUT and not asked.operation.path.startswith(PUBLIC):
                assert answer.status_code in REFUSED, (asked, answer.text)

        for operation in operations(document()):
            try_out(operation, words, nothing_is_told, examples=EXAMPLES)
    assert it.run(neighbours.changed) == before
