"""One of the product's own e-mails, ready to be filled in: of a portal (hub, org, …) and a type (welcome, tfa, …).

How it is made of files or of words is in building.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fairpost.portals.declared import Field, Meta, Portal, taken
from fairpost.templates.rendering import Compiled, MissingFields, Rendered, Unrenderable


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What an e-mail says, without the layout around it. `preheader`: None is that of the files."""

    subject: str
    text: str
    html: str
    preheader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is around every e-mail of a portal: its layouts, filled in but for their slots."""

    portal: Portal
    text: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalTemplate:
    """`where`: the folder it was read from, or who else has written it."""

    portal: Portal
    type: str
    where: str
    meta: Meta
    words: Words
    compiled: Compiled
    constants: Mapping[str, Any]  # what the portal adds to the fields

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
        """Raises Unrenderable: a field is missing, unknown, or does not fit its kind."""
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
