"""Actions on prospects and their lists: import or remove a list; change, pause, resume or remove a prospect."""

from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass, field

import asyncpg

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.prospect import BadProspectLine, ImportedProspects, Prospect, ProspectLine
from fairpost.policy.windows import is_zone
from fairpost.store import prospects
from fairpost.store.prospects import FIELDS_BYTES_MAX, BadProspects, ListInUse, TooManyFields
from fairpost.store.store import Store
from fairpost.system import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProspects:
    """A request to import prospects. `lines` is iterated over only once."""

    workspace: str
    list_name: str
    lines: Iterable[ProspectLine | BadProspectLine] | AsyncIterable[ProspectLine | BadProspectLine]
    skip_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveList:
    workspace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProspect:
    workspace: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProspect(NamedProspect):
    """A request to change a prospect. Omitted values stay the same.

    None in `fields` removes a field. `columns` are `timezone` and `external_id`.
    """

    is_paused: bool | None = None
    fields: Mapping[str, str | None] = field(default_factory=dict)
    columns: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def changed(self) -> list[str]:
        given = {"is_paused": self.is_paused is not None, "fields": bool(self.fields)}
        return sorted([name for name, is_given in given.items() if is_given] + list(self.columns))


@action("prospects.import")
async def import_(actor: Actor, request: ImportProspects, store: Store) -> ImportedProspects:
    """Imports all the prospects into a list, or none of them if there is an error. Creates the list if necessary."""
    try:
        async with store.connection() as conn:
            imported = await prospects.import_prospects(
                conn,
                request.lines,
                workspace=request.workspace,
                list_name=request.list_name,
                skip_bad=request.skip_bad,
                now=clock.stated(),
            )
    except BadProspects as error:
        bad = error.imported
        raise Refusal(
            "prospects.bad_lines",
            count=bad.bad,
            mistakes=[{"line": each.line, "message": each.why, "text": each.text} for each in bad.bad_lines],
        ) from None
    counts = {name: getattr(imported, name) for name in ("added", "changed", "same", "duplicates", "bad")}
    await actor.record(store, "prospects.import", f"list {request.list_name}", workspace=request.workspace, **counts)
    return imported


@action("list.remove")
async def remove_list(actor: Actor, request: RemoveList, store: Store) -> None:
    """Removes a list. The list's prospects are kept."""
    about = {"name": request.name, "workspace": request.workspace}
    try:
        if not await prospects.remove_list(store, request.workspace, request.name):
            raise Refusal("list.unknown", **about)
    except ListInUse as error:
        raise Refusal("list.in_use", campaigns=error.campaigns, **about) from None
    await actor.record(store, "list.remove", f"list {request.name}", workspace=request.workspace)


@action("prospect.change")
async def change(actor: Actor, request: ChangeProspect, store: Store) -> Prospect:
    _require_good(request.columns)
    before = await _prospect(store, request)
    try:
        if request.fields or request.columns:
            await prospects.change(store, before, fields=request.fields, **request.columns)
    except asyncpg.UniqueViolationError:
        raise Refusal("prospect.id_taken", external_id=request.columns["external_id"]) from None
    except TooManyFields:
        raise Refusal("prospect.too_many_fields", most=FIELDS_BYTES_MAX) from None
    if request.is_paused is not None:
        await prospects.pause(store, before, is_paused=request.is_paused)
    if request.changed:
        await _record(actor, store, "prospect.change", before, changed=request.changed, is_paused=request.is_paused)
    return await _prospect(store, request)


@action("prospect.remove")
async def remove(actor: Actor, request: NamedProspect, store: Store) -> None:
    """Removes a prospect from all lists permanently. Queued e-mails are cancelled; sent ones stay in history."""
    prospect = await _prospect(store, request)
    await prospects.remove(store, [prospect])
    await _record(actor, store, "prospect.remove", prospect)


def _require_good(columns: Mapping[str, str | None]) -> None:
    timezone, external_id = columns.get("timezone"), columns.get("external_id")
    if timezone and not is_zone(timezone):
        raise Refusal("prospect.bad_timezone", timezone=timezone)
    if external_id and (":" in external_id or not external_id.isprintable()):
        raise Refusal("prospect.bad_id")


async def _prospect(store: Store, request: NamedProspect) -> Prospect:
    try:
        return await prospects.known_by(store, request.workspace, request.address)
    except NotFound:
        raise Refusal("prospect.unknown", address=request.address, workspace=request.workspace) from None


async def _record(actor: Actor, store: Store, action: str, prospect: Prospect, **detail: object) -> None:
    await actor.record(store, action, f"prospect {prospect.address}", workspace=prospect.workspace, **detail)
