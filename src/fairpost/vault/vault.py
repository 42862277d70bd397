"""Seals secrets and opens them again: AES-256-GCM, each bound to its account.

A sealed secret is `v1:<key id>:<base64 of nonce and ciphertext>`. What cannot be opened is an operator's matter,
a VaultError, and says nothing about the account or its server.
"""

import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Collection

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairpost.model.errors import VaultError
from fairpost.model.ids import AccountId
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import Key

NONCE_BYTES = 12
VERSION = "v1"


class Unopenable(VaultError):
    """A secret that no key at hand opens."""


DROP = "If it is lost for good: fairpost secrets rotate --drop-unreadable"


class Vault:
    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring

    def seal(self, secret: str, *, account_id: AccountId, key: Key) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(key.material).encrypt(nonce, secret.encode(), _bound_to(account_id))
        return f"{VERSION}:{key.id}:{b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, *, account_id: AccountId, name: str) -> str:
        """`name`: the account's, for messages. Raises Unopenable."""
        key_id, data = _parts(sealed, name)
        key = self.keyring.find(key_id)
        if key is None:
            raise Unopenable(
                f'The password of the account "{name}" is sealed with the key {key_id}, which is not here. '
                f"{self._what_is_here()}",
                then=DROP,
            )
        try:
            return AESGCM(key.material).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(account_id)).decode()
        except InvalidTag:
            raise Unopenable(
                f'The stored password of the account "{name}" is damaged, or another account\'s: the key {key_id} is the '
                f"right one, and does not open it.",
                then=_give_again(name),
            ) from None

    def key_for(self, in_use: Collection[str]) -> Key:
        """The key to seal with where these are in use: one key seals everything, so that nothing depends on luck."""
        missing = sorted(key_id for key_id in in_use if self.keyring.find(key_id) is None)
        if missing:
            raise VaultError(
                f"The secrets of this database are sealed with the key {', '.join(missing)}, which is not here: "
                f"a second key would not be found by everybody. {self._what_is_here()}",
                then=DROP,
            )
        current = self.keyring.current()
        if in_use and (current is None or current.id not in in_use):
            return next(key for key in self.keyring.at_hand() if key.id in in_use)
        return current or self.keyring.make_current()

    def _what_is_here(self) -> str:
        here = sorted({key.id for key in self.keyring.at_hand()})
        have = f"Here is only {', '.join(here)}." if here else "Here is no key at all."
        return (
            f"{have} Put the right one into FAIRPOST_SECRET_KEY or {self.keyring.file} (from a backup, or another "
            "machine)."
        )


def _bound_to(account_id: AccountId) -> bytes:
    return f"fairpost account {account_id}".encode()


def _parts(sealed: str, name: str) -> tuple[str, bytes]:
    version, _, rest = sealed.partition(":")
    key_id, _, text = rest.partition(":")
    try:
        data = b64decode(text, validate=True)
    except (NotBase64, ValueError):
        data = b""
    if version != VERSION or not key_id.isalnum() or len(data) < NONCE_BYTES:
        raise Unopenable(
            f'The stored password of the account "{name}" is damaged, or in a form that this Fairpost does not know.',
            then=_give_again(name),
        )
    return key_id, data


def _give_again(name: str) -> str:
    return f"Give it again: fairpost account set {name} --ask-password"
