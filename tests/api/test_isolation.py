"""The first wall: whatever a requests, on any path and with any word of b's, it learns nothing about b and changes
nothing of b's.

Paths and methods come from the OpenAPI document, so that new ones are covered immediately.
"""

import json
import re
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

from fairpost.settings import Settings
from tests.api.asking import Asked, requests
from tests.api.conftest import ANSWER_S_MAX
from tests.api.neighbours import SEALED_WITH, A, B, Neighbour, Neighbours, settle_in
from tests.api.served import Served, every_operation, served
from tests.thorough import times

pytestmark = pytest.mark.attack

EXAMPLES = times(2, own="FAIRPOST_ISOLATION_EXAMPLES")  # for each operation
GHOST = "ghost"  # not a workspace, but a name as long as b's
NONSENSE = (
    "",
    "x",
    "0",
    "-1",
    "9" * 18,
    "default",
    "*",
    "'; RESET ROLE; --",
    '"; SET ROLE postgres; --',
    "$1",
    "%",
    "../..",
    "ß💥",
)
TRIES_MAX = 200  # most operations need only one
LOOKED_AFTER = 40  # number of operations after which all rows of all tables are compared
MALFORMED = {400, 422}
INJECTIONS = (
    "'; RESET ROLE; --",
    "'); SET LOCAL fairpost.workspace = 'berta'; --",
    "x' OR '1'='1",
    "\\'; DROP TABLE fairpost.queue; --",
    "$$; RESET ROLE; $$",
    "x'::text; SELECT set_config('role', 'none', false); --",
    "%27%3B%20RESET%20ROLE%3B--",
)
UNSTEADY = ("x-request-id", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "date", "content-length")


@pytest.fixture
def world(settings: Settings) -> Iterator[tuple[Served, Neighbours]]:
    with served(replace(settings, secret_key=SEALED_WITH)) as it:
        yield it, it.run(settle_in)
        assert it.log == []


def words_of(neighbour: Neighbour) -> list[str]:
    public = [*neighbour.public_emails, neighbour.public_conversation]
    return [*neighbour.names, *(str(id_) for id_ in neighbour.ids), *public]


def ask(client: httpx.Client, asked: Asked) -> httpx.Response:
    path = asked.operation.path
    for name, value in asked.path.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe="") or "%20")
    headers = dict(asked.headers)
    content = asked.content()
    if content is not None and asked.operation.media_type:
        headers["Content-Type"] = asked.operation.media_type
    query = {name: value for name, value in asked.query.items() if value is not None}
    return client.request(asked.operation.method, path, params=query, headers=headers, content=content)


def client_of(it: Served, neighbour: Neighbour) -> httpx.Client:
    return httpx.Client(base_url=it.url, headers={"Authorization": f"Bearer {neighbour.key}"}, timeout=ANSWER_S_MAX)


def would_lock_us_out(asked: Asked, neighbour: Neighbour) -> bool:
    """Our own key must stay valid."""
    return asked.operation.path.startswith("/v1/keys/") and neighbour.key_id in asked.path.values()


@pytest.mark.slow
@pytest.mark.thorough
def test_no_workspace_learns_or_changes_anything_of_another(world: tuple[Served, Neighbours]) -> None:
    it, neighbours = world
    words = [*words_of(neighbours.a), *words_of(neighbours.b), *words_of(neighbours.b), *NONSENSE]
    with client_of(it, neighbours.a) as client:
        every = every_operation()
        for some in (every[n : n + LOOKED_AFTER] for n in range(0, len(every), LOOKED_AFTER)):
            for operation in some:
                for asked in requests(operation, words, examples=EXAMPLES):
                    if not would_lock_us_out(asked, neighbours.a):
                        answer = ask(client, asked)
                        assert answer.status_code < 500, (asked, answer.text)
                        assert neighbours.b.secret not in f"{answer.text} {dict(answer.headers)}", (asked, answer.text)
            assert it.run(neighbours.changed) == {}, [str(operation) for operation in some]


@pytest.mark.slow
@pytest.mark.thorough
def test_resources_of_others_look_like_missing_ones(world: tuple[Served, Neighbours]) -> None:
    it, neighbours = world
    ghosts = ghosts_of(neighbours.b)
    with client_of(it, neighbours.a) as client:

        def both_answers_are_the_same(asked: Asked) -> None:
            names = _names(asked.body) & ghosts.keys()
            as_nobodys = _said(asked, ghosts)
            theirs, nobodys = ask(client, asked), ask(client, as_nobodys)
            assert theirs.status_code == nobodys.status_code, (asked, theirs.text, nobodys.text)
            if (
                len(names) > 1
            ):  # of several invalid names only one is reported, chosen by its spelling: so each is tried alone
                for name in sorted(names):
                    both_answers_are_the_same(replace(asked, body=_without(asked.body, names - {name})))
            elif theirs.status_code >= 400:
                assert _steady(theirs, asked, ghosts) == _steady(nobodys, as_nobodys, ghosts), asked

        for operation in every_operation():
            for asked in requests(operation, list(ghosts), examples=EXAMPLES):
                both_answers_are_the_same(asked)
    assert it.run(neighbours.changed) == {}


def ghosts_of(neighbour: Neighbour) -> dict[str, str]:
    """Returns, for each word of the workspace, one of the same form that refers to nothing."""
    ghosts = {word: word.replace(B, GHOST) for word in neighbour.names if B in word}
    ghosts[neighbour.key_id] = "".join(chr((ord(c) - 96) % 26 + 97) if c.isalpha() else c for c in neighbour.key_id)
    # a long one contains a time: here, one at which nothing was created
    numbers = {id_: id_ - (7 << 40) if id_ > 10**15 else id_ + 900_000 for id_ in neighbour.ids}
    public = {neighbour.public.email(id_): neighbour.public.email(numbers[id_]) for id_ in neighbour.emails.values()}
    return ghosts | {str(id_): str(ghost) for id_, ghost in numbers.items()} | public


def _said(asked: Asked, ghosts: dict[str, str]) -> Asked:
    def said(value: Any) -> Any:
        if isinstance(value, str):
            return ghosts.get(value, value)
        if isinstance(value, list):
            return [said(each) for each in value]
        if isinstance(value, dict):
            return {said(key): said(each) for key, each in value.items()}
        return value

    return Asked(asked.operation, said(asked.path), said(asked.query), said(asked.headers), said(asked.body))


def _names(value: Any) -> set[str]:
    """Yields all objects in it."""
    if isinstance(value, list):
        return set[str]().union(*map(_names, value))
    return set[str]().union(value, *map(_names, value.values())) if isinstance(value, dict) else set()


def _without(value: Any, names: Set[str]) -> Any:
    if isinstance(value, list):
        return [_without(each, names) for each in value]
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return value


def _steady(answer: httpx.Response, asked: Asked, ghosts: dict[str, str]) -> tuple[str, dict[str, str]]:
    text = _without_our_lines(answer, asked)
    for word in sorted((*ghosts, *ghosts.values()), key=len, reverse=True):
        text = re.sub(rf"(?<![0-9a-z]){re.escape(word)}(?![0-9a-z])", "IT", text)
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in UNSTEADY}
    return text, headers


def _without_our_lines(answer: httpx.Response, asked: Asked) -> str:
    """An invalid line is echoed as far as it is shown, which may end in the middle of a word."""
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return answer.text
    body = answer.json()
    lines = (asked.content() or b"").decode().splitlines()
    for each in body["error"]["details"] or []:
        if "text" in each and any(line.startswith(each["text"].removesuffix("…")) for line in lines):
            each["text"] = "the beginning of a line of ours"
    return json.dumps(body)


@pytest.mark.slow
@pytest.mark.thorough
def test_no_word_of_a_request_becomes_sql(world: tuple[Served, Neighbours]) -> None:
    it, neighbours = world
    with client_of(it, neighbours.a) as client:
        for operation in every_operation():
            for asked in requests(operation, INJECTIONS, examples=EXAMPLES):
                answer = ask(client, asked)
                assert answer.status_code < 500, (asked, answer.text)
                assert neighbours.b.secret not in answer.text, asked
        assert client.get("/v1/workspace").json()["data"]["name"] == A
    assert it.run(neighbours.changed) == {}
    roles = "SELECT current_setting('role') AS role, current_setting('fairpost.workspace', true) AS workspace"
    (row,) = it.run(lambda store: store.fetch(roles))
    assert (row["role"], row["workspace"] or "") == ("none", "")


@pytest.mark.slow
def test_every_operation_is_reached(world: tuple[Served, Neighbours]) -> None:
    """Otherwise the tests above would prove nothing: some requests to each operation must be well-formed."""
    it, neighbours = world
    unreached = []
    with client_of(it, neighbours.a) as client:
        for operation in every_operation():
            tries = requests(operation, words_of(neighbours.a), examples=TRIES_MAX)
            safe = (asked for asked in tries if not would_lock_us_out(asked, neighbours.a))
            if all(ask(client, asked).status_code in MALFORMED for asked in safe):
                unreached.append(str(operation))
    assert unreached == []
