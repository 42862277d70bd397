"""Mailboxes of people at a provider: a login at the provider's own host verifies an address that DNS cannot verify.

A local server stands in for the provider: its host and port are in the operator's presets, and its certificate
authority is trusted.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.model.account import AccountStatus
from fairpost.smtp.guard import NetworkGuard
from fairpost.store import workspaces
from fairpost.system import clock
from tests.api.conftest import LENT, Api
from tests.peers.certificates import Certificates, make_certificates
from tests.smtp.scripted_server import Says, Script, scripted

pytestmark = pytest.mark.attack

HOST = "localhost"
ANN = "ann.lee@gmail.com"
HELLO = {"to": "bob@example.com", "subject": "Hello", "text": "Hi"}
REFUSED = Says("535 5.7.8 wrong password")


class Provider:
    def __init__(self, script: Script, port: int) -> None:
        self.script = script
        self.port = port

    def account(self, address: str = ANN, *, name: str = "ann", **smtp: Any) -> dict[str, Any]:
        server = {"host": HOST, "port": self.port, "user": address, "password": "secret", **smtp}
        return {"name": name, "address": address, "smtp": server}

    @property
    def logins(self) -> int:
        return sum(command.startswith("AUTH") for command in self.script.commands)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def _under_tls(certificate: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    return context


def _write_presets(home: Path, port: int) -> None:
    home.mkdir(parents=True, exist_ok=True)
    presets = f"""
        [gmail]
        domains = ["gmail.com", "googlemail.com"]
        smtp = {{ host = "{HOST}", port = {port}, security = "starttls" }}
        [outlook]
        domains = ["outlook.com"]
        smtp = {{ host = "smtp.outlook.example", port = 587, security = "starttls" }}
        """
    (home / "providers.toml").write_text(presets)


@pytest.fixture
async def provider(api: Api, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    script = Script(tls=_under_tls(certificates.good), features=("STARTTLS",), features_under_tls=("AUTH PLAIN",))
    async with scripted(script) as port:
        _write_presets(api.service.settings.home, port)
        guard = NetworkGuard(allowed=(ip_network("127.0.0.0/8"), ip_network("::1/128")), ports=frozenset({port, 587}))
        object.__setattr__(api.service, "guard", guard)
        yield Provider(script, port)


async def _add(client: httpx.AsyncClient, given: dict[str, Any]) -> tuple[int, str | None]:
    """Returns the status, and the rejected field."""
    answer = await client.post("/v1/accounts", json=given)
    details = answer.json().get("error", {}).get("details") or [{}]
    return answer.status_code, details[0].get("field") if isinstance(details, list) else None


async def test_a_login_at_the_providers_host_proves_an_address_and_not_its_domain(
    api: Api, client: httpx.AsyncClient, provider: Provider
) -> None:
    assert await _add(client, provider.account()) == (201, None)
    assert provider.logins == 1
    for sender, status in (
        (ANN, 201),
        ("Ann.Lee@GMAIL.com", 201),
        ("annlee@gmail.com", 422),
        ("ann.lee+news@gmail.com", 422),
        ("bob@gmail.com", 422),
        ("ann.lee@mail.gmail.com", 422),
    ):
        sent = await client.post("/v1/emails", json={**HELLO, "account": "ann", "from": sender})
        assert sent.status_code == status, sender
    assert (await client.post("/v1/emails", json={**HELLO, "account": "ann"})).status_code == 201


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"user": "bob@gmail.com"}, "smtp.user"),
        ({"user": "annlee@gmail.com"}, "smtp.user"),
        ({"user": None, "password": None}, "smtp"),
        ({"host": "smtp.evil.example"}, "smtp.host"),
        ({"host": "127.0.0.1"}, "smtp.host"),
        ({"security": "offered", "user": None, "password": None}, "smtp"),
    ],
    ids=str,
)
async def test_a_login_at_another_server_or_as_another_user_proves_nothing(
    api: Api, client: httpx.AsyncClient, provider: Provider, change: dict[str, Any], field: str
) -> None:
    object.__setattr__(
        api.service,
        "guard",
        NetworkGuard(allowed=(ip_network("0.0.0.0/0"),), ports=frozenset({provider.port}), resolve=_here),
    )
    assert await _add(client, provider.account(**change)) == (422, field)
    assert provider.logins == 0
    assert await api.store.value("SELECT count(*) FROM fairpost.accounts") == 0


async def _here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def test_a_wrong_password_proves_nothing(api: Api, client: httpx.AsyncClient, provider: Provider) -> None:
    provider.script.at, provider.script.misdeed = "auth", REFUSED
    assert await _add(client, provider.account()) == (422, "smtp")
    assert await api.store.value("SELECT count(*) FROM fairpost.mailboxes") == 0


@pytest.mark.parametrize("kind", ["wrong_host", "self_signed", "expired"])
async def test_a_server_whose_certificate_is_not_the_providers_gets_no_password(
    client: httpx.AsyncClient, provider: Provider, certificates: Certificates, kind: str
) -> None:
    provider.script.tls = _under_tls(getattr(certificates, kind))
    assert await _add(client, provider.account()) == (422, "smtp")
    assert provider.logins == 0


async def test_without_tls_there_is_no_login(client: httpx.AsyncClient, provider: Provider) -> None:
    provider.script.features = ("AUTH PLAIN",)
    assert await _add(client, provider.account()) == (422, "smtp")
    assert provider.logins == 0


@pytest.mark.parametrize("address", [ANN, "annlee@gmail.com", "a.n.n.lee@googlemail.com", "ANNLEE+x@gmail.com"])
async def test_a_mailbox_belongs_to_one_workspace_by_whichever_of_its_addresses(
    api: Api, client: httpx.AsyncClient, provider: Provider, address: str
) -> None:
    assert await _add(client, provider.account()) == (201, None)
    await api.workspace("other")
    async with api.client("other") as other:
        assert await _add(other, provider.account(address)) == (409, None)
        assert await _add(other, provider.account("bob@gmail.com", name="bob")) == (201, None)
        given = provider.account(address)
        moved = await other.patch("/v1/accounts/bob", json={"address": given["address"], "smtp": given["smtp"]})
        assert moved.status_code == 409
    assert (await client.delete("/v1/accounts/ann")).status_code == 200
    async with api.client("other") as other:
        assert await _add(other, provider.account(address)) == (201, None)


async def test_two_workspaces_at_the_same_moment_do_not_both_have_it(api: Api, provider: Provider) -> None:
    for name in ("one", "two"):
        await workspaces.add_workspace(api.store, name, loans=LENT)
    async with api.client("one") as one, api.client("two") as two:
        found = await asyncio.gather(_add(one, provider.account()), _add(two, provider.account("annlee@gmail.com")))
    assert sorted(status for status, _ in found) == [201, 409], found


async def test_the_service_cannot_be_used_to_guess_passwords(client: httpx.AsyncClient, provider: Provider) -> None:
    provider.script.at, provider.script.misdeed = "auth", REFUSED
    tries = [await _add(client, provider.account(f"ann{n}@gmail.com")) for n in range(12)]
    assert {status for status, _ in tries} == {422, 429}
    assert provider.logins < 12


async def test_a_domain_of_no_provider_or_of_one_without_a_server_needs_dns(
    client: httpx.AsyncClient, provider: Provider
) -> None:
    assert await _add(client, provider.account("ann@nowhere.example")) == (422, "address")
    assert await _add(client, provider.account("ann@gmx.de")) == (422, "address")
    assert await _add(client, provider.account("ann@outlook.com")) == (422, "smtp.host")


async def test_a_change_of_address_or_server_is_proven_again(client: httpx.AsyncClient, provider: Provider) -> None:
    assert await _add(client, provider.account()) == (201, None)
    path = "/v1/accounts/ann"
    assert (await client.patch(path, json={"address": "bob@gmail.com"})).json()["error"]["details"][0][
        "field"
    ] == "smtp.user"
    assert (
        await client.patch(path, json={"smtp": {"host": HOST, "port": provider.port, "user": ANN}})
    ).status_code == 200
    assert provider.logins == 2
    assert (await client.patch(path, json={"display_name": "Ann"})).status_code == 200
    assert provider.logins == 2
    provider.script.at, provider.script.misdeed = "auth", REFUSED
    other_password = {"smtp": {"host": HOST, "port": provider.port, "user": ANN, "password": "other"}}
    assert (await client.patch(path, json=other_password)).status_code == 422
    assert (await client.patch(path, json={"address": "hello@acme.example"})).status_code == 200
    sent = await client.post("/v1/emails", json={**HELLO, "account": "ann", "from": ANN})
    assert sent.status_code == 422, "its domain verifies the new address, and the mailbox is released"


async def _may_write(api: Api) -> bool:
    return bool(await api.store.value("SELECT fairpost.may_write_as('acme', $1, $2)", ANN, clock.stated()))


async def test_a_proof_expires_after_a_week_of_failed_logins(
    api: Api, client: httpx.AsyncClient, provider: Provider
) -> None:
    assert await _add(client, provider.account()) == (201, None)
    account = await api.store.account_named("acme/ann")
    await api.store.value(
        "SELECT fairpost.set_status($1, NULL, 'suspended', 'account.authentication_failed', '{}')", account.id
    )
    assert (await client.post("/v1/accounts/ann/resume")).json()["data"]["status"] == AccountStatus.ACTIVE
    for days, is_valid in ((6, True), (8, False)):
        sql = "UPDATE fairpost.mailboxes SET failed_since = $1 WHERE failed_since IS NOT NULL"
        await api.store.value(sql, clock.now() - timedelta(days=days))
        assert await _may_write(api) == is_valid
    sent = await client.post("/v1/emails", json={**HELLO, "account": "ann", "from": ANN})
    assert sent.status_code == 422
    assert (await client.post("/v1/accounts/ann/verify")).json()["data"]["ok"] is True
    assert await _may_write(api), "a client logged in"
    provider.script.at, provider.script.misdeed = "auth", REFUSED
    assert (await client.post("/v1/accounts/ann/verify")).json()["data"]["ok"] is False
    assert await api.store.value("SELECT failed_since IS NOT NULL FROM fairpost.mailboxes")


async def test_a_sent_email_proves_that_the_mailbox_login_works(
    api: Api, client: httpx.AsyncClient, provider: Provider
) -> None:
    assert await _add(client, provider.account()) == (201, None)
    account = await api.store.account_named("acme/ann")
    await api.store.value("UPDATE fairpost.mailboxes SET failed_since = now() - interval '9 days'")
    lease = await api.store.take_lease(account.id, owner="x", seconds=60)
    assert lease is not None
    for sent, is_open in ((0, False), (1, True)):
        outcomes = f'[{{"workspace": "acme", "user": "", "is_fair": true, "handled": 1, "bounces": 0, "sent": {sent}, "bounced": 0, "rejected": 0}}]'
        await api.store.fetch("SELECT * FROM fairpost.book($1, $2, $3, '[]')", account.id, lease.epoch, outcomes)
        assert await _may_write(api) == is_open
