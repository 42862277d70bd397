"""Every kind of caller requests every route, with every word and id of another workspace."""

from collections.abc import Iterator

import httpx2 as httpx
import pytest

from fairpost.settings import read_settings
from tests.api.asking import requests
from tests.api.conftest import ANSWER_S_MAX
from tests.api.neighbours import Neighbours, neighbourhood
from tests.api.served import Served, every_operation, served
from tests.api.test_isolation import NONSENSE, ask, words_of
from tests.attack.callers import NEIGHBOURS, SHUT_OUT
from tests.databases import Databases
from tests.thorough import times

pytestmark = [pytest.mark.attack, pytest.mark.slow, pytest.mark.thorough]

EXAMPLES = times(1, own="FAIRPOST_ATTACK_EXAMPLES")  # for each route and caller
REFUSED = {400, 401, 403, 404, 405, 408, 413, 415, 422, 429}

# Open to everyone: signing in and its help. It reveals nothing about anyone, which is checked as well.
PUBLIC = ("/v1/auth/", "/healthz", "/readyz", "/v1/openapi", "/metrics")


@pytest.fixture(scope="module")
def world(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Neighbours]]:
    """One service for all callers, because their requests must change nothing of the victim's."""
    home = {"FAIRPOST_HOME": str(tmp_path_factory.mktemp("home"))}
    with (
        neighbourhood(databases) as (url, neighbours),
        served(read_settings({**home, "FAIRPOST_DATABASE_URL": url})) as it,
    ):
        yield it, neighbours


@pytest.mark.parametrize("kind", [*SHUT_OUT, *NEIGHBOURS])
def test_no_caller_can_reach_another_workspace(world: tuple[Served, Neighbours], kind: str) -> None:
    it, neighbours = world
    caller = {**SHUT_OUT, **NEIGHBOURS}[kind]
    headers = it.run(lambda store: caller(store, neighbours))
    words = [*words_of(neighbours.b), *NONSENSE]
    before = it.run(neighbours.changed)
    with httpx.Client(base_url=it.url, headers=headers, timeout=ANSWER_S_MAX) as client:
        for operation in every_operation():
            for asked in requests(operation, words, examples=EXAMPLES):
                answer = ask(client, asked)
                assert answer.status_code < 500, (asked, answer.text)
                assert neighbours.b.secret not in f"{answer.text} {dict(answer.headers)}", (asked, answer.text)
                if kind in SHUT_OUT and not operation.path.startswith(PUBLIC):
                    assert answer.status_code in REFUSED, (asked, answer.text)
    assert it.run(neighbours.changed) == before
