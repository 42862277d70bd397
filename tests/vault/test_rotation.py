"""Rotation on a real database: whatever is killed, every password can be opened, and running it again completes it."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fairpost.model.account import Limits
from fairpost.model.errors import KeysChanged, VaultError
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.rotation import rotate, write_sealed
from fairpost.vault.vault import Unopenable, Vault

SERVER = SmtpSettings(host="smtp.example.com", port=587, user="ann")
NAMES = ("sales", "news", "shop")


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store.open(url) as store:
        yield store


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(Keyring(tmp_path / "home"))


async def add(store: Store, vault: Vault, name: str) -> AccountId:
    id_ = await store.next_account_id()

    async def write(sealed: str, keys: Sequence[str]) -> None:
        transport = replace(SERVER, secret=sealed)
        await store.add_account(name, address="a@b.test", limits=Limits(), transport=transport, id_=id_, keys=keys)

    await write_sealed(store, vault, f"password of {name}", account_id=id_, write=write)
    return id_


async def add_all(store: Store, vault: Vault) -> None:
    for name in NAMES:
        await add(store, vault, name)


async def passwords(store: Store, vault: Vault) -> dict[str, str]:
    return {each.name: vault.open_secret(each) for each in await store.secrets()}


async def keys_in_use(store: Store) -> tuple[str, ...]:
    return (await store.keys_in_use(AccountId(0)))[0]


ALL = {name: f"password of {name}" for name in NAMES}


async def test_a_rotation_seals_everything_with_a_new_key(store: Store, vault: Vault) -> None:
    await add_all(store, vault)
    old = vault.keyring.current()
    done = await rotate(store, vault)
    new = vault.keyring.current()
    assert done is not None
    assert old is not None
    assert new is not None
    assert (done.key_id, done.resealed, done.already, done.dropped, done.is_resumed) == (new.id, 3, 0, (), False)
    assert await keys_in_use(store) == (new.id,) != (old.id,)
    assert await passwords(store, vault) == ALL
    assert await passwords(store, Vault(Keyring(Path("/nonexistent"), given=new))) == ALL


async def test_the_key_before_is_kept_for_backups(store: Store, vault: Vault) -> None:
    await add(store, vault, "sales")
    (backup,) = await store.secrets()
    await rotate(store, vault)
    assert vault.open_secret(backup) == "password of sales"


async def test_without_key_and_secret_there_is_nothing_to_do(store: Store, vault: Vault) -> None:
    assert await rotate(store, vault) is None
    assert vault.keyring.current() is None


async def test_a_key_is_rotated_even_before_it_sealed_anything(store: Store, vault: Vault) -> None:
    before = vault.key_for([])
    assert await rotate(store, vault) is not None
    assert vault.keyring.current() != before


async def test_the_environment_gives_the_new_key_and_the_old_one(store: Store, tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    await add_all(store, Vault(Keyring(tmp_path, given=old)))
    both = Vault(Keyring(tmp_path, given=new, given_old=old))
    await add(store, both, "late")  # still sealed with the old key, because one key seals everything
    assert await keys_in_use(store) == (old.id,)
    done = await rotate(store, both)
    assert done is not None
    assert done.resealed == 4
    assert await keys_in_use(store) == (new.id,)
    assert len(await passwords(store, Vault(Keyring(tmp_path, given=new)))) == 4
    again = await rotate(store, both)
    assert again is not None
    assert (again.resealed, again.already) == (0, 4)


async def test_a_key_of_the_environment_is_rotated_without_a_home(store: Store, tmp_path: Path) -> None:
    old, new, home = new_key(), new_key(), tmp_path / "file" / "home"
    (tmp_path / "file").touch()  # no folder can be created below it
    await add(store, Vault(Keyring(home, given=old)), "sales")
    await rotate(store, Vault(Keyring(home, given=new, given_old=old)))
    assert await keys_in_use(store) == (new.id,)


async def test_a_key_moves_from_the_file_to_the_environment_and_back(store: Store, vault: Vault) -> None:
    await add_all(store, vault)
    home, given = vault.keyring.file.parent, new_key()
    await rotate(store, Vault(Keyring(home, given=given)))
    assert await keys_in_use(store) == (given.id,)
    await rotate(store, Vault(Keyring(home, given_old=given)))
    assert await passwords(store, vault) == ALL


async def test_without_the_old_key_nothing_is_touched(store: Store, vault: Vault, tmp_path: Path) -> None:
    await add_all(store, vault)
    before = await store.secrets()
    elsewhere = Keyring(tmp_path / "elsewhere")
    (in_use,) = await keys_in_use(store)
    with pytest.raises(Unopenable, match=f'"news".*{in_use}'):
        await rotate(store, Vault(elsewhere))
    assert await store.secrets() == before
    assert elsewhere.current() is None
    assert not elsewhere.is_rotating


async def test_a_key_that_is_lost_for_good_can_be_given_up(store: Store, vault: Vault, tmp_path: Path) -> None:
    await add_all(store, vault)
    fresh = Vault(Keyring(tmp_path / "elsewhere"))
    done = await rotate(store, fresh, drop_unreadable=True)
    assert done is not None
    assert (done.resealed, done.dropped) == (0, ("news", "sales", "shop"))
    assert await store.secrets() == []
    account = await store.account_named("sales")
    assert isinstance(account.transport, SmtpSettings)
    assert (account.transport.user, account.transport.secret) == ("ann", None)
    await add(store, fresh, "new")


async def test_giving_up_what_is_unreadable_spares_the_rest(store: Store, vault: Vault, url: str) -> None:
    await add_all(store, vault)
    await store.value(
        """UPDATE fairpost.accounts SET transport = transport ||
             (SELECT jsonb_build_object('secret', transport -> 'secret') FROM fairpost.accounts WHERE name = 'news')
           WHERE name = 'shop'"""
    )
    with pytest.raises(Unopenable, match='"shop"'):
        await rotate(store, vault)
    done = await rotate(store, vault, drop_unreadable=True)
    assert done is not None
    assert (done.resealed, done.dropped) == (2, ("shop",))
    assert await passwords(store, vault) == {name: ALL[name] for name in ("sales", "news")}


async def test_a_key_file_that_others_can_read_is_no_reason_to_forget_passwords(store: Store, vault: Vault) -> None:
    await add_all(store, vault)
    vault.keyring.file.chmod(0o644)
    with pytest.raises(VaultError, match="chmod 600"):
        await rotate(store, vault, drop_unreadable=True)
    vault.keyring.file.chmod(0o600)
    assert await passwords(store, vault) == ALL


async def test_two_rotations_at_once_are_one_too_many(store: Store, vault: Vault) -> None:
    await add(store, vault, "sales")
    before = await store.secrets()
    with vault.keyring.rotating(), pytest.raises(VaultError):
        await rotate(store, vault)
    assert await store.secrets() == before


async def test_a_password_that_is_set_during_a_rotation_is_sealed_with_the_new_key(store: Store, vault: Vault) -> None:
    """It was sealed with the old key, and the rotation was committed before it was written."""
    await add(store, vault, "sales")
    id_ = await store.next_account_id()
    tries: list[str] = []

    async def write(sealed: str, keys: Sequence[str]) -> None:
        if not tries:
            await rotate(store, vault)
        tries.append(sealed)
        transport = replace(SERVER, secret=sealed)
        await store.add_account("late", address="a@b.test", limits=Limits(), transport=transport, id_=id_, keys=keys)

    await write_sealed(store, vault, "late password", account_id=id_, write=write)
    assert len(tries) == 2
    current = vault.keyring.current()
    assert current is not None
    assert await keys_in_use(store) == (current.id,)
    assert (await passwords(store, vault))["late"] == "late password"


async def test_the_only_password_that_is_set_during_a_rotation_is_sealed_with_the_new_key(
    store: Store, vault: Vault
) -> None:
    id_ = await add(store, vault, "sales")
    tries: list[str] = []

    async def write(sealed: str, keys: Sequence[str]) -> None:
        if not tries:
            await rotate(store, vault)
        tries.append(sealed)
        await store.change_account("sales", {"secret": sealed}, keys=keys)

    await write_sealed(store, vault, "another", account_id=id_, write=write)
    current = vault.keyring.current()
    assert current is not None
    assert await keys_in_use(store) == (current.id,)
    assert await passwords(store, vault) == {"sales": "another"}


async def test_a_password_that_is_set_while_others_are_resealed_is_not_lost(
    store: Store, url: str, vault: Vault
) -> None:
    class Interrupted(Store):
        """Set a password between reading and writing."""

        async def replace_secrets(self, *given: object) -> bool:
            if "late" not in await passwords(self, vault):
                await add(self, vault, "late")
            return await super().replace_secrets(*given)  # type: ignore[arg-type]

    await add_all(store, vault)
    async with Interrupted.open(url) as interrupted:
        done = await rotate(interrupted, vault)
    assert done is not None
    assert done.resealed == 4
    assert await passwords(store, vault) == {**ALL, "late": "password of late"}


async def test_keys_that_never_rest_end_in_an_error_and_write_nothing(store: Store, vault: Vault) -> None:
    async def write(sealed: str, keys: Sequence[str]) -> None:
        await store.add_account(
            "sales", address="a@b.test", limits=Limits(), transport=replace(SERVER, secret=sealed), keys=["others"]
        )

    with pytest.raises(KeysChanged):
        await write_sealed(store, vault, "password", account_id=AccountId(1), write=write)
    assert await store.accounts() == []


async def test_two_homes_on_one_database_do_not_get_two_keys(store: Store, vault: Vault, tmp_path: Path) -> None:
    await add(store, vault, "sales")
    (in_use,) = await keys_in_use(store)
    elsewhere = Vault(Keyring(tmp_path / "elsewhere"))
    with pytest.raises(VaultError, match=in_use):
        await add(store, elsewhere, "news")
    assert elsewhere.keyring.current() is None
    assert set(await passwords(store, vault)) == {"sales"}


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from fairpost.store.store import Store
from fairpost.vault import keyring, files
from fairpost.vault.keyring import Keyring
from fairpost.vault.rotation import rotate
from fairpost.vault.vault import Vault

url, home, place, when = sys.argv[1:]

def die(*_): os.kill(os.getpid(), signal.SIGKILL)

def deadly(owner, name):
    real = getattr(owner, name)
    if name == "replace_secrets":
        async def wrapped(*given):
            if when == "before": die()
            done = await real(*given)
            die()
    else:
        def wrapped(*given):
            if when == "before": die()
            done = real(*given)
            die()
    setattr(owner, name, wrapped)

deadly({"key": keyring, "write": Store, "keep": keyring, "move": keyring, "put": files}[place],
       {"key": "create_key_file", "write": "replace_secrets", "keep": "keep_as", "move": "move", "put": "_put"}[place])

async def main():
    async with Store.open(url) as store:
        await rotate(store, Vault(Keyring(Path(home))))

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", ["put", "key", "write", "keep", "move"])
async def test_killed_at_any_point_it_loses_nothing_and_runs_to_its_end_again(
    store: Store, vault: Vault, url: str, place: str, when: str
) -> None:
    await add_all(store, vault)
    first = vault.keyring.current()
    home = vault.keyring.file.parent
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, url, str(home), place, when)
    assert await killed.wait() == -signal.SIGKILL
    assert await passwords(store, vault) == ALL
    await add(store, vault, "late")  # while work continues
    assert len(await keys_in_use(store)) == 1
    done = await rotate(store, vault)
    assert done is not None
    assert done.is_resumed == ((place, when) not in {("put", "before"), ("key", "before"), ("move", "after")})
    current = vault.keyring.current()
    assert current is not None
    assert current != first
    assert await keys_in_use(store) == (current.id,)
    only_current = Vault(Keyring(Path("/nonexistent"), given=current))
    assert await passwords(store, only_current) == {**ALL, "late": "password of late"}
    assert {file.name for file in home.iterdir()} == {"secret.key", "secret.key.old", "secret.lock"}
