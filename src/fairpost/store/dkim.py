"""Store the DKIM keys of domains. Secrets arrive sealed."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import asyncpg

from fairpost.model.dkim import LOCKED_FOR, Algorithm, DkimKey, LockedKey
from fairpost.model.errors import KeysChanged
from fairpost.system import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.store.store import Store

_COLUMNS = "k.id, k.domain, k.selector, k.algorithm, k.public, k.created_at, k.checked_at, k.active_at, k.retired_at, k.locked_at"
LOCKED_MAX = 20  # maximum number of keys in a list


async def keys_of(store: "Store", workspace: str, domain: str | None = None) -> list[DkimKey]:
    """Return the keys of one domain or of all domains, oldest first."""
    sql = f"""SELECT {_COLUMNS} FROM fairpost.dkim_keys k WHERE k.workspace = $1 AND ($2::text IS NULL OR k.domain = $2)
              ORDER BY k.domain, k.id"""  # noqa: S608 - all of it is ours
    return [_key(row) for row in await store.fetch(sql, workspace, domain)]


async def next_key_id(store: "Store") -> int:
    return int(await store.value("SELECT fairpost.next_dkim_key_id()"))


async def add_key(store: "Store", workspace: str, key: DkimKey, *, sealed: str, keys: "Sequence[str]") -> None:
    """Add a key. `keys` are the vault keys that were in use when the secret was sealed. Raises KeysChanged."""
    try:
        await store.value(
            "SELECT fairpost.add_dkim_key($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            *(
                key.id,
                workspace,
                key.domain,
                key.selector,
                key.algorithm,
                key.public,
                sealed,
                list(keys),
                key.created_at,
            ),
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate == "FP003":
            raise KeysChanged("The encryption key was changed at the same time. Try again.") from error
        raise


async def key_checked(store: "Store", workspace: str, key_id: int, *, is_there: bool) -> None:
    """Record whether the key's DNS record exists.

    Once the record exists, the key is used for signing and replaces the previous key.
    """
    await store.value("SELECT fairpost.dkim_key_checked($1, $2, $3, $4)", workspace, key_id, is_there, clock.stated())


async def key_locked(store: "Store", key: LockedKey) -> None:
    """Record that an engine could not unseal the key.

    The failure is recorded at most once a minute, because many e-mails may use the key.
    """
    await store.value(
        """UPDATE fairpost.dkim_keys k SET locked_at = t.now FROM (SELECT coalesce($3, clock_timestamp())) t(now)
           WHERE k.domain = $1 AND k.selector = $2 AND coalesce(k.locked_at < t.now - interval '1 minute', true)""",
        *(key.domain, key.selector, clock.stated()),
    )


async def locked_keys(store: "Store", *, now: datetime, workspace: str | None = None) -> list[LockedKey]:
    """Return the keys that are delaying mail because an engine failed to unseal them within the past few minutes."""
    rows = await store.fetch(
        """SELECT k.workspace, k.domain, k.selector FROM fairpost.dkim_keys k
           WHERE k.locked_at > $1::timestamptz - $2::interval AND k.retired_at IS NULL AND ($3::text IS NULL OR k.workspace = $3)
           ORDER BY k.workspace, k.domain, k.selector LIMIT $4""",
        *(now, LOCKED_FOR, workspace, LOCKED_MAX),
    )
    return [LockedKey(**row) for row in rows]


async def remove_key(store: "Store", workspace: str, domain: str, selector: str) -> bool:
    return bool(await store.value("SELECT fairpost.remove_dkim_key($1, $2, $3)", workspace, domain, selector))


def _key(row: Any) -> DkimKey:
    return DkimKey(**{**dict(row), "algorithm": Algorithm(row["algorithm"])})
