"""One service for three regions: a workspace's data is in its region and on no other connection, and a region that
fails does not affect the others."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx
import psycopg
import pytest
from argon2 import PasswordHasher

from fairpost.api.app import build_app
from fairpost.api.serve import listener_on, serving
from fairpost.api.service import Service
from fairpost.auth import passwords
from fairpost.model.errors import MigrationError
from fairpost.model.reason import Reason
from fairpost.regions.stores import ANSWER_S_MAX
from fairpost.settings import read_settings
from fairpost.startup.service import open_service
from fairpost.store import directory, workspaces
from fairpost.store.store import Store
from tests.api.conftest import ALL, LENT, split
from tests.chaos.driver import eventually
from tests.regions.conftest import NAMES, Regions
from tests.regions.conftest import no_settings_of_ours as no_settings_of_ours
from tests.regions.conftest import regions as regions
from tests.regions.lands import lands
from tests.regions.proxy import Proxy
from tests.regions.residence import tables_with

PASSWORD = "four words that fit"
ADMIN, MEMBER = "ann@example.com", "bob@example.com"
HANG_S = 60  # on any machine, everything takes less; a deadlock takes longer
UNKNOWN_KEY = "0" * 12 + "_" + "A" * 43


@dataclass(frozen=True)
class World:
    regions: Regions
    url: str
    service: Service
    log: list[Reason]
    keys: dict[str, str]  # of workspace acme-<region>, with all scopes

    async def cli(self, region: str | None, *arguments: str) -> Any:
        return await asyncio.to_thread(self.regions.cli(region).json, *arguments)

    async def refused(self, region: str | None, *arguments: str) -> str:
        return await asyncio.to_thread(self.regions.cli(region).error, *arguments)

    async def figures(self) -> str:
        return await asyncio.to_thread(self.regions.cli(None).ok, "metrics")

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=HANG_S)

    async def ask(self, region: str, path: str = "/v1/workspace") -> httpx.Response:
        async with self.client(self.keys[region]) as client:
            return await client.get(path)


async def founded(regions: Regions) -> dict[str, str]:
    """Creates a workspace in each region, to which the pool `default` is lent. Returns their keys."""
    keys = {}
    async with Store.open(regions.home_url) as home:
        for region, url in regions.urls.items():
            name = f"acme-{region}"
            async with Store.open(url) as store:
                await directory.place(home, name, region=region)
                await workspaces.add_workspace(store, name, loans=LENT)
                _, keys[region] = await workspaces.add_key(
                    store, name, region=region, name="", scopes=ALL, by="a test", per_minute=100_000
                )
    return keys


@asynccontextmanager
async def serve(regions: Regions) -> AsyncIterator[World]:
    log: list[Reason] = []
    keys = await founded(regions)
    settings = read_settings(regions.environment())
    async with (
        open_service(settings, log=log.append) as service,
        serving(build_app(service, log=split(log, [])), listener_on("127.0.0.1", 0)) as port,
    ):
        yield World(regions, f"http://127.0.0.1:{port}", service, log, keys)
    assert [each for each in log if each.code == "request.failed"] == []  # no request caused an internal error


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
async def world(regions: Regions) -> AsyncIterator[World]:
    async with serve(regions) as world:
        yield world


@pytest.fixture
async def proxies(regions: Regions) -> AsyncIterator[dict[str, Proxy]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(Proxy(url)) for name, url in regions.all_urls.items()}


@pytest.fixture
async def wired(regions: Regions, proxies: dict[str, Proxy]) -> AsyncIterator[World]:
    """Routes every connection of the service, and of the commands, through a proxy."""
    urls = {name: proxies[name].url for name in regions.urls}
    async with serve(Regions(urls, proxies["home"].url, regions.home)) as world:
        yield world


# ── a region's data stays in it ───────────────────────────────────────────────────────────────────────────


async def live(world: World, region: str, word: str) -> None:
    """Does a bit of everything with a region's key, with the word wherever one may occur."""
    await world.cli(region, "account", "add", "relay", "--from", "relay@post.test")
    await world.cli(region, "domain", "add", "--workspace", f"acme-{region}", f"{word}.example")
    await world.cli(region, "domain", "grant", "--workspace", f"acme-{region}", f"{word}.example")
    everybody = [{"address": f"{word}.{n}@there.test", "fields": {"name": word}} for n in range(3)]
    campaign = {"lists": [word], "steps": [{"subject": f"{word} {{{{ name }}}}", "text": word}], "pool": "default"}
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/v1/emails", {"to": f"{word}@there.test", "subject": word, "text": word, "user": word}),
        ("PUT", f"/v1/templates/{word}", {"subject": word, "text": word}),
        ("PUT", f"/v1/sequences/s-{word}", {"steps": [{"template": word}]}),
        ("POST", f"/v1/lists/{word}/prospects", everybody),
        ("PUT", f"/v1/campaigns/{word}", campaign),
        ("POST", f"/v1/campaigns/{word}/launch", {}),
        ("PUT", f"/v1/suppressions/{word}.gone@there.test", {"reason": word}),
        ("PUT", f"/v1/users/{word}", {"plan": word}),
        ("PUT", "/v1/portals/hub/invite", None),
        ("POST", "/v1/members", {"address": f"{word}@members.test", "role": "manager", "name": word}),
        ("POST", f"/v1/members/{word}@members.test/reset", {}),
        ("POST", "/v1/keys", {"name": word, "scopes": ["read"]}),
        ("POST", "/v1/accounts", {"name": word, "address": f"{word}@{word}.example"}),
    ]
    async with world.client(world.keys[region]) as client:
        for method, path, body in asked:
            if body is None:  # with the region's own words
                body = (await client.get(path)).json()["data"]
                body = {name: body[name] for name in ("subject", "preheader", "text", "html") if body.get(name)}
                body["subject"] = word
            answer = await client.request(method, path, json=body)
            assert answer.status_code in (200, 201), f"{method} {path}: {answer.text}"
        bulk = "\n".join(f'{{"to": "{word}.{n}@bulk.test", "subject": "{word}", "text": "x"}}' for n in range(3))
        answer = await client.post(
            "/v1/emails/bulk", content=bulk, headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": word}
        )
        assert answer.status_code in (200, 201), answer.text
        for path in ("emails", "campaigns", "members", "keys", "audit", "events", "metrics/queue", "metrics/fairness"):
            assert (await client.get(f"/v1/{path}")).status_code == 200
        for path in (f"emails?to={word}@there.test", f"persons/{word}@there.test", f"prospects/{word}.1@there.test"):
            assert (await client.get(f"/v1/{path}")).status_code in (200, 404, 422)
        assert (await client.get("/readyz")).status_code == 200


async def test_no_row_of_any_other_database_has_a_word_of_it(world: World) -> None:
    for region in NAMES:
        await live(world, region, f"only{region}marked")
    for region in NAMES:
        tables = {name: tables_with(url, f"only{region}marked") for name, url in world.regions.all_urls.items()}
        assert {
            *("fairpost.queue", "fairpost.prospects", "fairpost.campaigns", "fairpost.people"),
            *("fairpost.suppressions", "fairpost.api_keys", "fairpost.accounts", "fairpost.audit"),
        } <= set(tables[region]), "otherwise this proves nothing"
        assert {name: found for name, found in tables.items() if name != region} == {
            name: [] for name in tables if name != region
        }
        named = {name: tables_with(url, f"acme-{region}") for name, url in world.regions.all_urls.items()}
        assert named.pop(region)
        assert named.pop("home") == ["fairpost.directory"], "home only knows its name"
        assert [*named.values()] == [[], []]


async def test_no_other_wire_carries_a_word_of_it(wired: World, proxies: dict[str, Proxy]) -> None:
    word = "onlyeuropean"
    await live(wired, "eu", word)
    async with signed_in(wired, "eu", f"{word}@sign-in.test") as member:
        assert (await member.get("/v1/workspace")).status_code == 200
    assert (await wired.ask("us")).status_code == (await wired.ask("ap")).status_code == 200
    assert proxies["eu"].seen(word.encode()), "otherwise this test would prove nothing"
    for other in ("us", "ap", "home"):
        assert proxies[other].connections > 0
        assert not proxies[other].seen(word.encode()), other
        assert not proxies[other].seen(word.encode().hex().encode()), other


# ── access ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_key_opens_its_own_region_and_a_forged_name_opens_nothing(world: World) -> None:
    for region in NAMES:
        told = (await world.ask(region)).json()["data"]
        assert (told["name"], told["region"]) == (f"acme-{region}", region)
        assert world.keys[region].startswith(f"fp_{region}_")
    secret = world.keys["eu"].removeprefix("fp_eu_")
    said = set()
    for name in ("us", "ap", "home", "main", "mars"):
        async with world.client(f"fp_{name}_{secret}") as client:
            for answer in (
                await client.get("/v1/workspace"),
                await client.post("/v1/emails", json={"to": "a@b.test", "subject": "s", "text": "t"}),
            ):
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
                said.add(answer.json()["error"]["message"])
    assert len(said) == 1, "the names of the regions are not revealed"
    assert {name: queued(url) for name, url in world.regions.all_urls.items()} == dict.fromkeys([*NAMES, "home"], 0)


def queued(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM fairpost.queue")[0][0])


def rows(url: str, sql: str) -> list[Any]:
    with psycopg.connect(url) as conn:
        return conn.execute(sql).fetchall()


async def code_in(url: str) -> str:
    """Returns the text of the service's newest e-mail."""
    ((text,),) = await asyncio.to_thread(  # a proxy may run in this loop
        rows,
        url,
        """SELECT c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id
           WHERE q.workspace = 'fairpost' ORDER BY q.id DESC LIMIT 1""",
    )
    found = re.search(r"^ +(\d{6})$", text, re.MULTILINE)
    assert found, text
    return found[1]


async def accepted(world: World, link: str) -> str:
    """Returns the token of the link for choosing a password."""
    token = parse_qs(urlsplit(link).query)["token"][0]
    async with world.client() as client:
        answer = await client.post("/v1/auth/accept", json={"token": token, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    return token


@asynccontextmanager
async def signed_in(world: World, region: str | None, address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Opens a session with the link that a command prints; without a region, as an admin."""
    if region is None:
        offered = await world.cli("ap", "admin", "invite", address)  # whichever region is chosen
    else:
        offered = await world.cli(
            region, "member", "add", "--workspace", f"acme-{region}", address, "--role", "manager"
        )
    token = await accepted(world, offered["link"])
    assert ("." in token, token.partition(".")[0] == region) == (region is not None, region is not None)
    given = {"address": address, "password": PASSWORD} | ({"workspace": f"acme-{region}"} if region else {})
    async with world.client() as client:
        begun = await client.post("/v1/auth/sign-in", json=given)
        assert begun.status_code == 202, begun.text
        code = await code_in(world.regions.all_urls[region or "home"])
        entered = await client.post("/v1/auth/code", json={"code": code})
        assert entered.status_code == 200, entered.text
        client.headers["X-CSRF-Token"] = entered.json()["data"]["csrf_token"]
        yield client


async def test_members_sign_in_through_their_region_and_their_codes_are_queued_there_alone(world: World) -> None:
    async with signed_in(world, "us", MEMBER) as client:
        urls = world.regions.all_urls
        assert {name: queued(url) for name, url in urls.items()} == {"eu": 0, "us": 1, "ap": 0, "home": 0}
        assert [name for name, url in urls.items() if tables_with(url, MEMBER)] == ["us"]
        told = (await client.get("/v1/workspace")).json()["data"]
        assert (told["name"], told["region"], told["you"]) == ("acme-us", "us", f"manager {MEMBER}")

        invited = await client.post("/v1/members", json={"address": "carl@example.com", "role": "viewer"})
        assert invited.status_code == 201, invited.text
        ((text,),) = rows(
            urls["us"],
            """SELECT c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id ORDER BY q.id DESC LIMIT 1""",
        )
        found = re.search(r"http\S+/invitation\?token=us\.\S+", text)
        assert found, text
        await accepted(world, found[0])

        session = client.cookies["fairpost_session"]
        assert session.startswith("us.")
        for forged in ("eu", "home", "mars"):
            cookies = {"fairpost_session": f"{forged}.{session.partition('.')[2]}"}
            async with httpx.AsyncClient(base_url=world.url, cookies=cookies) as stranger:
                assert (await stranger.get("/v1/workspace")).status_code == 401
        async with world.client() as stranger:  # the same address and password, in another workspace
            for workspace in ("acme-eu", "nobody", ""):
                given = {"address": MEMBER, "password": PASSWORD, "workspace": workspace}
                answer = await stranger.post("/v1/auth/sign-in", json=given)
                assert answer.json()["error"]["code"] == "wrong_credentials"
            begun = await stranger.post("/v1/auth/sign-in", json={"address": MEMBER, "password": PASSWORD})
            assert (begun.status_code, stranger.cookies["fairpost_sign_in"].partition(".")[0]) == (202, "us")


async def test_admins_are_known_at_home_and_work_in_every_region(world: World) -> None:
    async with signed_in(world, None, ADMIN) as client:
        urls = world.regions.all_urls
        assert {name: queued(url) for name, url in urls.items()} == {"eu": 0, "us": 0, "ap": 0, "home": 1}
        assert [name for name, url in urls.items() if tables_with(url, ADMIN)] == ["home"]
        for region in NAMES:
            found, default = (await client.get(f"/v1/admin/workspaces?region={region}")).json()["data"]["items"]
            assert default["name"] == "default"
            assert (found["name"], found["region"]) == (f"acme-{region}", region)
            headers = {"X-Workspace": f"acme-{region}"}
            assert (await client.get("/v1/workspace", headers=headers)).json()["data"]["region"] == region
        email = {"to": "only-ap@there.test", "subject": "Hello", "text": "Hi"}
        await world.cli("ap", "account", "add", "relay", "--from", "relay@post.test")
        sent = await client.post("/v1/emails", json=email, headers={"X-Workspace": "acme-ap"})
        assert sent.status_code == 201, sent.text
        assert [name for name, url in urls.items() if tables_with(url, "only-ap@there.test")] == ["ap"]
        assert (await client.post("/v1/admin/workspaces/acme-us/suspend", json={})).status_code == 200
        assert (await world.ask("us")).json()["error"]["code"] == "workspace_suspended"
        assert (await world.ask("eu")).status_code == 200


async def test_names_of_workspaces_are_unique_over_regions(world: World) -> None:
    said = await world.refused("us", "workspace", "add", "acme-eu")
    assert re.search(r"\bacme-eu\b.*\beu\b", said)
    assert "acme-eu" in await world.refused("us", "member", "add", "--workspace", "acme-eu", MEMBER)
    async with signed_in(world, None, ADMIN) as admin:
        moved = await admin.put("/v1/admin/workspaces/acme-eu", json={"region": "us"})
        assert (moved.status_code, moved.json()["error"]["code"]) == (409, "conflict")
        assert re.search(r"\bacme-eu\b.*\beu\b", moved.json()["error"]["message"])
        assert rows(world.regions.urls["us"], "SELECT name FROM fairpost.workspaces ORDER BY 1") == [
            ("acme-us",),
            ("default",),
        ]

        made = await admin.put("/v1/admin/workspaces/other", json={"region": "ap"})
        assert (made.status_code, made.json()["data"]["region"]) == (201, "ap")
        again = await admin.put("/v1/admin/workspaces/other", json={})
        assert (again.status_code, again.json()["data"]["region"]) == (200, "ap")
        assert re.search(r"\bother\b.*\bap\b", await world.refused("eu", "workspace", "add", "other"))
        assert (await world.cli("ap", "workspace", "add", "other"))[
            "name"
        ] == "other"  # a second time, in the same region
        assert (await admin.put("/v1/admin/workspaces/x", json={"region": "mars"})).status_code == 404
        placed = rows(world.regions.home_url, "SELECT workspace, region FROM fairpost.directory ORDER BY workspace")
        assert placed == [("acme-ap", "ap"), ("acme-eu", "eu"), ("acme-us", "us"), ("other", "ap")]


# ── a region that fails ───────────────────────────────────────────────────────────────────────────────────


def is_unavailable(answer: httpx.Response) -> bool:
    return answer.status_code == 503 and answer.json()["error"]["code"] == "unavailable"


async def require_served(world: World, *names: str) -> None:
    for name in names:
        answer = await world.ask(name)
        assert answer.status_code == 200, answer.text


@pytest.mark.slow
async def test_a_region_whose_server_is_killed_is_503_and_comes_back_without_a_restart(regions: Regions) -> None:
    async with (
        lands(["us"]) as own,
        serve(Regions({**regions.urls, "us": own["us"].url}, regions.home_url, regions.home)) as world,
    ):
        await require_served(world, *NAMES)
        await own["us"].kill()
        answer = await world.ask("us")
        assert is_unavailable(answer)
        assert answer.headers["Retry-After"]
        assert is_unavailable(await world.ask("us"))
        await require_served(world, "eu", "ap")
        ready = await world.ask("eu", "/readyz")
        assert (ready.status_code, ready.json()["data"]) == (
            200,
            {"status": "ok", "regions": {"eu": True, "us": False, "ap": True}},
        )
        figures = await world.figures()
        assert 'fairpost_region_up{region="us"} 0.0' in figures
        assert 'fairpost_queue_health{region="eu"}' in figures
        assert 'fairpost_queue_health{region="us"}' not in figures
        signing_in = {"address": MEMBER, "password": PASSWORD, "workspace": "acme-us"}
        async with world.client() as client:
            assert is_unavailable(await client.post("/v1/auth/sign-in", json=signing_in))
        await own["us"].start()

        async def is_back() -> bool:
            return (await world.ask("us")).status_code == 200

        await eventually(is_back, "the region is served again")
        assert (await world.ask("eu", "/readyz")).json()["data"]["regions"]["us"] is True
        assert [(each.code, each.params["region"]) for each in world.log] == [
            ("region.away", "us"),
            ("region.answers_again", "us"),
        ]


async def test_a_silent_region_only_delays_its_own_users(
    wired: World, proxies: dict[str, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fairpost.api.service.SIGHT_S_MAX", 3.0
    )  # the others respond by then, however busy the machine is
    await require_served(wired, *NAMES)
    proxies["us"].silence()
    waiting = [asyncio.create_task(wired.ask("us")) for _ in range(30)]
    async with asyncio.timeout(HANG_S):  # one after the other, they would wait for a minute and a half
        for _ in range(10):
            await require_served(wired, "eu", "ap")
        ready = await wired.ask("eu", "/readyz")
        assert ready.json()["data"]["regions"] == {"eu": True, "us": False, "ap": True}
        assert all(is_unavailable(answer) for answer in await asyncio.gather(*waiting))
    proxies["us"].speak()

    async def is_back() -> bool:
        return (await wired.ask("us")).status_code == 200

    await eventually(is_back, "the region is served again")


async def test_without_home_keys_and_members_of_regions_are_served(wired: World, proxies: dict[str, Proxy]) -> None:
    async with signed_in(wired, "us", MEMBER) as member:
        await proxies["home"].cut()
        await require_served(wired, *NAMES)
        assert (await member.get("/v1/workspace")).status_code == 200
        assert is_unavailable(await member.get("/readyz"))
        async with wired.client() as client:
            assert is_unavailable(await client.post("/v1/auth/sign-in", json={"address": ADMIN, "password": PASSWORD}))


class SlowHasher(PasswordHasher):
    """Takes longer to check a password than a region may take to respond."""

    def verify(self, *given: Any, **more: Any) -> Any:
        time.sleep(ANSWER_S_MAX + 0.5)
        return super().verify(*given, **more)


async def test_a_password_that_takes_long_to_check_is_no_sign_that_the_region_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if many signed in at once, and waited for each other."""
    monkeypatch.setattr(passwords, "HASHER", SlowHasher(time_cost=1, memory_cost=8, parallelism=1))
    given = {"address": MEMBER, "password": PASSWORD, "workspace": "acme-us"}
    async with world.client() as client:
        signing_in = asyncio.create_task(client.post("/v1/auth/sign-in", json=given))
        while not signing_in.done():
            await require_served(world, "us")
            await asyncio.wait([signing_in], timeout=0.5)
    assert (await signing_in).json()["error"]["code"] == "wrong_credentials"
    assert world.log == []


async def test_figures_of_all_regions_have_their_name(world: World) -> None:
    for region, n in (("eu", 1), ("ap", 2)):
        await world.cli(region, "account", "add", "relay", "--from", "relay@post.test")
        async with world.client(world.keys[region]) as client:
            for _ in range(n):
                answer = await client.post("/v1/emails", json={"to": "a@b.test", "subject": "s", "text": "t"})
                assert answer.status_code == 201, answer.text
    page = await world.figures()
    assert [f'fairpost_region_up{{region="{name}"}} 1.0' in page for name in NAMES] == [True, True, True]
    assert page.count("# HELP fairpost_queue_emails ") == 1
    waiting = dict.fromkeys(NAMES, 0.0)
    for region, value in re.findall(r'^fairpost_queue_emails\{region="(\w+)",tier="\w+"\} (\S+)$', page, re.MULTILINE):
        waiting[region] += float(value)
    assert waiting == {"eu": 1.0, "us": 0.0, "ap": 2.0}


@pytest.fixture
def poor_url(url: str) -> Iterator[str]:
    """A login that may read the schema, but cannot become a tenant."""
    user = f"poor_{urlsplit(url).path.strip('/')}"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {user} LOGIN")
        conn.execute(f"GRANT USAGE ON SCHEMA fairpost TO {user}")
        conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA fairpost TO {user}")
    parts = urlsplit(url)
    yield parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}").geturl()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"DROP OWNED BY {user}")
        conn.execute(f"DROP ROLE {user}")


async def test_regions_that_are_not_ready_are_named_at_the_start_and_answer_503(
    regions: Regions, blank_url: str, poor_url: str
) -> None:
    down = "postgresql://ann:s3cret@127.0.0.1:1/nothing"
    odd = "postgresql://ann:s3cret@127.0.0.1:port/nothing"
    urls = {"eu": regions.urls["eu"], "new": blank_url, "poor": poor_url, "far": down, "odd": odd}
    some = Regions(urls, regions.home_url, regions.home)
    await asyncio.to_thread(some.cli("eu").ok, "workspace", "add", "acme")
    key = (await asyncio.to_thread(some.cli("eu").json, "key", "add", "--workspace", "acme"))["key"]
    process = some.cli().start("api", "--listen", "127.0.0.1:0")
    assert process.stderr is not None
    try:
        said: list[str] = []
        while not said or "service.started" not in said[-1]:
            said.append(await asyncio.to_thread(process.stderr.readline))
            assert said[-1], said
        troubles = {line.split()[4]: line for line in said[:-1] if "region.not_served" in line}
        assert [*troubles] == ["new", "poor", "far", "odd"]
        assert "fairpost db migrate --region new" in troubles["new"]
        assert "GRANT fairpost_tenant TO poor_" in troubles["poor"]
        assert "fairpost db migrate --region poor" in troubles["poor"]
        assert "127.0.0.1:1/nothing" in troubles["far"]
        assert "URL" in troubles["odd"]
        found = re.search(r"http://\S+", said[-1])
        assert found
        async with httpx.AsyncClient(base_url=found[0], timeout=HANG_S) as client:
            for name in ("new", "poor", "far", "odd", "new", "poor"):
                headers = {"Authorization": f"Bearer fp_{name}_{UNKNOWN_KEY}"}
                answer = await client.get("/v1/emails", headers=headers)
                assert is_unavailable(answer), answer.text
                assert "fairpost" not in answer.json()["error"]["message"]
            answer = await client.get("/v1/emails", headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 200, answer.text
            ready = (await client.get("/readyz")).json()["data"]
            assert ready["regions"] == {"eu": True, "new": False, "poor": False, "far": False, "odd": False}
            await asyncio.to_thread(some.cli().ok, "db", "migrate", "--region", "new")

            async def is_ready() -> bool:
                return bool((await client.get("/readyz")).json()["data"]["regions"]["new"])

            await eventually(is_ready, "a region that was corrected is served")
    finally:
        process.terminate()
        rest = (await asyncio.to_thread(process.communicate, timeout=150))[1]
    assert "Traceback" not in rest
    assert "s3cret" not in rest + "".join(said)


async def test_a_role_that_is_taken_away_while_the_service_runs_is_no_fault_of_the_request(poor_url: str) -> None:
    """The port was open before; then PostgreSQL itself refuses."""
    async with Store.open(poor_url) as store:
        with pytest.raises(MigrationError, match="permission denied"):
            await store.of_tenant("acme").value("SELECT 1")
