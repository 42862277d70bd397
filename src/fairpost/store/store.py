"""The one typed door to the database. Stores and reads; decides nothing.

Every method is one round trip and one commit. `now` is for tests and simulations: without it the database's own
clock counts.
"""

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Self, assert_never
from uuid import UUID

import asyncpg

from fairpost.model.account import (
    LIMITS,
    Account,
    AccountRuntime,
    AccountStatus,
    Charge,
    Lease,
    Limits,
    Patience,
    Rest,
    RestReason,
    Usage,
)
from fairpost.model.campaign import Gap
from fairpost.model.email import Attachment, Content, Earlier, Mailbox, Outgoing, Recipient
from fairpost.model.errors import ChangedMeanwhile, KeysChanged, NotFound, Unknown
from fairpost.model.fault import Sample, Suspect
from fairpost.model.ids import AccountId, EmailId, Epoch
from fairpost.model.public_ids import PublicIds
from fairpost.model.reason import Reason, as_json, write_params
from fairpost.model.report import Report
from fairpost.model.sender import Tier
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.step import Begun, SettleVerdict, StepAnswer, StepRequest
from fairpost.model.transport import SealedSecret, ServerSettings, TransportSettings
from fairpost.model.troubles import NO_TROUBLES, Troubles
from fairpost.model.verdict import Bounced, Deferred, Failed, InDoubt, Retry, Sent, Untouched, Verdict
from fairpost.store.connections import Connections, Statements
from fairpost.store.reasons import stored_reason
from fairpost.store.tenants import TenantConnections
from fairpost.store.trouble import in_plain_words
from fairpost.system import clock
from fairpost.system.failpoints import failpoint
from fairpost.system.vitals import Vitals
from fairpost.transports.registry import read_transport, write_transport

CONTENTS_WITH_FILES_KEPT = 4  # of at most 25 MiB each
# As read before: whoever looks at all accounts each second finds nearly all of them as they were.
LIMITS_KEPT, TRANSPORTS_KEPT = 1_024, 16_384
KEPT_CHARS_MAX = 4_000  # of a transport: a key within can make it long

Level = Literal["workspace", "domain", "user", "stream"]
Decision = Literal["sent", "failed", "resend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    verdict: Literal["ok", "stale", "unconfirmed", "inactive", "changed", "paused"]
    ids: tuple[EmailId, ...]
    again: bool  # others held what there is: look again before sleeping
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """What a lease holds after the database was away. `sending`: what it had begun, and in which attempt."""

    verdict: Literal["held", "lost", "unconfirmed", "behind"]
    until: datetime | None
    step: int | None
    sending: EmailId | None
    attempt: int | None
    life: UUID | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Of the server by the engines. `behind`: accounts that it knows lower steps of than was acknowledged, and those."""

    verdict: Literal["confirmed", "waiting", "behind", "silent"]
    waits_for: tuple[str, ...]
    behind: Mapping[AccountId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Refused while an account has something in hand or waiting for it alone."""

    known: bool
    removed: bool
    in_hand: int
    in_doubt: int
    pinned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteWithWork:
    route: str
    due: bool
    next_at: datetime | None


# Without `transport` as it is stored: a request sees that of its own workspace's accounts alone.
_LIMITS = tuple(each.name for each in LIMITS)
_COLUMNS = ", ".join(
    f"a.{name}"
    for name in (
        *(
            "name",
            "address",
            "display_name",
            "pool",
            "provider",
            "status",
            "status_reason",
            "status_params",
            "status_until",
        ),
        *_LIMITS,
        "revision AS account_revision",
    )
)
_PATIENCE = """l.suspended_at + (SELECT p.urgent FROM fairpost.patience p) AS patience_urgent,
    l.suspended_at + (SELECT p.bulk FROM fairpost.patience p) AS patience_bulk"""
_DRIVEN = "CASE WHEN isfinite(l.until) THEN l.until END AS driven_until, clock_timestamp() AS seen_at"
_SEEN = f"SELECT l.*, {_COLUMNS}, fairpost.transport_of(a.id) AS transport, {_PATIENCE}, {_DRIVEN}"
_ACCOUNTS = f"{_SEEN} FROM fairpost.accounts a CROSS JOIN LATERAL fairpost.leases_now(ARRAY[a.id]) l"


class Store:
    def __init__(self, pool: "Statements | asyncpg.Connection") -> None:
        self._pool = pool
        self._files: OrderedDict[int, tuple[Attachment, ...]] = OrderedDict()
        self._public_ids: PublicIds | None = None

    @classmethod
    async def connect(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> Self:
        """`behind_pooler`: it is known to be so, and need not be found out."""
        with in_plain_words(url):
            return cls(await Connections.open(url, most=connections_max, behind_pooler=behind_pooler))

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> AsyncIterator[Self]:
        store = await cls.connect(url, connections_max=connections_max, behind_pooler=behind_pooler)
        try:
            yield store
        finally:
            await store.close()

    @classmethod
    @asynccontextmanager
    async def unopened(cls, url: str, *, connections_max: int = 4, behind_pooler: bool = False) -> AsyncIterator[Self]:
        """The first statement connects."""
        store = cls(Connections(url, most=connections_max, behind_pooler=behind_pooler))
        try:
            yield store
        finally:
            await store.close()

    @property
    def behind_pooler(self) -> bool:
        return isinstance(self._pool, Connections) and self._pool.behind_pooler

    async def close(self) -> None:
        await self._pool.close()

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return list(await self._pool.fetch(sql, *args))

    async def row(self, sql: str, *args: Any) -> Any:
        return await self._pool.fetchrow(sql, *args)

    async def now(self) -> datetime:
        """The database's own clock, as everywhere; ours only where somebody has stopped it."""
        moment: datetime = clock.stated() or await self.value("SELECT clock_timestamp()")
        return moment

    async def parse_address(self, text: str) -> str | None:
        """As it is stored; None: it is no e-mail address."""
        parsed: str | None = await self.value("SELECT fairpost.parse_address(to_jsonb($1::text)) ->> 'address'", text)
        return parsed

    async def value(self, sql: str, *args: Any) -> Any:
        return await self._pool.fetchval(sql, *args)

    async def public_ids(self) -> PublicIds:
        """By what e-mails are known outside. Read once: the key never changes. Only the owner may."""
        if self._public_ids is None:
            row = await self.row("SELECT k.key, k.since FROM fairpost.public_ids k")
            self._public_ids = PublicIds(row["key"], EmailId(row["since"]))
        return self._public_ids

    # ── accept ────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue_many(
        self,
        emails: Sequence[dict[str, Any]],
        *,
        daily_max: int | None = None,
        waiting_max: int | None = None,
        workspace_max: int | None = None,
        now: datetime | None = None,
    ) -> list[Any]:
        """`daily_max` and `waiting_max`: for each user, of what others hand in; `workspace_max`: for each workspace in 24 hours."""
        sql = "SELECT * FROM fairpost.enqueue_many($1, $2, $3, $4, $5)"
        return await self.fetch(sql, json.dumps(emails), _at(now), daily_max, waiting_max, workspace_max)

    # ── accounts and leases ───────────────────────────────────────────────────────────────────────────────

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
        """With a sealed secret: the id it was sealed for, and the keys that were in use then. Raises KeysChanged."""
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
        """By columns; `status_reason` is a Reason. A `secret` goes with the keys that were in use (raises KeysChanged). `revision`: only while it is this one (raises
        ChangedMeanwhile). None: no such account."""
        if isinstance(reason := changes.get("status_reason"), Reason):
            changes = {**changes, "status_reason": reason.code, "status_params": as_json(reason)}
        with _changed_meanwhile():
            id_: AccountId | None = await self.value(
                "SELECT fairpost.change_account($1, $2, $3, $4)", name, json.dumps(changes), keys, revision
            )
        return id_

    async def remove_account(self, name: str) -> Removal:
        return Removal(**await self.row("SELECT * FROM fairpost.remove_account($1)", name))

    async def keys_in_use(self, account_id: AccountId) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """By all accounts, and by all but this one."""
        row = await self.row("SELECT fairpost.keys_in_use(), fairpost.keys_in_use($1) AS others", account_id)
        return tuple(row["keys_in_use"]), tuple(row["others"])

    async def secrets(self) -> list[SealedSecret]:
        sql = "SELECT id, name, transport ->> 'secret' AS secret FROM fairpost.accounts WHERE transport ? 'secret' ORDER BY name"
        return [
            SealedSecret(account_id=AccountId(row["id"]), account_name=row["name"], sealed=row["secret"])
            for row in await self.fetch(sql)
        ]

    async def replace_secrets(self, before: Sequence[SealedSecret], after: Mapping[AccountId, str | None]) -> bool:
        """All in one commit; None removes one. False: they are no longer what they were, and nothing was written."""
        known = json.dumps({each.account_id: each.sealed for each in before})
        return bool(await self.value("SELECT fairpost.replace_secrets($1, $2)", known, json.dumps(dict(after))))

    async def account(self, account_id: AccountId) -> Account:
        row = await self.row(
            f"{_ACCOUNTS} WHERE a.id = $1",
            account_id,
        )
        if row is None:
            raise NotFound(f"There is no account {account_id}.")
        return _account(row)

    async def account_named(self, name: str) -> Account:
        return (await self.runtime_named(name)).account

    async def runtime_named(self, name: str) -> AccountRuntime:
        row = await self.row(
            f"{_ACCOUNTS} WHERE a.name = $1",
            name,
        )
        if row is None:
            raise Unknown("account.not_found", account=name)
        return _runtime(row)

    async def accounts(
        self,
        *,
        workspace: str | None = None,
        serving: Collection[str] | None = None,
        after: str = "",
        most: int | None = None,
    ) -> list[Account]:
        """By name: all of them, or those that belong to a workspace or take mail of one of these routes."""
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
        """The same accounts, and the engines that drive them."""
        rows = await self.fetch(
            f"""WITH seen AS MATERIALIZED (
                   SELECT l.*, {_COLUMNS}, {_PATIENCE}, {_DRIVEN} FROM fairpost.accounts a JOIN fairpost.leases_now() l ON l.account_id = a.id
                   WHERE (num_nulls($1::text, $4::text[]) = 2 OR a.workspace = $1 OR a.pool = ANY ($4) OR '@' || a.name = ANY ($4))
                     AND a.name > $2 ORDER BY a.name LIMIT $3)
               SELECT s.*, t.transport
               FROM seen s JOIN fairpost.transports_of((SELECT array_agg(s.account_id) FROM seen s)) t USING (account_id) ORDER BY s.name""",  # noqa: S608 - all of it is ours
            *(workspace, after, most, None if serving is None else list(serving)),
        )
        return [_runtime(row) for row in rows]

    async def take_lease(
        self, account_id: AccountId, *, owner: str, seconds: float, again: bool = False, now: datetime | None = None
    ) -> Lease | None:
        """None: another holds it. `again`: asked for before by the same worker, which got no answer."""
        sql = "SELECT * FROM fairpost.take_lease($1, $2, $3, $4, $5)"
        row = await self.row(sql, account_id, owner, seconds, _at(now), again)
        if not row["taken"]:
            return None
        return Lease(account_id=account_id, epoch=Epoch(row["epoch"]), until=row["until"], step=row["step"])

    async def take_up(self, lease: Lease, *, seconds: float, life: UUID | None, now: datetime | None = None) -> TakenUp:
        """Where the lease was when the database went away, as long as no other has taken it. What it had claimed waits again."""
        sql = "SELECT * FROM fairpost.take_up($1, $2, $3, $4, $5, $6)"
        row = await self.row(sql, lease.account_id, lease.epoch, seconds, life, lease.step, _at(now))
        return TakenUp(**row)

    async def renew_lease(self, lease: Lease, *, seconds: float, now: datetime | None = None) -> Lease | None:
        """None: it is gone; stop."""
        until = await self.value(
            "SELECT fairpost.renew_lease($1, $2, $3, $4)", lease.account_id, lease.epoch, seconds, _at(now)
        )
        return until and replace(lease, until=until)

    async def drop_lease(self, lease: Lease, *, now: datetime | None = None) -> bool:
        sql = "SELECT fairpost.drop_lease($1, $2, $3)"
        return bool(await self.value(sql, lease.account_id, lease.epoch, _at(now)))

    async def reap_leases(self, *, now: datetime | None = None) -> int:
        return int(await self.value("SELECT fairpost.reap_leases($1)", _at(now)))

    # ── release ───────────────────────────────────────────────────────────────────────────────────────────

    async def claim(self, lease: Lease, *, limit: int, now: datetime | None = None) -> Claim:
        sql = "SELECT * FROM fairpost.claim($1, $2, $3, $4)"
        row = await self.row(sql, lease.account_id, lease.epoch, limit, _at(now))
        return Claim(verdict=row["verdict"], ids=tuple(row["ids"]), again=row["again"], next_at=row["next_at"])

    async def held(self, lease: Lease, *, now: datetime | None = None) -> tuple[EmailId, ...] | None:
        """What this lease has claimed and not begun; None when it is gone. For after an answer that was lost."""
        sql = "SELECT fairpost.held($1, $2, $3)"
        ids = await self.value(sql, lease.account_id, lease.epoch, _at(now))
        return None if ids is None else tuple(ids)

    async def await_turn(self, lease: Lease) -> None:
        await self.value("SELECT fairpost.await_turn($1)", lease.account_id)

    async def give_back(self, lease: Lease, ids: Sequence[EmailId]) -> tuple[EmailId, ...]:
        """Those that wait again; what somebody was cancelling just now is not among them."""
        sql = "SELECT fairpost.give_back($1, $2, $3)"
        return tuple(await self.value(sql, lease.account_id, lease.epoch, list(ids)))

    async def hold(
        self,
        workspace: str,
        level: Level,
        key: str = "",
        *,
        until: datetime | None = None,
        reason: str,
        now: datetime | None = None,
    ) -> None:
        """Nothing below this name goes out until then; without a moment, until released."""
        sql = "SELECT fairpost.hold($1, $2, $3, coalesce($4, 'infinity'::timestamptz), $5, $6, $7)"
        why = Reason("hold.by_hand", note=reason)
        await self.value(sql, workspace, level, key, until, why.code, write_params(why), _at(now))

    async def release(self, workspace: str, level: Level, key: str = "", *, now: datetime | None = None) -> bool:
        return bool(await self.value("SELECT fairpost.release($1, $2, $3, $4)", workspace, level, key, _at(now)))

    async def fail_claimed(self, lease: Lease, email_id: EmailId, reason: Reason) -> bool:
        """One that can never be sent as it is ends before it is begun, and costs the account nothing. False: it is not ours any more."""
        sql = "SELECT fairpost.fail_claimed($1, $2, $3, $4, $5, $6)"
        why = (reason.code, write_params(reason))
        return bool(await self.value(sql, lease.account_id, lease.epoch, email_id, *why, clock.stated()))

    async def next_urgent(self, lease: Lease, *, before: datetime) -> datetime | None:
        """When the next urgent e-mail becomes due that this account might send."""
        moment: datetime | None = await self.value("SELECT fairpost.next_urgent($1, $2)", lease.account_id, before)
        return moment

    @asynccontextmanager
    async def together(self) -> "AsyncIterator[Store]":
        """Everything that is done with the store given is one commit, or nothing."""
        if isinstance(self._pool, Statements):
            async with self._pool.acquire() as conn, conn.transaction():
                yield Store(conn)
                failpoint("before_commit")
            failpoint("after_commit")
        else:
            async with self._pool.transaction():
                yield self

    def of_tenant(self, workspace: str) -> "Store":
        """The same database as one workspace may see it."""
        assert isinstance(self._pool, Connections)
        return Store(TenantConnections(self._pool, workspace))

    @asynccontextmanager
    async def connection(self) -> "AsyncIterator[asyncpg.Connection]":
        """For what needs one of its own, like a list that is copied in."""
        if isinstance(self._pool, Statements):
            async with self._pool.acquire() as conn:
                yield conn
        else:
            yield self._pool

    async def set_gates(self, workspace: str, stream: str | None = None) -> None:
        """Shuts or opens the campaigns of a workspace as their hours and their quota say now."""
        await self.value("SELECT fairpost.set_gates($1, $2, $3)", workspace, stream, clock.stated())

    async def set_weight(self, workspace: str, level: Level, key: str = "", *, weight: float) -> None:
        await self.value("SELECT fairpost.set_weight($1, $2, $3, $4)", workspace, level, key, weight)

    # ── deliver and settle ────────────────────────────────────────────────────────────────────────────────

    async def load(self, ids: Sequence[EmailId]) -> list[Outgoing]:
        """The e-mails with their content, in the order asked for; those that are gone are left out."""
        public_ids = await self.public_ids()
        rows = await self.fetch("SELECT * FROM fairpost.load($1)", list(ids))
        with_files = {row["content_id"] for row in rows if row["has_attachments"]}
        attachments = {content_id: await self._attachments(content_id) for content_id in with_files}
        return [
            _outgoing(
                row,
                attachments.get(row["content_id"], ()),
                await self._earlier(row["follows"], row["account_id"]) if row["follows"] else None,
                public_ids,
            )
            for row in rows
        ]

    async def _earlier(self, email_id: int, account_id: int | None) -> Earlier | None:
        """What was sent before it in the same conversation; None when that was not sent."""
        rows = await self.fetch("SELECT * FROM fairpost.conversation($1)", email_id)
        if not rows:
            return None
        last = rows[0]
        return Earlier(
            message_id=last["message_id"],
            thread_id=last["thread_id"] if last["account_id"] == account_id else None,
            references=tuple(row["message_id"] for row in reversed(rows[1:])),
        )

    async def _attachments(self, content_id: int) -> tuple[Attachment, ...]:
        """The last ones read are kept: they never change, and e-mails of one campaign share them."""
        if content_id not in self._files:
            rows = await self.fetch(
                """SELECT a.filename, a.content_type, a.inline_id, a.data
                   FROM fairpost.attachments a WHERE a.content_id = $1 ORDER BY a.position""",
                content_id,
            )
            while len(self._files) >= CONTENTS_WITH_FILES_KEPT:
                self._files.popitem(last=False)
            self._files[content_id] = tuple(Attachment(**row) for row in rows)
        self._files.move_to_end(content_id)
        return self._files[content_id]

    async def take_step(self, request: StepRequest) -> StepAnswer:
        """Settles one, begins one, or both, in one commit."""
        lease, step, settles, begins = request.lease, request.number, request.settles, request.begins
        if settles is None:
            assert begins is not None
            begun = await self.begin(lease, begins.email_id, usage=begins.usage, evidence=begins.evidence, step=step)
            return StepAnswer(begun=begun)
        settled_as = lease, settles.email_id, settles.verdict, settles.report
        if begins is None:
            settled = await self.settle(
                *settled_as, reason=settles.reason, soft_bounced=settles.soft_bounced, step=step
            )
            return StepAnswer(settled=settled)
        assert begins.evidence is None, "what is drafted first is begun alone"
        settled, begun = await self.settle_and_begin(
            *settled_as,
            follower=begins.email_id,
            usage=begins.usage,
            reason=settles.reason,
            soft_bounced=settles.soft_bounced,
            step=step,
        )
        return StepAnswer(settled=settled, begun=begun)

    async def begin(
        self,
        lease: Lease,
        email_id: EmailId,
        *,
        usage: Usage,
        evidence: Mapping[str, str] | None = None,
        step: int | None = None,
        now: datetime | None = None,
    ) -> Begun:
        """`evidence`: by what the provider can be asked about it later. `step`: the number of this step of the lease."""
        sql = "SELECT * FROM fairpost.begin_send($1, $2, $3, $4, $5, $6, $7)"
        written = json.dumps(dict(evidence)) if evidence is not None else None
        row = await self.row(sql, lease.account_id, lease.epoch, email_id, _usage_json(usage), written, _at(now), step)
        return Begun(verdict=row["verdict"], skip=tuple(row["skip"] or ()), attempt=row["attempt"], now=row["now"])

    async def settle(
        self,
        lease: Lease,
        email_id: EmailId,
        verdict: Verdict,
        report: Report | None = None,
        *,
        reason: Reason | None = None,
        soft_bounced: Sequence[str] = (),
        step: int | None = None,
        now: datetime | None = None,
    ) -> SettleVerdict:
        """`reason`: why it was not sent. `soft_bounced`: those given up because their mailbox took nothing."""
        outcome, detail = _outcome(verdict, report, reason, soft_bounced)
        sql = "SELECT fairpost.settle($1, $2, $3, $4, $5, $6, $7)"
        result: SettleVerdict = await self.value(
            sql, lease.account_id, lease.epoch, email_id, outcome, json.dumps(detail), _at(now), step
        )
        return result

    async def settle_and_begin(
        self,
        lease: Lease,
        email_id: EmailId,
        verdict: Verdict,
        report: Report | None,
        *,
        follower: EmailId,
        usage: Usage,
        reason: Reason | None = None,
        soft_bounced: Sequence[str] = (),
        step: int | None = None,
        now: datetime | None = None,
    ) -> tuple[SettleVerdict, Begun]:
        """Settles one and begins the next, in one commit."""
        outcome, detail = _outcome(verdict, report, reason, soft_bounced)
        row = await self.row(
            "SELECT * FROM fairpost.settle_and_begin($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            *(
                lease.account_id,
                lease.epoch,
                email_id,
                outcome,
                json.dumps(detail),
                follower,
                _usage_json(usage),
                _at(now),
                step,
            ),
        )
        begun = Begun(verdict=row["verdict"], skip=tuple(row["skip"] or ()), attempt=row["attempt"], now=row["now"])
        return row["settled"], begun

    async def set_status(
        self, lease: Lease, status: AccountStatus, *, reason: Reason, until: datetime | None = None
    ) -> bool:
        """Until then it is active again by itself; None: until a person says so. False: the lease is gone."""
        sql = "SELECT fairpost.set_status($1, $2, $3, $4, $5, $6, $7)"
        whose, why = (lease.account_id, lease.epoch), (reason.code, write_params(reason))
        return bool(await self.value(sql, *whose, status, *why, until, clock.stated()))

    async def rest(self, lease: Lease, rest: Rest) -> bool:
        """The account sends nothing until then. False: the lease is gone."""
        sql = "SELECT fairpost.rest($1, $2, $3, $4, $5)"
        return bool(await self.value(sql, lease.account_id, lease.epoch, rest.until, rest.reason, rest.detail))

    async def set_troubles(self, lease: Lease, troubles: Troubles, *, forgiven: Sequence[EmailId] = ()) -> bool:
        """Remembers them with the account, and gives a try back to the e-mails forgiven. False: the lease is gone."""
        stored = _troubles_json(troubles)
        sql = "SELECT fairpost.set_troubles($1, $2, $3, $4, $5)"
        return bool(await self.value(sql, lease.account_id, lease.epoch, stored, list(forgiven), clock.stated()))

    async def charges(self, account_id: AccountId) -> tuple[Charge, ...]:
        """The single sends of the last day, where the account's limits need them; oldest first."""
        rows = await self.fetch("SELECT at, units FROM fairpost.charges_of($1)", account_id)
        return tuple(Charge(row["at"], row["units"]) for row in rows)

    async def book(
        self, lease: Lease, outcomes: Sequence[Mapping[str, Any]], measures: Sequence[Mapping[str, Any]]
    ) -> Sample | None:
        """Writes down what the account did, and says what somebody may be blamed for; None: nothing bounced or was refused."""
        sql = "SELECT * FROM fairpost.book($1, $2, $3, $4, $5)"
        written = json.dumps(outcomes), json.dumps(measures)
        row = await self.row(sql, lease.account_id, lease.epoch, *written, clock.stated())
        return _sample(row) if row is not None else None

    async def newest_migration(self) -> int:
        return int(await self.value("SELECT max(version) FROM fairpost.migrations"))

    # ── engines ───────────────────────────────────────────────────────────────────────────────────────────

    async def engine_here(self, engine: str, *, asleep: bool) -> int:
        """How many engines there are, this one among them."""
        sql = "SELECT fairpost.engine_here($1, $2, $3)"
        return int(await self.value(sql, engine, asleep, clock.stated()))

    async def engine_uses(self, engine: str, vitals: Vitals | None) -> None:
        """What its processes use; None: nobody knows."""
        sql = "UPDATE fairpost.engines SET vitals = $2 WHERE id = $1"
        await self.value(sql, engine, json.dumps(asdict(vitals)) if vitals else None)

    async def engine_gone(self, engine: str) -> None:
        await self.value("SELECT fairpost.engine_gone($1)", engine)

    async def bury_engine(self, engine: str, *, heir: str | None = None) -> int:
        """All its processes are gone: what it drove is free at once. How many accounts. `heir`: has what it remembered."""
        return int(await self.value("SELECT fairpost.bury_engine($1, $2)", engine, heir))

    # ── which server this is ──────────────────────────────────────────────────────────────────────────────

    async def current_life(self) -> UUID | None:
        """Of the database. None: no engine has ever worked on it."""
        life: UUID | None = await self.value("SELECT fairpost.current_life()")
        return life

    async def ask_about_server(self) -> bool:
        """Whether the engines have confirmed this server. If not, they are asked."""
        return bool(await self.value("SELECT fairpost.ask_about_server($1)", clock.stated()))

    async def confirm_server(self, engine: str, *, life: UUID | None, steps: Mapping[AccountId, int]) -> Confirmation:
        """This engine's word: the last step it knows of each account."""
        sql = "SELECT * FROM fairpost.confirm_server($1, $2, $3, $4, $5)"
        row = await self.row(sql, engine, life, list(steps), list(steps.values()), clock.stated())
        return Confirmation(
            verdict=row["verdict"],
            waits_for=tuple(row["waits_for"] or ()),
            behind=dict(zip(row["behind"], row["behind_at"], strict=True)),
        )

    async def accounts_of_engines(self, engines: Sequence[str]) -> list[str]:
        """The names of the accounts that they hold."""
        sql = """SELECT a.name FROM fairpost.leases l JOIN fairpost.accounts a ON a.id = l.account_id
                 WHERE l.owner = ANY ($1) ORDER BY a.name"""
        return [row["name"] for row in await self.fetch(sql, list(engines))]

    async def pause_restored(self, reason: Reason, by: str, *, life: UUID | None) -> None:
        """Nothing is sent until a person resumes: commits were missing here, in this life of the database."""
        sql = "SELECT fairpost.pause_restored($1, $2, $3, $4, $5)"
        await self.value(sql, reason.code, write_params(reason), by, life, clock.stated())

    async def pause_for_engines(self, reason: Reason, by: str, engines: Sequence[str]) -> None:
        """Nothing is sent until these engines have answered, or a person resumes."""
        sql = "SELECT fairpost.pause_for_engines($1, $2, $3, $4, $5)"
        await self.value(sql, reason.code, write_params(reason), by, list(engines), clock.stated())

    async def routes_with_work(self) -> list[RouteWithWork]:
        return [
            RouteWithWork(**row)
            for row in await self.fetch("SELECT * FROM fairpost.routes_with_work($1)", clock.stated())
        ]

    async def accounts_in_doubt(self) -> list[AccountId]:
        """Those with an e-mail in doubt that its own policy wants sent again."""
        return [AccountId(row["id"]) for row in await self.fetch("SELECT * FROM fairpost.accounts_in_doubt() AS id")]

    async def accounts_to_ask(self) -> list[AccountId]:
        """Those with an e-mail in doubt about which their provider can be asked."""
        return [AccountId(row["id"]) for row in await self.fetch("SELECT * FROM fairpost.accounts_to_ask() AS id")]

    async def worker_died(self, account_id: AccountId, epoch: Epoch | None, *, is_alone: bool, deaths_max: int) -> int:
        """How many died in a row, over all engines; at `deaths_max` the account is suspended. `is_alone`: it drove no other."""
        sql = "SELECT fairpost.worker_died($1, $2, $3, $4, $5)"
        return int(await self.value(sql, account_id, epoch, is_alone, deaths_max, clock.stated()))

    async def doubts(self, account_id: AccountId, *, most: int = 100) -> list[Outgoing]:
        ids = [row["id"] for row in await self.fetch("SELECT id FROM fairpost.doubts($1, $2)", account_id, most)]
        return await self.load(ids)

    async def has_doubts(self, account_id: AccountId) -> bool:
        return bool(await self.value("SELECT EXISTS (SELECT FROM fairpost.doubts($1, 1))", account_id))

    async def cut(
        self, account_id: AccountId, epoch: Epoch, email_id: EmailId, *, attempt: int, due_at: datetime
    ) -> str | None:
        """Its worker is dead for certain, and did not complete this attempt. The state it has now; None: it is another
        attempt's by now, or settled."""
        sql = "SELECT fairpost.cut($1, $2, $3, $4, $5, $6)"
        state: str | None = await self.value(sql, account_id, epoch, email_id, attempt, due_at, clock.stated())
        return state

    async def handover_key(self) -> UUID:
        """By what notes about this database are known."""
        return UUID(str(await self.value("SELECT fairpost.handover_key()")))

    async def resolve(
        self,
        email_id: EmailId,
        decision: Decision,
        *,
        by: str,
        due_at: datetime | None = None,
        report: Report | None = None,
        now: datetime | None = None,
    ) -> str | None:
        """The stored state it has now; None when it was not in doubt. `report`: what the provider said of it."""
        sql = "SELECT fairpost.resolve($1, $2, $3, $4, $5, $6)"
        detail = json.dumps(_detail(report) if report else {})
        state: str | None = await self.value(sql, email_id, decision, by, due_at, detail, _at(now))
        return state

    async def recheck(self, email_id: EmailId) -> Begun:
        """Whether an e-mail in doubt might still be sent now, and to whom not; as `begin` says it, and nothing changes."""
        row = await self.row("SELECT * FROM fairpost.recheck($1, $2)", email_id, clock.stated())
        return Begun(verdict=row["verdict"], skip=tuple(row["skip"] or ()), attempt=None, now=row["now"])

    async def leave_in_doubt(self, email_id: EmailId, why: str | None) -> None:
        """The provider was asked and cannot say: now its policy decides, or a person."""
        await self.value("SELECT fairpost.leave_in_doubt($1, $2)", email_id, why)

    async def cancel(self, email_id: EmailId, *, reason: str | None = None, now: datetime | None = None) -> str | None:
        """`reason`: in the words of who asks. The state it is in afterwards; None when there is no such e-mail."""
        state: str | None = await self.value("SELECT fairpost.cancel($1, $2, $3)", email_id, reason, _at(now))
        return state

    async def retry(self, email_id: EmailId, *, now: datetime | None = None) -> str | None:
        state: str | None = await self.value("SELECT fairpost.retry($1, $2)", email_id, _at(now))
        return state

    async def suppress(self, workspace: str, address: str, *, reason: str, now: datetime | None = None) -> bool:
        return bool(await self.value("SELECT fairpost.suppress($1, $2, $3, $4)", workspace, address, reason, _at(now)))


def _account(row: Any) -> Account:
    return Account(
        id=AccountId(row["account_id"]),
        name=row["name"],
        address=row["address"],
        display_name=row["display_name"],
        pool=row["pool"],
        status=AccountStatus(row["status"]),
        status_reason=stored_reason(row["status_reason"], row["status_params"]),
        limits=_limits(row),
        usage=Usage(
            hour_started_at=row["hour_started_at"],
            hour_used=row["hour_used"],
            day_started_at=row["day_started_at"],
            day_used=row["day_used"],
            day_bounces=row["day_bounces"],
            day_errors=row["day_errors"],
            last_begun_at=row["last_begun_at"],
            gap_roll=row["gap_roll"],
            warm_day=row["warm_day"],
            rest=Rest(row["rest_until"], RestReason(row["rest_reason"]), row["rest_detail"])
            if row["rest_until"]
            else None,
        ),
        transport=_transport(row["transport"])
        if len(row["transport"]) <= KEPT_CHARS_MAX
        else read_transport(json.loads(row["transport"])),
        status_until=row["status_until"],
        provider=row["provider"],
        patience=Patience(row["patience_urgent"], row["patience_bulk"]) if row["patience_urgent"] else None,
        revision=row["account_revision"],
        troubles=_troubles(row["troubles"]),
    )


def _runtime(row: Any) -> AccountRuntime:
    return AccountRuntime(
        account=_account(row),
        owner=row["owner"],
        until=row["driven_until"],
        seen_at=clock.stated() or row["seen_at"],
        is_outdated=row["revision"] != row["account_revision"],
        deaths=row["deaths"],
        died_at=row["died_at"],
        sent_total=row["sent_total"],
    )


def _troubles_json(troubles: Troubles) -> str | None:
    """None: there are none."""
    if troubles == NO_TROUBLES:
        return None
    return json.dumps(
        {
            "throttle_count": troubles.throttle_count,
            "unreachable": troubles.unreachable,
            "is_barred": troubles.is_barred,
            "answer": troubles.answer,
            "refused": list(troubles.refused),
            "last": troubles.last,
            "has_passed": troubles.has_passed,
            "put_off": [list(pair) for pair in troubles.put_off.items()],
        }
    )


def _troubles(text: str | None) -> Troubles:
    if text is None:
        return NO_TROUBLES
    stored = json.loads(text)
    return Troubles(
        throttle_count=stored["throttle_count"],
        unreachable=stored["unreachable"],
        is_barred=stored.get("is_barred", False),  # an engine of an older version does not write it
        answer=stored["answer"],
        refused=tuple(map(EmailId, stored["refused"])),
        last=EmailId(stored["last"]) if stored["last"] is not None else None,
        has_passed=stored["has_passed"],
        put_off={EmailId(id_): n for id_, n in stored["put_off"]},
    )


@lru_cache(TRANSPORTS_KEPT)
def _transport(stored: str) -> TransportSettings | None:
    return read_transport(json.loads(stored))


def _limits(row: Any) -> Limits:
    return _limits_of(tuple(row[name] for name in _LIMITS))


@lru_cache(LIMITS_KEPT)
def _limits_of(values: tuple[Any, ...]) -> Limits:
    given = zip(LIMITS, values, strict=True)
    return Limits(**{each.name: each.stored(value) for each, value in given})


def _at(now: datetime | None) -> datetime | None:
    """None: the database's own clock counts, unless somebody has stopped ours."""
    return now or clock.stated()


@contextmanager
def _changed_meanwhile() -> Iterator[None]:
    try:
        yield
    except asyncpg.PostgresError as error:
        if error.sqlstate == "FP003":
            raise KeysChanged("The keys of the secrets were changed at the same moment. Try again.") from error
        if error.sqlstate == "FP006":
            raise ChangedMeanwhile("It was changed meanwhile. Nothing was changed by this.") from error
        raise


def _outgoing(
    row: Any, attachments: tuple[Attachment, ...], follows: Earlier | None, public_ids: PublicIds
) -> Outgoing:
    return Outgoing(
        id=EmailId(row["id"]),
        public_id=public_ids.in_headers(EmailId(row["id"])),
        workspace=row["workspace"],
        email_class=EmailClass(row["class"]),
        on_doubt=DoubtPolicy(row["on_doubt"]),
        attempts=row["attempts"],
        attempts_max=row["attempts_max"],
        sender=_mailbox(row["sender"]),
        recipients=tuple(Recipient(**recipient) for recipient in json.loads(row["recipients"])),
        envelope=tuple(row["addresses"]),
        fields=json.loads(row["fields"] or "{}"),
        content=Content(
            id=row["content_id"],
            subject=row["subject"],
            text=row["text_body"],
            html=row["html_body"],
            reply_to=_mailbox(row["reply_to"]),
            headers=json.loads(row["headers"] or "{}"),
            attachments=attachments,
            is_template=row["is_template"],
        ),
        account_id=row["account_id"],
        begun_at=row["begun_at"],
        evidence=json.loads(row["evidence"]) if row["evidence"] else None,
        follows=follows,
        user=row["user_name"],
        due_at=row["due_at"],
        tier=Tier(row["tier"]),
        is_fair=row["is_fair"],
        stream=row["stream"],
        gap=Gap(min_s=row["gap_min_s"], max_s=row["gap_max_s"]) if row["gap_max_s"] is not None else None,
    )


def _mailbox(text: str | None) -> Mailbox | None:
    return Mailbox(**json.loads(text)) if text else None


def _sample(row: Any) -> Sample:
    return Sample(
        suspects=[_suspect(each) for each in json.loads(row["suspects"])],
        others_sent=row["others_sent"],
        is_shared=row["senders"] > 1,
        blocks=row["blocks"],
    )


def _suspect(given: dict[str, Any]) -> Suspect:
    moments = {name: datetime.fromisoformat(given[name]) for name in ("since", "refused_since") if given[name]}
    return Suspect(**{**given, **moments})


def _usage_json(usage: Usage) -> str:
    def moment(value: datetime | None) -> str | None:
        return value.isoformat() if value else None

    return json.dumps(
        {
            "hour_started_at": moment(usage.hour_started_at),
            "hour_used": usage.hour_used,
            "day_started_at": moment(usage.day_started_at),
            "day_used": usage.day_used,
            "gap_roll": usage.gap_roll,
            "warm_day": usage.warm_day,
            **({"units": usage.charges[-1].units} if usage.charges else {}),
        }
    )


def _outcome(
    verdict: Verdict, report: Report | None, reason: Reason | None, soft_bounced: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    detail = _detail(report) if report else {}
    if reason is not None and not isinstance(verdict, Sent):
        detail |= {"reason": reason.code, "params": as_json(reason)}
    if soft_bounced:
        detail["soft_bounced"] = list(soft_bounced)
    match verdict:
        case Sent(bounced):
            return "sent", {**detail, "bounced": bounced}
        case Retry(due_at, remaining, bounced):
            return "retry", {
                **detail,
                "due_at": due_at.isoformat(),
                "remaining": remaining,
                "bounced": bounced,
            }
        case Bounced(bounced):
            return "bounced", {**detail, "bounced": bounced}
        case Failed():
            return "failed", detail
        case InDoubt():
            return "in_doubt", detail
        case Untouched():
            return "untouched", detail
        case Deferred(_, due_at):
            return "deferred", {**detail, "due_at": due_at and due_at.isoformat()}
        case _:
            assert_never(verdict)


def _detail(report: Report) -> dict[str, Any]:
    each = {a: {"code": r.code, "text": r.text[:500]} for a, r in report.recipients.items()}
    return {
        "code": report.reply and report.reply.code,
        "reply": report.reply.text if report.reply else report.error,
        "response_ms": report.response_ms,
        "message_id": report.message_id,
        "thread_id": report.thread_id,
        "recipients": each or None,
    }
