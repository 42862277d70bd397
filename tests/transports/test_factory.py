"""From a stored account to a transport, or to an error that names the next command."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.email import Recipient
from fairpost.model.errors import FairpostError, VaultError
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.transport import SealedSecret, Security, UnknownTransport
from fairpost.smtp.auth import Password
from fairpost.transports.factory import opened, transport_of
from fairpost.transports.registry import read_transport, write_transport
from fairpost.transports.smtp.login import login_of, server_of
from fairpost.transports.smtp.send import SmtpTransport
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.transports.verify import try_account
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.compose.strategies import content_of, email_of
from tests.smtp.scripted_server import Script, scripted

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
SERVER = SmtpSettings(
    host="smtp.example.com", port=465, security=Security.IMPLICIT, user="ann", ca_file="/ca.pem", hello_name="me.test"
)


def account_with(transport: Any, secret: str | None = "hunter2") -> Account:
    id_ = AccountId(7)
    if isinstance(transport, SmtpSettings) and secret:
        transport = replace(transport, secret=VAULT.seal(secret, account_id=id_, key=KEY))
    return Account(
        id=id_,
        name="sales",
        address="sales@post.test",
        display_name=None,
        pool="default",
        status=AccountStatus.ACTIVE,
        status_reason=None,
        limits=Limits(),
        usage=Usage(),
        transport=transport,
    )


def test_server_and_login_are_the_stored_ones() -> None:
    server = server_of(SERVER)
    assert (server.host, server.port, server.security) == ("smtp.example.com", 465, Security.IMPLICIT)
    assert (server.ca_file, server.hello_name) == ("/ca.pem", "me.test")
    account = account_with(SERVER)
    assert isinstance(account.transport, SmtpSettings)
    secret = opened(account, account.transport, VAULT)
    assert login_of(SERVER, secret, account="sales") == Password(user="ann", secret="hunter2")
    assert login_of(replace(SERVER, user=None), None, account="sales") is None


@pytest.mark.parametrize(
    ("own", "host", "told"),
    [
        ("me.test", "mail.example.com", "me.test"),
        (None, "mail.example.com", "mail.example.com"),
        (None, None, "[127.0.0.1]"),
    ],
)
async def test_a_server_is_told_the_name_of_the_account_or_else_of_the_machine(
    own: str | None, host: str | None, told: str
) -> None:
    for is_verified in (False, True):
        script = Script()
        async with scripted(script) as port:
            plain = SmtpSettings(host="127.0.0.1", port=port, security=Security.NONE, hello_name=own)
            account = account_with(plain, secret=None)
            if is_verified:
                assert all(each.ok for each in await try_account(account, VAULT, host=host))
            else:
                transport = transport_of(account, VAULT, host=host)
                email = email_of(content_of(), (Recipient(kind="to", address="ann@there.test"),))
                await transport.send(account, email, permission=lambda: True)
                await transport.close()
        assert script.commands[0] == f"EHLO {told}"


def test_a_transport_and_all_it_is_made_of_show_no_password() -> None:
    account = account_with(SERVER)

    async def made() -> str:
        transport = transport_of(account, VAULT)
        assert isinstance(transport, SmtpTransport)
        parts = [vars(part) for part in vars(transport).values() if hasattr(part, "__dict__")]
        shown = f"{transport!r} {vars(transport)!r} {parts!r}"
        await transport.close()
        return shown

    shown = asyncio.run(made()) + repr(account)
    assert "hunter2" not in shown
    assert isinstance(account.transport, SmtpSettings)
    assert account.transport.secret is not None
    assert account.transport.secret not in shown


def test_an_account_without_a_server_says_how_to_give_it_one() -> None:
    with pytest.raises(FairpostError, match='"sales"') as error:
        transport_of(account_with(None), VAULT)
    assert error.value.next_step == Reason("step.set_server", account="sales")


def test_a_server_of_another_kind_concerns_its_account_only() -> None:
    with pytest.raises(FairpostError, match=r'"sales".*\(pigeon\)'):
        transport_of(account_with(read_transport({"kind": "pigeon"})), VAULT)


def test_a_missing_password_is_for_the_operator() -> None:
    with pytest.raises(VaultError, match=r'"sales".*\bann\b') as error:
        transport_of(account_with(SERVER, secret=None), VAULT)
    assert error.value.next_step == Reason("step.set_password", account="sales")


def test_a_key_that_is_not_here_is_for_the_operator() -> None:
    with pytest.raises(VaultError, match=f'"sales".*{KEY.id}'):
        transport_of(account_with(SERVER), Vault(Keyring(Path("/nonexistent"), given=new_key())))


def test_no_server_is_an_empty_object() -> None:
    assert write_transport(None) == {}
    assert read_transport({}) is None


def test_a_server_is_read_as_it_was_written() -> None:
    assert read_transport(write_transport(replace(SERVER, secret="v1:ab:cd"))) == replace(SERVER, secret="v1:ab:cd")
    assert "secret" not in write_transport(SERVER)


@pytest.mark.parametrize(
    "change", [{"port": "x"}, {"port": None}, {"security": "ssl"}, {"wings": 2}, {"host": ...}, {"security": ...}]
)
def test_an_unreadable_value_is_a_value(change: dict[str, Any]) -> None:
    data = {name: value for name, value in {**write_transport(SERVER), **change}.items() if value is not ...}
    assert read_transport(data) == UnknownTransport("smtp, damaged")


@given(
    st.dictionaries(st.text(max_size=5) | st.sampled_from(["kind", "port", "host"]), st.none() | st.text(max_size=5))
)
def test_any_stored_settings_are_read_without_an_error(data: dict[str, Any]) -> None:
    read_transport(data)
    read_transport({**data, "kind": "smtp"})


@pytest.mark.parametrize(("sealed", "key_id"), [("v1:ab:cd", "ab"), ("", ""), ("x", ""), ("v1:", "")])
def test_a_sealed_secret_names_its_key(sealed: str, key_id: str) -> None:
    assert SealedSecret(owner="account 1", name="sales", sealed=sealed).key_id == key_id
