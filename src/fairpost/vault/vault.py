"""Seal and open secrets with AES-256-GCM. Each secret is bound to its account, DKIM key or webhook.

A sealed secret is `v1:<key id>:<base64 of nonce and ciphertext>`. If a secret cannot be opened, VaultError is raised.
Only the operator can fix this problem; there may be nothing wrong with the account or its server.
"""

import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Collection

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairpost.model.errors import VaultError
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.transport import SealedSecret, owner_of_account
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import Key

NONCE_BYTES = 12
VERSION = "v1"


class Unopenable(VaultError):
    """A secret that no available key can open."""


DROP = Reason("step.drop_unreadable")


class Vault:
    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring

    def seal(self, secret: str, *, account_id: AccountId, key: Key) -> str:
        return self.seal_for(owner_of_account(account_id), secret, key=key)

    def seal_for(self, owner: str, secret: str, *, key: Key) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(key.material).encrypt(nonce, secret.encode(), _bound_to(owner))
        return f"{VERSION}:{key.id}:{b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, *, account_id: AccountId, name: str) -> str:
        """Open an account's secret. `name` is the account name, for messages. Raises Unopenable."""
        return self.open_secret(SealedSecret(owner=owner_of_account(account_id), name=name, sealed=sealed))

    def open_secret(self, secret: SealedSecret) -> str:
        """Open a secret. Raises Unopenable."""
        key_id, data = _parts(secret)
        key = self.keyring.find(key_id)
        if key is None:
            raise Unopenable(
                f"{_called(secret)} is encrypted with key {key_id}, which is missing here. {self._what_is_here()}",
                next_step=DROP,
            )
        try:
            return (
                AESGCM(key.material).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(secret.owner)).decode()
            )
        except InvalidTag:
            raise Unopenable(
                f"{_called(secret)} is damaged or was stored for another account: key {key_id} is the right key but cannot decrypt it.",
                next_step=_give_again(secret),
            ) from None

    def key_for(self, in_use: Collection[str]) -> Key:
        """Return the key to seal with while these keys are in use. A single key seals all secrets, so either all or
        none of them can be opened.
        """
        missing = sorted(key_id for key_id in in_use if self.keyring.find(key_id) is None)
        if missing:
            raise VaultError(
                f"This database's secrets are encrypted with key {', '.join(missing)}, which is missing here. "
                f"No second key was created. {self._what_is_here()}",
                next_step=DROP,
            )
        current = self.keyring.current()
        if in_use and (current is None or current.id not in in_use):
            return next(key for key in self.keyring.at_hand() if key.id in in_use)
        return current or self.keyring.make_current()

    def _what_is_here(self) -> str:
        here = sorted({key.id for key in self.keyring.at_hand()})
        have = f"Available here: {', '.join(here)}." if here else "There is no key here."
        return (
            f"{have} Put the right key in FAIRPOST_SECRET_KEY or {self.keyring.file}, from a backup or another machine."
        )


def _bound_to(owner: str) -> bytes:
    return f"fairpost {owner}".encode()


def _parts(secret: SealedSecret) -> tuple[str, bytes]:
    version, _, rest = secret.sealed.partition(":")
    key_id, _, text = rest.partition(":")
    try:
        data = b64decode(text, validate=True)
    except (NotBase64, ValueError):
        data = b""
    if version != VERSION or not key_id.isalnum() or len(data) < NONCE_BYTES:
        raise Unopenable(
            f"{_called(secret)} is damaged or has a format that this version of Fairpost does not support.",
            next_step=_give_again(secret),
        )
    return key_id, data


def _called(secret: SealedSecret) -> str:
    if secret.is_of_webhook:
        return f"The secret for webhook {secret.name}"
    return f'The password for account "{secret.name}"' if secret.is_of_account else f"The DKIM key {secret.name}"


def _give_again(secret: SealedSecret) -> Reason:
    if secret.is_of_webhook:
        return Reason("step.rotate_webhook")
    if secret.is_of_account:
        return Reason("step.set_password", account=secret.name)
    return Reason("step.add_dkim_key")
