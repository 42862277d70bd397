"""Somebody who has signed in over HTTP, as people do; the code is read where it waits to be sent."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2 as httpx

from fairpost.model.person import Offered, Person, Role
from fairpost.people import membership
from tests.api.conftest import Api

PASSWORD = "four words that fit"


@asynccontextmanager
async def signed_in(
    api: Api, address: str = "ann@example.com", *, role: Role = Role.ADMIN, workspace: str | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Without a workspace as an admin. Changes go out with the session's token."""
    offered = await membership.invite(api.store, workspace=workspace, address=address, role=role)
    assert isinstance(offered, Offered)
    assert isinstance(await membership.accept_invitation(api.store, offered.token, PASSWORD), Person)
    async with httpx.AsyncClient(base_url=api.url, timeout=60) as client:
        given = {"address": address, "password": PASSWORD, "workspace": workspace}
        begun = await client.post("/api/auth/sign-in", json=given)
        assert begun.status_code == 202, begun.text
        entered = await client.post("/api/auth/code", json={"code": await _code(api)})
        assert entered.status_code == 200, entered.text
        client.headers["X-CSRF-Token"] = entered.json()["data"]["csrf_token"]
        yield client


async def _code(api: Api) -> str:
    """Of the newest e-mail of the service."""
    text = await api.store.value(
        """SELECT c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id
           WHERE q.workspace = 'fairpost' ORDER BY q.id DESC LIMIT 1"""
    )
    found = re.search(r"^ +(\d{6})$", text, re.MULTILINE)
    assert found, text
    return found[1]
