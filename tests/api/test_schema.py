"""The document is accurate: requests generated from it for every path get the documented responses, and none causes an
internal error.

FAIRPOST_SCHEMA_EXAMPLES sets a larger number of requests for each path.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fairpost.auth import membership
from fairpost.settings import read_settings
from tests.api import asking
from tests.api.conftest import ANSWER_S_MAX
from tests.api.neighbours import Neighbours, neighbourhood
from tests.api.served import Served, document, every_operation, served
from tests.conftest import Databases
from tests.thorough import IS_FREE, times

T = TypeVar("T")

EXAMPLES = times(3, own="FAIRPOST_SCHEMA_EXAMPLES")
EACH = max(1, EXAMPLES // 3)  # valid, invalid, and about existing objects
SAMPLE = 6  # operations
LINES = ("application/x-ndjson", "text/csv")
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def world(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Neighbours]]:
    home = {"FAIRPOST_HOME": str(tmp_path_factory.mktemp("home"))}
    with (
        neighbourhood(databases) as (url, neighbours),
        served(read_settings({**home, "FAIRPOST_DATABASE_URL": url})) as it,
    ):
        yield it, neighbours
        assert it.log == []


@schemathesis.serializer(*LINES)
def as_lines(_: Any, value: Any) -> bytes:
    lines = value if isinstance(value, list) else [value]
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()


def has_wrong_body(case: Case[Any]) -> bool:
    """Lines get separate results, and unknown query parameters are ignored, as everywhere."""
    body = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
    return body is not None and body.mode.is_negative and case.media_type not in LINES


def each_of(cases: st.SearchStrategy[T], check: Callable[[T], object]) -> None:
    @given(cases)
    @hypothesis_settings(
        max_examples=EACH,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    def one(case: T) -> None:
        check(case)

    one()


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as_it_says", "otherwise"])
def test_every_answer_is_as_the_document_says(world: tuple[Served, Neighbours], mode: GenerationMode) -> None:
    """In the second run, the requests break the document and must be rejected.

    Schemathesis takes half a second to generate a request: `make test` uses a few operations, `make fuzz` all of them.
    """
    it, neighbours = world
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {neighbours.a.key}"

        def check(case: Case[Any]) -> None:
            rejected = [negative_data_rejection] if has_wrong_body(case) else []
            case.call_and_validate(base_url=it.url, session=session, checks=[*CHECKS, *rejected])

        every = list(schemathesis.openapi.from_dict(document()).get_all_operations())
        for result in every if IS_FREE else every[:: len(every) // SAMPLE]:
            assert isinstance(result, Ok)
            with suppress(Unsatisfiable):  # without parameters, nothing can be invalid
                each_of(result.ok().as_strategy(generation_mode=mode), check)


@pytest.mark.thorough
def test_requests_outside_the_document_are_refused(world: tuple[Served, Neighbours]) -> None:
    it, neighbours = world
    schema = schemathesis.openapi.from_dict(document())
    wrong = []
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {neighbours.a.key}"
        for operation in every_operation():
            if operation.body is None or operation.media_type != asking.JSON_TYPE:
                continue
            described = schema[operation.path][operation.method]
            path = {each["name"]: "1" for each in operation.parameters if each["in"] == "path"}
            for body in asking.wrong_bodies(operation.body, each=times(2)):
                case = described.Case(path_parameters=path, body=body, media_type=asking.JSON_TYPE)
                answer = case.call_and_validate(base_url=it.url, session=session, checks=CHECKS)
                if not 400 <= answer.status_code < 500:
                    wrong.append((str(operation), str(body)[:200], answer.status_code))
    assert wrong == []


def said(asked: asking.Asked) -> dict[str, Any]:
    body = {} if asked.body is None else {"body": asked.body, "media_type": asked.operation.media_type}
    query = {name: value for name, value in asked.query.items() if value is not None}
    return {"path_parameters": asked.path, "query": query, "headers": asked.headers, **body}


@pytest.mark.thorough
def test_answers_about_things_that_are_there_are_as_the_document_says(world: tuple[Served, Neighbours]) -> None:
    it, neighbours = world
    a = neighbours.a
    words = [word for word in (*a.names, *(str(id_) for id_ in a.ids)) if "/" not in word]
    schema = schemathesis.openapi.from_dict(document())
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {a.key}"
        for operation in every_operation():
            described = schema[operation.path][operation.method]
            for asked in asking.requests(operation, words, examples=EACH):
                if a.key_id not in asked.path.values():  # our own key must stay valid
                    case = described.Case(**said(asked))
                    case.call_and_validate(base_url=it.url, session=session, checks=CHECKS)


def test_answers_to_admins_match_the_openapi_document(world: tuple[Served, Neighbours]) -> None:
    it, neighbours = world
    words = [*neighbours.a.names, *(str(id_) for id_ in neighbours.a.ids)]
    schema = schemathesis.openapi.from_dict(document())
    link = it.run(lambda store: membership.local_operator_link(store, it.url))
    assert link is not None
    with requests.Session() as session:
        entered = session.post(
            f"{it.url}/v1/auth/enter", json={"token": link.partition("token=")[2]}, timeout=ANSWER_S_MAX
        )
        session.headers["X-CSRF-Token"] = entered.json()["data"]["csrf_token"]
        for operation in every_operation():
            if not operation.path.startswith("/v1/admin/") or operation.path.endswith("/verify"):
                continue  # verifying would connect to the network
            described = schema[operation.path][operation.method]
            for asked in asking.requests(operation, words, examples=2 * EACH):
                asked.headers.pop("X-CSRF-Token", None)
                case = described.Case(**said(asked))
                case.call_and_validate(base_url=it.url, session=session, checks=CHECKS)
        assert session.get(f"{it.url}/v1/admin/status", timeout=ANSWER_S_MAX).status_code == 200
