"""Writing sealed secrets, and sealing them all anew with another key. Both keep to one rule: what was read of the keys
must still be so when it is written, or it is done again."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairpost.model.errors import KeysChanged, VaultError
from fairpost.model.ids import AccountId
from fairpost.model.transport import SealedSecret
from fairpost.vault.keys import Key
from fairpost.vault.vault import Unopenable, Vault

TRIES_MAX = 20


class SecretStore(Protocol):
    async def keys_in_use(self, account_id: AccountId) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of the keys that seal secrets in the whole database, and those of all accounts but this one."""
        ...

    async def secrets(self) -> Sequence[SealedSecret]: ...

    async def replace_secrets(self, before: Sequence[SealedSecret], after: Mapping[AccountId, str | None]) -> bool:
        """In one commit. None removes a secret. False: they are no longer what they were before, nothing was written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    key_id: str
    resealed: int
    already: int  # sealed with that key before
    dropped: tuple[str, ...]  # the names of the accounts that have no password now
    is_resumed: bool


async def write_sealed(
    store: SecretStore,
    vault: Vault,
    secret: str,
    *,
    account_id: AccountId,
    write: Callable[[str, Sequence[str]], Awaitable[object]],
) -> None:
    """`write` gets the sealed secret and the keys that were in use; it raises KeysChanged where others are by then."""
    for _ in range(TRIES_MAX):
        in_use, by_others = await store.keys_in_use(account_id)
        sealed = vault.seal(secret, account_id=account_id, key=vault.key_for(by_others))
        try:
            await write(sealed, in_use)
        except KeysChanged:
            continue
        return
    raise KeysChanged("The keys of the secrets were changed all the while, and nothing was written. Try again.")


async def rotate(store: SecretStore, vault: Vault, *, drop_unreadable: bool = False) -> Rotation | None:
    """Everything is sealed with the next key in one commit; only then does that key take the place of the old one.
    None: there is no key and no secret yet."""
    ring = vault.keyring
    with ring.rotating():
        secrets = await store.secrets()
        if not secrets and ring.current() is None and not ring.is_rotating:
            return None
        if not drop_unreadable:
            _open(vault, secrets)  # what cannot be done is told before anything is
        is_resumed = ring.is_rotating
        key = ring.next_key()
        before, after = await _reseal(store, vault, key, drop_unreadable=drop_unreadable)
        ring.promote()
    dropped = tuple(each.account_name for each in before if after.get(each.account_id, "") is None)
    return Rotation(
        key_id=key.id,
        resealed=len(after) - len(dropped),
        already=len(before) - len(after),
        dropped=dropped,
        is_resumed=is_resumed,
    )


async def _reseal(
    store: SecretStore, vault: Vault, key: Key, *, drop_unreadable: bool
) -> tuple[Sequence[SealedSecret], Mapping[AccountId, str | None]]:
    for _ in range(TRIES_MAX):
        before = await store.secrets()
        todo = [each for each in before if each.key_id != key.id]
        opened = (_open_readable if drop_unreadable else _open)(vault, todo)
        after = {
            account_id: None if secret is None else vault.seal(secret, account_id=account_id, key=key)
            for account_id, secret in opened.items()
        }
        if await store.replace_secrets(before, after):
            return before, after
    raise VaultError(
        "Passwords were changed all the while, and the key was not.", then="Run it again: fairpost secrets rotate"
    )


def _open(vault: Vault, secrets: Sequence[SealedSecret]) -> dict[AccountId, str | None]:
    return {s.account_id: vault.open(s.sealed, account_id=s.account_id, name=s.account_name) for s in secrets}


def _open_readable(vault: Vault, secrets: Sequence[SealedSecret]) -> dict[AccountId, str | None]:
    """None for what no key opens. A key that is there but cannot be read is another matter, and stops everything."""
    opened: dict[AccountId, str | None] = {}
    for each in secrets:
        try:
            opened |= _open(vault, [each])
        except Unopenable:
            opened[each.account_id] = None
    return opened
