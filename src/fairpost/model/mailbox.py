"""Addresses with display names, and the headers that contain them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    address: str
    name: str | None = None

    def __str__(self) -> str:
        """Return the form that `reply_to` accepts."""
        if self.name is None:
            return self.address
        escaped = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}" <{self.address}>'


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFields:
    """The headers and Reply-To that a template or a campaign adds to its e-mails."""

    headers: Mapping[str, str] = field(default_factory=dict)
    reply_to: Mailbox | None = None

    def over(self, other: "HeaderFields") -> "HeaderFields":
        """Combine these values with those of `other`.

        If both define a value, this object's value takes precedence. The case of header names is ignored.
        """
        own = {name.lower() for name in self.headers}
        kept = {name: value for name, value in other.headers.items() if name.lower() not in own}
        return HeaderFields(headers={**kept, **self.headers}, reply_to=self.reply_to or other.reply_to)
