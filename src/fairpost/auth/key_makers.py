"""API keys and the members who created them.

A key belongs to the workspace and stays valid when its creator leaves. For this reason, when a member is disabled, the
keys that the member created are listed. A key that was created with another key is attributed to that key's creator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fairpost.model.auth import Person, Role
from fairpost.model.workspace import ApiKey
from fairpost.store import auth as rows
from fairpost.store import workspaces

if TYPE_CHECKING:
    from fairpost.store.store import Store

BY_MANAGER = f"{Role.MANAGER} "  # only managers can create keys
BY_KEY = "key "


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A key and its creator. `maker` is the address of the member who created the key, directly or with another key.

    `maker` is None for the operator, or if the creator is unknown.
    """

    key: ApiKey
    maker: str | None
    is_maker_member: bool
    maker_role: Role | None


async def made_keys(store: "Store", workspace: str) -> list[MadeKey]:
    """Returns all keys of a workspace, newest first. The store needs access to the table of people who sign in."""
    keys = await workspaces.keys(store, workspace)
    members = {person.address: person for person in await rows.listed(store, workspace)}
    makers = makers_of(keys)
    return [_made(key, makers.get(key.id), members.get(makers.get(key.id, ""))) for key in keys]


async def open_keys_of(store: "Store", person: Person, *, now: datetime) -> list[ApiKey]:
    """Returns the valid keys that this member created."""
    assert person.workspace is not None
    keys = await workspaces.keys(store, person.workspace)
    makers = makers_of(keys)
    return [key for key in keys if makers.get(key.id) == person.address and key.opens(now)]


def makers_of(keys: Sequence[ApiKey]) -> dict[str, str]:
    """Returns, by key ID, the address of the member who created each key, directly or with another key."""
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
