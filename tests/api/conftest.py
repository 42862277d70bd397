"""A service on a real socket, and clients with keys."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Any

import httpx2 as httpx
import pytest
from fastapi import FastAPI

from fairpost.api.app import build_app
from fairpost.api.serve import listener_on, serving
from fairpost.api.service import Service
from fairpost.auth.mails import ServiceMail
from fairpost.model.reason import Log, Reason
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan, Scope
from fairpost.portals.loading import built_in_portals
from fairpost.regions.directory import MAIN, Directory, Region
from fairpost.regions.stores import RegionStores
from fairpost.settings import Settings, read_settings
from fairpost.smtp.guard import NetworkGuard
from fairpost.startup.parts import vault_of
from fairpost.store import workspaces
from fairpost.store.store import Store

ALL = tuple(Scope)
LENT = (Loan("default", (PROVEN, ACCOUNT)),)  # the pools that tests unrelated to loans send through
ANSWER_S_MAX = 120  # of the database and the service: only guards against waiting forever


@cache
def _app() -> tuple[FastAPI, list[Reason], list[Reason]]:
    """One service for all tests of a process, with its log and the log lines about requests. Its first request takes
    half a second."""
    log: list[Reason] = []
    answered: list[Reason] = []
    return build_app(None, log=split(log, answered)), log, answered


def split(log: list[Reason], answered: list[Reason]) -> Log:
    """Problems, and the lines about requests."""
    return lambda event: (answered if event.code == "request.answered" else log).append(event)


async def _resolve(host: str, port: int) -> list[str]:
    """Resolves without DNS: every host is on the public internet, unless its name says otherwise."""
    if "." not in host or host.endswith(".localhost"):
        return ["127.0.0.1"]
    try:
        return [str(ip_address(host))]
    except ValueError:
        return ["10.0.0.7"] if "internal" in host else ["198.41.0.4"]


@dataclass(frozen=True)
class Api:
    url: str
    store: Store  # sees everything
    log: list[Reason]
    service: Service
    answered: list[Reason]  # requests

    async def workspace(
        self, name: str = "acme", *, domains: Sequence[str] = ("acme.example",), pool: bool = True
    ) -> str:
        await workspaces.add_workspace(self.store, name, loans=LENT)
        for domain in domains:
            await workspaces.add_domain(self.store, name, domain)
            await workspaces.domain_checked(self.store, name, domain, proven_by="a test")
        return name

    async def key(self, workspace: str = "acme", *, scopes: Sequence[Scope] = ALL, **more: Any) -> str:
        _, text = await workspaces.add_key(
            self.store, workspace, region=MAIN, name="test", scopes=scopes, by="a test", **more
        )
        return text

    @asynccontextmanager
    async def client(
        self, workspace: str = "acme", *, scopes: Sequence[Scope] = ALL, **more: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        """Returns a client with a key that has these scopes and a high rate limit."""
        more.setdefault("per_minute", 100_000)
        headers = {"Authorization": f"Bearer {await self.key(workspace, scopes=scopes, **more)}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=ANSWER_S_MAX) as client:
            yield client


def fields_of(answer: httpx.Response) -> list[str]:
    """Returns the fields that a 422 response names, or nothing for any other response."""
    return [each["field"] for each in answer.json()["error"]["details"]] if answer.status_code == 422 else []


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, url: str) -> Settings:
    monkeypatch.setenv("FAIRPOST_HOME", str(tmp_path))
    monkeypatch.setenv("FAIRPOST_DATABASE_URL", url)
    return read_settings()


@asynccontextmanager
async def answering(settings: Settings) -> AsyncIterator[Api]:
    """A service on the database from the settings."""
    assert settings.database_url
    app, log, answered = _app()
    assert app.state.service is None  # one at a time
    log.clear()
    answered.clear()
    directory = Directory([Region(MAIN, settings.database_url)])
    async with (
        Store.open(settings.database_url) as store,
        RegionStores(directory, connections_max=8, answer_s_max=ANSWER_S_MAX) as stores,
        RegionStores(directory, connections_max=3, answer_s_max=ANSWER_S_MAX) as auth_stores,
    ):
        service = Service(
            settings=settings,
            home=store,
            stores=stores,
            auth_stores=auth_stores,
            vault=vault_of(settings),
            mail=ServiceMail(portals=built_in_portals(), pool=settings.service_pool, public_url=settings.public_url),
            guard=NetworkGuard(resolve=_resolve),
            log=log.append,
        )
        app.state.service = service
        try:
            async with serving(app, listener_on("127.0.0.1", 0)) as port:
                yield Api(f"http://127.0.0.1:{port}", store, log, service, answered)
        finally:
            app.state.service = None
    assert log == []  # no request caused an internal error


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Api]:
    async with answering(settings) as api:
        yield api


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A client of workspace acme, with all scopes."""
    await api.workspace()
    async with api.client() as client:
        yield client
