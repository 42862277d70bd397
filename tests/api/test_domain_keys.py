"""DKIM keys over HTTP: created, published on a local DNS server, used, rotated with overlap, and resealed."""

import dns.message
import dns.rcode
import dns.rrset
import httpx2 as httpx
import pytest

from fairpost.model.ids import EmailId
from fairpost.settings import Settings
from fairpost.startup.parts import vault_of
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.vault.dkim import public_text, read_private_key
from fairpost.vault.rotation import rotate
from tests.api.conftest import Api
from tests.providers.test_domain_proof import Reply, nameserver


def zone(records: dict[str, str]) -> Reply:
    """Publishes TXT records by name, of any length."""

    def reply(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        name = query.question[0].name
        text = records.get(name.to_text(omit_final_dot=True))
        if text is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            strings = " ".join(f'"{text[start : start + 200]}"' for start in range(0, len(text), 200))
            answer.answer.append(dns.rrset.from_text(name, 300, "IN", "TXT", strings))
        return answer.to_wire()

    return reply


async def checked(api: Api, client: httpx.AsyncClient, records: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Returns each key's state, and what DNS has."""
    async with nameserver(zone(records)) as server:
        object.__setattr__(api.service, "resolver", server.resolver)
        data = (await client.post("/v1/domains/shop.test/check")).json()["data"]
    return {key["selector"]: (key["state"], key["published"]) for key in data["keys"]}


async def made(client: httpx.AsyncClient, algorithm: str = "ed25519") -> tuple[str, dict[str, str]]:
    answer = await client.post("/v1/domains/shop.test/keys", json={"algorithm": algorithm})
    assert answer.status_code == 201, answer.text
    data = answer.json()["data"]
    assert data["record"]["name"] == f"{data['selector']}._domainkey.shop.test"
    return data["selector"], {data["record"]["name"]: data["record"]["value"]}


async def signing(store: Store) -> list[str]:
    """Returns the selectors that a new engine would use to sign this workspace's mail."""
    (row,) = await store.enqueue_many([{"workspace": "acme", "to": "a@b.test", "subject": "Hi", "text": "Hi"}])
    assert row["error"] is None, row
    (email,) = await store.load([EmailId(row["id"])])
    return [key.selector for key in email.signing]


@pytest.fixture
async def workspace(api: Api, client: httpx.AsyncClient) -> None:
    assert (await client.put("/v1/domains/shop.test")).status_code in (200, 201)


@pytest.mark.usefixtures("workspace")
async def test_a_key_signs_once_its_record_was_seen_and_the_one_before_it_retires_then(
    api: Api, client: httpx.AsyncClient, url: str
) -> None:
    first, records = await made(client)
    assert await checked(api, client, {}) == {first: ("pending", "missing")}
    assert await checked(api, client, dict.fromkeys(records, "v=DKIM1; p=AAAA")) == {first: ("pending", "other")}
    again = await client.post("/v1/domains/shop.test/keys", json={"algorithm": "ed25519"})
    assert (again.status_code, again.json()["data"]["selector"]) == (200, first)
    assert await checked(api, client, records) == {first: ("active", "there")}
    async with Store.open(url) as engine:
        assert await signing(engine) == [first]

    second, more = await made(client)
    assert await checked(api, client, records) == {first: ("active", "there"), second: ("pending", "missing")}
    async with Store.open(url) as engine:
        assert await signing(engine) == [first]
    assert await checked(api, client, {**records, **more}) == {
        first: ("retired", "there"),
        second: ("active", "there"),
    }
    async with Store.open(url) as engine:
        assert await signing(engine) == [second]
    sealed = [secret.name for secret in await api.store.secrets() if not secret.is_of_account]
    assert sealed == [f"{second}._domainkey.shop.test"], "a retired key's secret is gone"

    rsa, rsa_records = await made(client, "rsa")
    await checked(api, client, {**records, **more, **rsa_records})
    async with Store.open(url) as engine:
        assert await signing(engine) == [second, rsa], "one of each kind"


@pytest.mark.usefixtures("workspace")
async def test_keys_are_sealed_again_with_the_passwords(
    api: Api, client: httpx.AsyncClient, settings: Settings
) -> None:
    _, records = await made(client)
    vault = vault_of(settings)
    done = await rotate(api.store, vault)
    assert done is not None
    assert done.resealed == 1
    (secret,) = await api.store.secrets()
    assert secret.key_id == done.key_id
    assert public_text(read_private_key(vault.open_secret(secret))) in next(iter(records.values()))


@pytest.mark.usefixtures("workspace")
async def test_a_lost_key_is_dropped_with_its_row(api: Api, client: httpx.AsyncClient, settings: Settings) -> None:
    await made(client)
    await api.store.value("UPDATE fairpost.dkim_keys SET secret = replace(secret, split_part(secret, ':', 2), 'lost')")
    done = await rotate(api.store, vault_of(settings), drop_unreadable=True)
    assert done is not None
    assert (len(done.dropped_keys), done.dropped) == (1, ())
    assert (await client.get("/v1/domains/shop.test/keys")).json()["data"] == []


@pytest.mark.usefixtures("workspace")
async def test_others_see_and_touch_none_of_it(api: Api, client: httpx.AsyncClient) -> None:
    selector, _ = await made(client)
    await api.workspace("other")
    async with api.client("other") as stranger:
        await stranger.put("/v1/domains/shop.test")
        assert (await stranger.get("/v1/domains/shop.test/keys")).json()["data"] == []
        assert (await stranger.delete(f"/v1/domains/shop.test/keys/{selector}")).status_code == 404
    assert len((await client.get("/v1/domains/shop.test/keys")).json()["data"]) == 1
    answers = [await client.get("/v1/domains/shop.test/keys"), await client.get("/v1/domains")]
    assert not any("PRIVATE" in answer.text or "v1:" in answer.text for answer in answers)


@pytest.mark.usefixtures("workspace")
async def test_a_removed_domain_takes_its_keys_along(api: Api, client: httpx.AsyncClient, url: str) -> None:
    _, records = await made(client)
    await checked(api, client, records)
    assert (await client.delete("/v1/domains/shop.test")).status_code == 200
    assert await api.store.secrets() == []
    async with Store.open(url) as engine:
        assert await signing(engine) == []


@pytest.mark.usefixtures("workspace")
async def test_a_check_shows_the_health_of_the_domain_and_what_to_publish(api: Api, client: httpx.AsyncClient) -> None:
    async with nameserver(zone({"_dmarc.shop.test": "v=DMARC1; p=none"})) as server:
        object.__setattr__(api.service, "resolver", server.resolver)
        data = (await client.post("/v1/domains/shop.test/check")).json()["data"]
    assert data["health"] == "bad"
    grades = {each["what"]: each["grade"] for each in data["findings"]}
    assert grades == {"spf": "bad", "dkim": "bad", "dmarc": "bad", "mx": "warning"}
    spf = next(each for each in data["findings"] if each["what"] == "spf")
    assert spf["record"]["name"] == "shop.test"
    bad = await workspaces.bad_health(api.store, "acme", ["news.shop.test", "elsewhere.test"])
    assert bad == [("shop.test", ["spf", "dkim", "dmarc"])]


@pytest.mark.usefixtures("workspace")
async def test_a_subdomain_is_signed_by_the_key_of_its_parent(api: Api, client: httpx.AsyncClient) -> None:
    assert (await client.put("/v1/domains/news.shop.test")).status_code == 201
    selector, records = await made(client, "rsa")

    async def dkim() -> tuple[str, list[str]]:
        async with nameserver(zone(records)) as server:
            object.__setattr__(api.service, "resolver", server.resolver)
            data = (await client.post("/v1/domains/news.shop.test/check")).json()["data"]
        return next(each["code"] for each in data["findings"] if each["what"] == "dkim"), data["keys"]

    assert await dkim() == ("domain.dkim_missing", []), "a key whose record is not published signs nothing"
    assert await checked(api, client, records) == {selector: ("active", "there")}
    assert await dkim() == ("domain.dkim_by_parent", [])
