"""What a workspace reads over HTTP reveals nothing about how much others send: it contains no number that counts across
the installation.

Paths come from the OpenAPI document, and numbers from the database, so that new ones are covered immediately.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

from fairpost.api.topics import TOPICS
from fairpost.model.auth import Role
from fairpost.model.ids import EmailId
from fairpost.model.public_ids import Kind, PublicIds
from fairpost.store import campaigns, prospects
from fairpost.store.store import Store
from tests.api.conftest import ANSWER_S_MAX, Api
from tests.api.neighbours import A, Neighbour, settle_in
from tests.api.served import document
from tests.api.signed_in import signed_in
from tests.api.test_live import watching

pytestmark = pytest.mark.attack

HELLO = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
LINES = {"Content-Type": "application/x-ndjson"}
FOR_OTHERS = ("/v1/admin/", "/v1/inbox", "/v1/auth/setup")  # for admins
FIRST = 731_000_000_000  # ids that occur nowhere by chance
PUBLIC = re.compile(r"em_[0-9a-hjkmnp-tv-z]{13}")


@pytest.fixture
async def ids(api: Api) -> PublicIds:
    return await api.store.public_ids()


async def count_from_far(store: Store) -> None:
    """Gives everything numbers that are distinct from all others, and a separate range for each table."""
    await store.fetch(
        """SELECT setval(s.seqrelid, $1 + 1000000 * row_number() OVER (ORDER BY s.seqrelid)) FROM pg_sequence s
           JOIN pg_class c ON c.oid = s.seqrelid WHERE c.relnamespace = 'fairpost'::regnamespace AND s.seqmax > $1""",
        FIRST,
    )


async def numbers_of(store: Store) -> set[int]:
    """Returns every id in the database, of any kind."""
    columns = await store.fetch(
        """SELECT format('fairpost.%I', c.relname) AS name, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'bigint'::regtype"""
    )
    found: set[int] = set()
    for column in columns:
        rows = await store.fetch(
            f"SELECT DISTINCT {column['attname']} AS n FROM {column['name']} WHERE {column['attname']} >= $1", FIRST
        )
        found |= {row["n"] for row in rows}
    return found


def decoded(text: str) -> Iterator[str]:
    """Returns what a reader without the key could decode from the words in it."""
    yield text
    for word in set(re.findall(r"[A-Za-z0-9_-]{8,}", text)):
        try:
            yield base64.urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode("latin-1")
        except (binascii.Error, ValueError):
            continue


def numbers_in(text: str, known: set[int]) -> set[int]:
    plain = {int(n) for each in decoded(text) for n in re.findall(r"\d{9,}", each) if len(n) < 20}
    return known & (plain | {int(n, 16) for n in re.findall(r"\b[0-9a-f]{9,16}\b", text)})


async def live_a_little(store: Store, here: Neighbour, key: httpx.AsyncClient) -> None:
    """Writes records that contain numbers: events and audit entries of e-mails, prospects and campaigns."""
    for outcome, verb, body in (("failed", "retry", None), ("in_doubt", "resolve", {"decision": "sent"})):
        path = f"/v1/emails/{here.public.email(here.emails[outcome])}/{verb}"
        assert (await key.post(path, json=body)).status_code == 200
    assert (await key.post(f"/v1/emails/{here.public_emails[-3]}/cancel")).status_code == 200
    spring = await campaigns.campaign_named(store, A, "spring")
    prospect = await prospects.known_by(store, A, f"p1@{A}.test")
    await campaigns.stop(store, prospect.id, spring, reason="a test")
    await store.value(
        """INSERT INTO fairpost.events (at, kind, workspace, subject, detail)
           SELECT now(), 'duplicates_skipped', $1, 'spring', jsonb_build_object('emails', 1, 'from_prospect', min(id), 'to_prospect', max(id))
           FROM fairpost.prospects WHERE workspace = $1""",
        A,
    )


def words_for(here: Neighbour) -> dict[str, list[str]]:
    """Returns an id by the name of the path parameter."""
    return {
        "email_id": here.public_emails,
        "conversation_id": [here.public_conversation],
        "id": ["spring", "autumn"],
        "name": ["x", "people", "ann", f"ann-{A}", "welcome", "follow-up", *here.names],
        "address": [
            f"p0@{A}.test",
            f"p1@{A}.test",
            f"p3@{A}.test",
            f"sent@{here.secret}.test",
            f"soft@{here.secret}.test",
        ],
        "portal": ["default", "hub"],
        "type": ["welcome"],
        "domain": [f"{A}.test", f"unproven.{A}.test"],
        "webhook": [here.public.public(Kind.WEBHOOK, here.webhook)],
        "delivery": [here.public.public(Kind.DELIVERY, here.delivery)],
    }


async def pages_of(client: httpx.AsyncClient, path: str) -> list[httpx.Response]:
    """Reads all of them, in small pages."""
    answers = [await client.get(path, params={"limit": 2} if "find" not in path else {"limit": 2, "q": f"p0@{A}.test"})]
    for _ in range(4):
        is_list = answers[-1].status_code == 200 and answers[-1].headers["Content-Type"] == "application/json"
        data = answers[-1].json().get("data") if is_list else None
        if not isinstance(data, dict) or not data.get("next"):
            break
        answers.append(await client.get(path, params={**answers[-1].request.url.params, "cursor": data["next"]}))
    return answers


async def walk(client: httpx.AsyncClient, here: Neighbour) -> dict[str, list[tuple[int, str]]]:
    """Requests every GET path that is not for admins. Returns the statuses of the responses, and everything they
    contain."""
    words = words_for(here)
    heard: dict[str, list[tuple[int, str]]] = {}
    for path, methods in document()["paths"].items():
        if "get" not in methods or path.startswith(FOR_OTHERS) or path == "/v1/live/{topic}":
            continue
        names = re.findall(r"\{(\w+)\}", path)
        for values in product(*(words[name] for name in names)):
            asked = path
            for name, value in zip(names, values, strict=True):
                asked = asked.replace(f"{{{name}}}", quote(value, safe=""))
            for answer in await pages_of(client, asked):
                heard.setdefault(path, []).append((answer.status_code, f"{answer.text} {dict(answer.headers)}"))
    return heard


async def streams(client: httpx.AsyncClient, here: Neighbour) -> dict[str, str]:
    """Returns the first state of every topic, for everything that it can be asked for."""
    names = {"email": here.public_emails, "account": ["x"], "campaign": ["spring"]}
    heard: dict[str, str] = {}
    for topic in (name for name, watched in TOPICS.items() if not watched.is_for_admins):
        for name in names.get(topic, [""]):
            async with watching(client, f"/v1/live/{topic}?name={quote(name)}") as stream:
                state = await stream.state()
                assert state, "it sent no state"
                assert topic != "account" or state["account"]
                heard[topic] = f"{heard.get(topic, '')} {state}"
    return heard


@pytest.mark.slow
async def test_no_answer_to_a_workspace_has_a_number_of_the_installation_in_it(api: Api) -> None:
    await count_from_far(api.store)
    here = (await settle_in(api.store)).a
    async with (
        httpx.AsyncClient(
            base_url=api.url, headers={"Authorization": f"Bearer {here.key}"}, timeout=ANSWER_S_MAX
        ) as key,
        signed_in(api, A, Role.MANAGER) as manager,
    ):
        await live_a_little(api.store, here, key)
        sql = "SELECT id FROM fairpost.queue WHERE campaign_id = $1 LIMIT 3"
        planned = await api.store.fetch(sql, here.campaigns["spring"])
        here.emails |= {f"planned {n}": row["id"] for n, row in enumerate(planned)}
        known = await numbers_of(api.store)
        assert set(here.emails.values()) < known
        assert len(known) > 50
        for client in (key, manager):
            heard = await walk(client, here)
            for path, answers in heard.items():
                for _, said in answers:
                    assert not numbers_in(said, known), (path, said)
            opened = {path for path, answers in heard.items() if any(status == 200 for status, _ in answers)}
            shut = {"/v1/auth/session", "/v1/auth/sessions"} if client is key else set()
            assert set(heard) - opened == shut
            for topic, said in (await streams(client, here)).items():
                assert not numbers_in(said, known), (topic, said)
        told = " ".join(said for answers in heard.values() for _, said in answers)
        assert {here.public.email(id_) for id_ in here.emails.values()} <= set(PUBLIC.findall(told))


def test_a_number_is_seen_wherever_it_is_hidden() -> None:
    """Otherwise the test above would prove nothing."""
    known = {1861234567890123456}
    hidden = base64.urlsafe_b64encode(b"n1861234567890123456").decode()
    for said in ("<1861234567890123456@x>", f'{{"next": "{hidden}"}}', f"<{1861234567890123456:x}.00@x.test>"):
        assert numbers_in(said, known) == known
    assert not numbers_in("em_d6kshwcgane53", known)


async def test_submissions_are_answered_with_public_ids(api: Api, client: httpx.AsyncClient, ids: PublicIds) -> None:
    one = await client.post("/v1/emails", json=HELLO)
    many = await client.post(
        "/v1/emails/bulk", content='{"to": "a@b.test", "subject": "s", "text": "t"}\n' * 3, headers=LINES
    )
    told = [one.json()["data"]["id"], *(each["id"] for each in many.json()["data"]["results"])]
    stored = {row["id"] for row in await api.store.fetch("SELECT id FROM fairpost.queue")}
    assert {ids.email_id(each) for each in told} == stored
    assert not numbers_in(one.text + many.text, stored)


async def test_a_bare_number_is_no_id_to_a_workspace(api: Api, client: httpx.AsyncClient, ids: PublicIds) -> None:
    public_id = (await client.post("/v1/emails", json=HELLO)).json()["data"]["id"]
    number = ids.email_id(public_id)
    await api.workspace("other", domains=[])
    async with api.client("other") as other:
        foreign = (await other.post("/v1/emails", json=HELLO)).json()["data"]["id"]
    async with signed_in(api, "acme", Role.MANAGER) as member:
        for who in (client, member):
            answers = set()
            for given in (str(number), foreign, ids.email(7), "em_0", "x", f"{number:x}", f"0{number}"):
                for method, path, body in (
                    ("GET", "", None),
                    ("GET", "/life", None),
                    ("GET", "/attempts", None),
                    ("POST", "/cancel", None),
                    ("POST", "/retry", None),
                    ("POST", "/resolve", {"decision": "failed"}),
                ):
                    answer = await who.request(method, f"/v1/emails/{given}{path}", json=body)
                    answers.add((answer.status_code, answer.text.replace(given, "IT")))
            assert len(answers) == 1, answers
            assert answers.pop()[0] == 404
            found = (await who.get("/v1/emails/find", params={"q": str(number)})).json()["data"]
            assert (found["understood"], found["items"]) == ("nothing", [])
            async with watching(who, f"/v1/live/email?name={number}") as stream:
                assert await stream.state() is None
        assert (await member.get(f"/v1/emails/{public_id}")).json()["data"]["id"] == public_id


async def test_the_operator_gives_either_form(api: Api, client: httpx.AsyncClient, ids: PublicIds) -> None:
    public_id = (await client.post("/v1/emails", json=HELLO)).json()["data"]["id"]
    number = ids.email_id(public_id)
    async with signed_in(api) as admin:
        admin.headers["X-Workspace"] = "acme"
        for given in (public_id, str(number)):
            for path in (f"/v1/emails/{given}", f"/v1/emails/{given}/life", f"/v1/admin/emails/{given}"):
                assert (await admin.get(path)).json()["data"]["id"] == public_id
            (found,) = (await admin.get("/v1/emails/find", params={"q": given})).json()["data"]["items"]
            assert found["id"] == public_id
            following = await admin.post("/v1/emails", json={**HELLO, "follows": given})
            assert following.status_code == 201
            async with watching(admin, f"/v1/live/email?name={given}&workspace=acme") as stream:
                assert (await stream.state())["email"]["id"] == public_id
                async with watching(client, f"/v1/live/email?name={given}") as others:  # at the same time
                    assert (await others.state() is None) == (given != public_id)
        for nothing in ("em_0", "0", "9223372036854775808", ids.email(7), "7"):
            assert (await admin.get(f"/v1/admin/emails/{nothing}")).status_code == 404
    assert await api.store.value("SELECT count(*) FROM fairpost.queue WHERE follows = $1", number) == 2


async def test_an_email_follows_another_by_its_public_id(api: Api, client: httpx.AsyncClient, ids: PublicIds) -> None:
    public_id = (await client.post("/v1/emails", json=HELLO)).json()["data"]["id"]
    number = ids.email_id(public_id)
    answer = await client.post("/v1/emails", json={**HELLO, "follows": public_id})
    assert answer.status_code == 201, answer.text
    line = f'{{"to": "a@b.test", "subject": "s", "text": "t", "follows": "{public_id}"}}'
    assert (await client.post("/v1/emails/bulk", content=line, headers=LINES)).json()["data"]["accepted"] == 1
    assert await api.store.value("SELECT count(*) FROM fairpost.queue WHERE follows = $1", number) == 2
    told = set()
    for given in (str(number), ids.email(7), "em_0", "x"):
        refused = await client.post("/v1/emails", json={**HELLO, "follows": given})
        told.add((refused.status_code, str(refused.json()["error"]["details"])))
    for raw in (str(number), f'"{number}"', '"em_0"', "true", "[]", f'"{ids.email(7)}"'):
        line = f'{{"to": "a@b.test", "subject": "s", "text": "t", "follows": {raw}}}'
        (result,) = (await client.post("/v1/emails/bulk", content=line, headers=LINES)).json()["data"]["results"]
        told.add((422, str([{name: result["error"][name] for name in ("field", "message")}])))
    assert len(told) == 1, told
    assert "'follows'" in told.pop()[1]


async def test_a_campaigns_key_is_reported_and_found_in_its_public_form_alone(api: Api, ids: PublicIds) -> None:
    here = (await settle_in(api.store)).a
    sql = "SELECT q.id, q.idempotency_key FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.idempotency_key IS NOT NULL"
    row = (await api.store.fetch(sql, here.campaigns["spring"]))[0]
    public_id, inside = ids.email(row["id"]), row["idempotency_key"]
    async with httpx.AsyncClient(
        base_url=api.url, headers={"Authorization": f"Bearer {here.key}"}, timeout=ANSWER_S_MAX
    ) as client:
        key = (await client.get(f"/v1/emails/{public_id}")).json()["data"]["idempotency_key"]
        prospect, sequence, step = key.split(":")
        person = await prospects.known_by(api.store, A, f"p{int(inside.split(':')[0]) - here.prospects[0]}@{A}.test")
        told = (await client.get(f"/v1/prospects/{person.address}")).json()["data"]
        assert (prospect, step) == (told["id"], inside.split(":")[2])
        assert sequence.startswith("sq_")

        async def found(key: str) -> tuple[list[str], list[str], str]:
            listed = (await client.get("/v1/emails", params={"key": key})).json()["data"]["items"]
            looked = (await client.get("/v1/emails/find", params={"q": key})).json()["data"]
            return [e["id"] for e in listed], [e["id"] for e in looked["items"]], looked["understood"]

        assert await found(key) == ([public_id], [public_id], "key")
        assert await found(inside) == ([], [], "nothing")
        own = {**HELLO, "idempotency_key": "4:5:6"}
        mine = (await client.post("/v1/emails", json=own)).json()["data"]["id"]
        assert await found("4:5:6") == ([mine], [mine], "key")
        assert (await client.get(f"/v1/emails/{mine}")).json()["data"]["idempotency_key"] == "4:5:6"
    assert await api.store.value("SELECT count(*) FROM fairpost.queue WHERE id = $1", EmailId(row["id"])) == 1


async def test_an_etag_cannot_be_tried_out(api: Api, client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/accounts", json={"name": "sales", "address": "sales@acme.example"})
    account = await api.store.account_named("acme/sales")
    tag = made.headers["ETag"].strip('"')
    guesses = (f"{account.id} {account.revision}", f"{account.revision} {account.id}", str(account.id))
    assert not [guess for guess in guesses if hashlib.sha256(guess.encode()).hexdigest().startswith(tag)]
    kept = {"If-Match": made.headers["ETag"]}
    assert (await client.patch("/v1/accounts/sales", json={"display_name": "S"}, headers=kept)).status_code == 200
    assert (await client.patch("/v1/accounts/sales", json={"display_name": "T"}, headers=kept)).status_code == 412


async def test_a_cursor_is_sealed_and_another_is_refused(api: Api, client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await client.post("/v1/emails", json=HELLO)
    number = await api.store.value("SELECT max(id) FROM fairpost.queue")
    page = (await client.get("/v1/emails", params={"limit": 2})).json()["data"]
    assert not numbers_in(page["next"], {number})
    rest: dict[str, Any] = (await client.get("/v1/emails", params={"cursor": page["next"]})).json()["data"]
    assert len(rest["items"]) == 1
    for forged in (f"n{number}", f"s{number}", "scu_0", "s", f"s{page['items'][0]['id']}"):
        cursor = base64.urlsafe_b64encode(forged.encode()).decode().rstrip("=")
        assert (await client.get("/v1/emails", params={"cursor": cursor})).status_code == 400
