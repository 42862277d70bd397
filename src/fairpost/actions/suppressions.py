"""Actions on the suppression list: add or remove an address, import a list, and set the limit for soft bounces."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import Refusal
from fairpost.model.suppression import EVERYBODY, BadLine, Entry, Imported, Suppression, SuppressionKind
from fairpost.store import suppressions
from fairpost.store.store import Store
from fairpost.store.suppressions import BadList
from fairpost.system import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppress:
    """A request to suppress an address. `workspace` is EVERYBODY for all workspaces."""

    workspace: str
    address: str
    reason: str
    kind: SuppressionKind = SuppressionKind.MANUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSuppression:
    workspace: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSuppressions:
    """A request to import a list. `lines` is iterated over only once. `kind` and `reason` apply to lines that do not
    specify one."""

    lines: Iterable[Entry | BadLine]
    kind: SuppressionKind
    reason: str
    skip_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSoftBounces:
    """The number of consecutive soft bounces after which an address is suppressed; 0 means never."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    suppression: Suppression
    is_new: bool


@action("suppression.add")
async def add(actor: Actor, request: Suppress, store: Store) -> Suppressed:
    """Suppresses an address. E-mails that are already queued for this address are not sent either."""
    address = await store.parse_address(request.address)
    if address is None:
        raise Refusal("address.invalid", address=request.address)
    is_new = await suppressions.suppress(
        store, request.workspace, address, reason=request.reason, kind=request.kind, now=clock.stated()
    )
    about = {"kind": request.kind, "reason": request.reason, "is_new": is_new}
    await actor.record(store, "suppression.add", f"address {address}", workspace=_audited(request.workspace), **about)
    found, _ = await suppressions.known_of(store, address)
    ours = min(found, key=lambda each: each.workspace != request.workspace)
    return Suppressed(suppression=ours, is_new=is_new)


@action("suppression.remove")
async def remove(actor: Actor, request: RemoveSuppression, store: Store) -> None:
    address = await store.parse_address(request.address)
    if address is None or not await suppressions.unsuppress(store, request.workspace, address):
        if request.workspace == EVERYBODY:
            raise Refusal("suppression.unknown_everywhere", address=request.address)
        raise Refusal("suppression.unknown", address=request.address, workspace=request.workspace)
    await actor.record(store, "suppression.remove", f"address {address}", workspace=_audited(request.workspace))


@action("suppression.import")
async def import_(actor: Actor, request: ImportSuppressions, store: Store) -> Imported:
    """Imports all lines, or none if there is an error. A separate audit entry is written for each workspace in the
    list.
    """
    counted: Counter[str] = Counter()
    lines = _counting(request.lines, counted)
    try:
        async with store.connection() as conn:
            imported = await suppressions.import_list(conn, lines, skip_bad=request.skip_bad, now=clock.stated())
    except BadList as error:
        bad = error.imported
        raise Refusal(
            "suppression.bad_lines",
            count=bad.bad,
            mistakes=[{"line": each.line, "message": each.why} for each in bad.bad_lines],
        ) from None
    about = {"kind": request.kind, "reason": request.reason}
    for workspace, count in sorted(counted.items()):
        await actor.record(store, "suppression.import", f"{count:,} addresses", workspace=_audited(workspace), **about)
    return imported


@action("suppression.soft_bounces")
async def set_soft_bounces(actor: Actor, request: SetSoftBounces, store: Store) -> int:
    """Sets the limit for all workspaces and returns it."""
    if await suppressions.set_soft_bounces_max(store, request.most):
        await actor.record(store, "suppression.soft_bounces", "soft bounces", workspace=None, max=request.most)
    return await suppressions.soft_bounces_max(store)


def _counting(lines: Iterable[Entry | BadLine], counted: Counter[str]) -> Iterator[Entry | BadLine]:
    for each in lines:
        if isinstance(each, Entry):
            counted[each.workspace] += 1
        yield each


def _audited(workspace: str) -> str | None:
    """Returns the workspace for the audit entry. Entries that apply to all workspaces belong to the installation."""
    return None if workspace == EVERYBODY else workspace
