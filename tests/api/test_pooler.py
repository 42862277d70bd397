"""The service behind PgBouncer in transaction mode: everything that can be read, changed and watched, over three
sessions in total."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.api.topics import TOPICS
from fairpost.dev.inbox.mails import Arrived, add_mail
from fairpost.model.public_ids import Kind
from fairpost.settings import read_settings
from tests.api.conftest import Api, answering
from tests.api.neighbours import A, Neighbour, settle_in
from tests.api.served import every_operation
from tests.api.signed_in import signed_in
from tests.api.test_live import watching
from tests.peers.pgbouncer import sessions

AT_ONCE = 8
OF_ADMINS = ("/v1/admin/", "/v1/inbox", "/v1/auth/")
STREAM = "/v1/live/{topic}"  # never ends

MAIL = b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Disposition: attachment; filename="a"\r\n\r\nx\r\n--b--\r\n'
EMAIL = {"to": "ann@example.com", "subject": "x", "text": "y", "from": f"shop@{A}.test"}
STOP = {"kind": "unsubscribe", "reason": "asked us to"}
# In this order, with a key of the workspace.
WRITTEN: list[tuple[str, str, Any]] = [
    ("POST", "/v1/emails", EMAIL),
    ("POST", "/v1/emails/bulk", EMAIL),
    ("POST", "/v1/emails/{waiting}/cancel", None),
    ("POST", "/v1/emails/{failed}/retry", None),
    ("POST", "/v1/emails/{in_doubt}/resolve", {"decision": "sent"}),
    ("POST", "/v1/accounts", {"name": "sales", "address": f"sales@{A}.test"}),
    ("PATCH", "/v1/accounts/sales", {"limits": {"hourly_max": 10}}),
    ("POST", "/v1/accounts/sales/pause", {"reason": "later"}),
    ("POST", "/v1/accounts/sales/resume", None),
    ("DELETE", "/v1/accounts/sales", None),
    ("POST", "/v1/lists/more/prospects", [{"address": "ann@example.com"}, {"address": "bob@example.com"}]),
    ("PATCH", "/v1/prospects/ann@example.com", {"is_paused": True}),
    ("DELETE", "/v1/prospects/ann@example.com", None),
    ("PUT", "/v1/conversations/{conversation}/labels", {"labels": ["interested"]}),
    ("POST", "/v1/conversations/{conversation}/answer", {"text": "Hi"}),
    ("POST", "/v1/suppressions", {"addresses": ["q@example.com", "r@example.com"], **STOP}),
    ("PUT", "/v1/suppressions/s@example.com", STOP),
    ("DELETE", "/v1/suppressions/s@example.com", None),
    ("PUT", "/v1/users/bob", {"plan": "pro"}),
    ("PUT", "/v1/templates/hello", {"subject": "Hello", "text": "Hi"}),
    ("POST", "/v1/templates/hello/preview", {}),
    ("PUT", "/v1/sequences/series", {"steps": [{"template": "hello"}, {"template": "hello", "delay": "3d"}]}),
    ("PUT", "/v1/schedule", {"timezone": "UTC"}),
    ("PUT", "/v1/campaigns/winter", {"sequence": "series", "lists": ["more"]}),
    ("POST", "/v1/campaigns/winter/launch", None),
    ("POST", "/v1/campaigns/winter/pause", {"reason": "wait"}),
    ("POST", "/v1/campaigns/winter/resume", None),
    ("POST", "/v1/campaigns/winter/cancel", {"reason": "enough"}),
    ("POST", "/v1/keys", {"name": "another", "scopes": ["send"]}),
    ("DELETE", "/v1/persons/p0@anton.test", None),
]


async def test_everything_is_read_changed_and_watched(
    pooled_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAIRPOST_HOME", str(tmp_path))
    monkeypatch.setenv("FAIRPOST_DATABASE_URL", pooled_url)
    with sessions(pooled_url) as left_behind:
        async with answering(read_settings()) as api:
            here = (await settle_in(api.store)).a
            async with signed_in(api) as admin, api.client(A) as client:
                wrong = await read_all(client, admin, await known_of(api, here))
                wrong += await change(client, here)
                await watch_all(admin, here)
        assert "\n".join([*wrong, *left_behind()]) == ""


async def known_of(api: Api, here: Neighbour) -> dict[str, str]:
    """Returns keys for the parameters of a path: those of an object by its path, the others by name."""
    arrived = Arrived(
        sender="a@x.test", recipients=("b@x.test",), helo="h", peer="p", tls=None, auth_user=None, raw=MAIL
    )
    mail = await add_mail(api.store, arrived)
    return {
        "email_id": here.public.email(here.emails["sent"]),
        "id": "spring",
        "/v1/accounts/{name}": "x",
        "/v1/admin/accounts/{name}": f"{A}%2Fx",
        "/v1/lists/{name}": "people",
        "/v1/users/{name}": "ann",
        "/v1/templates/{name}": "welcome",
        "/v1/sequences/{name}": "spring",
        "/v1/prospects/{address}": f"p0@{A}.test",
        "/v1/persons/{address}": f"p0@{A}.test",
        "conversation_id": here.public_conversation,
        "/v1/suppressions/{address}": f"p3@{A}.test",
        "domain": f"{A}.test",
        "webhook": here.public.public(Kind.WEBHOOK, here.webhook),
        "delivery": here.public.public(Kind.DELIVERY, here.delivery),
        "portal": "hub",
        "type": "tfa",
        "mail_id": str(mail.id),
        "index": "0",
    }


async def read_all(client: httpx.AsyncClient, admin: httpx.AsyncClient, known: dict[str, str]) -> list[str]:
    """Sends several requests at once, and returns those that failed."""

    def value(found: re.Match[str]) -> str:
        return known.get(found.string[: found.end()]) or known[found[1]]

    paths = [each.path for each in every_operation() if each.method == "GET" and each.path != STREAM]
    filled = [re.sub(r"\{(\w+)\}", value, path) + ("?q=anton" if path.endswith("/find") else "") for path in paths]
    wrong = []
    for start in range(0, len(filled), AT_ONCE):
        together = filled[start : start + AT_ONCE]
        asked = ((admin if path.startswith(OF_ADMINS) else client).get(path) for path in together)
        answers = await asyncio.gather(*asked)
        wrong += [f"{a.request.url} {a.status_code} {a.text}" for a in answers if a.status_code != 200]
    return wrong


async def change(client: httpx.AsyncClient, here: Neighbour) -> list[str]:
    wrong = []
    for method, path, body in WRITTEN:
        headers = {"Content-Type": "application/x-ndjson"} if path.endswith("/bulk") else {}
        ids = {outcome: here.public.email(id_) for outcome, id_ in here.emails.items()}
        ids["conversation"] = here.public_conversation
        answer = await client.request(method, path.format(**ids), json=body, headers=headers)
        if not answer.is_success:
            wrong.append(f"{method} {path} {answer.status_code} {answer.text}")
    return wrong


async def watch_all(client: httpx.AsyncClient, here: Neighbour) -> None:
    names = {"account": f"{A}/x", "campaign": "spring", "email": here.public.email(here.emails["sent"])}
    for topic in TOPICS:
        name = f"&name={names[topic]}" if topic in names else ""
        async with watching(client, f"/v1/live/{topic}?workspace={A}{name}") as stream:
            assert await stream.state()
