"""Loans by the operator: pools, and the From addresses that a workspace may use with them."""

from typing import Any

import httpx2 as httpx
import pytest

from fairpost.actions.lending import Lent, Operator, loans_of
from fairpost.model.account import Limits
from fairpost.model.errors import Refusal
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan, Scope
from fairpost.store import workspaces
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_campaigns import add_people

pytestmark = pytest.mark.attack

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}


async def _lend(api: Api, *loans: Loan) -> None:
    await workspaces.set_loans(api.store, "acme", loans)


async def _send(client: httpx.AsyncClient, **more: Any) -> tuple[int, str | None]:
    """Returns the status, and the rejected field."""
    answer = await client.post("/v1/emails", json={**HELLO, **more})
    if answer.status_code == 201:
        return 201, None
    return answer.status_code, answer.json()["error"]["details"][0]["field"]


async def test_a_new_workspace_is_lent_nothing(api: Api) -> None:
    await api.store.add_account("codes", address="no-reply@operator.example", limits=Limits())
    await workspaces.add_workspace(api.store, "acme")
    async with api.client("acme", scopes=(Scope.SEND, Scope.READ)) as client:
        assert (await client.get("/v1/pools")).json()["data"] == {"own": [], "lent": [], "loans": []}
        assert await _send(client, subject="Admin Console") == (422, "pool")
        assert await _send(client, pool="default") == (422, "pool")
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_mail_through_a_lent_pool_never_has_the_operators_address(api: Api, client: httpx.AsyncClient) -> None:
    await _lend(api, Loan("default", (PROVEN,)))
    assert await _send(client) == (422, "from")
    assert await _send(client, **{"from": None}) == (422, "from")
    assert await _send(client, **{"from": "no-reply@operator.example"}) == (422, "from")
    assert await _send(client, **{"from": "hello@news.acme.example"}) == (201, None)


async def test_a_loan_allows_its_addresses_and_domains_and_no_others(api: Api, client: httpx.AsyncClient) -> None:
    await _lend(api, Loan("default", ("news@brand.example", "shop.example")))
    for allowed in ("news@brand.example", "NEWS@Brand.Example", "a@shop.example", "a@eu.shop.example"):
        assert await _send(client, **{"from": allowed}) == (201, None), allowed
    for refused in (
        "other@brand.example",
        "news@eu.brand.example",
        "a@notshop.example",
        "a@acme.example",
        "a@shop.example.evil.example",
    ):
        assert await _send(client, **{"from": refused}) == (422, "from"), refused
    lines = "\n".join(
        [
            '{"to": "a@example.com", "subject": "x", "text": "x"}',
            '{"to": "a@example.com", "subject": "x", "text": "x", "from": "a@shop.example"}',
        ]
    )
    bulk = await client.post("/v1/emails/bulk", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert [(each["error"] or {}).get("field") for each in bulk.json()["data"]["results"]] == ["from", None]


async def test_the_workspace_sees_what_it_may_write_as(api: Api, client: httpx.AsyncClient) -> None:
    await _lend(api, Loan("fast", ("shop.example", PROVEN)))
    assert (await client.get("/v1/pools")).json()["data"]["loans"] == [
        {"pool": "fast", "from": ["shop.example", PROVEN]}
    ]


async def test_a_campaign_names_no_from_and_needs_a_loan_with_the_accounts_address(
    api: Api, client: httpx.AsyncClient
) -> None:
    await add_people(api)
    given = {"lists": ["customers"], "steps": [{"subject": "Hi", "text": "Hello"}]}
    assert (await client.put("/v1/campaigns/spring", json=given)).status_code == 201
    await _lend(api, Loan("default", (PROVEN,)))
    refused = await client.put("/v1/campaigns/autumn", json=given)
    assert (refused.status_code, refused.json()["error"]["details"][0]["field"]) == (422, "pool")
    assert (await client.post("/v1/campaigns/spring/launch")).status_code == 409


async def test_only_the_operator_can_use_the_operators_portal(api: Api, client: httpx.AsyncClient) -> None:
    listed = {item["portal"] for item in (await client.get("/v1/portals")).json()["data"]}
    assert "admin" not in listed
    assert "hub" in listed
    words = {"subject": "x", "text": "x", "html": "x"}
    values = {"first_name": "Ann", "reset_url": "https://evil.example", "valid_for": "1 hour"}
    path = "/v1/portals/admin/forgot_password"
    for answer in (
        await client.get(path),
        await client.put(path, json=words),
        await client.delete(path),
        await client.post(f"{path}/preview", json={"values": values}),
        await client.post(f"{path}/send", json={"to": "ann@example.com", "from": "a@acme.example", "values": values}),
    ):
        assert answer.status_code == 404
    assert await api.store.value("SELECT count(*) FROM fairpost.queue") == 0


async def test_an_admin_lends_over_http_and_never_the_services_own_pool(api: Api) -> None:
    path = "/v1/admin/workspaces/acme"
    async with signed_in(api) as admin:
        added = await admin.put(path, json={})
        assert (added.status_code, added.json()["data"]["loans"]) == (201, [])
        lent = await admin.put(path, json={"pools": ["relay", {"pool": "fast", "from": ["Acme.Example"]}]})
        loans = [{"pool": "fast", "from": ["acme.example"]}, {"pool": "relay", "from": [PROVEN]}]
        assert lent.json()["data"]["loans"] == loans
        assert (await admin.put(path, json={})).json()["data"]["loans"] == loans
        ours = [{"pool": "default", "from": [each]} for each in (ACCOUNT, PROVEN, "acme.example")]
        for wrong in (*ours, {"pool": "fast", "from": ["not a domain"]}, "a=b"):
            answer = await admin.put(path, json={"pools": [wrong]})
            assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (422, "pools[0]"), wrong
        listed = (await admin.get("/v1/portals", headers={"X-Workspace": "acme"})).json()["data"]
        assert "admin" in {item["portal"] for item in listed}


@pytest.mark.parametrize(
    ("lent", "code"),
    [
        (Lent(""), "loan.bad_pool"),
        (Lent("", ["x.example"]), "loan.bad_pool"),
        (Lent("@acme"), "loan.bad_pool"),
        (Lent("a/b"), "loan.bad_pool"),
        (Lent("fast", []), "loan.bad_count"),
        (Lent("fast", [""]), "loan.bad_sender"),
        (Lent("fast", ["localhost"]), "loan.bad_sender"),
        (Lent("fast", ["a b@x.example"]), "loan.bad_sender"),
        (Lent("fast", ["*"]), "loan.bad_sender"),
        (Lent("codes"), "loan.service_pool"),
    ],
)
def test_an_invalid_loan_is_refused(lent: Lent, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        loans_of([lent], workspace="acme", operator=Operator(workspace="own", service_pool="codes"))
    assert refused.value.reason.code == code
