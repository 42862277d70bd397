"""Write sealed secrets and reseal all of them with another key. Both operations follow the same rule: if the keys
change between reading and writing, start over.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairpost.model.errors import KeysChanged, VaultError
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.transport import SealedSecret, owner_of_account
from fairpost.vault.keys import Key
from fairpost.vault.vault import Unopenable, Vault

TRIES_MAX = 20


class SecretStore(Protocol):
    async def keys_in_use(self, account_id: AccountId | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the key IDs of all secrets, and the key IDs of all secrets except this account's."""
        ...

    async def secrets(self) -> Sequence[SealedSecret]: ...

    async def replace_secrets(self, before: Sequence[SealedSecret], after: Mapping[str, str | None]) -> bool:
        """Replace secrets in one commit; None removes a secret. If the stored secrets no longer match `before`, write
        nothing and return False.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    key_id: str
    resealed: int
    already: int  # secrets that are already sealed with the next key
    dropped: tuple[str, ...]  # names of the accounts that now have no password
    dropped_keys: tuple[str, ...] = ()  # DKIM keys that no longer sign mail
    dropped_webhooks: tuple[str, ...] = ()  # URLs of webhooks that now have no secret
    is_resumed: bool


async def write_sealed(
    store: SecretStore,
    vault: Vault,
    secret: str,
    *,
    account_id: AccountId | None = None,
    owner: str | None = None,
    write: Callable[[str, Sequence[str]], Awaitable[object]],
) -> None:
    """Write an account's secret, or the secret of another `owner`.

    `write` receives the sealed secret and the keys that were in use. It raises KeysChanged if different keys are in use
    by then.
    """
    if owner is None:
        assert account_id is not None
        owner = owner_of_account(account_id)
    for _ in range(TRIES_MAX):
        in_use, by_others = await store.keys_in_use(account_id)
        sealed = vault.seal_for(owner, secret, key=vault.key_for(by_others))
        try:
            await write(sealed, in_use)
        except KeysChanged:
            continue
        return
    raise KeysChanged("Conflicting updates to the encryption key. Nothing was written. Try again.")


async def rotate(store: SecretStore, vault: Vault, *, drop_unreadable: bool = False) -> Rotation | None:
    """Seal everything with the next key in one commit. The next key replaces the old key only after this commit.

    Return None if there is no key and no secret yet.
    """
    ring = vault.keyring
    with ring.rotating():
        secrets = await store.secrets()
        if not secrets and ring.current() is None and not ring.is_rotating:
            return None
        if not drop_unreadable:
            _open(vault, secrets)  # report problems before anything is changed
        is_resumed = ring.is_rotating
        key = ring.next_key()
        before, after = await _reseal(store, vault, key, drop_unreadable=drop_unreadable)
        ring.promote()
    dropped = [each for each in before if after.get(each.owner, "") is None]
    return Rotation(
        key_id=key.id,
        resealed=len(after) - len(dropped),
        already=len(before) - len(after),
        dropped=tuple(each.name for each in dropped if each.is_of_account),
        dropped_keys=tuple(each.name for each in dropped if not (each.is_of_account or each.is_of_webhook)),
        dropped_webhooks=tuple(each.name for each in dropped if each.is_of_webhook),
        is_resumed=is_resumed,
    )


async def _reseal(
    store: SecretStore, vault: Vault, key: Key, *, drop_unreadable: bool
) -> tuple[Sequence[SealedSecret], Mapping[str, str | None]]:
    for _ in range(TRIES_MAX):
        before = await store.secrets()
        todo = [each for each in before if each.key_id != key.id]
        opened = (_open_readable if drop_unreadable else _open)(vault, todo)
        after = {
            owner: None if secret is None else vault.seal_for(owner, secret, key=key)
            for owner, secret in opened.items()
        }
        if await store.replace_secrets(before, after):
            return before, after
    raise VaultError(
        "Conflicting updates to passwords. The key was not changed.", next_step=Reason("step.rotate_secrets")
    )


def _open(vault: Vault, secrets: Sequence[SealedSecret]) -> dict[str, str | None]:
    return {each.owner: vault.open_secret(each) for each in secrets}


def _open_readable(vault: Vault, secrets: Sequence[SealedSecret]) -> dict[str, str | None]:
    """Open the secrets. A secret that no key can open becomes None. A key that exists but cannot be read is a different
    problem and stops the rotation.
    """
    opened: dict[str, str | None] = {}
    for each in secrets:
        try:
            opened |= _open(vault, [each])
        except Unopenable:
            opened[each.owner] = None
    return opened
