"""Every command behind PgBouncer in transaction mode, where each transaction may run in a different session."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from argon2 import PasswordHasher
from typer.testing import CliRunner

from fairpost.auth import membership, passwords, signing_in
from fairpost.auth.mails import ServiceMail
from fairpost.cli import app
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.portals.loading import built_in_portals
from fairpost.store.store import Store
from tests.cli.conftest import Cli, deliver
from tests.cli.test_inbox import full, put
from tests.docs.test_commands import COMMANDS
from tests.peers.pgbouncer import sessions
from tests.returns.mails import mail

PASSWORD = "four words that fit"
FAILED = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(554, "5.6.0 we do not take this"))
IN_DOUBT = Report(reached=Reached.AFTER_DOT)

# Commands that are not run here, and why.
WITHOUT_A_DATABASE = {
    *("settings", "explain", "account providers", "prospects columns", "portal check", "emulate smtp", "emulate gmail"),
    *("simulate abuse", "bench compose", "bench smtp"),
}
OTHER_PROGRAMS = {"up", "db start", "db stop", "db shell"}  # of the embedded server, and psql
FOR_EVER = {"webhook listen", "work", "api", "inbox serve", "receive"}  # in separate tests
REGIONS = {"account share"}  # needs several databases
LONG = {
    name for name in (key.removeprefix("fairpost ") for key in COMMANDS) if name.startswith(("bench ", "simulate "))
}


class Walk:
    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self.walked: set[str] = set()
        self.wrong: list[str] = []

    def __call__(self, line: str, *more: object, code: int = 0) -> str:
        arguments = [*shlex.split(line), *map(str, more)]
        self.walked |= {name for n in (1, 2) if f"fairpost {(name := ' '.join(arguments[:n]))}" in COMMANDS}
        result = CliRunner().invoke(app, arguments, env=self._cli.environment)
        if result.exit_code != code or isinstance(result.exception, Exception):
            self.wrong.append(f"{line}: {result.exit_code} {result.exception!r} {result.output}")
        return result.stdout

    def json(self, line: str, *more: object) -> Any:
        said = self(line, *more, "--json")
        assert said, self.wrong
        return json.loads(said)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


def look_around(walk: Walk, url: str, folder: Path) -> None:
    for line in (
        "db migrate",
        "db status",
        "db url",
        "db retain --days 365",
        "db logins",
        "region list",
        "region workspaces",
    ):
        walk(line)
    for line in ("db grant no_such_role", "db revoke no_such_role"):
        walk(line, code=1)  # there is no such role
    for line in ("status", "fairness", "metrics", "audit", "events"):
        walk(line)
    walk("doctor", code=1)  # the tests' server is not durable
    walk("pause --all --reason busy")
    walk("pause --all --reason busier")
    walk("resume --all")
    walk("schedule set --timezone Europe/Berlin --days all --hours all --quota 50")
    walk("schedule show")
    walk("forecast --recipients 100 --steps 2 --delay 3d --account outlook")


def keep_accounts(walk: Walk, url: str, folder: Path) -> None:
    walk("account add sales --from sales@post.test --provider none --smtp smtp://127.0.0.1:1")
    walk("account add spare --from spare@post.test --provider none")
    walk("account set sales --hourly 1000")
    walk("account list")
    walk("account show sales")
    walk("account verify sales", code=1)  # there is no server
    walk("account pause sales --reason tired")
    walk("account resume sales --no-verify")
    walk("account unblock sales --all", code=1)  # no sender is blocked on it
    walk("account remove spare --yes")
    walk("secrets rotate")


def keep_workspaces(walk: Walk, url: str, folder: Path) -> None:
    walk("workspace add acme --pool relay")
    walk("region place acme main")
    walk("region of acme")
    for line in ("workspace list", "workspace show acme", "workspace pools acme --pool relay"):
        walk(line)
    walk("workspace rate acme 1000")
    walk("workspace set acme --title Acme")
    walk("workspace suspend acme --reason unpaid")
    walk("workspace readmit acme")
    key = walk.json("key add acme --name shop")
    walk("key list acme")
    walk("key revoke acme", key["id"])
    walk("domain add acme acme.localhost")
    walk("domain check acme acme.localhost", code=1)  # it is not verified
    dkim = walk.json("domain add-key acme acme.localhost")
    walk("domain keys acme acme.localhost")
    walk("domain remove-key acme acme.localhost", dkim["selector"])
    for line in ("domain grant acme acme.localhost", "domain list acme", "domain remove acme acme.localhost"):
        walk(line)
    for line in ("user set acme ann --plan pro", "user show acme ann", "user list --workspace acme"):
        walk(line)
    walk("user throttle acme ann --reason 'too much'")
    walk("user unthrottle acme ann")
    walk("hold acme --user ann --reason wait")
    walk("release acme --user ann")


def let_people_in(walk: Walk, url: str, folder: Path) -> None:
    token = parse_qs(urlsplit(walk.json("admin invite a@x.test")["link"]).query)["token"][0]
    on_store(url, lambda store: membership.accept_invitation(store, token, PASSWORD))
    mail = ServiceMail(portals=built_in_portals(), pool="default", public_url="http://x.test")
    person: dict[str, Any] = {
        "workspace": None,
        "address": "a@x.test",
        "password": PASSWORD,
        "client": "192.0.2.7",
        "mail": mail,
    }
    on_store(url, lambda store: signing_in.begin_sign_in(store, **person))
    for verb in ("list", "code a@x.test", "link a@x.test", "sessions a@x.test", "enable a@x.test"):
        walk(f"admin {verb}")
    walk("admin disable a@x.test", code=1)  # the last admin who can sign in
    walk("admin reset a@x.test")
    walk("member add acme b@x.test")
    walk("member list acme")
    walk("member code acme nobody@post.test", code=1)  # no sign-in is waiting
    for verb, more in (("role", "viewer"), ("sessions", ""), ("disable", ""), ("enable", ""), ("reset", "")):
        walk(f"member {verb} acme b@x.test {more}")


def on_store(url: str, work: Any) -> Any:
    async def run() -> Any:
        async with Store.open(url) as store:
            return await work(store)

    return asyncio.run(run())


def keep_webhooks(walk: Walk, url: str, folder: Path) -> None:
    hook = walk.json("webhook add http://127.0.0.1:1025/hook --everywhere")["webhook"]
    walk("webhook list")
    for line in (
        "show",
        "edit --description there",
        "pause",
        "resume",
        "rotate",
        "replay --since 2030-01-31T09:00:00Z",
        "log",
    ):
        verb, _, more = line.partition(" ")
        walk(f"webhook {verb} {hook} {more}")
    walk(f"webhook test {hook}", code=1)  # there is no server
    walk(f"webhook remove {hook}")


def answer_mail(walk: Walk, id_: str, file: Path) -> None:
    """The recipient of the e-mail that counts as sent replies to it."""
    public_id = walk.json(f"email show {id_}")["public_id"]
    file.write_bytes(mail("Gladly.", sender="b@there.test", headers={"References": f"<{public_id}.0@here.test>"}))
    walk("receive --message", file)
    walk("conversation list")
    walk("conversation show b@there.test")
    walk("conversation label b@there.test interested")
    walk("conversation answer b@there.test --text Tuesday")


def send_mail(walk: Walk, url: str, folder: Path) -> None:
    failed, doubted, waiting = [
        walk.json(f"email send --to {to}@there.test --subject Hello --text Hi --class bulk")["id"] for to in "abc"
    ]
    walk("pause --all --reason 'one moment'")
    walk("resume --all")
    deliver(url, FAILED, FAILED, IN_DOUBT, FAILED)  # the first is the sign-in code
    walk("email retry", failed)
    walk("email cancel", failed)
    walk("email resolve --as sent", doubted)
    walk("email returned")
    answer_mail(walk, doubted, folder / "answer.eml")
    walk("email list")
    walk("email find there.test")
    walk("email show", waiting)
    walk("status")
    walk("fairness")
    walk("portal list")
    walk("portal preview hub tfa")
    walk("portal send hub tfa --to ann@example.com --field code=482913")
    walk("portal override hub tfa --workspace acme --subject 'Your code: {{ code }}'")
    walk("portal reset hub tfa --workspace acme")
    walk("privacy export ann@example.com")
    walk("privacy erase ann@example.com --yes")


def write_campaigns(walk: Walk, url: str, folder: Path) -> None:
    people = folder / "people.csv"
    people.write_text("email,first_name\nann@example.com,Ann\nbob@example.com,Bob\ncyd@example.com,Cyd\n")
    walk("prospects import customers", people)
    walk("prospects import customers", people)
    for line in ("prospects list", "prospects lists", "prospects show ann@example.com"):
        walk(line)
    walk("template set hello --subject Hi --text 'Dear {{ first_name }}'")
    for line in ("template list", "template show hello", "template preview hello --prospect ann@example.com"):
        walk(line)
    walk("sequence set two --step hello --step 'hello after 3d'")
    walk("sequence list")
    walk("sequence show two")
    walk("campaign new spring --list customers --sequence two --gap none")
    walk("campaign new summer --list customers --template hello --gap none")
    exported = folder / "spring.toml"
    exported.write_text(walk("campaign export spring"))
    walk("campaign apply", exported)
    walk("campaign preview spring")
    walk("campaign send-test spring me@example.com")
    walk("campaign launch spring")
    walk("campaign schedule spring")
    walk("forecast spring")
    deliver(url, FAILED, FAILED, FAILED, FAILED, FAILED)
    for verb in (
        "list",
        "show spring",
        "progress spring",
        "recipients spring",
        "retry spring",
        "stop spring bob@example.com",
    ):
        walk(f"campaign {verb}")
    for verb in ("pause spring", "resume spring", "cancel spring", "remove summer"):
        walk(f"campaign {verb}")
    walk("prospects pause ann@example.com")
    walk("prospects resume ann@example.com")
    walk("prospects remove ann@example.com")
    walk("prospects import spare", people)
    walk("prospects remove-list spare")
    walk("template set spare --subject Hi --text Hi")
    walk("sequence set spare --step spare")
    walk("sequence remove spare")
    walk("template remove spare")


def suppress(walk: Walk, url: str, folder: Path) -> None:
    walk("suppress add x@example.com --reason 'asked us to'")
    for line in ("suppress list", "suppress show x@example.com", "suppress soft-bounces --max 3"):
        walk(line)
    walk("suppress export", folder / "one.csv")
    walk("suppress export", folder / "two.csv")
    walk("suppress import", folder / "one.csv")
    walk("suppress remove x@example.com")


def read_the_inbox(walk: Walk, url: str, folder: Path) -> None:
    id_ = put(url, full())
    for verb in (
        "list",
        "search Welcome",
        f"show {id_}",
        f"source {id_}",
        f"check {id_}",
        f"attachments {id_}",
        f"delete {id_}",
    ):
        walk(f"inbox {verb}")


PARTS = (
    look_around,
    keep_accounts,
    keep_workspaces,
    keep_webhooks,
    let_people_in,
    send_mail,
    write_campaigns,
    suppress,
    read_the_inbox,
)


def test_every_command_works_and_leaves_nothing_in_the_session(pooled_url: str, tmp_path: Path) -> None:
    walk = Walk(Cli({"FAIRPOST_DATABASE_URL": pooled_url, "FAIRPOST_HOME": str(tmp_path / "home")}))
    with sessions(pooled_url) as left_behind:
        for part in PARTS:
            part(walk, pooled_url, tmp_path)
            walk.wrong += [f"{part.__name__} leaves {each}" for each in left_behind()]
    assert "\n".join(walk.wrong) == ""
    left_out = WITHOUT_A_DATABASE | OTHER_PROGRAMS | FOR_EVER | REGIONS | LONG
    assert walk.walked | left_out == {name.removeprefix("fairpost ") for name in COMMANDS}
