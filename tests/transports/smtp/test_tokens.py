"""The complete path of a token: granted by a token server, accepted or refused by a real SMTP server over TLS."""

import asyncio
import logging
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from fairpost.engine.runner import Runner
from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.email import Content, Outgoing, Recipient
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.report import Reached, Report, Step
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.transport import Security, UnknownTransport
from fairpost.observe.emails import show_email
from fairpost.policy.verdicts import suspend_reason
from fairpost.smtp.server import Server
from fairpost.store.store import Store
from fairpost.transports.factory import transport_of
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.port import Tried
from fairpost.transports.registry import read_transport, write_transport
from fairpost.transports.smtp.login import login_of
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.verify import try_account
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.facts import missing
from tests.peers.certificates import Certificates, make_certificates
from tests.transports.oauth.keys import MAILBOX, google, granted, key_file, saying
from tests.transports.oauth.token_server import TokenServer, serving

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
SERVICE = OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT)


EMAIL = Outgoing(
    id=EmailId(1),
    workspace="default",
    email_class=EmailClass.BULK,
    on_doubt=DoubtPolicy.HOLD,
    attempts=0,
    attempts_max=5,
    sender=None,
    recipients=(Recipient(kind="to", address="bob@example.com"),),
    envelope=("bob@example.com",),
    fields={},
    content=Content(id=1, subject="Hello", text="Hi", html=None, reply_to=None, headers={}),
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@dataclass
class Mailbox:
    """Accepts mail from clients with a valid token. It refuses others as Google and Microsoft do: with a challenge."""

    good: set[str]
    logins: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)

    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:  # noqa: N802 - aiosmtpd's name
        user, bearer = b64decode(args[1]).decode().rstrip("\1").split("\1")
        assert user == f"user={MAILBOX}"
        token = bearer.removeprefix("auth=Bearer ")
        self.logins.append(token)
        if token in self.good:
            return AuthResult(success=True)
        await server.challenge_auth(b'{"status":"401","schemes":"Bearer"}')
        return AuthResult(success=False, handled=False)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.original_content, bytes)
        self.mails.append(envelope.original_content)
        return "250 2.0.0 taken"


@asynccontextmanager
async def smtp(mailbox: Mailbox, certificates: Certificates) -> AsyncIterator[SmtpSettings]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.good.cert, certificates.good.key)
    loop = asyncio.get_running_loop()

    def protocol() -> SMTP:
        return SMTP(mailbox, hostname="mx.test", tls_context=context, require_starttls=True, auth_required=True)

    server = await loop.create_server(protocol, "127.0.0.1", 0)
    try:
        yield SmtpSettings(
            host="localhost",
            port=server.sockets[0].getsockname()[1],
            security=Security.STARTTLS,
            user=MAILBOX,
            ca_file=str(certificates.ca),
            oauth=SERVICE,
        )
    finally:
        server.close()


def account_with(settings: SmtpSettings, secret: str) -> Account:
    id_ = AccountId(7)
    return Account(
        id=id_,
        name="sales",
        address=MAILBOX,
        display_name=None,
        pool="default",
        status=AccountStatus.ACTIVE,
        status_reason=None,
        limits=Limits(),
        usage=Usage(),
        transport=replace(settings, secret=VAULT.seal(secret, account_id=id_, key=KEY)),
    )


async def send(account: Account, times: int = 1) -> list[Report]:
    transport = transport_of(account, VAULT)
    try:
        return [await transport.send(account, EMAIL, permission=lambda: True) for _ in range(times)]
    finally:
        await transport.close()


async def tried(account: Account) -> list[Tried]:
    return await try_account(account, VAULT)


async def test_an_e_mail_goes_out_with_a_token(certificates: Certificates) -> None:
    mailbox = Mailbox(good={"token-1"})
    with serving(google()) as tokens:
        async with smtp(mailbox, certificates) as settings:
            reports = await send(account_with(settings, key_file(tokens.url)), times=2)
    assert [report.reply and report.reply.code for report in reports] == [250, 250]
    assert mailbox.logins == ["token-1"]
    assert len(mailbox.mails) == 2


async def test_a_stale_token_is_replaced_and_the_e_mail_goes_out(certificates: Certificates) -> None:
    mailbox = Mailbox(good={"token-2"})
    with serving(google()) as tokens:
        async with smtp(mailbox, certificates) as settings:
            [report] = await send(account_with(settings, key_file(tokens.url)))
    assert report.reached is Reached.REPLIED
    assert mailbox.logins == ["token-1", "token-2"]
    assert len(mailbox.mails) == 1
    assert len(tokens.asked) == 2


async def test_a_mailbox_that_refuses_two_tokens_suspends_the_account(certificates: Certificates) -> None:
    mailbox = Mailbox(good=set())
    with serving(google()) as tokens:
        async with smtp(mailbox, certificates) as settings:
            [report] = await send(account_with(settings, key_file(tokens.url)))
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
    reason = suspend_reason(report)
    assert reason is not None
    assert missing(str(reason.params["reply"]), "535 5.7.8", '{"status":"401"') == []
    assert len(tokens.asked) == len(mailbox.logins) == 2


async def test_a_refused_grant_suspends_the_account_and_the_reply_names_no_command(certificates: Certificates) -> None:
    mailbox = Mailbox(good=set())
    with serving(google(delegated=False)) as tokens:
        async with smtp(mailbox, certificates) as settings:
            [report] = await send(account_with(settings, key_file(tokens.url)))
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
    reason = suspend_reason(report)
    assert reason is not None
    assert missing(str(reason.params["reply"]), "535 5.7.8", "ann@example.com", "(unauth") == []
    assert "fairpost " not in str(reason)
    assert (len(tokens.asked), mailbox.logins) == (1, [])


@pytest.mark.parametrize("answer", [(503, "busy"), (200, "garbage")])
async def test_a_token_server_in_trouble_lets_the_account_rest(answer: Any, certificates: Certificates) -> None:
    with serving(TokenServer(answer=saying(*answer))) as tokens:
        async with smtp(Mailbox(good=set()), certificates) as settings:
            [report] = await send(account_with(settings, key_file(tokens.url)))
    assert (report.reached, report.step) == (Reached.UNTOUCHED, Step.AUTH)
    assert report.reply is not None
    assert (report.reply.code, report.reply.text[:6]) == (454, "4.7.0 ")
    assert suspend_reason(report) is None


async def test_a_trial_says_that_all_is_well(certificates: Certificates) -> None:
    with serving(google()) as tokens:
        async with smtp(Mailbox(good={"token-1"}), certificates) as settings:
            steps = await tried(account_with(settings, key_file(tokens.url)))
    assert [each.step for each in steps][-1] is Step.AUTH
    assert all(each.ok for each in steps)


async def test_a_trial_shows_what_is_wrong_with_the_grant_after_the_steps_that_are_fine(
    certificates: Certificates,
) -> None:
    with serving(google(delegated=False)) as tokens:
        async with smtp(Mailbox(good=set()), certificates) as settings:
            steps = await tried(account_with(settings, key_file(tokens.url)))
    assert [each.step for each in steps if each.ok] == [
        Step.CONNECT,
        Step.GREETING,
        Step.HELLO,
        Step.STARTTLS,
        Step.TLS,
    ]
    assert (steps[-1].step, steps[-1].reply) == (Step.AUTH, None)
    assert "unauthorized_client" in steps[-1].text
    assert "Domain-wide delegation" in steps[-1].advice


async def test_a_trial_of_a_server_that_is_gone_says_so_first(certificates: Certificates) -> None:
    async with smtp(Mailbox(good=set()), certificates) as settings:
        pass
    with serving(google(delegated=False)) as tokens:
        steps = await tried(account_with(settings, key_file(tokens.url)))
    assert [(each.step, each.ok) for each in steps] == [(Step.CONNECT, False)]


async def test_a_token_does_not_go_to_a_server_elsewhere_without_tls(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "is_local", False)
    mailbox = Mailbox(good={"token-1"})
    with serving(google()) as tokens:
        async with smtp(mailbox, certificates) as settings:
            [report] = await send(account_with(replace(settings, security=Security.NONE), key_file(tokens.url)))
    assert (report.reached, report.step, report.reply) == (Reached.UNTOUCHED, Step.AUTH, None)
    assert "offers no encryption" in (report.error or "")
    assert mailbox.logins == []


async def test_no_secret_is_shown_or_logged(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("mail.log").setLevel(logging.ERROR)  # that of the server, which logs what it receives
    said = []
    with serving(TokenServer(answer=saying(*granted(77)))) as tokens:
        async with smtp(Mailbox(good=set()), certificates) as settings:
            account = account_with(settings, key_file(tokens.url))
            login = login_of(settings, key_file(tokens.url), account="sales")
            said += [repr(await send(account)), repr(await tried(account)), repr(account), repr(login)]
    for secret in ("token-77", "PRIVATE KEY"):
        assert secret not in " ".join(said)
        assert secret not in caplog.text


# ── stored form ──────────────────────────────────────────────────────────────────────────────────────────────────────

SERVER = SmtpSettings(
    host="smtp.office365.com",
    port=587,
    user="ann@example.com",
    secret="v1:ab:cd",
    oauth=OauthSettings(kind=OauthKind.MICROSOFT_CLIENT, client_id="c", tenant="t"),
)


def test_how_tokens_are_had_is_read_as_it_was_written() -> None:
    written = write_transport(SERVER)
    assert written["oauth"] == {"kind": "microsoft-client", "client_id": "c", "tenant": "t"}
    assert read_transport(written) == SERVER


@pytest.mark.parametrize(
    "oauth",
    [
        "microsoft-client",
        [],
        {},
        {"kind": "pigeon"},
        {"kind": "microsoft-client"},
        {"kind": "microsoft-client", "client_id": "c"},
        {"kind": "microsoft-client", "client_id": 5, "tenant": "t"},
        {"kind": "google-refresh-token"},
        {"kind": "google-service-account", "wings": "2"},
    ],
)
def test_unreadable_settings_only_affect_their_account(oauth: Any) -> None:
    assert read_transport({**write_transport(SERVER), "oauth": oauth}) == UnknownTransport("smtp, damaged")


async def test_a_worker_suspends_the_account_with_the_words_of_the_refusal(
    store: Store, certificates: Certificates
) -> None:
    """The complete path, with the database: the e-mail stays in the queue, unchanged."""
    with serving(google(delegated=False)) as tokens:
        async with smtp(Mailbox(good=set()), certificates) as settings:
            id_ = await store.add_account("sales", address=MAILBOX, limits=Limits())
            sealed = VAULT.seal(key_file(tokens.url), account_id=id_, key=KEY)
            await store.change_account("sales", {"transport": write_transport(settings), "secret": sealed}, keys=[])
            [row] = await store.enqueue_many([{"to": "bob@example.com", "subject": "s", "text": "t"}])
            transport = transport_of(await store.account(id_), VAULT)
            runner = await Runner.start(store, transport, id_, owner="test")
            assert runner is not None
            await runner.run_until_idle()
            await runner.stop()
            await transport.close()
    account = await store.account(id_)
    assert account.status is AccountStatus.SUSPENDED
    assert account.status_reason is not None
    assert "(unauth" in str(account.status_reason.params["reply"])
    assert (await show_email(store, row["id"])).state == "ready"
