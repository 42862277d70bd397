"""Routes are built once, when they are first needed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Annotated, Any

import httpx2 as httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute

from fairpost.api.routing import Router

AT_ONCE = 8


@dataclass(frozen=True)
class Noted:
    """A parameter that records when its route is built."""

    route: str
    built: list[str] = field(hash=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        self.built.append(self.route)
        return handler(source)


def made(built: list[str]) -> FastAPI:
    router = Router(prefix="/v1", tags=["things"])

    @router.get("/things/{name}")
    async def get_thing(name: Annotated[str, Noted("get", built)]) -> str:
        return name

    @router.put("/things/{name}")
    async def put_thing(name: Annotated[str, Noted("put", built)]) -> str:
        return name

    app = FastAPI()
    app.router.routes.extend(router.routes)
    return app


async def test_a_route_is_built_at_its_first_request() -> None:
    built: list[str] = []
    transport = httpx.ASGITransport(made(built))
    async with httpx.AsyncClient(transport=transport, base_url="http://here.test") as client:
        assert (await client.get("/v1/nothing")).status_code == 404
        assert (await client.delete("/v1/things/a")).status_code == 405
        assert built == []
        for _ in range(2):
            assert (await client.get("/v1/things/a")).json() == "a"
        assert built == ["get"]
        assert (await client.put("/v1/things/b")).json() == "b"
    assert built == ["get", "put"]


def test_it_is_described_with_a_name_that_is_an_identifier() -> None:
    (methods,) = made([]).openapi()["paths"].values()
    assert {method: each["operationId"] for method, each in methods.items()} == {"get": "getThing", "put": "putThing"}
    assert methods["get"]["tags"] == ["things"]


def test_threads_that_need_it_at_once_build_it_once() -> None:
    built: list[str] = []
    route = next(each for each in made(built).router.routes if isinstance(each, APIRoute))
    start = Barrier(AT_ONCE)

    def needed() -> object:
        start.wait()
        return route.dependant

    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = {id(each.result()) for each in [threads.submit(needed) for _ in range(AT_ONCE)]}
    assert (len(found), built) == (1, ["get"])
