"""The product's own e-mails as a workspace sends them: in its own words where it has some, else in the operator's, else in ours.

The words of a workspace stand in the portal's layout and know the fields of the files, nothing else; they are checked before they are
kept, by the rules that files have. What was compiled is kept, and one look at the database tells with every e-mail whether it still is the newest.
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

KEPT_MAX = 512  # compiled e-mails of workspaces
KEPT_CHARS_MAX = 33_554_432  # of all of them: styles in the tags can make ten times of what was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """`warnings`: what works but should not stay, like a field that nothing prints."""

    is_new: bool
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """`problem`: why it is not used any more. The files have changed since it was written."""

    stored: StoredOverride
    problem: str | None


class WorkspacePortals:
    """For one event loop. Portals and types are those of the files; any other name raises NotFound."""

    def __init__(self, store: "Store", portals: Portals, *, kept: "Kept | None" = None) -> None:
        """`kept`: compiled templates that others of this process have, too."""
        self.portals = portals
        self._store = store
        self._kept = Kept() if kept is None else kept  # an empty one is false

    # ── a workspace's own words ───────────────────────────────────────────────────────────────────────────

    async def put_override(
        self, workspace: str, portal: str, mail_type: str, words: Words, *, by: str | None = None
    ) -> Saved:
        """Raises BrokenTemplates with every place that is wrong, and then nothing was changed."""
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
        """As it would be in these words, of which nothing is kept. Raises BrokenTemplates."""
        return (await asyncio.to_thread(self._reworded, workspace, portal, mail_type, words))[0]

    async def remove_override(self, workspace: str, portal: str, mail_type: str) -> bool:
        """False: there was none. One that the files have no type for any more can be removed, too."""
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
        """Those in use, as they were written: where somebody begins who wants others."""
        return (await self.template(workspace, portal, mail_type)).words

    async def template(self, workspace: str, portal: str, mail_type: str) -> PortalTemplate:
        """Words of the workspace that the files do not bear any more are passed over: a code that goes out in other words is
        better than none. `overrides` tells of them."""
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
        """Raises NotFound and Unrenderable."""
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
    ) -> int:
        """Queues one: its id. What is urgent goes first; what is worthless after a while is not sent any more then."""
        template = await self.template(workspace, portal, mail_type)
        said = template.render(values)
        email: dict[str, Any] = {"to": to, "subject": said.subject, "pool": pool, "workspace": workspace}
        email |= {part: words for part, words in (("text", said.text), ("html", said.html)) if words is not None}
        email["class"] = "urgent" if template.is_urgent else "bulk"
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
    """`template`: None where the words cannot be used, which is worth knowing, too."""

    revision: int
    template: PortalTemplate | None

    @property
    def chars(self) -> int:
        return self.template.compiled.chars if self.template else 0


class Kept:
    """The last ones used, so many and so long."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str, str], _Compiled] = OrderedDict()
        self.chars = 0  # of all that is kept

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
