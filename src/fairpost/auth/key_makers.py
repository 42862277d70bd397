"""Keys and the members who made them. A key is the workspace's: it goes on opening when its maker is gone, so whoever keeps a member out sees
which those are.

Who has a key that may make keys has those, too: they count as his who made the first of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fairpost.model.person import Person, Role
from fairpost.model.workspace import ApiKey
from fairpost.store import auth as rows
from fairpost.store import workspaces

if TYPE_CHECKING:
    from fairpost.store.store import Store

BY_MANAGER = f"{Role.MANAGER} "  # nobody else makes keys
BY_KEY = "key "


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """`maker`: the address of the member who made it, himself or with a key of his; None: the operator did, or nobody knows any more."""

    key: ApiKey
    maker: str | None
    is_maker_member: bool
    maker_role: Role | None


async def made_keys(store: "Store", workspace: str) -> list[MadeKey]:
    """All of them, the newest first. For a store that sees people."""
    keys = await workspaces.keys(store, workspace)
    members = {person.address: person for person in await rows.listed(store, workspace)}
    makers = makers_of(keys)
    return [_made(key, makers.get(key.id), members.get(makers.get(key.id, ""))) for key in keys]


async def open_keys_of(store: "Store", person: Person, *, now: datetime) -> list[ApiKey]:
    """Those that this member made and that still open."""
    assert person.workspace is not None
    keys = await workspaces.keys(store, person.workspace)
    makers = makers_of(keys)
    return [key for key in keys if makers.get(key.id) == person.address and key.opens(now)]


def makers_of(keys: Sequence[ApiKey]) -> dict[str, str]:
    """By key, the address of the member whom it goes back to."""
    by_id = {key.id: key for key in keys}
    found: dict[str, str] = {}
    for key in keys:
        first: ApiKey | None = key
        while first is not None and first.created_by.startswith(BY_KEY):
            first = by_id.get(first.created_by.removeprefix(BY_KEY))
        if first is not None and first.created_by.startswith(BY_MANAGER):
            found[key.id] = first.created_by.removeprefix(BY_MANAGER)
    return found


def _made(key: ApiKey, maker: str | None, member: Person | None) -> MadeKey:
    return MadeKey(
        key=key,
        maker=maker,
        is_maker_member=member is not None and member.disabled_at is None,
        maker_role=member.role if member is not None else None,
    )
