"""Accounts and pools over HTTP: a workspace's own, sealed, and unusable for others."""

import asyncio
import json
from typing import Any

import asyncpg
import httpx2 as httpx
import pytest

from fairpost.model.account import Limits
from fairpost.model.reason import Reason
from fairpost.model.workspace import Scope
from fairpost.settings import Settings
from fairpost.startup.parts import vault_of
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api, fields_of

PASSWORD = "correct horse battery staple"
SMTP = {"host": "smtp.acme.example", "user": "sales@acme.example", "password": PASSWORD}
AS_LENT = [{"pool": "default", "from": ["proven", "account"]}]
SALES: dict[str, Any] = {"name": "sales", "address": "sales@acme.example", "smtp": SMTP}


async def everything_written(api: Api) -> str:
    audit = await api.store.fetch("SELECT a::text FROM fairpost.audit a")
    events = await api.store.fetch("SELECT e::text FROM fairpost.events e")
    return " ".join([*(row[0] for row in (*audit, *events)), *map(str, api.log)])


async def test_an_account_is_added_under_its_workspace_and_its_password_is_sealed(
    api: Api, client: httpx.AsyncClient, settings: Settings
) -> None:
    answer = await client.post("/v1/accounts", json={**SALES, "display_name": "Sales", "limits": {"daily_max": 50}})
    assert answer.status_code == 201, answer.text
    shown = answer.json()["data"]
    assert shown["name"] == "sales"
    assert shown["pool"] == "default"
    assert shown["status"] == "active"
    assert shown["limits"]["daily_max"] == 50
    assert shown["usage"]["day_used"] == 0
    assert shown["server"] == {
        "kind": "smtp",
        "host": "smtp.acme.example",
        "port": 587,
        "security": "starttls",
        "user": "sales@acme.example",
        "has_secret": True,
        "oauth": None,
        "client_id": None,
        "tenant": None,
        "read": False,
        "imap": None,
    }
    account = await api.store.account_named("acme/sales")
    assert account.pool == "acme/default"
    assert isinstance(account.transport, SmtpSettings)
    assert account.transport.secret
    assert vault_of(settings).open(account.transport.secret, account_id=account.id, name="") == PASSWORD
    listed = await client.get("/v1/accounts")
    one = await client.get("/v1/accounts/sales")
    sealed = account.transport.secret
    for said in (answer.text, listed.text, one.text, await everything_written(api)):
        assert PASSWORD not in said
        assert sealed not in said
        assert sealed.split(":")[1] not in said


async def test_two_workspaces_with_the_same_names_never_meet(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=["other.example"])
    assert (await client.post("/v1/accounts", json=SALES)).status_code == 201
    async with api.client("other") as stranger:
        for asked in (
            await stranger.get("/v1/accounts/sales"),
            await stranger.patch("/v1/accounts/sales", json={"display_name": "mine"}),
            await stranger.post("/v1/accounts/sales/pause", json={"reason": "mine"}),
            await stranger.post("/v1/accounts/sales/resume"),
            await stranger.delete("/v1/accounts/sales"),
        ):
            assert asked.status_code == 404, asked.text
        theirs = {"name": "sales", "address": "sales@other.example"}
        assert (await stranger.post("/v1/accounts", json=theirs)).status_code == 201
        assert (await stranger.delete("/v1/accounts/sales")).status_code == 200
        assert (await stranger.get("/v1/accounts")).json()["data"]["items"] == []
        assert (await stranger.get("/v1/pools")).json()["data"] == {"own": [], "lent": ["default"], "loans": AS_LENT}
    assert (await client.get("/v1/accounts/sales")).json()["data"]["address"] == "sales@acme.example"


async def test_names_and_pools_stay_inside_the_workspace(api: Api, client: httpx.AsyncClient) -> None:
    for wrong, field in (
        ({**SALES, "name": "other/sales"}, "name"),
        ({**SALES, "pool": "other/default"}, "pool"),
        ({**SALES, "pool": "@sales"}, "pool"),
        ({**SALES, "name": "a" * 101}, "name"),
        ({**SALES, "name": "sales\n"}, "name"),
    ):
        answer = await client.post("/v1/accounts", json=wrong)
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["details"][0]["field"] == field
    assert (await client.get("/v1/accounts/other%2Fsales")).status_code == 404
    assert await api.store.value("SELECT count(*) FROM fairpost.accounts") == 0


async def test_the_operators_accounts_are_not_to_be_seen(api: Api, client: httpx.AsyncClient) -> None:
    await api.store.value("SELECT fairpost.add_account('house', 'a@house.example', 'default', '{}')")
    assert (await client.get("/v1/accounts")).json()["data"] == {"items": [], "next": None}
    assert (await client.get("/v1/accounts/house")).status_code == 404
    assert (await client.delete("/v1/accounts/house")).status_code == 404
    assert (await client.get("/v1/pools")).json()["data"] == {"own": [], "lent": ["default"], "loans": AS_LENT}


async def test_pools_show_who_is_in_them(api: Api, client: httpx.AsyncClient) -> None:
    await client.post("/v1/accounts", json=SALES)
    await client.post("/v1/accounts", json={"name": "news", "address": "news@acme.example", "pool": "bulk"})
    await client.post("/v1/accounts/news/pause", json={"reason": "later"})
    assert (await client.get("/v1/pools")).json()["data"] == {
        "own": [
            {"name": "bulk", "accounts": [{"name": "news", "status": "paused"}]},
            {"name": "default", "accounts": [{"name": "sales", "status": "active"}]},
        ],
        "lent": [],  # the name no longer refers to the operator's default pool
        "loans": [],
    }


WRONG_ACCOUNTS: list[tuple[dict[str, Any], str]] = [
    ({"address": "nobody"}, "address"),
    ({"address": "ann@elsewhere.example"}, "address"),
    ({"address": "ann@acme.example.evil.example"}, "address"),
    ({"provider": "no-such"}, "provider"),
    ({"display_name": "a\nb"}, "display_name"),
    ({"limits": {"daily_max": 0}}, "limits.daily_max"),
    ({"limits": {"delay_ms": 5000, "gap_max_ms": 10}}, "limits"),
    ({"limits": {"warm_up": {}}}, "limits"),
    ({"limits": {"colour": 1}}, "limits.colour"),
    ({"smtp": {"host": "localhost"}}, "smtp.host"),
    ({"smtp": {"host": "db.localhost"}}, "smtp.host"),
    ({"smtp": {"host": "127.0.0.1"}}, "smtp.host"),
    ({"smtp": {"host": "127.1"}}, "smtp.host"),
    ({"smtp": {"host": "2130706433"}}, "smtp.host"),
    ({"smtp": {"host": "0x7f.1"}}, "smtp.host"),
    ({"smtp": {"host": "10.0.0.1"}}, "smtp.host"),
    ({"smtp": {"host": "169.254.169.254"}}, "smtp.host"),
    ({"smtp": {"host": "::1"}}, "smtp.host"),
    ({"smtp": {"host": "::ffff:10.0.0.1"}}, "smtp.host"),
    ({"smtp": {"host": "fe80::1"}}, "smtp.host"),
    ({"smtp": {"host": "smtp.example.com/x"}}, "smtp.host"),
    ({"smtp": {"host": "smtp example"}}, "smtp.host"),
    ({"smtp": {"host": "smtp..example"}}, "smtp.host"),
    ({"smtp": {"host": "localhost."}}, "smtp.host"),
    ({"smtp": {"host": "s.example", "port": 0}}, "smtp.port"),
    ({"smtp": {"host": "s.example", "user": "ann"}}, "smtp.password"),
    ({"smtp": {"host": "s.example", "password": PASSWORD}}, "smtp.user"),
    ({"smtp": {**SMTP, "password": "a\nb"}}, "smtp.password"),
    ({"smtp": {**SMTP, "security": "none"}}, "smtp.security"),
    ({"smtp": {**SMTP, "security": "offered"}}, "smtp.security"),
    ({"smtp": {**SMTP, "ca_file": "/etc/passwd"}}, "smtp.ca_file"),
    ({"smtp": {"host": "s.example", "oauth": {"kind": "microsoft-client", "client_id": "a"}}}, "smtp.oauth.tenant"),
    (
        {
            "smtp": {
                "host": "s.example",
                "oauth": {"kind": "google-refresh-token", "client_id": "a", "token_uri": "x"},
            }
        },
        "smtp.oauth.token_uri",
    ),
    ({"gmail": {"oauth": {"kind": "google-service-account", "key": "{}"}}}, "gmail.oauth.key"),
    ({"gmail": {"oauth": {"kind": "microsoft-client"}}}, "gmail.oauth.kind"),
]


async def test_an_invalid_field_is_named_and_nothing_is_added(api: Api, client: httpx.AsyncClient) -> None:
    wrong = []
    for given, field in WRONG_ACCOUNTS:
        answer = await client.post("/v1/accounts", json={"name": "sales", "address": "sales@acme.example", **given})
        if fields_of(answer)[:1] != [field] or PASSWORD in answer.text:
            wrong.append((given, answer.text))
    assert wrong == []
    assert await api.store.value("SELECT count(*) FROM fairpost.accounts") == 0


def service_key(token_uri: str) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "robot@project.iam.gserviceaccount.com",
            "client_id": "1234",
            "private_key": pem,
            "private_key_id": "abcd",
            "token_uri": token_uri,
        }
    )


async def test_tokens_come_from_where_we_say(api: Api, client: httpx.AsyncClient) -> None:
    for uri, status in (("https://evil.example/token", 422), ("https://oauth2.googleapis.com/token", 201)):
        key = service_key(uri)
        gmail = {"oauth": {"kind": "google-service-account", "key": key}, "subject": "sales@acme.example"}
        answer = await client.post(
            "/v1/accounts", json={"name": "api", "address": "sales@acme.example", "gmail": gmail}
        )
        assert answer.status_code == status, answer.text
        assert "PRIVATE KEY" not in answer.text
    stored = json.loads(await api.store.value("SELECT transport FROM fairpost.accounts"))
    assert stored["oauth"]["token_uri"] == "https://oauth2.googleapis.com/token"
    assert "base_url" not in stored
    assert answer.json()["data"]["server"]["has_secret"] is True


async def test_a_person_of_microsoft_logs_in_by_smtp(api: Api, client: httpx.AsyncClient) -> None:
    oauth = {
        "kind": "microsoft-refresh-token",
        "client_id": "app",
        "tenant": "acme.example",
        "refresh_token": PASSWORD,
    }
    answer = await client.post("/v1/accounts", json={**SALES, "smtp": {"host": "smtp.office365.com", "oauth": oauth}})
    assert answer.status_code == 201, answer.text
    server = answer.json()["data"]["server"]
    assert (server["user"], server["oauth"], server["tenant"]) == (
        "sales@acme.example",
        "microsoft-refresh-token",
        "acme.example",
    )
    assert PASSWORD not in await everything_written(api)


async def test_a_name_is_taken_once(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/accounts", json=SALES)).status_code == 201
    answer = await client.post("/v1/accounts", json=SALES)
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "conflict"


async def test_only_what_is_given_changes(api: Api, client: httpx.AsyncClient, settings: Settings) -> None:
    await client.post("/v1/accounts", json={**SALES, "limits": {"daily_max": 50, "hourly_max": 10}})
    changed = await client.patch(
        "/v1/accounts/sales", json={"display_name": "Sales", "pool": "urgent", "limits": {"hourly_max": None}}
    )
    shown = changed.json()["data"]
    assert changed.status_code == 200, changed.text
    assert (shown["display_name"], shown["pool"]) == ("Sales", "urgent")
    assert (shown["limits"]["daily_max"], shown["limits"]["hourly_max"]) == (50, None)
    assert shown["server"]["has_secret"] is True
    assert (await api.store.account_named("acme/sales")).pool == "acme/urgent"
    # Another port of the same host and user keeps the password; another host does not get it.
    same = {"host": "smtp.acme.example", "port": 465, "security": "implicit", "user": "sales@acme.example"}
    assert (await client.patch("/v1/accounts/sales", json={"smtp": same})).json()["data"]["server"]["port"] == 465
    elsewhere = await client.patch("/v1/accounts/sales", json={"smtp": {**same, "host": "smtp.evil.example"}})
    assert elsewhere.json()["error"]["details"][0]["field"] == "smtp.password"
    new = {**same, "host": "smtp.two.example", "password": "another"}
    assert (await client.patch("/v1/accounts/sales", json={"smtp": new})).status_code == 200
    account = await api.store.account_named("acme/sales")
    assert isinstance(account.transport, SmtpSettings)
    assert account.transport.secret
    assert vault_of(settings).open(account.transport.secret, account_id=account.id, name="") == "another"
    # Without a login, there is no password to keep.
    bare = await client.patch("/v1/accounts/sales", json={"smtp": {"host": "smtp.two.example"}})
    assert bare.json()["data"]["server"]["has_secret"] is False
    tokens = {"kind": "google-refresh-token", "client_id": "id", "client_secret": "s", "refresh_token": "t"}
    with_tokens = {"host": "smtp.gmail.com", "security": "starttls", "oauth": tokens}
    assert (await client.patch("/v1/accounts/sales", json={"smtp": with_tokens})).status_code == 200
    kept = await client.patch("/v1/accounts/sales", json={"smtp": {"host": "smtp.gmail.com"}})
    assert kept.json()["data"]["server"]["oauth"] == "google-refresh-token"
    none = await client.patch("/v1/accounts/sales", json={"smtp": {"host": "smtp.gmail.com", "user": None}})
    assert (none.json()["data"]["server"]["user"], none.json()["data"]["server"]["oauth"]) == (None, None)
    for wrong, status in (
        ({"address": "ann@elsewhere.example"}, 422),
        ({"pool": "other/default"}, 422),
        ({"limits": {"delay_ms": 10, "gap_max_ms": 5}}, 422),
        ({"name": "other"}, 422),
        ({"smtp": {"host": "10.1.2.3"}}, 422),
    ):
        assert (await client.patch("/v1/accounts/sales", json=wrong)).status_code == status
    assert (await client.patch("/v1/accounts/nobody", json={"pool": "x"})).status_code == 404


async def test_pause_says_why_and_until_when(api: Api, client: httpx.AsyncClient) -> None:
    await client.post("/v1/accounts", json=SALES)
    asked = {"reason": "new password on Monday", "until": "2199-01-01T00:00:00+01:00"}
    paused = (await client.post("/v1/accounts/sales/pause", json=asked)).json()["data"]
    assert paused["status"] == "paused"
    assert paused["status_reason"] == "new password on Monday"
    assert paused["status_until"] == paused["may_send_at"] == "2198-12-31T23:00:00Z"
    assert "new password on Monday" in paused["waits_for"]
    resumed = (await client.post("/v1/accounts/sales/resume")).json()["data"]
    assert (resumed["status"], resumed["status_reason"], resumed["waits_for"]) == ("active", None, None)
    for wrong in (
        {},
        {"reason": ""},
        {"reason": "x", "until": "2001-01-01T00:00:00Z"},
        {"reason": "x", "until": "2030-01-01T00:00:00"},
        {"reason": "x", "until": "9999-12-31T23:59:59-12:00"},
    ):
        assert (await client.post("/v1/accounts/sales/pause", json=wrong)).status_code == 422
    events = (await client.get("/v1/log")).json()["data"]["items"]
    assert [(each["kind"], each["subject"]) for each in events] == [
        ("account_active", "sales"),
        ("account_paused", "sales"),
    ]
    assert [row["action"] for row in await api.store.fetch("SELECT action FROM fairpost.audit ORDER BY id")] == [
        "account.add",
        "account.pause",
        "account.resume",
    ]


async def test_an_account_with_mail_stays(api: Api, client: httpx.AsyncClient) -> None:
    await client.post("/v1/accounts", json=SALES)
    email = {"to": "ann@example.com", "subject": "Hello", "text": "Hi", "account": "sales"}
    id_ = (await client.post("/v1/emails", json=email)).json()["data"]["id"]
    answer = await client.delete("/v1/accounts/sales")
    assert answer.status_code == 409
    details = answer.json()["error"]["details"]
    assert details == {"reason": "account.has_mail", "account": "sales", "in_hand": 0, "in_doubt": 0, "pinned": 1}
    await client.post(f"/v1/emails/{id_}/cancel")
    assert (await client.delete("/v1/accounts/sales")).json() == {"success": True, "data": {"removed": True}}
    assert (await client.delete("/v1/accounts/sales")).status_code == 404


async def test_pages_lead_through_all_accounts(client: httpx.AsyncClient) -> None:
    names = [f"a{n}" for n in range(7)]
    for name in names:
        await client.post("/v1/accounts", json={"name": name, "address": f"{name}@acme.example"})
    found: list[str] = []
    cursor = ""
    while True:
        params = {"limit": "3"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/accounts", params=params)).json()["data"]
        found += [each["name"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == names


async def test_scopes_are_kept(api: Api) -> None:
    await api.workspace()
    async with api.client(scopes=[Scope.READ, Scope.SEND]) as reader, api.client(scopes=[Scope.MANAGE]) as manager:
        assert (await reader.post("/v1/accounts", json=SALES)).status_code == 403
        assert (await manager.post("/v1/accounts", json=SALES)).status_code == 201
        assert (await manager.get("/v1/accounts")).status_code == 403
        assert (await reader.get("/v1/accounts/sales")).status_code == 200
        assert (await reader.delete("/v1/accounts/sales")).status_code == 403
        assert (await reader.get("/v1/pools")).status_code == 200


async def test_keys_that_change_in_the_meantime_are_asked_for_again(
    api: Api, client: httpx.AsyncClient, settings: Settings
) -> None:
    """A key rotation between reading and writing causes a retry, not a failure."""
    import asyncio

    from fairpost.vault.rotation import rotate

    await client.post("/v1/accounts", json=SALES)
    vault = vault_of(settings)
    adding = [client.post("/v1/accounts", json={**SALES, "name": f"s{n}"}) for n in range(6)]
    answers, _ = await asyncio.gather(asyncio.gather(*adding), rotate(api.store, vault))
    assert [answer.status_code for answer in answers] == [201] * 6
    for secret in await api.store.secrets():
        assert vault.open_secret(secret) == PASSWORD


async def test_a_lost_key_is_the_operators_matter(api: Api, client: httpx.AsyncClient, settings: Settings) -> None:
    await client.post("/v1/accounts", json=SALES)
    await api.store.value(
        "UPDATE fairpost.accounts SET transport = jsonb_set(transport, '{secret}', to_jsonb('v1:feedbeef:AAAA'::text))"
    )
    answer = await client.post("/v1/accounts", json={**SALES, "name": "two"})
    assert answer.status_code == 503, answer.text
    assert "feedbeef" not in answer.text
    assert str(settings.home) not in answer.text


async def test_where_the_operators_accounts_send_is_not_for_requests(api: Api, client: httpx.AsyncClient) -> None:
    transport = SmtpSettings(host="mail.operator.example", port=587, secret="v1:sealed")
    await api.store.add_account("operators", address="post@operator.example", limits=Limits(), transport=transport)
    tenant = api.store.of_tenant("acme")
    (seen,) = await tenant.accounts()
    assert (seen.name, seen.transport) == ("operators", None)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tenant.value("SELECT a.transport FROM fairpost.accounts a")
    (known,) = await api.store.accounts()
    assert known.transport == transport


async def test_only_the_operator_can_resume_what_the_operator_stopped(api: Api, client: httpx.AsyncClient) -> None:
    await client.post("/v1/accounts", json={"name": "sales", "address": "sales@acme.example"})
    assert (await client.post("/v1/accounts/sales/pause", json={"reason": "mine"})).status_code == 200
    assert (await client.post("/v1/accounts/sales/resume")).status_code == 200
    await api.store.change_account(
        "acme/sales", {"status": "paused", "status_reason": Reason("account.paused_by_hand", note="spam")}
    )
    refused = await client.post("/v1/accounts/sales/resume")
    assert refused.json()["error"]["code"] == "conflict"
    await api.store.change_account("acme/sales", {"status": "active"})
    assert (await client.post("/v1/accounts/sales/pause", json={"reason": "mine"})).status_code == 200
    assert (await client.post("/v1/accounts/sales/resume")).status_code == 200


async def test_an_address_in_another_script_is_of_the_domain_that_was_shown(
    api: Api, client: httpx.AsyncClient
) -> None:
    await api.workspace(domains=["xn--mller-kva.example"])
    answer = await client.post("/v1/accounts", json={"name": "sales", "address": "a@müller.example"})
    assert answer.status_code == 201, answer.text


# ── versions ──────────────────────────────────────────────────────────────────────────────────────────────


async def _change(client: httpx.AsyncClient, hourly_max: int, tag: str | None) -> httpx.Response:
    headers = {} if tag is None else {"If-Match": tag}
    return await client.patch("/v1/accounts/sales", json={"limits": {"hourly_max": hourly_max}}, headers=headers)


async def test_a_change_with_if_match_applies_to_that_version_or_not_at_all(client: httpx.AsyncClient) -> None:
    first = (await client.post("/v1/accounts", json=SALES)).headers["ETag"]
    assert (await client.get("/v1/accounts/sales")).headers["ETag"] == first
    second = await _change(client, 7, first)
    assert (second.status_code, second.json()["data"]["limits"]["hourly_max"]) == (200, 7)
    assert second.headers["ETag"] != first
    late = await _change(client, 8, first)
    assert (late.status_code, late.json()["error"]["code"]) == (412, "changed_meanwhile")
    seen = await client.get("/v1/accounts/sales")
    assert (seen.json()["data"]["limits"]["hourly_max"], seen.headers["ETag"]) == (7, second.headers["ETag"])
    assert (await _change(client, 9, f'"other", {second.headers["ETag"]}')).status_code == 200
    for tag, status in ((None, 200), ("*", 200), ("nonsense", 412), ('W/"x"', 412), ("", 412)):
        assert (await _change(client, 10, tag)).status_code == status, tag
    before = (await client.get("/v1/accounts/sales")).headers["ETag"]
    paused = await client.post("/v1/accounts/sales/pause", json={"reason": "a test"})
    assert before != paused.headers["ETag"]
    assert (await _change(client, 11, before)).status_code == 412
    assert (await client.get("/v1/audit")).json()["data"]["items"][0][
        "action"
    ] == "account.pause"  # the late change is not in it


async def test_only_one_of_two_changes_based_on_the_same_version_succeeds(client: httpx.AsyncClient) -> None:
    seen = (await client.post("/v1/accounts", json=SALES)).headers["ETag"]
    answers = await asyncio.gather(*(_change(client, n, seen) for n in range(1, 13)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 11
    (won,) = [answer for answer in answers if answer.status_code == 200]
    now = await client.get("/v1/accounts/sales")
    assert now.json()["data"]["limits"] == won.json()["data"]["limits"]


async def test_an_account_of_the_same_name_is_another_one(client: httpx.AsyncClient) -> None:
    seen = (await client.post("/v1/accounts", json=SALES)).headers["ETag"]
    assert (await client.delete("/v1/accounts/sales")).status_code == 200
    assert (await client.post("/v1/accounts", json=SALES)).status_code == 201
    assert (await _change(client, 5, seen)).status_code == 412


async def test_whether_its_mailbox_is_read_is_shown_to_its_own_workspace_only(
    api: Api, client: httpx.AsyncClient
) -> None:
    assert (await client.post("/v1/accounts", json={**SALES, "smtp": {**SMTP, "read": True}})).status_code == 201
    names = ("reading_state", "reading_code", "reading_params", "last_read_at", "unknown")

    async def told() -> dict[str, Any]:
        data = (await client.get("/v1/accounts/sales")).json()["data"]
        return {name: data[name] for name in names}

    assert (await told())["reading_code"] == "account.read_soon"
    await api.store.value(
        """INSERT INTO fairpost.mailbox_reads (account_id, reason, params, failed_at)
           SELECT a.id, 'account.read_refused', '{"account": "acme/sales", "why": "no such folder"}', now()
           FROM fairpost.accounts a WHERE a.name = 'acme/sales'"""
    )
    assert await told() == {
        "reading_state": "failing",
        "reading_code": "account.read_refused",
        "reading_params": {"account": "sales", "why": "no such folder"},
        "last_read_at": None,
        "unknown": ["late_bounces", "complaints", "replies"],
    }
    await api.store.value("UPDATE fairpost.mailbox_reads SET reason = NULL, looked_at = now()")
    assert (await told())["reading_state"] == "reading"
