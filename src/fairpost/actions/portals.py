"""Actions on the product's system e-mails: override the content for a workspace, and reset the content to the built-in
files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairpost.actions.acting import Actor, action
from fairpost.auth.mails import ADMIN_PORTAL
from fairpost.model.errors import NotFound, Refusal
from fairpost.portals.folder import BrokenTemplates
from fairpost.portals.loading import Portals
from fairpost.portals.template import Words
from fairpost.portals.workspace import Kept, Saved, WorkspacePortals
from fairpost.store.store import Store

MISTAKES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPortal:
    """A system e-mail, by name. `portals` holds the built-in files, and `kept` holds the templates that this process
    has compiled.
    """

    workspace: str
    portal: str
    type: str
    portals: Portals
    kept: Kept | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverridePortal(NamedPortal):
    """A request to override a system e-mail.

    `parts` are `subject`, `preheader`, `text` and `html`. Omitted parts keep their current content.
    """

    parts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    words: Words
    saved: Saved


@action("portal.override")
async def override(actor: Actor, request: OverridePortal, store: Store) -> Overridden:
    desk, name = _desk(actor, request, store), (request.workspace, request.portal, request.type)
    try:
        words = replace(await desk.words(*name), **request.parts)
        saved = await desk.put_override(*name, words, by=actor.who)
        await _record(actor, store, "portal.override", request)
        return Overridden(words=await desk.words(*name), saved=saved)
    except BrokenTemplates as error:
        raise broken(error) from None
    except NotFound:
        raise _unknown(request) from None


@action("portal.reset")
async def reset(actor: Actor, request: NamedPortal, store: Store) -> bool:
    """Resets the content to the built-in files. Returns False if the workspace had not overridden the content."""
    try:
        is_reset = await _desk(actor, request, store).remove_override(request.workspace, request.portal, request.type)
    except NotFound:
        raise _unknown(request) from None
    if is_reset:
        await _record(actor, store, "portal.reset", request)
    return is_reset


def broken(error: BrokenTemplates, place: str = "") -> Refusal:
    """Returns a refusal that lists the mistakes in the templates. `place` is the prefix for field names."""
    mistakes: list[dict[str, Any]] = [
        {"field": f"{place}{each.file}", "message": each.message, "line": each.line, "column": each.column}
        for each in error.problems[:MISTAKES_MAX]
    ]
    return Refusal("portal.broken", count=len(error.problems), mistakes=mistakes)


def _desk(actor: Actor, request: NamedPortal, store: Store) -> WorkspacePortals:
    """Returns the workspace's portals. Other workspaces cannot use the operator's own portal, because its e-mails are
    sent in the operator's name.
    """
    if request.portal == ADMIN_PORTAL and not actor.is_operator:
        raise _unknown(request)
    return WorkspacePortals(store, request.portals, kept=request.kept)


def _unknown(request: NamedPortal) -> Refusal:
    return Refusal("portal.unknown", portal=request.portal[:100], type=request.type[:100])


async def _record(actor: Actor, store: Store, action: str, request: NamedPortal) -> None:
    await actor.record(store, action, f"{request.portal}/{request.type}", workspace=request.workspace)
