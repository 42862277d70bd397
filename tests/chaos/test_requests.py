"""A process of the service is killed in the middle of a request: the request takes effect completely, with its audit
entry, or not at all.

Repeating it completes it, but never does it twice. One service and one database serve all tests.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.api.access import SESSION_COOKIE
from fairpost.dev.inbox.mails import Arrived, add_mail, delete_mails, list_mails, open_mail
from fairpost.model.account import Limits, Usage
from fairpost.model.auth import Role
from fairpost.model.report import Reached, Report
from fairpost.model.verdict import InDoubt
from fairpost.model.workspace import Scope
from fairpost.regions.directory import MAIN
from fairpost.store import auth as people
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from tests.api.conftest import LENT
from tests.api.signed_in import session_of
from tests.campaigns.test_progress import finish
from tests.campaigns.world import World
from tests.chaos.answering import answering
from tests.chaos.driver import eventually
from tests.cli.conftest import Cli
from tests.simulation.world import draft

pytestmark = pytest.mark.slow

ACME = "acme"
PEOPLE = 30
MAILS = 40
ANSWER_S_MAX = 60.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, and the state of its objects in the database as one text: before it, right after its commit, and at
    the end."""

    method: str = "POST"
    path: str
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_by_admin: bool = False
    facts: str
    before: str
    committed: str = ""  # the final state, unless more than one commit is needed
    done: str
    answer: Mapping[str, object]
    again: Mapping[str, object]  # the answer to the repeated request


@dataclass(frozen=True)
class Place:
    store: Store
    office: World
    client: httpx.AsyncClient  # with a key of acme
    admin: httpx.AsyncClient
    failpoint: Path

    @classmethod
    @asynccontextmanager
    async def made(cls, url: str, folder: Path) -> "AsyncIterator[Place]":
        failpoint = folder / "failpoint"
        environment = {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(folder / "home")}
        with answering({**environment, "FAIRPOST_FAILPOINT_FILE": str(failpoint)}) as port:
            async with Store.open(url) as store:
                office = World(store, ManualClock(clock.now()))
                await office.add_accounts("anna", limits=Limits())
                await office.add_people(PEOPLE)
                await workspaces.add_workspace(store, ACME, loans=LENT)
                root = f"http://127.0.0.1:{port}"
                key = await added_key(store)
                boss = await people.add_invited(
                    store, workspace=None, address="boss@example.com", name="", role=Role.ADMIN, now=None
                )
                assert boss is not None
                cookies = {SESSION_COOKIE: await session_of(store, boss)}
                async with (
                    client_of(root, headers={"Authorization": f"Bearer {key}"}) as client,
                    client_of(root, cookies=cookies) as admin,
                ):
                    session = (await admin.get("/v1/auth/session")).json()["data"]
                    admin.headers["X-CSRF-Token"] = session["csrf_token"]
                    yield cls(store, office, client, admin, failpoint)

    async def ask(self, asked: Asked, request_id: str) -> httpx.Response:
        who = self.admin if asked.is_by_admin else self.client
        headers = {"Content-Type": "application/json", **asked.headers, "X-Request-Id": request_id}
        return await who.request(asked.method, asked.path, content=asked.body, headers=headers)

    async def entries(self, request_id: str) -> int:
        return int(await self.store.value("SELECT count(*) FROM fairpost.audit WHERE request_id = $1", request_id))


def client_of(root: str, **more: Any) -> httpx.AsyncClient:
    """Uses a new connection each time, because the last one may have ended with its process."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=root, timeout=ANSWER_S_MAX, limits=limits, **more)


async def added_key(store: Store) -> str:
    _, text = await workspaces.add_key(
        store, ACME, region=MAIN, name="test", scopes=tuple(Scope), by="a test", per_minute=100_000
    )
    return text


# ── the requests ──────────────────────────────────────────────────────────────────────────────────────────


async def a_launch(place: Place, name: str) -> Asked:
    campaign = await place.office.draft(name)
    return Asked(
        path=f"/v1/campaigns/{name}/launch",
        facts=f"SELECT c.state || ' ' || (SELECT count(*) FROM fairpost.queue q WHERE q.campaign_id = c.id) FROM fairpost.campaigns c WHERE c.id = {campaign.id}",
        before="draft 0",
        committed="running 0",
        done=f"running {PEOPLE}",
        answer={"scheduled": PEOPLE, "is_done": True},
        again={"scheduled": PEOPLE, "is_done": True},
    )


async def an_upload(_: Place, name: str) -> Asked:
    lines = "\n".join(f"{name}-{i}@there.test,Ann" for i in range(PEOPLE))
    return Asked(
        path=f"/v1/lists/{name}/prospects",
        headers={"Content-Type": "text/csv"},
        body=f"email,first_name\n{lines}\n".encode(),
        facts=f"SELECT count(*)::text FROM fairpost.prospects p JOIN fairpost.list_members m ON m.prospect_id = p.id JOIN fairpost.lists l ON l.id = m.list_id WHERE l.name = '{name}'",
        before="0",
        done=str(PEOPLE),
        answer={"added": PEOPLE, "same": 0},
        again={"added": 0, "same": PEOPLE},
    )


async def a_resolve(place: Place, name: str) -> Asked:
    store = place.store
    account = await store.add_account(name, address=f"{name}@post.test", pool=name, limits=Limits())
    lease = await store.take_lease(account, owner=name, seconds=600)
    assert lease is not None
    await store.enqueue_many([draft(workspace=ACME, pool=name)])
    (id_,) = (await store.claim(lease, limit=1)).ids
    await store.begin(lease, id_, usage=Usage())
    await store.settle(lease, id_, InDoubt(), Report(reached=Reached.AFTER_DOT))
    return Asked(
        path=f"/v1/emails/{(await store.public_ids()).email(id_)}/resolve",
        body=b'{"decision": "sent"}',
        facts=f"SELECT state::text FROM (SELECT id, state FROM fairpost.queue UNION ALL SELECT id, state FROM fairpost.emails) e WHERE id = {id_}",
        before="in_doubt",
        done="sent",
        answer={"state": "sent", "changed": True},
        again={"state": "sent", "changed": False},
    )


async def a_retry(place: Place, name: str) -> Asked:
    campaign = await place.office.draft(name)
    await place.office.launch(campaign)
    failed = await finish(place.store, campaign, "failed", 4)
    return Asked(
        path=f"/v1/campaigns/{name}/retry",
        facts=f"SELECT count(*)::text FROM fairpost.emails WHERE campaign_id = {campaign.id} AND state = 'failed'",
        before=str(failed),
        done="0",
        answer={"retried": failed, "is_done": True},
        again={"retried": 0, "is_done": True},
    )


async def a_revocation(place: Place, _: str) -> Asked:
    id_ = (await added_key(place.store)).split("_")[2]
    return Asked(
        method="DELETE",
        path=f"/v1/keys/{id_}",
        facts=f"SELECT (revoked_at IS NOT NULL)::text FROM fairpost.api_keys WHERE id = '{id_}'",
        before="false",
        done="true",
        answer={"id": id_},
        again={"id": id_},
    )


async def a_disabling(place: Place, name: str) -> Asked:
    member = await people.add_invited(
        place.store, workspace=ACME, address=f"{name}@example.com", name="", role=Role.SENDER, now=None
    )
    assert member is not None
    await session_of(place.store, member)
    return Asked(
        path=f"/v1/members/{member.address}/disable",
        facts=f"""SELECT (p.disabled_at IS NOT NULL) || ' ' || (SELECT count(*) FROM fairpost.sessions s WHERE s.person_id = p.id AND s.revoked_at IS NULL)
                  FROM fairpost.people p WHERE p.id = {member.id}""",
        before="false 1",
        done="true 0",
        answer={"address": member.address},
        again={"address": member.address},
    )


async def many_emails(_: Place, name: str) -> Asked:
    return Asked(
        path="/v1/emails/bulk",
        headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": name},
        body=b'{"to": "ann@example.com", "subject": "Hello", "text": "Hi"}\n' * PEOPLE,
        facts=f"SELECT count(*)::text FROM fairpost.queue WHERE idempotency_key LIKE '{name}:%'",
        before="0",
        done=str(PEOPLE),
        answer={"accepted": PEOPLE, "duplicates": 0},
        again={"accepted": PEOPLE, "duplicates": PEOPLE},
    )


async def one_email(_: Place, name: str) -> Asked:
    return Asked(
        path="/v1/emails",
        headers={"Idempotency-Key": name},
        body=b'{"to": "ann@example.com", "subject": "Hello", "text": "Hi"}',
        facts=f"SELECT count(*)::text FROM fairpost.queue WHERE idempotency_key = '{name}'",
        before="0",
        done="1",
        answer={"new": True},
        again={"new": False},
    )


async def an_empty_inbox(place: Place, _: str) -> Asked:
    await put_mails(place.store)
    return Asked(
        method="DELETE",
        path="/v1/inbox?all=true",
        is_by_admin=True,
        facts="SELECT count(*)::text FROM fairpost.inbox",
        before=str(MAILS),
        done="0",
        answer={"removed": MAILS},
        again={"removed": 0},
    )


async def put_mails(store: Store) -> None:
    await delete_mails(store, None)
    for n in range(MAILS):
        raw = f"Subject: {n}\r\n\r\nHello\r\n".encode()
        await add_mail(
            store,
            Arrived(sender="a@x.test", recipients=("b@x.test",), helo="x", peer="p", tls=None, auth_user=None, raw=raw),
        )


Deed = Callable[[Place, str], Awaitable[Asked]]
NO_ENTRY: tuple[Deed, ...] = (many_emails, one_email)  # they are in the queue and in history
DEEDS: tuple[Deed, ...] = (
    a_launch,
    an_upload,
    a_resolve,
    a_retry,
    a_revocation,
    a_disabling,
    many_emails,
    an_empty_inbox,
)
DEATHS = (
    *itertools.product(DEEDS, ("before_commit", "after_commit")),
    (a_launch, "after_launch"),
    (one_email, "after_submit"),
)
COMMITTED = ("after_commit", "after_submit")


async def die(place: Place, number: int, deed: Deed, point: str) -> None:
    what, name = f"{deed.__name__} {point}", f"n{number}"
    asked = await deed(place, name)
    assert await place.store.value(asked.facts) == asked.before, what
    place.failpoint.write_text(point)
    with pytest.raises(httpx.TransportError):
        await place.ask(asked, f"killed-{name}")
    assert not place.failpoint.exists(), what
    is_committed = point in COMMITTED
    left = (asked.committed or asked.done) if is_committed else asked.before
    assert await place.store.value(asked.facts) == left, what
    assert await place.entries(f"killed-{name}") == (is_committed and deed not in NO_ENTRY), what
    told = await place.ask(asked, f"again-{name}")
    assert told.is_success, (what, told.text)
    answer = asked.again if is_committed else asked.answer
    assert {key: told.json()["data"][key] for key in answer} == answer, what
    assert await place.store.value(asked.facts) == asked.done, what


async def test_killed_in_the_middle_of_a_request_all_is_done_or_nothing_and_asking_again_ends_it(
    url: str, tmp_path: Path
) -> None:
    async with Place.made(url, tmp_path) as place:
        for number, (deed, point) in enumerate(DEATHS):
            await die(place, number, deed, point)


# ── the same actions on the command line ──────────────────────────────────────────────────────────────────


async def test_a_command_killed_while_it_empties_the_inbox_leaves_all_mails_or_none(
    store: Store, url: str, tmp_path: Path
) -> None:
    await put_mails(store)
    mails = await list_mails(store, most=MAILS)
    cli = Cli({"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path)})
    async with store.together() as one:
        await one.value("SELECT id FROM fairpost.inbox WHERE id = $1 FOR UPDATE", mails[MAILS // 2].id)
        deleting = cli.start("inbox", "delete", "--all", "--yes")
        await eventually(
            lambda: store.value(f"{DELETING} AND a.wait_event_type = 'Lock')"), "it is in the middle", s_max=60
        )
        deleting.kill()
        deleting.communicate()
    await eventually(lambda: store.value(f"SELECT NOT ({DELETING}))"), "its end", s_max=60)
    left = await list_mails(store, most=MAILS)
    assert left in (mails, [])
    for number, mail in enumerate(reversed(left)):
        assert (await open_mail(store, mail.id))[1].startswith(f"Subject: {number}\r\n".encode())
    again = await asyncio.to_thread(cli.ok, "inbox", "delete", "--all", "--yes")
    assert str(len(left)) in again
    assert await list_mails(store) == []


DELETING = """SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database()
              AND a.query LIKE 'DELETE FROM fairpost.inbox%' AND a.state = 'active'"""
