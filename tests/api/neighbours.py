"""Two workspaces that share a database and use the same names; every text of a workspace contains its own name."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fairpost.campaigns import calendars, launching
from fairpost.model.account import Limits, Usage
from fairpost.model.campaign import Schedule, Step
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.prospect import ProspectLine
from fairpost.model.public_ids import Kind, PublicIds
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.sender import SenderId
from fairpost.model.verdict import Bounced, Failed, InDoubt, Retry, Sent, Verdict
from fairpost.model.window import Quota
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan, Scope
from fairpost.store import campaign_progress, campaigns, prospects, senders, templates, workspaces
from fairpost.store.campaigns import Draft
from fairpost.store.store import Store
from fairpost.vault.keys import new_key
from tests.databases import Databases

A, B = "anton", "berta"
SEALED_WITH = new_key()  # the key of a service that can seal more secrets
OUTCOMES = ("sent", "bounced", "failed", "retry", "in_doubt", "begun", "claimed")

# These belong to no workspace, and contain no names.
SHARED = frozenset({"engines", "fairness", "patience", "pauses", "server"})

Rows = dict[str, Counter[str]]


@dataclass(slots=True)
class Neighbour:
    """Everything of a workspace that another caller might request."""

    name: str
    key: str = ""
    key_id: str = ""
    account: int = 0
    emails: dict[str, int] = field(default_factory=dict)
    campaigns: dict[str, int] = field(default_factory=dict)
    prospects: list[int] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    templates: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    webhook: int = 0
    delivery: int = 0
    conversation: int = 0
    public: PublicIds = field(default_factory=lambda: PublicIds(bytes(32), EmailId(0)))

    @property
    def secret(self) -> str:
        """A word that occurs in everything the workspace wrote, and nowhere else."""
        return f"qx{self.name}xq"

    @property
    def names(self) -> list[str]:
        """Words that a stranger might use to request something of the workspace."""
        return [
            *(self.name, self.key_id, f"p0@{self.name}.test", f"{self.name}.test", f"{self.name}/x", "x", "spring"),
            *("autumn", "people", "welcome", "ann", f"only-{self.name}", f"ann-{self.name}", f"{self.name}/default"),
        ]

    @property
    def ids(self) -> list[int]:
        return [
            *(self.account, *self.emails.values(), *self.campaigns.values()),
            *(*self.prospects, *self.lists, *self.templates, *self.sequences),
        ]

    @property
    def public_emails(self) -> list[str]:
        return [self.public.email(id_) for id_ in self.emails.values()]

    @property
    def public_conversation(self) -> str:
        return self.public.public(Kind.CONVERSATION, self.conversation)

    @property
    def markers(self) -> list[str]:
        """A word in every row of the workspace that has text, and ids too long to match by chance."""
        return [self.name, self.key_id, *(str(id_) for id_ in self.emails.values())]


async def fill(store: Store, name: str, *, operators: AccountId) -> Neighbour:
    """Rows in every table that has tenants' rows."""
    here = Neighbour(name, public=await store.public_ids())
    await workspaces.add_workspace(store, name, loans=[Loan("default", (PROVEN, ACCOUNT))])
    for domain in (f"{name}.test", f"unproven.{name}.test"):
        await workspaces.add_domain(store, name, domain)
    await workspaces.domain_checked(store, name, f"{name}.test", proven_by="a test")
    key, here.key = await workspaces.add_key(
        store,
        name,
        region="main",
        name=f"key of {here.secret}",
        scopes=tuple(Scope),
        by=f"founder of {here.secret}",
        per_minute=100_000,
    )
    here.key_id = key.id
    await workspaces.write_audit(store, workspace=name, who=f"founder of {here.secret}", action="made", subject=name)
    here.account = await store.add_account(
        f"{name}/x",
        address=f"x@{name}.test",
        pool=f"{name}/default",
        limits=Limits(delay_ms=0, units_per_minute=60_000),
    )
    await workspaces.put_mailbox(store, name, here.account, mailbox=f"x@{name}.test", address=f"x@{name}.test")
    await _people(store, here)
    await _campaigns(store, here)
    await _emails(store, here, AccountId(here.account))
    await _figures(store, here, operators)
    await campaign_progress.count(store, seconds_max=60)
    return here


async def _people(store: Store, here: Neighbour) -> None:
    lines = [
        ProspectLine(
            line=n,
            address=f"p{n}@{here.name}.test",
            fields={"secret": here.secret},
            timezone=None,
            external_id=f"{here.name}-{n}",
        )
        for n in range(4)
    ]
    async with store.connection() as conn:
        for list_name in ("people", f"only-{here.name}"):
            await prospects.import_prospects(conn, lines, workspace=here.name, list_name=list_name, skip_bad=False)
    here.prospects = [row["id"] for row in await _own(store, "prospects", here)]
    here.lists = [row["id"] for row in await _own(store, "lists", here)]
    await prospects.pause(store, await prospects.known_by(store, here.name, f"p2@{here.name}.test"), is_paused=True)
    await store.suppress(here.name, f"p3@{here.name}.test", reason=f"asked {here.secret}")
    await senders.set_sender(
        store, SenderId(workspace=here.name, name="ann"), plan=f"plan of {here.secret}", since=None
    )
    await store.hold(here.name, "user", f"ann-{here.name}", reason=f"held by {here.secret}")


async def _campaigns(store: Store, here: Neighbour) -> None:
    now = datetime.now(UTC)
    await calendars.set_schedule(
        store, here.name, Schedule(timezone="UTC", window=None, quota=Quota(daily_max=500)), now=now
    )
    for template in ("welcome", f"only-{here.name}"):
        await templates.put_template(
            store, here.name, template, subject=f"Of {here.secret}", text=f"Words of {here.secret}", html=None
        )
    await templates.put_sequence(store, here.name, "spring", [Step(template="welcome", delay_s=0)])
    for name in ("spring", "autumn"):
        draft = Draft(
            workspace=here.name,
            name=name,
            sequence="spring",
            lists=("people",),
            route=f"{here.name}/default",
            user=here.secret,
        )
        here.campaigns[name] = (await campaigns.put_draft(store, draft)).id
    spring = await campaigns.campaign_by_id(store, here.campaigns["spring"])
    launched = await launching.launch(store, spring, skip_incomplete=False, by=here.secret, now=now)
    await launching.schedule(store, launched)
    await campaigns.stop(store, here.prospects[1], spring, reason=f"stopped by {here.secret}")
    here.templates = [row["id"] for row in await _own(store, "templates", here)]
    here.sequences = [row["id"] for row in await _own(store, "sequences", here)]


async def _emails(store: Store, here: Neighbour, account: AccountId) -> None:
    """Creates an e-mail in each state. The campaign's are in the pool; these go through the account only."""
    given = [
        {
            "workspace": here.name,
            "to": f"{outcome}@{here.secret}.test",
            "from": f"shop@{here.name}.test",
            "subject": f"Secret of {here.secret}",
            "text": f"Words of {here.secret}",
            "user": "ann",
            "stream": f"stream of {here.secret}",
            "account": f"{here.name}/x",
            "idempotency_key": f"order-{outcome}",
            "fields": {"secret": here.secret},
            "tags": {"secret": here.secret},
            "attachments": [{"filename": f"{here.secret}.txt", "data": "aGk="}],
        }
        for outcome in OUTCOMES
    ]
    rows = await store.enqueue_many(given, daily_max=1000, waiting_max=1000)
    here.emails = dict(zip(OUTCOMES, (row["id"] for row in rows), strict=True))
    lease = await store.take_lease(account, owner=f"engine of {here.secret}", seconds=3600)
    assert lease is not None
    claimed: set[int] = set()
    while not claimed >= set(here.emails.values()):
        claim = await store.claim(lease, limit=50)
        assert claim.ids
        claimed |= set(claim.ids)
    for outcome in OUTCOMES[:-1]:
        id_ = EmailId(here.emails[outcome])
        assert (await store.begin(lease, id_, usage=Usage())).verdict == "begun"
        if outcome != "begun":
            to = f"{outcome}@{here.secret}.test"
            report = Report(
                reached=Reached.REPLIED,
                reply=Reply(250, f"{outcome} by {here.secret}"),
                message_id=f"<{outcome}@{here.secret}.test>",
            )
            await store.settle(lease, id_, _verdict(outcome, to), report)
    waiting = {**given[0], "idempotency_key": "order-waiting", "due_at": "2100-01-01T00:00:00Z"}
    cancelled = {**waiting, "idempotency_key": "order-cancelled"}
    held = {**waiting, "idempotency_key": "order-held", "user": f"ann-{here.name}"}
    rows = await store.enqueue_many([waiting, cancelled, held])
    here.emails |= dict(zip(("waiting", "cancelled", "held"), (row["id"] for row in rows), strict=True))
    await store.cancel(EmailId(here.emails["cancelled"]), reason=f"cancelled by {here.secret}")


def _verdict(outcome: str, to: str) -> Verdict:
    later = datetime.now(UTC) + timedelta(days=300)
    verdicts: dict[str, Verdict] = {
        "sent": Sent(),
        "bounced": Bounced((to,)),
        "failed": Failed(),
        "retry": Retry(later, (to,)),
        "in_doubt": InDoubt(),
    }
    return verdicts[outcome]


async def _figures(store: Store, here: Neighbour, operators: AccountId) -> None:
    """Writes what engines write in passing, also for the operator's account that both workspaces use."""
    ours = [(account, here.name) for account in (here.account, operators)]
    async with store.connection() as conn:
        await conn.executemany(
            "INSERT INTO fairpost.counters VALUES ($1, $2, now(), 1, 0) ON CONFLICT DO NOTHING", ours
        )
        await conn.executemany(
            "INSERT INTO fairpost.blocks VALUES ($1, $2, now(), now(), 'bounces', '{}') ON CONFLICT DO NOTHING", ours
        )
        await conn.executemany(
            """INSERT INTO fairpost.mailbox_reads (account_id, position, looked_at, failures, reason, params, failed_at)
               VALUES ($1, '{}', now(), 1, 'mailbox.unreachable', jsonb_build_object('error', $2::text), now()) ON CONFLICT DO NOTHING""",
            [(a, here.secret) for a, _ in ours],
        )
        await conn.executemany(
            "INSERT INTO fairpost.charges VALUES ($1, now(), $2, 1)", [(a, here.emails["sent"]) for a, _ in ours]
        )
        await conn.execute(
            "INSERT INTO fairpost.soft_bounces VALUES ($1, 'soft@' || $2 || '.test', 1, now(), now())",
            here.name,
            here.secret,
        )
        await conn.execute(
            "INSERT INTO fairpost.activity VALUES ($1, 'ann', '2030-01-01', $2, 1, 1)", here.name, here.secret
        )
        await conn.execute(
            "INSERT INTO fairpost.suppression_hashes VALUES ($1, sha256($2::text::bytea), 'manual', now())",
            *(here.name, here.secret),
        )
        await conn.execute(
            """INSERT INTO fairpost.portal_overrides (workspace, portal, type, subject, text_body, html_body, changed_at)
               VALUES ($1, 'default', 'welcome', $2, $2, $2, now())""",
            *(here.name, here.secret),
        )
        await conn.execute(
            "INSERT INTO fairpost.workspace_settings (workspace, title) VALUES ($1, $2)", here.name, here.secret
        )
        await conn.execute(
            """INSERT INTO fairpost.dkim_keys (workspace, domain, selector, algorithm, public, created_at, retired_at)
               VALUES ($1, $1 || '.test', 'key', 'rsa', $2, now(), now())""",
            *(here.name, here.secret),
        )
        await conn.execute(
            "INSERT INTO fairpost.domain_health VALUES ($1, $1 || '.test', jsonb_build_array(jsonb_build_object('what', 'spf', 'grade', 'good', 'code', 'domain.spf_good', 'params', jsonb_build_object('domain', $2::text))), now())",
            *(here.name, here.secret),
        )
        await conn.execute(
            """INSERT INTO fairpost.returned (workspace, email_id, address, effect, reason, params, source, at)
               VALUES ($1, $2, 'back@' || $3 || '.test', 'replied', 'prospect.replied', '{}', 'receive', now())""",
            *(here.name, here.emails["sent"], here.secret),
        )
        here.webhook = await conn.fetchval(
            """INSERT INTO fairpost.webhooks (workspace, url, description, created_at, cursor)
               VALUES ($1, 'https://' || $2 || '.test/hook', $2, now(), '0.0') RETURNING id""",
            *(here.name, here.secret),
        )
        await conn.execute(
            "INSERT INTO fairpost.webhook_secrets (webhook_id, workspace, secret, created_at) VALUES ($1, $2, $3, now())",
            *(here.webhook, here.name, f"v1:{SEALED_WITH.id}:{here.secret}"),
        )
        await conn.execute(
            "INSERT INTO fairpost.webhook_pending VALUES ($1, 0, 1, $2, $3, 1, now(), now())",
            *(here.webhook, here.name, here.secret),
        )
        here.delivery = await conn.fetchval(
            """INSERT INTO fairpost.webhook_deliveries (webhook_id, workspace, at, message_id, kind, email_id, attempt, status, duration_ms, answer)
               VALUES ($1, $2, now(), 'ev_' || $3, 'webhook.test', $4, 1, 200, 1, 'ok from ' || $3) RETURNING id""",
            *(here.webhook, here.name, here.secret, here.emails["sent"]),
        )
        here.conversation = await conn.fetchval(
            """WITH with_person AS (
                   INSERT INTO fairpost.conversations (workspace, address, labels, last_at) VALUES ($1, 'back@' || $3 || '.test', ARRAY[$3], now()) RETURNING id)
               INSERT INTO fairpost.replies (conversation_id, workspace, email_id, kind, mail, author, from_name, from_address, to_addresses, subject, at, refs, text_body, is_cut)
               SELECT id, $1, $2, 'reply', $3, $3, $3, 'back@' || $3 || '.test', '{}', $3, now(), '{}', $3, false FROM with_person RETURNING conversation_id""",
            *(here.name, here.emails["sent"], here.secret),
        )
        await conn.execute("INSERT INTO fairpost.activity_days VALUES ($1, 'ann', '2030-01-01', 1)", here.name)
        await conn.execute("INSERT INTO fairpost.dirty_senders (workspace, user_name) VALUES ($1, 'ann')", here.name)
        await conn.execute("INSERT INTO fairpost.offences VALUES ($1, 'ann', '2030-01-01')", here.name)
        await conn.execute(
            "INSERT INTO fairpost.quotas VALUES ($1, '2030-01-01', '2030-01-02', '2030-01-01', 7)", here.name
        )
        await conn.execute(
            "INSERT INTO fairpost.events (at, kind, workspace, subject, detail) VALUES (now(), 'told', $1, $1, jsonb_build_object('secret', $2::text))",
            *(here.name, here.secret),
        )
        await conn.execute(
            """INSERT INTO fairpost.outbox (at, kind, workspace, email_id, subject, address, params)
               VALUES (now(), 'email.replied', $1, $2, $3, 'back@' || $3 || '.test', jsonb_build_object('secret', $3))""",
            *(here.name, here.emails["sent"], here.secret),
        )
        await conn.execute("SELECT fairpost.take_turn()")


async def _own(store: Store, table: str, here: Neighbour) -> list[Any]:
    return await store.fetch(f"SELECT id FROM fairpost.{table} WHERE workspace = $1 ORDER BY id", here.name)


async def tables(store: Store) -> list[str]:
    """Returns all tables of the schema; a partitioned one counts as a whole."""
    rows = await store.fetch(
        """SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace
           AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition ORDER BY 1"""
    )
    return [row["relname"] for row in rows]


async def rows_of(store: Store) -> Rows:
    """Every row of every table, as text."""
    names = await tables(store)
    async with (
        store.connection() as conn
    ):  # one connection for all of them, because each use of the pool costs another query
        return {
            table: Counter(row["row"] for row in await conn.fetch(f"SELECT t::text AS row FROM fairpost.{table} t"))
            for table in names
        }


@dataclass(slots=True)
class Neighbours:
    a: Neighbour
    b: Neighbour
    of_b: Rows  # the rows that were added with b

    async def changed(self, store: Store) -> Rows:
        """The rows of b that have changed or are gone."""
        now = await rows_of(store)
        found = {table: self.of_b[table] - now[table] for table in now if table not in SHARED | SHARED_TREE}
        return {table: rows for table, rows in found.items() if rows}

    async def lost(self, store: Store) -> Rows:
        """Also includes new rows, and rows that contain something of b. Empty if b is unchanged and not mentioned."""
        now = await rows_of(store)
        marked = {
            table: Counter({row: n for row, n in found.items() if any(marker in row for marker in self.b.markers)})
            for table, found in now.items()
        }
        found = {
            table: (self.of_b[table] - now[table]) + (marked[table] - self.of_b[table])
            for table in now
            if table not in SHARED | SHARED_TREE
        }
        return {table: rows for table, rows in found.items() if rows}


# Rows of the tree and its clocks belong to shared routes, and change with every workspace's mail.
SHARED_TREE = frozenset({"node_state", "nodes", "arrivals", "routes", "rate_buckets", "identity_checks", "identity"})


async def settle_in(store: Store) -> Neighbours:
    """Creates a first and then b, so that everything added then belongs to b."""
    operators = await store.add_account("house", address="house@operator.test", limits=Limits(units_per_minute=60_000))
    a = await fill(store, A, operators=operators)
    before = await rows_of(store)
    b = await fill(store, B, operators=operators)
    after = await rows_of(store)
    return Neighbours(a, b, {table: rows - before[table] for table, rows in after.items()})


@contextmanager
def neighbourhood(databases: Databases) -> Iterator[tuple[str, Neighbours]]:
    """A database with both workspaces, for all tests of a file: creating it takes half a second of CPU, and their
    attempts must change nothing."""

    async def settle(url: str) -> Neighbours:
        async with Store.open(url) as store:
            return await settle_in(store)

    with databases.new() as url:
        yield url, asyncio.run(settle(url))
