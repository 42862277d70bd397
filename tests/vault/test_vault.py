"""A sealed secret opens with its key and for its account only. Each failure has its own error."""

from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.errors import FairpostError, VaultError
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.vault.files import create_key_file
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import Key, new_key
from fairpost.vault.vault import Unopenable, Vault

SALES, NEWS = AccountId(1), AccountId(2)
PASSWORD = "correct horse 🐎"
GIVE_AGAIN = Reason("step.set_password", account="sales")
DROP = Reason("step.drop_unreadable")


def vault_with(home: Path, *keys: Key | None) -> Vault:
    given, old = (*keys, None, None)[:2]
    return Vault(Keyring(home, given=given, given_old=old))


def opened(vault: Vault, sealed: str, account_id: AccountId = SALES) -> str:
    return vault.open(sealed, account_id=account_id, name="sales")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_secret_opens_as_it_was_sealed(secret: str) -> None:
    key = new_key()
    vault = vault_with(Path("/nonexistent"), key)
    assert opened(vault, vault.seal(secret, account_id=SALES, key=key)) == secret


def test_a_sealed_secret_names_its_key_and_hides_the_rest(tmp_path: Path) -> None:
    key = new_key()
    sealed = [vault_with(tmp_path, key).seal(PASSWORD, account_id=SALES, key=key) for _ in range(2)]
    version, key_id, text = sealed[0].split(":")
    assert (version, key_id) == ("v1", key.id)
    assert PASSWORD.encode() not in b64decode(text)
    assert sealed[0] != sealed[1]


def test_a_secret_of_another_account_is_refused(tmp_path: Path) -> None:
    key = new_key()
    vault = vault_with(tmp_path, key)
    with pytest.raises(Unopenable, match=key.id) as error:
        opened(vault, vault.seal(PASSWORD, account_id=SALES, key=key), NEWS)
    assert error.value.next_step == GIVE_AGAIN


def test_a_wrong_key_is_distinguished_from_damage(tmp_path: Path) -> None:
    right, wrong = new_key(), new_key()
    sealed = vault_with(tmp_path, right).seal(PASSWORD, account_id=SALES, key=right)
    with pytest.raises(Unopenable) as error:
        opened(vault_with(tmp_path, wrong), sealed)
    for fact in ('"sales"', right.id, wrong.id, "FAIRPOST_SECRET_KEY", "secret.key"):
        assert fact in str(error.value)
    assert error.value.next_step == DROP  # the password itself is fine


def test_without_any_key_the_error_says_which_one_is_needed(tmp_path: Path) -> None:
    key = new_key()
    sealed = vault_with(tmp_path, key).seal(PASSWORD, account_id=SALES, key=key)
    with pytest.raises(Unopenable) as error:
        opened(vault_with(tmp_path), sealed)
    for fact in (key.id, "FAIRPOST_SECRET_KEY", str(tmp_path / "secret.key")):
        assert fact in str(error.value)
    assert error.value.next_step == DROP
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", [0, 11, 12, 20, -1])
def test_a_damaged_secret_is_reported_as_such(tmp_path: Path, place: int) -> None:
    key = new_key()
    vault = vault_with(tmp_path, key)
    head, _, text = vault.seal(PASSWORD, account_id=SALES, key=key).rpartition(":")
    data = bytearray(b64decode(text))
    data[place] ^= 1
    with pytest.raises(Unopenable) as error:
        opened(vault, f"{head}:{b64encode(data).decode()}")
    assert error.value.next_step == GIVE_AGAIN


@pytest.mark.parametrize(
    "sealed", ["", "x", "v1", "v1:", "v1::", "v1:ab:", "v1:ab:!", "v1:ab:QUJD", "v2:ab:" + "QUJD" * 9]
)
def test_text_that_was_never_sealed_is_recognized(tmp_path: Path, sealed: str) -> None:
    with pytest.raises(Unopenable) as error:
        opened(vault_with(tmp_path, new_key()), sealed)
    assert error.value.next_step == GIVE_AGAIN


@given(st.text(), st.binary(min_size=32, max_size=32))
def test_no_text_whatever_opens_or_breaks_it(sealed: str, material: bytes) -> None:
    with pytest.raises(VaultError):
        opened(vault_with(Path("/nonexistent"), Key(material)), sealed)


def test_an_error_of_the_vault_is_one_of_ours_and_holds_no_secret(tmp_path: Path) -> None:
    key = new_key()
    vault = vault_with(tmp_path, key)
    with pytest.raises(FairpostError) as error:
        opened(vault, vault.seal(PASSWORD, account_id=SALES, key=key), NEWS)
    assert PASSWORD not in f"{error.value!r} {vault!r} {vault.keyring!r}"
    assert error.value.__cause__ is None


def test_the_old_key_and_every_file_open_what_they_sealed(tmp_path: Path) -> None:
    given, old = new_key(), new_key()
    vault = vault_with(tmp_path, given, old)
    ring = vault.keyring
    in_files = [create_key_file(path) for path in (ring.file, ring.file_new, ring.file_old)]
    for key in (given, old, *in_files):
        assert opened(vault, vault.seal(PASSWORD, account_id=SALES, key=key)) == PASSWORD


def test_the_first_secret_makes_the_key(tmp_path: Path) -> None:
    vault = vault_with(tmp_path)
    assert vault.key_for([]) == vault.keyring.current()
    assert vault.keyring.file.exists()


def test_a_key_of_the_environment_needs_no_file(tmp_path: Path) -> None:
    key = new_key()
    assert vault_with(tmp_path, key).key_for([]) == key
    assert list(tmp_path.iterdir()) == []


def test_where_a_key_is_in_use_it_is_used_on(tmp_path: Path) -> None:
    given, old = new_key(), new_key()
    assert vault_with(tmp_path, given, old).key_for([old.id]) == old
    assert vault_with(tmp_path, given, old).key_for([given.id]) == given


def test_no_second_key_is_made_where_the_first_is_missing(tmp_path: Path) -> None:
    with pytest.raises(VaultError, match="0123456789ab"):
        vault_with(tmp_path).key_for(["0123456789ab"])
    assert list(tmp_path.iterdir()) == []


def test_a_key_file_that_others_can_read_stops_everything(tmp_path: Path) -> None:
    vault = vault_with(tmp_path)
    key = vault.key_for([])
    sealed = vault.seal(PASSWORD, account_id=SALES, key=key)
    vault.keyring.file.chmod(0o644)
    with pytest.raises(VaultError, match="chmod 600") as error:
        opened(vault, sealed)
    assert not isinstance(error.value, Unopenable)
