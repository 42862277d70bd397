"""From a stored account to the Gmail API, or to an error that names the next command."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.errors import VaultError
from fairpost.model.reason import Reason
from fairpost.model.transport import UnknownTransport
from fairpost.transports.factory import transport_of
from fairpost.transports.gmail.send import GmailTransport
from fairpost.transports.gmail.settings import GOOGLE, GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.registry import read_transport, write_transport
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.transports.gmail.sending import ACCOUNT, client_to

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
SERVICE = OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT, subject="ann@post.test")
GMAIL = GmailSettings(oauth=SERVICE, base_url="http://127.0.0.1:8025")


def test_stored_settings_read_back_the_same() -> None:
    person = OauthSettings(kind=OauthKind.GOOGLE_PERSON, client_id="c", token_uri="https://x.test/token")
    for settings in (GMAIL, GmailSettings(oauth=person), replace(GMAIL, secret="v1:ab:cd", base_url=None)):
        written = write_transport(settings)
        assert written["kind"] == "gmail"
        assert read_transport(written) == settings
    assert "secret" not in write_transport(GMAIL)


@pytest.mark.parametrize(
    "change",
    [
        {"oauth": None},
        {"oauth": ...},
        {"oauth": {"kind": "pigeon"}},
        {"oauth": {"kind": "microsoft-client", "client_id": "c", "tenant": "t"}},
        {"base_url": 3},
        {"secret": ["x"]},
        {"wings": "2"},
    ],
)
def test_an_unreadable_value_is_a_value(change: dict[str, Any]) -> None:
    data = {name: value for name, value in {**write_transport(GMAIL), **change}.items() if value is not ...}
    assert read_transport(data) == UnknownTransport("gmail, damaged")


@given(
    st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["oauth", "base_url", "secret"]),
        st.none() | st.text(max_size=5) | st.dictionaries(st.sampled_from(["kind", "x"]), st.text(max_size=5)),
    )
)
def test_any_stored_settings_are_read_without_an_error(data: dict[str, Any]) -> None:
    read_transport({**data, "kind": "gmail"})


def test_a_transport_and_all_it_is_made_of_show_no_key() -> None:
    sealed = VAULT.seal("geheim", account_id=ACCOUNT.id, key=KEY)
    account = replace(ACCOUNT, transport=replace(GMAIL, secret=sealed))

    async def made() -> str:
        transport = transport_of(account, VAULT)
        assert isinstance(transport, GmailTransport)
        parts = [vars(part) for part in vars(transport).values() if hasattr(part, "__dict__")]
        shown = f"{transport!r} {vars(transport)!r} {parts!r}"
        await transport.close()
        return shown

    shown = asyncio.run(made()) + repr(account)
    assert "geheim" not in shown
    assert sealed not in shown
    assert "http://127.0.0.1:8025" in shown


def test_without_a_url_it_is_google() -> None:
    sealed = VAULT.seal("geheim", account_id=ACCOUNT.id, key=KEY)
    account = replace(ACCOUNT, transport=GmailSettings(oauth=SERVICE, secret=sealed))
    assert client_to(account, VAULT).base_url == GOOGLE


def test_a_missing_key_is_for_the_operator() -> None:
    with pytest.raises(VaultError, match='"sales"') as error:
        transport_of(replace(ACCOUNT, transport=GMAIL), VAULT)
    assert error.value.next_step == Reason("step.set_gmail_key", account="sales")
