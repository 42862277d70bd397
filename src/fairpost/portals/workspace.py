"""The product's own e-mails as a workspace sends them, with its own content or, if it has none, with the operator's or
Fairpost's content.

A workspace's content is inserted into the portal's layout and can use only the fields that the files declare. Before it
is stored, this content is checked by the same rules as the files. Compiled versions are cached, and one lookup per
e-mail checks that they are current.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairpost.model.errors import FairpostError, NotFound
from fairpost.portals.folder import NAME, BrokenTemplates, Problem
from fairpost.portals.loading import Portals
from fairpost.portals.template import PortalTemplate, Words
from fairpost.store import portal_overrides
from fairpost.store.portal_overrides import StoredOverride, StoredWords
from fairpost.templates.rendering import Rendered

if TYPE_CHECKING:
    from fairpost.store.store import Store

KEPT_MAX = 512  # maximum number of compiled workspace templates
KEPT_CHARS_MAX = 33_554_432  # in all of these templates, because inlined styles can make a source ten times longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The result of saving. `warnings` are problems that do not prevent sending, such as an unused field."""

    is_new: bool
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An override. `problem` explains why the override is no longer used, if the files have changed since it was
    stored.
    """

    stored: StoredOverride
    problem: str | None


class WorkspacePortals:
    """The portals with the workspaces' own content, for one event loop.

    Raises NotFound for names that are not in the files.
    """

    def __init__(self, store: "Store", portals: Portals, *, kept: "Kept | None" = None) -> None:
        """Creates the portals. `kept` is a cache of compiled templates to share within this process."""
        self.portals = portals
        self._store = store
        self._kept = Kept() if kept is None else kept  # an empty cache is falsy

    # ── a workspace's own content ─────────────────────────────────────────────────────────────────────────

    async def put_override(
        self, workspace: str, portal: str, mail_type: str, words: Words, *, by: str | None = None
    ) -> Saved:
        """Stores an override. Raises BrokenTemplates with every problem, in which case nothing changes."""
        template, warnings = await asyncio.to_thread(self._reworded, workspace, portal, mail_type, words)
        is_new = await portal_overrides.put_row(
            self._store,
            workspace,
            portal,
            mail_type,
            subject=template.words.subject,
            preheader=template.words.preheader,
            text=template.words.text,
            html=template.words.html,
            by=by,
        )
        return Saved(is_new=is_new, warnings=tuple(warnings))

    async def reworded(self, workspace: str, portal: str, mail_type: str, words: Words) -> PortalTemplate:
        """Returns the e-mail with this content, without storing it. Raises BrokenTemplates."""
        return (await asyncio.to_thread(self._reworded, workspace, portal, mail_type, words))[0]

    async def remove_override(self, workspace: str, portal: str, mail_type: str) -> bool:
        """Removes an override. Returns False if there was no override.

        Overrides of types that no longer exist in the files can be removed, too.
        """
        if not (NAME.fullmatch(portal) and NAME.fullmatch(mail_type)):
            self.portals.get(portal, mail_type)  # raises NotFound
        is_removed = await portal_overrides.remove_row(self._store, workspace, portal, mail_type)
        if not is_removed:
            self.portals.get(portal, mail_type)
        return is_removed

    async def overrides(self, workspace: str) -> list[Override]:
        return [
            Override(stored=row, problem=await asyncio.to_thread(self._problem, row))
            for row in await portal_overrides.rows(self._store, workspace)
        ]

    # ── e-mails ───────────────────────────────────────────────────────────────────────────────────────────

    async def words(self, workspace: str, portal: str, mail_type: str) -> Words:
        """Returns the content in use, as written, as a starting point for a custom version."""
        return (await self.template(workspace, portal, mail_type)).words

    async def template(self, workspace: str, portal: str, mail_type: str) -> PortalTemplate:
        """Returns the template to send. If the workspace's content no longer matches the files, that content is
        ignored.

        Sending a code with the default content is better than sending none. `overrides` lists content that is ignored.
        """
        of_files = self.portals.get(portal, mail_type)
        key = workspace, portal, mail_type
        kept = self._kept.get(key)
        found = await portal_overrides.newest(self._store, *key, known=kept.revision if kept else None)
        if found is None:
            self._kept.forget(key)
            return of_files
        if found.words is not None:
            template = await asyncio.to_thread(self._usable, *key, found.words)
            kept = self._kept.put(key, _Compiled(found.revision, template))
        return (kept and kept.template) or of_files

    async def portal_email(self, workspace: str, portal: str, mail_type: str, values: Mapping[str, object]) -> Rendered:
        """Renders an e-mail. Raises NotFound or Unrenderable."""
        return (await self.template(workspace, portal, mail_type)).render(values)

    async def send(
        self,
        workspace: str,
        portal: str,
        mail_type: str,
        values: Mapping[str, object],
        *,
        to: str,
        pool: str = "default",
        tags: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Queues one e-mail and returns its ID. Urgent e-mails are sent first, and expired ones are not sent."""
        template = await self.template(workspace, portal, mail_type)
        said = template.render(values)
        email: dict[str, Any] = {"to": to, "subject": said.subject, "pool": pool, "workspace": workspace}
        parts = {"text": said.text, "html": said.html, "tags": tags, "metadata": metadata}
        email |= {name: part for name, part in parts.items() if part is not None}
        email |= template.envelope
        if template.expires_after is not None:
            email["expires_at"] = (await self._store.now() + template.expires_after).isoformat()
        (row,) = await self._store.enqueue_many([email])
        if row["error"] is not None:
            raise FairpostError(json.loads(row["error"])["message"])
        return int(row["id"])

    # ── compiling ─────────────────────────────────────────────────────────────────────────────────────────

    def _reworded(
        self, workspace: str, portal: str, mail_type: str, words: Words | StoredWords
    ) -> tuple[PortalTemplate, Sequence[Problem]]:
        given = Words(subject=words.subject, preheader=words.preheader, text=words.text, html=words.html)
        return self.portals.reworded(portal, mail_type, given, where=f"workspace {workspace}")

    def _usable(self, workspace: str, portal: str, mail_type: str, words: StoredWords) -> PortalTemplate | None:
        try:
            return self._reworded(workspace, portal, mail_type, words)[0]
        except BrokenTemplates:
            return None

    def _problem(self, override: StoredOverride) -> str | None:
        try:
            self._reworded(override.workspace, override.portal, override.type, override)
        except BrokenTemplates as broken:
            return str(broken.problems[0])
        except NotFound as error:
            return str(error)
        return None


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A compiled override. `template` is None if the content cannot be used; this result is cached too."""

    revision: int
    template: PortalTemplate | None

    @property
    def chars(self) -> int:
        return self.template.compiled.chars if self.template else 0


class Kept:
    """A cache of the most recently used entries, limited in number and size."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str, str], _Compiled] = OrderedDict()
        self.chars = 0  # the total size of all entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: tuple[str, str, str]) -> _Compiled | None:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: tuple[str, str, str], compiled: _Compiled) -> _Compiled:
        self.forget(key)
        self._entries[key] = compiled
        self.chars += compiled.chars
        while len(self._entries) > KEPT_MAX or self.chars > KEPT_CHARS_MAX:
            self.forget(next(iter(self._entries)))
        return compiled

    def forget(self, key: tuple[str, str, str]) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self.chars -= entry.chars
