"""Actions on personal data: erase it on request."""

from collections.abc import Callable
from dataclasses import dataclass

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import Refusal
from fairpost.model.retention import Erasure
from fairpost.store import privacy
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Erase:
    """A request to erase a person's data. If `workspace` is None, the person's data is erased everywhere, including
    data that belongs to no workspace.

    `progress` is called with the number of history bytes read so far.
    """

    address: str
    workspace: str | None
    keep_sendable: bool = False
    progress: Callable[[int], None] = lambda done: None


@action("person.erase", in_one_commit=False)
async def erase(actor: Actor, request: Erase, store: Store) -> Erasure:
    """Erases a person's data.

    The audit entry is part of the first commit and contains a hash of the address. If the action is interrupted, run it
    again.
    """
    address = await store.parse_address(request.address)
    if address is None:
        raise Refusal("address.invalid", address=request.address)

    async def record(one: Store, address_hash: str) -> None:
        await actor.record(one, "person.erase", address_hash, workspace=request.workspace)

    return await privacy.erase(
        store,
        address,
        workspace=request.workspace,
        keep_sendable=request.keep_sendable,
        reach=request.progress,
        record=record,
    )
