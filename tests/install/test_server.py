"""`pip install 'fairpost[server]'`: engine, commands, HTTP API and pages run on the configured database.

Development tools are not installed.
"""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2 as httpx
import psycopg
import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from fairpost.__main__ import FOR_DEVELOPMENT
from fairpost.api.access import SESSION_COOKIE
from fairpost.extras import PACKAGES, Extra, how_to_install
from fairpost.model.auth import Role
from fairpost.store import auth
from fairpost.store.store import Store
from tests.api.signed_in import session_of
from tests.databases import Databases
from tests.install.environments import PROCESS_S_MAX, Environment, build_wheel, make_environment

LINE = how_to_install(Extra.LOCAL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("server")
    return make_environment(folder / "venv", build_wheel(folder / "wheel"), Extra.SERVER)


@pytest.fixture(scope="module")
def migrated(server: Environment, databases: Databases) -> Iterator[str]:
    """Returns the URL of a database whose schema was created by this installation."""
    with databases.fresh("template1") as url:
        server.run("fairpost", "db", "migrate", FAIRPOST_DATABASE_URL=url)
        yield url


class Sink:
    def __init__(self) -> None:
        self.recipients: list[str] = []
        self.is_fed = asyncio.Event()

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name there
        self.recipients += envelope.rcpt_tos
        self.is_fed.set()
        return "250 OK"


def test_no_package_for_development_is_there(server: Environment) -> None:
    code = f"from importlib.util import find_spec; print(*map(find_spec, {PACKAGES[Extra.LOCAL]}))"
    assert set(server.run("python", "-c", code).split()) == {"None"}


def test_the_doctor_finds_the_schema_and_the_rights_that_it_needs(server: Environment, migrated: str) -> None:
    out, _ = server.start("fairpost", "doctor", "--json", FAIRPOST_DATABASE_URL=migrated).communicate()
    grades = {check["name"]: check["grade"] for check in json.loads(out)["checks"]}
    assert {grades[name] for name in ("database", "schema", "rights", "tenant role")} == {"ok"}


async def test_an_engine_sends(server: Environment, migrated: str) -> None:
    sink = Sink()
    relay = await asyncio.get_running_loop().create_server(lambda: SMTP(sink), "127.0.0.1", 0)
    smtp = f"smtp://127.0.0.1:{relay.sockets[0].getsockname()[1]}"
    account = ("fairpost", "account", "add", "relay", "--from", "relay@here.test", "--smtp", smtp)
    await asyncio.to_thread(server.run, *account, FAIRPOST_DATABASE_URL=migrated)
    with psycopg.connect(migrated) as conn:
        conn.execute("""SELECT fairpost.enqueue('{"to": "ann@there.test", "subject": "Hello", "text": "Hi"}')""")
    engine = server.start("fairpost", "work", FAIRPOST_DATABASE_URL=migrated)
    try:
        await asyncio.wait_for(sink.is_fed.wait(), PROCESS_S_MAX)
    finally:
        engine.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(engine.communicate)
        relay.close()
    assert (sink.recipients, engine.returncode) == (["ann@there.test"], 0), out + err


@asynccontextmanager
async def admin_of(server: Environment, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """An admin who is signed in to a service of this installation."""
    service = server.start("fairpost", "api", "--listen", "127.0.0.1:0", FAIRPOST_DATABASE_URL=url)
    assert service.stderr is not None
    try:
        ready = await asyncio.to_thread(service.stderr.readline)
        async with Store.open(url) as store:
            ann = await auth.add_invited(
                store, workspace=None, address="ann@here.test", name="", role=Role.ADMIN, now=None
            )
            assert ann is not None
            cookies = {SESSION_COOKIE: await session_of(store, ann)}
        base = re.findall(r"http://[\d.:]+", ready)[0]
        async with httpx.AsyncClient(base_url=base, cookies=cookies, timeout=60) as client:
            yield client
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate()


async def test_the_service_answers_and_says_how_to_install_the_inbox(server: Environment, migrated: str) -> None:
    async with admin_of(server, migrated) as client:
        session = (await client.get("/v1/auth/session")).json()["data"]
        page = await client.get("/")
        absent = [await client.get(path) for path in ("/v1/inbox", "/v1/inbox/1/source", "/v1/live/inbox")]
    assert session["has_inbox"] is False
    assert page.status_code == 200
    errors = [(answer.status_code, answer.json()["error"]) for answer in absent]
    assert [(status, error["code"]) for status, error in errors] == [(404, "not_installed")] * 3
    assert all(LINE in error["message"] for _, error in errors)


def test_commands_for_development_name_the_line_that_installs_them(server: Environment) -> None:
    for name in sorted(FOR_DEVELOPMENT):
        error = server.run("fairpost", name, code=1)
        assert LINE in error
        assert error.count("\n") == 1
    assert "Usage:" in server.run("fairpost", "up", "--help")


@pytest.mark.parametrize("command", [("work",), ("doctor",), ("db", "start")])
def test_without_a_database_the_embedded_one_is_not_taken(server: Environment, command: tuple[str, ...]) -> None:
    error = server.run("fairpost", *command, code=1)
    assert LINE in error
    assert "FAIRPOST_DATABASE_URL" in error
    assert error.count("\n") == 1
