"""Actions by people who received campaign mail: unsubscribe through the link in an e-mail, and undo the unsubscribe. A
repeated request changes nothing.
"""

from dataclasses import dataclass

from fairpost.actions.acting import Actor, action
from fairpost.model.suppression import Stops, Suppression, SuppressionKind
from fairpost.store import prospects, suppressions
from fairpost.store.store import Store
from fairpost.system import clock

NOTE = "through the link in an e-mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRecipient:
    workspace: str
    prospect_id: int


@action("recipient.unsubscribe")
async def unsubscribe(actor: Actor, request: OfRecipient, store: Store) -> bool:
    """Unsubscribes an address. Campaign mail that is already queued is not sent either. Returns False if nothing was
    changed.
    """
    await suppressions.take_turn(store, request.prospect_id)
    address = await prospects.address_of(store, request.workspace, request.prospect_id)
    if address is None:
        return False
    known = await _of_workspace(store, request.workspace, address)
    if known is not None and known.kind in (SuppressionKind.UNSUBSCRIBE, SuppressionKind.COMPLAINT):
        return False
    kind = SuppressionKind.UNSUBSCRIBE
    await suppressions.suppress(store, request.workspace, address, reason=NOTE, kind=kind, now=clock.stated())
    await suppressions.tell_of_unsubscribe(store, request.workspace, request.prospect_id, address)
    await actor.record(store, "recipient.unsubscribe", f"address {address}", workspace=request.workspace)
    return True


@action("recipient.resubscribe")
async def resubscribe(actor: Actor, request: OfRecipient, store: Store) -> bool:
    """Undoes an unsubscribe. A suppression for a bounce or complaint remains, and cancelled e-mails stay cancelled."""
    await suppressions.take_turn(store, request.prospect_id)
    address = await prospects.address_of(store, request.workspace, request.prospect_id)
    known = address and await _of_workspace(store, request.workspace, address)
    if not address or not known or (known.kind, known.stops) != (SuppressionKind.UNSUBSCRIBE, Stops.BULK):
        return False
    await suppressions.unsuppress(store, request.workspace, address)
    await actor.record(store, "recipient.resubscribe", f"address {address}", workspace=request.workspace)
    return True


async def _of_workspace(store: Store, workspace: str, address: str) -> Suppression | None:
    found, _ = await suppressions.known_of(store, address)
    return next((each for each in found if each.workspace == workspace), None)
