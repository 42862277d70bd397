"""Unsubscribe links for recipients of campaign mail.

A link names a region, a workspace and a recipient, but never an address. The link is signed with a key derived from the
database's own key, so it can be neither guessed nor forged for another recipient.
"""

import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256

PATH = "/u"
MAC_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """The recipient that a link refers to, identified by the prospect's public ID."""

    region: str
    workspace: str
    recipient: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeLinks:
    """The links of one database. `base` is the public URL of `fairpost api`; `database_key` is the key used for its
    public IDs.
    """

    base: str
    region: str
    database_key: bytes = field(repr=False)

    def url(self, workspace: str, recipient: str) -> str:
        subscriber = Subscriber(region=self.region, workspace=workspace, recipient=recipient)
        path = f"{PATH}/{self.region}/{workspace}/{recipient}/{mac_of(subscriber, self.database_key)}"
        return self.base.rstrip("/") + path


def mac_of(subscriber: Subscriber, database_key: bytes) -> str:
    key = sha256(b"unsubscribe link\0" + database_key).digest()
    named = "\0".join([subscriber.region, subscriber.workspace, subscriber.recipient]).encode("utf-8", "replace")
    mac = hmac.digest(key, named, "sha256")[:MAC_BYTES]
    return urlsafe_b64encode(mac).decode("ascii").rstrip("=")


def is_genuine(subscriber: Subscriber, mac: str, database_key: bytes) -> bool:
    return hmac.compare_digest(mac_of(subscriber, database_key).encode(), mac.encode("utf-8", "replace"))


def base_of(public_url: str) -> str | None:
    """Return the URL that the links start with. Return None if the URL is not https, because receivers would not follow
    the links.
    """
    return public_url if public_url.startswith("https://") else None
