"""Add, change, remove and look up accounts, and read and replace their sealed secrets.

Rows are converted to accounts in account_rows.py. A worker's writes to the account it holds are in leases.py.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import asyncpg

from fairpost.model.account import Account, AccountRuntime, Limits, Removal
from fairpost.model.errors import ChangedMeanwhile, KeysChanged, NotFound, Unknown
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason, as_json
from fairpost.model.transport import SealedSecret, ServerSettings
from fairpost.store.account_rows import COLUMNS, read_account, read_runtime
from fairpost.store.database import Database
from fairpost.transports.registry import write_transport

_FOUND = f"""SELECT {COLUMNS}, fairpost.transport_of(a.id) AS transport
             FROM fairpost.accounts a CROSS JOIN LATERAL fairpost.leases_now(ARRAY[a.id]) l"""  # noqa: S608 - all of it is ours


class AccountStore(Database):
    async def add_account(
        self,
        name: str,
        *,
        address: str,
        pool: str = "default",
        display_name: str | None = None,
        limits: Limits,
        provider: str | None = None,
        transport: ServerSettings | None = None,
        id_: AccountId | None = None,
        keys: Sequence[str] | None = None,
    ) -> AccountId:
        """Add an account. Raises KeysChanged.

        A sealed secret requires the ID of the account it was sealed for and the keys that were in use at that time.
        """
        settings = {**asdict(limits), "display_name": display_name, "provider": provider}
        with _changed_meanwhile():
            id_ = await self.value(
                "SELECT fairpost.add_account($1, $2, $3, $4, $5, p_id => $6, p_keys => $7)",
                *(name, address, pool, json.dumps(write_transport(transport)), json.dumps(settings), id_, keys),
            )
        assert id_ is not None
        return AccountId(id_)

    async def next_account_id(self) -> AccountId:
        return AccountId(await self.value("SELECT fairpost.next_account_id()"))

    async def change_account(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        keys: Sequence[str] | None = None,
        revision: int | None = None,
    ) -> AccountId | None:
        """Change the given columns. Return None if the account does not exist.

        `status_reason` is a Reason. A `secret` requires the keys that were in use when it was sealed (raises
        KeysChanged). If `revision` is given, the account must still have that revision (raises ChangedMeanwhile).
        """
        if isinstance(reason := changes.get("status_reason"), Reason):
            changes = {**changes, "status_reason": reason.code, "status_params": as_json(reason)}
        with _changed_meanwhile():
            id_: AccountId | None = await self.value(
                "SELECT fairpost.change_account($1, $2, $3, $4)", name, json.dumps(changes), keys, revision
            )
        return id_

    async def remove_account(self, name: str) -> Removal:
        return Removal(**await self.row("SELECT * FROM fairpost.remove_account($1)", name))

    async def keys_in_use(self, account_id: AccountId | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the IDs of the keys in use, first for all secrets, then for all except this account's."""
        row = await self.row("SELECT fairpost.keys_in_use(), fairpost.keys_in_use($1) AS others", account_id)
        return tuple(row["keys_in_use"]), tuple(row["others"])

    async def secrets(self) -> list[SealedSecret]:
        rows = await self.fetch("SELECT * FROM fairpost.sealed_secrets() s ORDER BY s.name")
        return [SealedSecret(owner=row["owner"], name=row["name"], sealed=row["sealed"]) for row in rows]

    async def replace_secrets(self, before: Sequence[SealedSecret], after: Mapping[str, str | None]) -> bool:
        """Replace secrets, keyed by owner, in one commit. None removes a secret. If `before` is outdated, write nothing
        and return False.
        """
        known = json.dumps({each.owner: each.sealed for each in before})
        return bool(await self.value("SELECT fairpost.replace_secrets($1, $2)", known, json.dumps(dict(after))))

    async def account(self, account_id: AccountId) -> Account:
        row = await self.row(f"{_FOUND} WHERE a.id = $1", account_id)
        if row is None:
            raise NotFound(f"There is no account {account_id}.")
        return read_account(row)

    async def account_named(self, name: str) -> Account:
        return (await self.runtime_named(name)).account

    async def runtime_named(self, name: str) -> AccountRuntime:
        row = await self.row(f"{_FOUND} WHERE a.name = $1", name)
        if row is None:
            raise Unknown("account.not_found", account=name)
        return read_runtime(row)

    async def accounts(
        self,
        *,
        workspace: str | None = None,
        serving: Collection[str] | None = None,
        after: str = "",
        most: int | None = None,
    ) -> list[Account]:
        """Return all accounts, or those that belong to `workspace` or serve one of the given routes. Sorted by name."""
        found = await self.runtimes(workspace=workspace, serving=serving, after=after, most=most)
        return [each.account for each in found]

    async def runtimes(
        self,
        *,
        workspace: str | None = None,
        serving: Collection[str] | None = None,
        after: str = "",
        most: int | None = None,
    ) -> list[AccountRuntime]:
        """Return the same accounts as `accounts`, each with the engine that drives it."""
        rows = await self.fetch(
            f"""WITH seen AS MATERIALIZED (
                   SELECT {COLUMNS} FROM fairpost.accounts a JOIN fairpost.leases_now() l ON l.account_id = a.id
                   WHERE (num_nulls($1::text, $4::text[]) = 2 OR a.workspace = $1 OR a.pool = ANY ($4) OR '@' || a.name = ANY ($4))
                     AND a.name > $2 ORDER BY a.name LIMIT $3)
               SELECT s.*, t.transport
               FROM seen s JOIN fairpost.transports_of((SELECT array_agg(s.account_id) FROM seen s)) t USING (account_id) ORDER BY s.name""",  # noqa: S608 - all of it is ours
            *(workspace, after, most, None if serving is None else list(serving)),
        )
        return [read_runtime(row) for row in rows]


@contextmanager
def _changed_meanwhile() -> Iterator[None]:
    try:
        yield
    except asyncpg.PostgresError as error:
        if error.sqlstate == "FP003":
            raise KeysChanged("The encryption key was changed at the same time. Try again.") from error
        if error.sqlstate == "FP006":
            raise ChangedMeanwhile(
                "Conflicting update: the account was changed in the meantime. Nothing was written. Try again."
            ) from error
        raise
