"""Accounts that are not the operator's own: they reach no forbidden server, and nothing is lost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from fairpost.engine.runner import Runner
from fairpost.model.account import Limits, RestReason
from fairpost.model.report import Step
from fairpost.model.transport import Security, TransportSettings, UnknownTransport
from fairpost.observe.emails import show_email
from fairpost.smtp.guard import NetworkGuard
from fairpost.store.store import Store
from fairpost.transports.factory import server_settings, transport_of
from fairpost.transports.gmail import client
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.gmail.settings import GOOGLE, GmailSettings
from fairpost.transports.guarded import (
    BarredTransport,
    EndpointRefused,
    own_endpoint,
    server_refusal,
    standard,
)
from fairpost.transports.oauth.public import GOOGLE_URI, MICROSOFT
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.port import DraftingTransport
from fairpost.transports.smtp.login import server_of
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.smtp.verify import ELSEWHERE, try_server
from fairpost.transports.verify import try_account
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.facts import missing
from tests.smtp.scripted_server import Script, scripted
from tests.transports.gmail.google import Tokens
from tests.transports.gmail.sending import ACCOUNT

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
SMTP = SmtpSettings(host="127.0.0.1", port=587, security=Security.NONE)
SERVICE = OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT)
PERSON = OauthSettings(kind=OauthKind.GOOGLE_PERSON, client_id="c")
CLIENT = OauthSettings(kind=OauthKind.MICROSOFT_CLIENT, client_id="c", tenant="t")
GMAIL = GmailSettings(oauth=SERVICE)


async def public(host: str, port: int) -> Sequence[str]:
    return ["9.9.9.9"]


# ── storing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "settings",
    [
        SMTP,
        replace(SMTP, user="ann", hello_name="mail.example.com"),
        replace(SMTP, oauth=PERSON),
        replace(SMTP, oauth=CLIENT),
        replace(SMTP, oauth=replace(CLIENT, authority=f"{MICROSOFT}/")),
        GMAIL,
        GmailSettings(oauth=PERSON, base_url=f"{GOOGLE}/"),
        GmailSettings(oauth=replace(PERSON, token_uri=GOOGLE_URI)),
        GmailSettings(oauth=replace(PERSON, token_uri="https://accounts.google.com/o/oauth2/token")),
    ],
)
async def test_the_providers_public_addresses_are_free(settings: TransportSettings) -> None:
    assert own_endpoint(settings) is None
    assert await server_refusal(settings, NetworkGuard(resolve=public)) is None


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (replace(SMTP, ca_file="/etc/shadow"), "ca_file"),
        (replace(SMTP, oauth=replace(PERSON, token_uri="https://10.0.0.5/token")), "oauth.token_uri"),
        (replace(SMTP, oauth=replace(CLIENT, authority="https://login.example.com")), "oauth.authority"),
        (replace(SMTP, oauth=replace(CLIENT, authority=f"{MICROSOFT}@10.0.0.5")), "oauth.authority"),
        (replace(GMAIL, base_url="http://127.0.0.1:8025"), "base_url"),
        (replace(GMAIL, base_url=f"{GOOGLE}.example.com"), "base_url"),
        (replace(GMAIL, base_url=""), "base_url"),
        (replace(GMAIL, oauth=replace(SERVICE, token_uri="http://169.254.169.254/token")), "oauth.token_uri"),
        (UnknownTransport("pigeon"), "kind"),
    ],
)
async def test_addresses_of_ones_own_are_the_operators_alone(settings: TransportSettings, named: str) -> None:
    assert own_endpoint(settings) == named
    wrong = await server_refusal(settings, NetworkGuard(allowed=(ip_network("0.0.0.0/0"),), resolve=public))
    assert wrong is not None
    assert wrong.field == named


async def refused(settings: SmtpSettings, guard: NetworkGuard, *facts: str) -> bool:
    wrong = await server_refusal(settings, guard)
    return wrong is not None and wrong.field == "host" and missing(wrong.rule, *facts) == []


async def test_a_server_is_refused_for_where_it_is() -> None:
    inside = replace(SMTP, host="10.0.0.5")
    assert await refused(inside, NetworkGuard(), "10.0.0.5", "private")
    assert await server_refusal(inside, NetworkGuard(allowed=(ip_network("10.0.0.0/24"),))) is None
    assert await refused(replace(SMTP, port=5432), NetworkGuard(resolve=public), "5432", "465, 587, 2525")


# ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def sealed(settings: GmailSettings, secret: str = "geheim") -> GmailSettings:
    return replace(settings, secret=VAULT.seal(secret, account_id=ACCOUNT.id, key=KEY))


async def test_an_api_elsewhere_is_barred_even_where_it_was_stored() -> None:
    account = replace(ACCOUNT, transport=sealed(replace(GMAIL, base_url="http://127.0.0.1:8025")))
    assert isinstance(transport_of(account, VAULT), GmailTransport)
    barred = transport_of(account, VAULT, guard=NetworkGuard())
    assert isinstance(barred, BarredTransport)
    assert not isinstance(barred, DraftingTransport)


async def test_no_way_around_leads_to_an_endpoint_of_ones_own() -> None:
    """Nor when the account is only tested."""
    api = replace(ACCOUNT, transport=sealed(replace(GMAIL, base_url="http://127.0.0.1:8025")))
    smtp = replace(ACCOUNT, transport=replace(SMTP, oauth=replace(PERSON, token_uri="http://127.0.0.1:1/token")))
    guard = NetworkGuard()
    with pytest.raises(EndpointRefused, match=r"^base_url "):
        await try_account(api, VAULT, guard=guard)
    with pytest.raises(EndpointRefused, match=r"^oauth\.token_uri "):
        await try_account(smtp, VAULT, guard=guard)
    with pytest.raises(EndpointRefused):
        server_settings(smtp, guard=guard)
    assert server_settings(smtp) == smtp.transport


def test_the_token_server_in_a_key_file_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the sealed secret, which is not opened when the account is stored."""
    used: list[str | None] = []

    def source(oauth: OauthSettings, secret: str, *, mailbox: str) -> Tokens:
        used.append(oauth.token_uri)
        return Tokens()

    monkeypatch.setattr(client, "token_source", source)
    key = json.dumps({"type": "service_account", "token_uri": "http://127.0.0.1:1/token"})
    account = replace(ACCOUNT, transport=sealed(GMAIL, key))
    assert isinstance(transport_of(account, VAULT, guard=NetworkGuard()), GmailTransport)
    assert used == [GOOGLE_URI]
    assert standard(SMTP) == SMTP
    assert standard(replace(SMTP, oauth=CLIENT)) == replace(SMTP, oauth=CLIENT)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({}, ("127.0.0.1", "loopback")),
        ({"ca_file": "/etc/shadow"}, ("ca_file",)),
    ],
)
async def test_mail_of_a_barred_account_waits_and_the_account_says_why(
    store: Store, change: Mapping[str, Any], facts: tuple[str, ...]
) -> None:
    script = Script()
    async with scripted(script) as port:
        settings = replace(SMTP, port=port, **change)
        id_ = await store.add_account("ann", address="ann@post.test", limits=Limits(), transport=settings)
        [row] = await store.enqueue_many([{"to": "bob@example.test", "subject": "s", "text": "t"}])
        transport = transport_of(await store.account(id_), VAULT, guard=NetworkGuard(ports=frozenset({port})))
        runner = await Runner.start(store, transport, id_, owner="test")
        assert runner is not None
        await runner.run_until_idle()
        await runner.stop()
        await transport.close()
        assert script.connections == 0
    assert (await show_email(store, row["id"])).state == "ready"
    rest = (await store.account(id_)).usage.rest
    assert rest is not None
    assert rest.reason is RestReason.UNREACHABLE
    assert missing(rest.detail, *facts) == []


async def test_a_trial_says_what_else_to_do() -> None:
    [tried] = await try_server(server_of(SMTP, guard=NetworkGuard()), None)
    assert (tried.step, tried.ok, tried.advice) == (Step.CONNECT, False, ELSEWHERE)
    assert missing(tried.text, "127.0.0.1", "loopback") == []


async def test_a_server_that_is_allowed_can_be_used() -> None:
    async with scripted(Script()) as port:
        guard = NetworkGuard(allowed=(ip_network("127.0.0.0/8"),), ports=frozenset({port}))
        tried = await try_server(server_of(replace(SMTP, port=port), guard=guard), None)
    assert [each.ok for each in tried] == [True] * len(tried)
