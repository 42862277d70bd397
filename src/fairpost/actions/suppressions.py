"""What people decide about the suppression list: an address added or removed, a list imported, the limit for soft bounces."""

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
    """`workspace`: EVERYBODY for all of them."""

    workspace: str
    address: str
    reason: str
    kind: SuppressionKind = SuppressionKind.MANUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsuppress:
    workspace: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSuppressions:
    """`lines` are read once. `kind` and `reason`: of those that have none of their own."""

    lines: Iterable[Entry | BadLine]
    kind: SuppressionKind
    reason: str
    skip_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSoftBounces:
    """After how many in a row an address is suppressed; 0: never."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    suppression: Suppression
    is_new: bool


@action("suppression.add")
async def add(actor: Actor, request: Suppress, store: Store) -> Suppressed:
    """E-mails already queued for it are not sent either."""
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
async def remove(actor: Actor, request: Unsuppress, store: Store) -> None:
    address = await store.parse_address(request.address)
    if address is None or not await suppressions.unsuppress(store, request.workspace, address):
        if request.workspace == EVERYBODY:
            raise Refusal("suppression.unknown_everywhere", address=request.address)
        raise Refusal("suppression.unknown", address=request.address, workspace=request.workspace)
    await actor.record(store, "suppression.remove", f"address {address}", workspace=_audited(request.workspace))


@action("suppression.import")
async def import_(actor: Actor, request: ImportSuppressions, store: Store) -> Imported:
    """All of them, or none. Each workspace that the list names has its entry in the audit."""
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
    """What holds now, for all workspaces."""
    if await suppressions.set_soft_bounces_max(store, request.most):
        await actor.record(store, "suppression.soft_bounces", "soft bounces", workspace=None, max=request.most)
    return await suppressions.soft_bounces_max(store)


def _counting(lines: Iterable[Entry | BadLine], counted: Counter[str]) -> Iterator[Entry | BadLine]:
    for each in lines:
        if isinstance(each, Entry):
            counted[each.workspace] += 1
        yield each


def _audited(workspace: str) -> str | None:
    """Who changes what counts for everybody changes the installation."""
    return None if workspace == EVERYBODY else workspace
