"""An admin who has signed in, on a real socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2 as httpx

from fairpost.people import membership
from tests.api.conftest import Api


@asynccontextmanager
async def operator(api: Api, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """By a link made on the server, with what every change needs."""
    link = await membership.local_operator_link(api.service.home, api.url)
    assert link is not None
    async with httpx.AsyncClient(base_url=api.url, timeout=30) as client:
        entered = await client.post("/api/auth/enter", json={"token": link.partition("token=")[2]})
        assert entered.status_code == 200, entered.text
        client.headers["X-CSRF-Token"] = entered.json()["data"]["csrf_token"]
        client.headers.update(headers)
        yield client
