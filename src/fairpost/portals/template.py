"""One of the product's own e-mails, ready to render. Each e-mail has a portal (hub, org, …) and a type (welcome, tfa,
…).

building.py builds it from files or custom content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fairpost.portals.declared import Meta, Portal
from fairpost.portals.values import Field, taken
from fairpost.templates.rendering import Compiled, MissingFields, Rendered, Unrenderable


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The content of an e-mail, without the layout. If `preheader` is None, the one in the files is used."""

    subject: str
    text: str
    html: str
    preheader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The frame around every e-mail of a portal: its layouts, filled in except for their slots."""

    portal: Portal
    text: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalTemplate:
    """An e-mail ready to render.

    `where` is the folder that the e-mail was read from, or the workspace that wrote it.
    """

    portal: Portal
    type: str
    where: str
    meta: Meta
    words: Words
    compiled: Compiled
    constants: Mapping[str, Any]  # values of the portal, which are available in addition to the fields

    @property
    def email_type(self) -> str:
        """The type of its e-mails, such as `hub_forgot_password`."""
        return f"{self.portal.key}_{self.type}"

    @property
    def envelope(self) -> dict[str, Any]:
        """The headers of its e-mails, which contain the sender's name and mark the e-mails as automatic."""
        return {
            "from": {"name": self.portal.sender_name},
            "headers": {"Auto-Submitted": "auto-generated"},  # prevents out-of-office replies
            "class": "urgent" if self.is_urgent else "bulk",
            "type": self.email_type,
        }

    @property
    def fields(self) -> Mapping[str, Field]:
        return self.meta.fields

    @property
    def is_urgent(self) -> bool:
        return self.meta.is_urgent

    @property
    def expires_after(self) -> timedelta | None:
        return self.meta.expires_after

    @property
    def sample(self) -> dict[str, str | int]:
        return self.meta.sample

    def render(self, fields: Mapping[str, object]) -> Rendered:
        """Renders the e-mail. Raises Unrenderable if a field is missing or unknown, or does not fit its kind."""
        declared = self.meta.fields
        if unknown := fields.keys() - declared.keys():
            raise Unrenderable(
                f"{self.portal.key}/{self.type} has no field {', '.join(sorted(map(str, unknown)))}:"
                f" it has {', '.join(declared) or 'none'}"
            )
        values: dict[str, Any] = {name: taken(declared[name], value) for name, value in fields.items()}
        missing = [name for name, field in declared.items() if field.is_required and values.get(name) is None]
        if missing:
            raise MissingFields(tuple(missing))
        return self.compiled.render({**values, **self.constants})
