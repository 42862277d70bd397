"""How to perform each action, as a command and as a request: the input for the walk over all of them.

`left` is the workspace of the command line, `right` that of the HTTP API. Both are prepared alike.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
from typer.testing import CliRunner

from fairpost.auth import membership
from fairpost.cli import app
from fairpost.dev.inbox.mails import Arrived, add_mail
from fairpost.model.account import Limits, Usage
from fairpost.model.auth import Offered, Role
from fairpost.model.campaign import Step
from fairpost.model.ids import EmailId
from fairpost.model.public_ids import Kind
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.verdict import InDoubt
from fairpost.model.workspace import Scope
from fairpost.store import campaigns, workspaces
from fairpost.store.templates import put_sequence, put_template
from tests.api.conftest import Api

Request = tuple[str, str, Any]  # method, path, body
NO_EMAIL = "em_0000000000000000000000"


@dataclass
class World:
    api: Api
    environment: Mapping[str, str]
    key: httpx.AsyncClient  # of workspace right
    admin: httpx.AsyncClient
    key_name: str
    made: int = 0

    async def cli(self, *arguments: str) -> tuple[int, str]:
        """Returns the exit code and the output."""
        done = await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=dict(self.environment))
        assert "Traceback" not in done.output, done.output
        return done.exit_code, done.output

    async def http(self, request: Request, *, by_admin: bool) -> httpx.Response:
        method, path, body = request
        return await (self.admin if by_admin else self.key).request(method, path, json=body)

    async def audit(self, workspace: str | None) -> list[tuple[str, str]]:
        sql = "SELECT who, action FROM fairpost.audit WHERE workspace IS NOT DISTINCT FROM $1 ORDER BY id"
        return [(row["who"], row["action"]) for row in await self.api.store.fetch(sql, workspace)]

    def name(self) -> str:
        self.made += 1
        return f"n{self.made}"

    def file(self, text: str) -> str:
        """Returns a file for a command to read."""
        path = Path(self.environment["FAIRPOST_HOME"]) / self.name()
        path.write_text(text)
        return str(path)

    async def public(self, id_: str) -> str:
        return (await self.api.store.public_ids()).email(EmailId(int(id_)))


Prepare = Callable[[World, str], Awaitable[str]]


async def _nothing(world: World, workspace: str) -> str:
    return ""


@dataclass
class Walk:
    """An action. `prepare` creates what it acts on, and returns its name. `unknown` is a name that does not exist, with
    the code of the refusal.

    `entry` is the name in the audit, where one action has several. `is_of_subject` means that the audit of the created
    object has it.
    """

    cli: Callable[[str, str], list[str]]
    http: Callable[[str, str], Request]
    prepare: Prepare = _nothing
    by_admin: bool = False
    is_of_installation: bool = False
    is_of_subject: bool = False
    unknown: tuple[str, str] | None = None
    entry: str | None = None


# ── e-mails ───────────────────────────────────────────────────────────────────────────────────────────────


async def _waiting_email(world: World, workspace: str) -> str:
    (row,) = await world.api.store.enqueue_many(
        [{"workspace": workspace, "to": "x@there.test", "subject": "Hi", "text": "Hi", "account": f"{workspace}/relay"}]
    )
    assert row["error"] is None, row
    return str(row["id"])


async def _failed_email(world: World, workspace: str) -> str:
    id_ = await _waiting_email(world, workspace)
    await world.api.store.value("SELECT fairpost.finish($1, 'failed', 'a test', clock_timestamp())", int(id_))
    return id_


async def _doubtful_email(world: World, workspace: str) -> str:
    id_, store = await _waiting_email(world, workspace), world.api.store
    (account,) = [each for each in await store.accounts() if each.name == f"{workspace}/relay"]
    lease = await store.take_lease(account.id, owner="a test", seconds=60)
    assert lease is not None
    assert EmailId(int(id_)) in (await store.claim(lease, limit=50)).ids
    assert (await store.begin(lease, EmailId(int(id_)), usage=Usage())).verdict == "begun"
    report = Report(reached=Reached.REPLIED, reply=Reply(250, "taken"), message_id="<a@there.test>")
    await store.settle(lease, EmailId(int(id_)), InDoubt(), report)
    await store.drop_lease(lease)
    return id_


# ── campaigns ─────────────────────────────────────────────────────────────────────────────────────────────


async def _draft(world: World, workspace: str) -> str:
    name = world.name()
    made = await world.cli(
        *("campaign", "new", name, "--list", "people", "--template", "hello", "--workspace", workspace),
        *("--account", f"{workspace}/relay"),
    )
    assert made[0] == 0, made
    return name


async def _launched(world: World, workspace: str) -> str:
    name = await _draft(world, workspace)
    launched = await world.cli("campaign", "launch", name, "--workspace", workspace)
    assert launched[0] == 0, launched
    return name


async def _paused(world: World, workspace: str) -> str:
    name = await _launched(world, workspace)
    await world.cli("campaign", "pause", name, "--workspace", workspace)
    return name


async def _failed_campaign_email(world: World, workspace: str) -> str:
    name, store = await _launched(world, workspace), world.api.store
    campaign = await campaigns.campaign_named(store, workspace, name)
    states = ("ready", "scheduled", "parked")
    (email,) = [each async for each in campaigns.receipts(store, campaign, states=states)]
    await store.value("SELECT fairpost.finish($1, 'failed', 'a test', clock_timestamp())", email.email_id)
    return name


def _of_campaign(verb: str, *more: str) -> Callable[[str, str], list[str]]:
    return lambda workspace, name: ["campaign", verb, name, *more, "--workspace", workspace]


def _to_campaign(verb: str, body: Any = None) -> Callable[[str, str], Request]:
    return lambda workspace, name: ("POST", f"/v1/campaigns/{name}/{verb}", body)


# ── senders ───────────────────────────────────────────────────────────────────────────────────────────────


async def _held(world: World, workspace: str) -> str:
    await world.api.store.hold(workspace, "user", "ann", reason="a test")
    return "ann"


async def _throttled(world: World, workspace: str) -> str:
    await world.cli("user", "throttle", "--workspace", workspace, "eve", "--reason", "a test")
    return "eve"


async def _everything_paused(world: World, workspace: str) -> str:
    await world.api.store.value("SELECT fairpost.pause('a test', 'a test')")
    return ""


# ── conversations ─────────────────────────────────────────────────────────────────────────────────────────


async def _conversation(world: World, workspace: str) -> str:
    """With a person who replied to an e-mail from the account."""
    id_, store, address = await _waiting_email(world, workspace), world.api.store, f"{world.name()}@there.test"
    (account,) = [each for each in await store.accounts() if each.name == f"{workspace}/relay"]
    await store.value("UPDATE fairpost.queue SET account_id = $2 WHERE id = $1", int(id_), account.id)
    await store.value("SELECT fairpost.finish($1, 'sent', NULL, clock_timestamp())", int(id_))
    said = {
        "kind": "reply",
        "mail": id_,
        "from_name": "",
        "from_address": address,
        "to_addresses": [],
        "subject": "Re: Hi",
        "refs": [],
        "text": "Yes",
        "is_cut": False,
    }
    sql = "SELECT fairpost.keep_reply($1, $2, $3, NULL, $4, clock_timestamp())"
    await store.value(sql, int(id_), workspace, address, json.dumps(said))
    number = await store.value("SELECT max(id) FROM fairpost.conversations WHERE workspace = $1", workspace)
    return (await store.public_ids()).public(Kind.CONVERSATION, number)


# ── suppressions ──────────────────────────────────────────────────────────────────────────────────────────


async def _suppressed(world: World, workspace: str) -> str:
    await world.api.store.suppress(workspace, "gone@there.test", reason="a test")
    return "gone@there.test"


async def _addresses(world: World, workspace: str) -> str:
    return world.file("address\nmany@there.test\n")


# ── prospects ─────────────────────────────────────────────────────────────────────────────────────────────


async def _people(world: World, workspace: str) -> str:
    return world.file("email\nann@there.test\n")


async def _prospect(world: World, workspace: str) -> str:
    address = f"{world.name()}@there.test"
    file = world.file(f"email\n{address}\n")
    assert (await world.cli("prospects", "import", "some", file, "--workspace", workspace))[0] == 0
    return address


async def _list(world: World, workspace: str) -> str:
    name, file = world.name(), world.file("email\nbob@there.test\n")
    assert (await world.cli("prospects", "import", name, file, "--workspace", workspace))[0] == 0
    return name


def _of_prospect(verb: str) -> Callable[[str, str], list[str]]:
    return lambda workspace, address: ["prospects", verb, address, "--workspace", workspace]


# ── templates and sequences ───────────────────────────────────────────────────────────────────────────────


async def _template(world: World, workspace: str) -> str:
    name = world.name()
    await put_template(world.api.store, workspace, name, subject="Hello", text="Hi", html=None)
    return name


async def _sequence(world: World, workspace: str) -> str:
    name = world.name()
    await put_sequence(world.api.store, workspace, name, [Step(template="hello")])
    return name


# ── portals ───────────────────────────────────────────────────────────────────────────────────────────────

PORTAL_WORDS = {"subject": "{{ code }}", "text": "{{ code }}", "html": "<p>{{ code }}</p>"}


async def _overridden(world: World, workspace: str) -> str:
    assert (await world.cli("portal", "override", "hub", "tfa", "--subject", "{{ code }}", "--workspace", workspace))[
        0
    ] == 0
    return "tfa"


# ── workspaces ────────────────────────────────────────────────────────────────────────────────────────────


async def _new_name(world: World, workspace: str) -> str:
    return f"{workspace}-{world.name()}"


async def _active(world: World, workspace: str) -> str:
    await workspaces.readmit_workspace(world.api.store, workspace)
    return workspace


async def _suspended(world: World, workspace: str) -> str:
    await workspaces.suspend_workspace(world.api.store, workspace, reason=None)
    return workspace


# ── keys and domains ──────────────────────────────────────────────────────────────────────────────────────


async def _key(world: World, workspace: str) -> str:
    made, _ = await workspaces.add_key(
        world.api.store, workspace, region="main", name="", scopes=[Scope.READ], by="a test"
    )
    return made.id


async def _domain(world: World, workspace: str) -> str:
    return (await workspaces.add_domain(world.api.store, workspace, f"{world.name()}.example")).domain


async def _domain_with_key(world: World, workspace: str) -> str:
    """Returns the domain and its key's selector, separated by a slash."""
    domain = await _domain(world, workspace)
    code, said = await world.cli(
        "domain", "add-key", "--workspace", workspace, domain, "--algorithm", "ed25519", "--json"
    )
    assert code == 0, said
    return f"{domain}/{json.loads(said)['selector']}"


def _of_domain(verb: str) -> Callable[[str, str], list[str]]:
    return lambda workspace, domain: ["domain", verb, workspace, domain]


# ── members and admins ────────────────────────────────────────────────────────────────────────────────────


async def _address(world: World, workspace: str) -> str:
    return f"{world.name()}@there.test"


async def _member(world: World, workspace: str) -> str:
    return await _invited(world, workspace, Role.SENDER)


async def _one_admin_more(world: World, workspace: str) -> str:
    return await _invited(world, None, Role.ADMIN)


async def _invited(world: World, workspace: str | None, role: Role) -> str:
    address = f"{world.name()}@there.test"
    offered = await membership.invite(world.api.store, workspace=workspace, address=address, role=role)
    assert isinstance(offered, Offered)
    return address


async def _mail(world: World, workspace: str) -> str:
    arrived = Arrived(
        sender="",
        recipients=("x@there.test",),
        helo="there",
        peer="",
        tls=None,
        auth_user=None,
        raw=b"Subject: Hi\r\n\r\nHi",
    )
    return str((await add_mail(world.api.store, arrived)).id)


def _of_member(verb: str, *more: str) -> Callable[[str, str], list[str]]:
    return lambda workspace, address: ["member", verb, workspace, address, *more]


def _to_member(verb: str) -> Callable[[str, str], Request]:
    return lambda _, address: ("POST", f"/v1/members/{address}/{verb}", None)


def _admin(path: str, **body: Any) -> Callable[[str, str], Request]:
    def asked(workspace: str, name: str) -> Request:
        return "POST", f"/v1/admin/{path}", {"workspace": workspace, "level": "user", "name": name, **body}

    return asked


UNKNOWN_CAMPAIGN = ("nowhere", "campaign.unknown")
UNKNOWN_PROSPECT = ("nobody@there.test", "prospect.unknown")
UNKNOWN_PORTAL = ("nothing", "portal.unknown")
UNKNOWN_WORKSPACE = ("nowhere", "workspace.unknown")
UNKNOWN_DOMAIN = ("nowhere.example", "domain.unknown")
UNKNOWN_MEMBER = ("nobody@there.test", "member.unknown")
UNKNOWN_EMAIL = (NO_EMAIL, "email.unknown")
UNKNOWN_WEBHOOK = ("wh_0000000000000", "webhook.unknown")

# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────────────

HOOK = "https://9.9.9.9/hook"


async def _webhook(world: World, workspace: str) -> str:
    code, printed = await world.cli("webhook", "add", HOOK, "--workspace", workspace, "--json")
    assert code == 0, printed
    return str(json.loads(printed)["webhook"])


def _of_webhook(verb: str) -> Walk:
    return Walk(
        cli=lambda _, hook: ["webhook", verb, hook],
        http=lambda _, hook: ("POST", f"/v1/webhooks/{hook}/{verb}", None),
        prepare=_webhook,
        unknown=UNKNOWN_WEBHOOK,
    )


# ── accounts ──────────────────────────────────────────────────────────────────────────────────────────────


async def _spare_account(world: World, workspace: str) -> str:
    name = world.name()
    await world.api.store.add_account(
        f"{workspace}/{name}", address=f"{name}@{workspace}.example", pool=f"{workspace}/{name}", limits=Limits()
    )
    return name


def _of_account(verb: str, *more: str) -> Callable[[str, str], list[str]]:
    return lambda workspace, name: ["account", verb, f"{workspace}/{name}", *more]


def _to_account(verb: str, body: Any = None) -> Callable[[str, str], Request]:
    return lambda workspace, name: ("POST", f"/v1/accounts/{name}/{verb}", body)


UNKNOWN_ACCOUNT = ("nowhere", "account.not_found")
ACCOUNTS: Mapping[str, Walk] = {
    "account.add": Walk(
        cli=lambda workspace, _: [
            *("account", "add", "desk", "--workspace", workspace, "--from", f"desk@{workspace}.example"),
            *("--provider", "none"),
        ],
        http=lambda workspace, _: ("POST", "/v1/accounts", {"name": "desk", "address": f"desk@{workspace}.example"}),
    ),
    "account.change": Walk(
        cli=_of_account("set", "--daily", "7"),
        http=lambda _, name: ("PATCH", f"/v1/accounts/{name}", {"limits": {"daily_max": 7}}),
        prepare=_spare_account,
    ),
    "account.pause": Walk(
        cli=_of_account("pause", "--reason", "r"),
        http=_to_account("pause", {"reason": "r"}),
        prepare=_spare_account,
        unknown=UNKNOWN_ACCOUNT,
    ),
    "account.resume": Walk(cli=_of_account("resume"), http=_to_account("resume"), prepare=_spare_account),
    "account.remove": Walk(
        cli=_of_account("remove", "--yes"),
        http=lambda _, name: ("DELETE", f"/v1/accounts/{name}", None),
        prepare=_spare_account,
        unknown=UNKNOWN_ACCOUNT,
    ),
}

WALKS: Mapping[str, Walk] = {
    **ACCOUNTS,
    "email.cancel": Walk(
        cli=lambda _, id_: ["email", "cancel", id_],
        http=lambda _, id_: ("POST", f"/v1/emails/{id_}/cancel", None),
        prepare=_waiting_email,
    ),
    "email.retry": Walk(
        cli=lambda _, id_: ["email", "retry", id_],
        http=lambda _, id_: ("POST", f"/v1/emails/{id_}/retry", None),
        prepare=_failed_email,
    ),
    "email.resolve": Walk(
        cli=lambda _, id_: ["email", "resolve", id_, "--as", "sent"],
        http=lambda _, id_: ("POST", f"/v1/emails/{id_}/resolve", {"decision": "sent"}),
        prepare=_doubtful_email,
    ),
    "campaign.put": Walk(
        cli=lambda workspace, list_: [
            *("campaign", "new", "put", "--list", list_ or "people", "--template", "hello", "--workspace", workspace)
        ],
        http=lambda _, list_: (
            "PUT",
            "/v1/campaigns/put",
            {"lists": [list_ or "people"], "steps": [{"template": "hello"}], "account": "relay"},
        ),
        unknown=("nowhere", "campaign.unknown_list"),
        entry="campaign.add",
    ),
    "campaign.remove": Walk(
        cli=_of_campaign("remove"),
        http=lambda _, name: ("DELETE", f"/v1/campaigns/{name}", None),
        prepare=_draft,
        unknown=UNKNOWN_CAMPAIGN,
    ),
    "campaign.launch": Walk(
        cli=_of_campaign("launch"), http=_to_campaign("launch"), prepare=_draft, unknown=UNKNOWN_CAMPAIGN
    ),
    "campaign.schedule": Walk(
        cli=_of_campaign("schedule"), http=_to_campaign("schedule"), prepare=_launched, unknown=UNKNOWN_CAMPAIGN
    ),
    "campaign.pause": Walk(
        cli=_of_campaign("pause"), http=_to_campaign("pause"), prepare=_launched, unknown=UNKNOWN_CAMPAIGN
    ),
    "campaign.resume": Walk(
        cli=_of_campaign("resume"), http=_to_campaign("resume"), prepare=_paused, unknown=UNKNOWN_CAMPAIGN
    ),
    "campaign.cancel": Walk(
        cli=_of_campaign("cancel"), http=_to_campaign("cancel"), prepare=_launched, unknown=UNKNOWN_CAMPAIGN
    ),
    "campaign.retry": Walk(
        cli=_of_campaign("retry"), http=_to_campaign("retry"), prepare=_failed_campaign_email, unknown=UNKNOWN_CAMPAIGN
    ),
    "campaign.stop": Walk(
        cli=_of_campaign("stop", "p0@there.test"),
        http=_to_campaign("stop", {"address": "p0@there.test"}),
        prepare=_launched,
        unknown=UNKNOWN_CAMPAIGN,
    ),
    "pause": Walk(
        cli=lambda *_: ["pause", "--all", "--reason", "r"],
        http=lambda *_: ("POST", "/v1/admin/pause", {"reason": "r"}),
        by_admin=True,
        is_of_installation=True,
    ),
    "resume": Walk(
        cli=lambda *_: ["resume", "--all"],
        http=lambda *_: ("POST", "/v1/admin/resume", None),
        prepare=_everything_paused,
        by_admin=True,
        is_of_installation=True,
    ),
    "sender.hold": Walk(
        cli=lambda workspace, _: ["hold", "--workspace", workspace, "--user", "ann", "--reason", "r"],
        http=lambda workspace, _: _admin("senders/hold", reason="r")(workspace, "ann"),
        by_admin=True,
    ),
    "sender.release": Walk(
        cli=lambda workspace, name: ["release", "--workspace", workspace, "--user", name],
        http=_admin("senders/release"),
        prepare=_held,
        by_admin=True,
        unknown=("nobody", "hold.unknown"),
    ),
    "sender.throttle": Walk(
        cli=lambda workspace, _: ["user", "throttle", "--workspace", workspace, "ann", "--reason", "r"],
        http=lambda workspace, _: _admin("senders/throttle", reason="r")(workspace, "ann"),
        by_admin=True,
    ),
    "sender.unthrottle": Walk(
        cli=lambda workspace, name: ["user", "unthrottle", "--workspace", workspace, name],
        http=_admin("senders/unthrottle"),
        prepare=_throttled,
        by_admin=True,
        unknown=("nobody", "throttle.unknown"),
    ),
    "user.set": Walk(
        cli=lambda workspace, _: ["user", "set", "--workspace", workspace, "ann", "--daily-max", "10"],
        http=lambda *_: ("PUT", "/v1/users/ann", {"daily_max": 10}),
    ),
    "conversation.label": Walk(
        cli=lambda workspace, id_: ["conversation", "label", id_, "interested", "--workspace", workspace],
        http=lambda _, id_: ("PUT", f"/v1/conversations/{id_}/labels", {"labels": ["interested"]}),
        prepare=_conversation,
        unknown=("cv_0000000000000", "conversation.unknown"),
    ),
    "conversation.answer": Walk(
        cli=lambda workspace, id_: ["conversation", "answer", id_, "--text", "Gladly", "--workspace", workspace],
        http=lambda _, id_: ("POST", f"/v1/conversations/{id_}/answer", {"text": "Gladly"}),
        prepare=_conversation,
        unknown=("cv_0000000000000", "conversation.unknown"),
    ),
    "suppression.add": Walk(
        cli=lambda workspace, _: ["suppress", "stop@there.test", "--reason", "r", "--workspace", workspace],
        http=lambda *_: ("PUT", "/v1/suppressions/stop@there.test", {"reason": "r"}),
    ),
    "suppression.remove": Walk(
        cli=lambda workspace, address: ["suppress", "remove", address, "--workspace", workspace],
        http=lambda _, address: ("DELETE", f"/v1/suppressions/{address}", None),
        prepare=_suppressed,
        unknown=("nobody@there.test", "suppression.unknown"),
    ),
    "suppression.import": Walk(
        cli=lambda workspace, file: ["suppress", "import", file, "--workspace", workspace],
        http=lambda *_: ("POST", "/v1/suppressions", {"addresses": ["many@there.test"], "reason": "r"}),
        prepare=_addresses,
    ),
    "prospects.import": Walk(
        cli=lambda workspace, file: ["prospects", "import", "some", file, "--workspace", workspace],
        http=lambda *_: ("POST", "/v1/lists/some/prospects", [{"address": "ann@there.test"}]),
        prepare=_people,
    ),
    "list.remove": Walk(
        cli=lambda workspace, name: ["prospects", "remove-list", name, "--workspace", workspace],
        http=lambda _, name: ("DELETE", f"/v1/lists/{name}", None),
        prepare=_list,
        unknown=("nolist", "list.unknown"),
    ),
    "prospect.change": Walk(
        cli=_of_prospect("pause"),
        http=lambda _, address: ("PATCH", f"/v1/prospects/{address}", {"is_paused": True}),
        prepare=_prospect,
        unknown=UNKNOWN_PROSPECT,
    ),
    "prospect.remove": Walk(
        cli=_of_prospect("remove"),
        http=lambda _, address: ("DELETE", f"/v1/prospects/{address}", None),
        prepare=_prospect,
        unknown=UNKNOWN_PROSPECT,
    ),
    "template.put": Walk(
        cli=lambda workspace, _: [
            *("template", "set", "news", "--subject", "Hi", "--text", "Hi", "--workspace", workspace)
        ],
        http=lambda *_: ("PUT", "/v1/templates/news", {"subject": "Hi", "text": "Hi"}),
        entry="template.add",
    ),
    "template.remove": Walk(
        cli=lambda workspace, name: ["template", "remove", name, "--workspace", workspace],
        http=lambda _, name: ("DELETE", f"/v1/templates/{name}", None),
        prepare=_template,
        unknown=("nowhere", "template.unknown"),
    ),
    "sequence.put": Walk(
        cli=lambda workspace, _: ["sequence", "set", "spring", "--step", "hello", "--workspace", workspace],
        http=lambda *_: ("PUT", "/v1/sequences/spring", {"steps": [{"template": "hello"}]}),
        entry="sequence.add",
    ),
    "sequence.remove": Walk(
        cli=lambda workspace, name: ["sequence", "remove", name, "--workspace", workspace],
        http=lambda _, name: ("DELETE", f"/v1/sequences/{name}", None),
        prepare=_sequence,
        unknown=("nowhere", "sequence.unknown"),
    ),
    "schedule.set": Walk(
        cli=lambda workspace, _: ["schedule", "set", "--quota", "200", "--workspace", workspace],
        http=lambda *_: ("PUT", "/v1/schedule", {"quota": {"daily_max": 200}}),
    ),
    "portal.override": Walk(
        cli=lambda workspace, name: [
            *("portal", "override", "hub", name or "tfa", "--subject", "{{ code }}", "--workspace", workspace)
        ],
        http=lambda _, name: ("PUT", f"/v1/portals/hub/{name or 'tfa'}", PORTAL_WORDS),
        unknown=UNKNOWN_PORTAL,
    ),
    "portal.reset": Walk(
        cli=lambda workspace, name: ["portal", "reset", "hub", name, "--workspace", workspace],
        http=lambda _, name: ("DELETE", f"/v1/portals/hub/{name}", None),
        prepare=_overridden,
        unknown=UNKNOWN_PORTAL,
    ),
    "workspace.pools": Walk(
        cli=lambda _, name: ["workspace", "pools", name, "--pool", "fast=account"],
        http=lambda _, name: (
            "PUT",
            f"/v1/admin/workspaces/{name}",
            {"pools": [{"pool": "fast", "from": ["account"]}]},
        ),
        prepare=_active,
        by_admin=True,
    ),
    "workspace.settings": Walk(
        cli=lambda workspace, _: ["workspace", "set", workspace, "--title", "Acme Ltd"],
        http=lambda *_: ("PATCH", "/v1/workspace", {"title": "Acme Ltd"}),
    ),
    "workspace.suspend": Walk(
        cli=lambda _, name: ["workspace", "suspend", name],
        http=lambda _, name: ("POST", f"/v1/admin/workspaces/{name}/suspend", None),
        prepare=_active,
        by_admin=True,
        unknown=UNKNOWN_WORKSPACE,
    ),
    "workspace.readmit": Walk(
        cli=lambda _, name: ["workspace", "readmit", name],
        http=lambda _, name: ("POST", f"/v1/admin/workspaces/{name}/readmit", None),
        prepare=_suspended,
        by_admin=True,
        unknown=UNKNOWN_WORKSPACE,
    ),
    "workspace.add": Walk(
        cli=lambda _, name: ["workspace", "add", name],
        http=lambda _, name: ("PUT", f"/v1/admin/workspaces/{name}", {}),
        prepare=_new_name,
        by_admin=True,
        is_of_subject=True,
    ),
    "key.add": Walk(
        cli=lambda workspace, _: ["key", "add", "--workspace", workspace, "--scope", "read"],
        http=lambda *_: ("POST", "/v1/keys", {"scopes": ["read"]}),
    ),
    "key.revoke": Walk(
        cli=lambda workspace, key: ["key", "revoke", "--workspace", workspace, key],
        http=lambda _, key: ("DELETE", f"/v1/keys/{key}", None),
        prepare=_key,
        unknown=("nothing", "key.unknown"),
    ),
    "domain.add": Walk(
        cli=lambda workspace, _: ["domain", "add", "--workspace", workspace, "news.example"],
        http=lambda *_: ("PUT", "/v1/domains/news.example", None),
    ),
    "domain.prove": Walk(
        cli=_of_domain("check"),
        http=lambda _, domain: ("POST", f"/v1/domains/{domain}/check", None),
        prepare=_domain,
        unknown=UNKNOWN_DOMAIN,
    ),
    "domain.add_key": Walk(
        cli=lambda workspace, domain: ["domain", "add-key", "--workspace", workspace, domain, "--algorithm", "ed25519"],
        http=lambda _, domain: ("POST", f"/v1/domains/{domain}/keys", {"algorithm": "ed25519"}),
        prepare=_domain,
        unknown=UNKNOWN_DOMAIN,
    ),
    "domain.remove_key": Walk(
        cli=lambda workspace, key: ["domain", "remove-key", "--workspace", workspace, *key.split("/")],
        http=lambda _, key: ("DELETE", f"/v1/domains/{key.replace('/', '/keys/')}", None),
        prepare=_domain_with_key,
        unknown=("nowhere.example/fp1", "domain.unknown"),
    ),
    "domain.remove": Walk(
        cli=_of_domain("remove"),
        http=lambda _, domain: ("DELETE", f"/v1/domains/{domain}", None),
        prepare=_domain,
        unknown=UNKNOWN_DOMAIN,
    ),
    "webhook.add": Walk(
        cli=lambda workspace, _: ["webhook", "add", HOOK, "--workspace", workspace],
        http=lambda *_: ("POST", "/v1/webhooks", {"url": HOOK}),
    ),
    "webhook.edit": Walk(
        cli=lambda _, hook: ["webhook", "edit", hook, "--type", "email.bounced"],
        http=lambda _, hook: ("PATCH", f"/v1/webhooks/{hook}", {"types": ["email.bounced"]}),
        prepare=_webhook,
        unknown=UNKNOWN_WEBHOOK,
    ),
    "webhook.pause": _of_webhook("pause"),
    "webhook.resume": _of_webhook("resume"),
    "webhook.test": _of_webhook("test"),
    "webhook.replay": Walk(
        cli=lambda _, hook: ["webhook", "replay", hook, "--since", "2030-01-31T09:00:00Z"],
        http=lambda _, hook: ("POST", f"/v1/webhooks/{hook}/replay", {"since": "2030-01-31T09:00:00Z"}),
        prepare=_webhook,
        unknown=UNKNOWN_WEBHOOK,
    ),
    "webhook.rotate": Walk(
        cli=lambda _, hook: ["webhook", "rotate", hook],
        http=lambda _, hook: ("POST", f"/v1/webhooks/{hook}/rotate", {}),
        prepare=_webhook,
        unknown=UNKNOWN_WEBHOOK,
    ),
    "webhook.remove": Walk(
        cli=lambda _, hook: ["webhook", "remove", hook],
        http=lambda _, hook: ("DELETE", f"/v1/webhooks/{hook}", None),
        prepare=_webhook,
        unknown=UNKNOWN_WEBHOOK,
    ),
    "member.invite": Walk(
        cli=_of_member("add"),
        http=lambda _, address: ("POST", "/v1/members", {"address": address, "role": "viewer"}),
        prepare=_address,
    ),
    "member.role": Walk(
        cli=_of_member("role", "viewer"),
        http=lambda _, address: ("PUT", f"/v1/members/{address}/role", {"role": "viewer"}),
        prepare=_member,
        unknown=UNKNOWN_MEMBER,
    ),
    "member.disable": Walk(
        cli=_of_member("disable"), http=_to_member("disable"), prepare=_member, unknown=UNKNOWN_MEMBER
    ),
    "member.enable": Walk(cli=_of_member("enable"), http=_to_member("enable"), prepare=_member, unknown=UNKNOWN_MEMBER),
    "member.reset": Walk(cli=_of_member("reset"), http=_to_member("reset"), prepare=_member, unknown=UNKNOWN_MEMBER),
    "member.sign_out": Walk(
        cli=_of_member("sessions", "--revoke"), http=_to_member("sign-out"), prepare=_member, unknown=UNKNOWN_MEMBER
    ),
    "admin.sign_out": Walk(
        cli=lambda _, address: ["admin", "sessions", address, "--revoke"],
        http=lambda _, address: ("POST", f"/v1/admin/people/{address}/sign-out", None),
        prepare=_one_admin_more,
        by_admin=True,
        is_of_installation=True,
        unknown=("nobody@there.test", "admin.unknown"),
    ),
    "inbox.delete": Walk(
        cli=lambda _, mail: ["inbox", "delete", mail],
        http=lambda _, mail: ("DELETE", f"/v1/inbox/{mail}", None),
        prepare=_mail,
        by_admin=True,
        is_of_installation=True,
        unknown=("999999", "inbox.unknown_mail"),
    ),
    "admin.invite": Walk(
        cli=lambda _, address: ["admin", "invite", address],
        http=lambda _, address: ("POST", "/v1/admin/people", {"address": address}),
        prepare=_address,
        by_admin=True,
        is_of_installation=True,
    ),
    "admin.disable": Walk(
        cli=lambda _, address: ["admin", "disable", address],
        http=lambda _, address: ("POST", f"/v1/admin/people/{address}/disable", None),
        prepare=_one_admin_more,
        by_admin=True,
        is_of_installation=True,
        unknown=("nobody@there.test", "admin.unknown"),
    ),
    "admin.enable": Walk(
        cli=lambda _, address: ["admin", "enable", address],
        http=lambda _, address: ("POST", f"/v1/admin/people/{address}/enable", None),
        prepare=_one_admin_more,
        by_admin=True,
        is_of_installation=True,
        unknown=("nobody@there.test", "admin.unknown"),
    ),
    "person.erase": Walk(
        cli=lambda workspace, _: ["privacy", "erase", "eve@there.test", "--yes", "--workspace", workspace],
        http=lambda *_: ("DELETE", "/v1/persons/eve@there.test", None),
    ),
}

ONE_FRONT_END: Mapping[str, str] = {
    "account.unblock": "for the operator alone, whose accounts are shared",
    "account.share": "regions are the operator's, and are named on the server",
    "admin.code": "shown on the server where no e-mail comes",
    "admin.setup": "the first admin comes by a link, in a browser",
    "history.drop": "for the operator alone, who says how long history is kept",
    "member.code": "shown on the server where no e-mail comes",
    "person.accept": "people choose their passwords in a browser",
    "person.enter": "a link is followed in a browser",
    "person.password": "people choose their passwords in a browser",
    "secrets.rotate": "the key is on the server",
    "session.end": "a session is a browser's",
    "session.revoke": "people end their own sessions in a browser; the command line ends all of a person's",
    "admin.link": "creating such a link requires access to the database",
    "admin.reset": "admins reset each other's passwords on the server alone",
    "campaign.apply": "a file is applied by the command line; the HTTP API has PUT",
    "email.retry_failed": "for the operator alone",
    "domain.grant": "for the operator alone",
    "login.create": "the embedded server's own, by the command that prints its URL",
    "login.grant": "logins of the database are given on the server alone",
    "login.revoke": "logins of the database are given on the server alone",
    "recipient.unsubscribe": "for recipients alone, by the link in an e-mail",
    "recipient.resubscribe": "for recipients alone, by the link in an e-mail",
    "suppression.soft_bounces": "for the operator alone",
    "workspace.place": "where workspaces live is decided on the server",
    "workspace.rate": "for the operator alone",
    "workspace.pause": "the pages hold a workspace",
}
