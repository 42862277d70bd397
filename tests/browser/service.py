"""One service for all tests of this folder, on one database that is emptied for each test.

A separate service and database would cost each test half a second for connections and plans.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from fairpost.api.app import build_app
from fairpost.api.serve import listener_on, serving
from fairpost.api.service import Service
from fairpost.auth.mails import ServiceMail
from fairpost.model.reason import Reason
from fairpost.portals.loading import Portals, built_in_portals
from fairpost.regions.directory import MAIN, Directory, Region
from fairpost.regions.stores import RegionStores
from fairpost.settings import Settings
from fairpost.smtp.guard import NetworkGuard
from fairpost.startup.parts import vault_of
from fairpost.store.store import Store
from tests.api.conftest import Api, split

ANSWER_S_MAX = 120  # of the database and the service: only guards against waiting forever
PUBLIC = "198.41.0.4"

# Rows added by the migrations are saved, to be restored.
KEEP = """
DO $$ DECLARE name text; is_filled bool; BEGIN
    CREATE SCHEMA seeds;
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind = 'r' LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM fairpost.%I)', name) INTO is_filled;
        IF is_filled THEN EXECUTE format('CREATE TABLE seeds.%1$I AS TABLE fairpost.%1$I', name); END IF;
    END LOOP;
END $$"""

# Without triggers, so the order of the tables does not matter.
EMPTY = """
DO $$ DECLARE name text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind = 'r' LOOP
        EXECUTE format('DELETE FROM fairpost.%I', name);
    END LOOP;
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'seeds'::regnamespace LOOP
        EXECUTE format('INSERT INTO fairpost.%1$I TABLE seeds.%1$I', name);
    END LOOP;
END $$"""


@dataclass
class Requests:
    """Returns the requests in progress."""

    number: int = 0
    fewer: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def over(self) -> None:
        """Waits for the streams of a closed browser to end, which takes a moment."""
        async with asyncio.timeout(ANSWER_S_MAX), self.fewer:
            await self.fewer.wait_for(lambda: self.number == 0)


class Counting:
    def __init__(self, app: ASGIApp, *, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # start and end of the application itself
            return await self._app(scope, receive, send)
        self._requests.number += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests.number -= 1
            async with self._requests.fewer:
                self._requests.fewer.notify_all()


@dataclass(frozen=True)
class House:
    """What the services of all tests share: database connections, the application, a port."""

    database_url: str
    url: str
    store: Store
    stores: RegionStores
    auth_stores: RegionStores
    app: FastAPI
    portals: Portals
    log: list[Reason]
    requests: Requests

    @asynccontextmanager
    async def empty(self, settings: Settings) -> AsyncIterator[Api]:
        """A service without data."""
        await self.store.fetch(EMPTY)
        self.log.clear()
        mail = ServiceMail(portals=self.portals, pool=settings.service_pool, public_url=settings.public_url)
        service = Service(
            settings=settings,
            home=self.store,
            stores=self.stores,
            auth_stores=self.auth_stores,
            vault=vault_of(settings),
            mail=mail,
            guard=NetworkGuard(resolve=_resolve),
            log=self.log.append,
        )
        self.app.state.service = service
        try:
            yield Api(self.url, self.store, self.log, service, [])
        finally:
            await self.requests.over()
        assert self.log == []  # no request caused an internal error


@asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[House]:
    log, requests = list[Reason](), Requests()
    app = build_app(None, log=split(log, []))
    app.add_middleware(Counting, requests=requests)
    directory = Directory([Region(MAIN, database_url)])
    async with (
        Store.open(database_url) as store,
        RegionStores(directory, connections_max=8, answer_s_max=ANSWER_S_MAX) as stores,
        RegionStores(directory, connections_max=3, answer_s_max=ANSWER_S_MAX) as auth_stores,
        serving(app, listener_on("127.0.0.1", 0)) as port,
    ):
        await store.fetch(KEEP)
        url = f"http://127.0.0.1:{port}"
        portals = built_in_portals()
        yield House(database_url, url, store, stores, auth_stores, app, portals, log, requests)


async def _resolve(host: str, port: int) -> list[str]:
    """Resolves without DNS: every name is on the public internet."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        return [PUBLIC]
