"""Keys that sign a domain's mail, and the DNS record in which receivers find the public key."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

LOCKED_FOR = timedelta(minutes=10)  # how long a failed attempt locks a key; waiting e-mails cause more attempts


class Algorithm(StrEnum):
    """Algorithm names as in the tags `a=` and `k=`, without the hash.

    Few receivers check Ed25519 signatures yet, so it is only used in addition to RSA.
    """

    RSA = "rsa"
    ED25519 = "ed25519"


class KeyState(StrEnum):
    PENDING = "pending"  # the key's record has not been found yet, so the key signs nothing
    ACTIVE = "active"
    RETIRED = "retired"  # no longer signs; its record remains until mail in transit has arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class DkimKey:
    """A key without its secret."""

    id: int
    domain: str  # in ASCII form
    selector: str
    algorithm: Algorithm
    public: str
    created_at: datetime
    checked_at: datetime | None = None
    active_at: datetime | None = None
    retired_at: datetime | None = None
    locked_at: datetime | None = None  # when an engine last failed to open it

    def is_locked(self, now: datetime) -> bool:
        return self.retired_at is None and self.locked_at is not None and now - self.locked_at < LOCKED_FOR

    @property
    def state(self) -> KeyState:
        if self.retired_at is not None:
            return KeyState.RETIRED
        return KeyState.PENDING if self.active_at is None else KeyState.ACTIVE

    @property
    def record_name(self) -> str:
        return f"{self.selector}._domainkey.{self.domain}"

    @property
    def record_value(self) -> str:
        return f"v=DKIM1; k={self.algorithm}; p={self.public}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedKey:
    """An active key that an engine cannot open, because the vault key that seals it is missing or different on the
    engine's machine.
    """

    workspace: str
    domain: str
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKey:
    """An active key, as attached to an e-mail for the signer."""

    id: int
    domain: str
    selector: str
    algorithm: Algorithm
    sealed: str = field(repr=False)

    @property
    def owner(self) -> str:
        """The name that binds the secret to this key."""
        return f"dkim {self.id}"
