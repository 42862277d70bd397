"""Domains over HTTP: claimed, verified by a local DNS server, and then used in From."""

import httpx2 as httpx

from fairpost.actions.acting import Actor, Done
from fairpost.actions.domains import CheckDomain, check
from fairpost.model.account import Limits
from fairpost.store import workspaces
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.providers.test_domain_proof import nameserver, texts
from tests.providers.test_domain_records import zone

EMAIL = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def test_a_domain_counts_from_its_proof_on(api: Api, client: httpx.AsyncClient) -> None:
    claimed = await client.put("/v1/domains/shop.test")
    assert claimed.status_code == 201
    record = claimed.json()["data"]["record"]
    assert record["name"] == "_fairpost.shop.test"
    assert (await client.put("/v1/domains/shop.test")).status_code == 200
    refused = await client.post("/v1/emails", json={**EMAIL, "from": "a@shop.test"})
    assert refused.json()["error"]["details"][0]["field"] == "from"

    async with nameserver(texts('"something else"', at="_fairpost.shop.test.")) as dns:
        object.__setattr__(api.service, "resolver", dns.resolver)
        checked = (await client.post("/v1/domains/shop.test/check")).json()["data"]
        assert (checked["found"], checked["is_proven"]) == ("not_found", False)
        assert "something else" in checked["words"]
    async with nameserver(texts(f'"{record["value"]}"', at="_fairpost.shop.test.")) as dns:
        object.__setattr__(api.service, "resolver", dns.resolver)
        assert (await client.post("/v1/domains/shop.test/check")).json()["data"]["is_proven"] is True

    for sender in ("a@shop.test", "a@news.shop.test", "A <a@SHOP.test>"):
        assert (await client.post("/v1/emails", json={**EMAIL, "from": sender})).status_code == 201
    for sender in ("a@notshop.test", "a@shop.test.evil.test", "a@test"):
        assert (await client.post("/v1/emails", json={**EMAIL, "from": sender})).status_code == 422
    assert (await client.delete("/v1/domains/shop.test")).status_code == 200
    assert (await client.post("/v1/emails", json={**EMAIL, "from": "a@shop.test"})).status_code == 422


async def test_a_proof_of_one_workspace_is_nothing_to_another(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=["other.example"])
    assert (await client.post("/v1/emails", json={**EMAIL, "from": "a@other.example"})).status_code == 422
    mine = (await client.put("/v1/domains/other.example")).json()["data"]
    assert mine["is_proven"] is False


async def test_a_domain_in_another_script_is_one_domain(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace(domains=["xn--bcher-kva.example"])
    for sender in ("a@bücher.example", "a@xn--bcher-kva.example", "a@BÜCHER.example"):
        answer = await client.post("/v1/emails", json={**EMAIL, "from": sender})
        assert answer.status_code == 201, answer.text


async def test_a_domain_that_cannot_be_owned_is_refused(client: httpx.AsyncClient) -> None:
    for wrong in ("com", "localhost", "a..b", "-a.example", "1.2.3.4", "a" * 250 + ".example", "%00.example"):
        answer = await client.put(f"/v1/domains/{wrong}")
        assert answer.status_code == 422, (wrong, answer.text)
    assert (await client.post("/v1/domains/unclaimed.example/check")).status_code == 404


async def test_spf_is_checked_for_the_domain_that_each_account_sends_from(api: Api) -> None:
    domain = "xn--bcher-kva.example"
    await api.workspace(domains=[domain])
    for name, address in (("sales", "a@bücher.example"), ("news", f"a@news.{domain}"), ("other", "a@acme.example")):
        await api.store.add_account(
            f"acme/{name}",
            address=address,
            pool="acme/default",
            limits=Limits(),
            transport=SmtpSettings(host=f"{name}.relay.example", port=587),
        )
    records = {
        (domain, "TXT"): ['"v=spf1 a:sales.relay.example -all"'],
        (f"news.{domain}", "TXT"): ['"v=spf1 ip4:192.0.2.1 -all"'],
        **{(f"{name}.relay.example", "A"): ["192.0.2.9"] for name in ("sales", "news", "other")},
    }
    own, below = (domain, "domain.spf_good"), (f"news.{domain}", "domain.spf_without_host")
    async with nameserver(zone(records)) as dns:

        async def found(name: str) -> list[tuple[object, str]]:
            asked = CheckDomain(workspace="acme", domain=name, resolver=dns.resolver)
            checked = await check(Actor(who="test"), asked, api.store)
            assert isinstance(checked, Done)
            return [(e.reason.params["domain"], e.reason.code) for e in checked.value.findings if e.what == "spf"]

        assert await found(domain) == [own, below]
        await workspaces.add_domain(api.store, "acme", f"news.{domain}")
        assert await found(domain) == [own], "the subdomain has a check of its own"
        assert await found(f"news.{domain}") == [below]
