"""Selects and opens the keys that sign an e-mail, for transports whose provider does not sign. A key signs mail with a
From address in its domain or a subdomain, which DMARC treats as aligned. If a key cannot be opened (Locked), the
operator must act. Until then, the mail waits, because unsigned mail would look forged.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

from fairpost.compose.dkim import SigningKey
from fairpost.compose.domains import ascii_domain
from fairpost.model.dkim import LockedKey, SealedKey
from fairpost.model.errors import FairpostError, VaultError
from fairpost.model.transport import SealedSecret
from fairpost.vault.dkim import read_private_key

if TYPE_CHECKING:
    from fairpost.model.email import Mailbox, Outgoing
    from fairpost.vault.vault import Vault

OPENED_MAX = 256


class Locked(FairpostError):
    def __init__(self, key: LockedKey, why: VaultError) -> None:
        super().__init__(str(why), next_step=why.next_step)
        self.key = key


class Signer:
    def __init__(self, vault: "Vault") -> None:
        self._vault = vault
        self._opened: OrderedDict[int, SigningKey] = OrderedDict()

    def keys_for(self, email: "Outgoing", sender: "Mailbox") -> tuple[SigningKey, ...]:
        """Returns the keys that sign this e-mail, ready for use. Raises Locked if one of the keys cannot be opened."""
        if not email.signing:
            return ()
        return tuple([self._opened_for(email, key) for key in keys_of(sender.address, email.signing)])

    def _opened_for(self, email: "Outgoing", key: SealedKey) -> SigningKey:
        try:
            return self._open(key)
        except VaultError as error:
            about = LockedKey(workspace=email.workspace, domain=key.domain, selector=key.selector)
            raise Locked(about, error) from error

    def _open(self, key: SealedKey) -> SigningKey:
        found = self._opened.get(key.id)
        if found is None:
            name = f"{key.selector}._domainkey.{key.domain}"
            text = self._vault.open_secret(SealedSecret(owner=key.owner, name=name, sealed=key.sealed))
            found = SigningKey(
                domain=key.domain, selector=key.selector, algorithm=key.algorithm, private=read_private_key(text)
            )
            while len(self._opened) >= OPENED_MAX:
                self._opened.popitem(last=False)
            self._opened[key.id] = found
        return found


def keys_of(address: str, keys: tuple[SealedKey, ...]) -> tuple[SealedKey, ...]:
    """Returns the keys for the domain of the address, or for the nearest parent domain that has any."""
    domain = _domain(address)
    above = [key for key in keys if domain == key.domain or domain.endswith("." + key.domain)]
    nearest = max((len(key.domain) for key in above), default=0)
    return tuple(key for key in above if len(key.domain) == nearest)


def _domain(address: str) -> str:
    try:
        return ascii_domain(address.rpartition("@")[2]).lower()
    except ValueError:
        return ""
