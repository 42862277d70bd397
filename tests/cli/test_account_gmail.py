"""Accounts of the Gmail API: how the key comes in, that it never comes out, and what is said where a mailbox cannot be used."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairpost.emulate.mailbox import User
from fairpost.emulate.server import GmailEmulator
from tests.cli.conftest import Cli
from tests.cli.test_account_server import opened, run

if TYPE_CHECKING:
    import psycopg

SALES = "sales@post.test"
ADD = ("account", "add", "sales", "--from", SALES)


@contextmanager
def emulating(*users: User | str) -> Iterator[GmailEmulator]:
    """Beside a command that has an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    emulator = GmailEmulator(users=users or [SALES])
    try:
        asyncio.run_coroutine_threadsafe(emulator.start(), loop).result(10)
        yield emulator
    finally:
        asyncio.run_coroutine_threadsafe(emulator.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def google() -> Iterator[GmailEmulator]:
    with emulating(User(address=SALES, aliases=("shop@post.test",)), "ann@post.test") as emulator:
        yield emulator


@pytest.fixture
def key_file(google: GmailEmulator, tmp_path: Path) -> Path:
    google.faults.clear()
    path = tmp_path / "key.json"
    path.write_text(json.dumps(google.service_account_info()))
    return path


@pytest.fixture
def token_file(google: GmailEmulator, tmp_path: Path) -> Path:
    path = tmp_path / "token.json"
    path.write_text(json.dumps(google.refresh_token(SALES)))
    return path


# ── how the key comes in ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_sealed_and_never_shown(cli: Cli, db: "psycopg.Connection[Any]", key_file: Path) -> None:
    said = run(cli, *ADD, "--gmail", key_file, "--subject", "ann@post.test")
    assert "fairpost account verify sales" in said
    assert opened(cli, db) == key_file.read_text()
    shown = cli.json("account", "show", "sales")["server"]
    assert shown == {
        "kind": "gmail",
        "oauth": "google-service-account",
        "client_id": None,
        "subject": "ann@post.test",
        "url": None,
        "has_key": True,
    }
    said = cli.ok("account", "show", "sales") + cli.ok("account", "list")
    assert "Gmail API, by a service account, for ann@post.test" in said
    assert "sealed with the key" in said
    assert "PRIVATE" not in said + json.dumps(shown)


def test_a_refresh_token_is_sealed_with_its_clients_secret(
    cli: Cli, db: "psycopg.Connection[Any]", token_file: Path, google: GmailEmulator
) -> None:
    run(cli, *ADD, "--gmail-refresh-token", token_file, "--gmail-url", google.url)
    given = json.loads(token_file.read_text())
    assert json.loads(opened(cli, db)) == {name: given[name] for name in ("refresh_token", "client_secret")}
    said = cli.ok("account", "show", "sales")
    assert f"Gmail API at {google.url}, by the refresh token of a person, client {given['client_id']}" in said
    assert given["refresh_token"] not in said
    assert "sales can log in and send" in cli.ok("account", "verify", "sales")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--gmail", "KEY", "--smtp", "smtp://relay.test"), "by SMTP or through the Gmail API"),
        (("--gmail", "KEY", "--gmail-refresh-token", "TOKEN"), "Give --gmail or --gmail-refresh-token, not both."),
        (("--gmail-refresh-token", "TOKEN", "--subject", "ann@post.test"), "--subject goes with --gmail"),
        (("--gmail", "TOKEN"), 'has the type "authorized_user", not "service_account"'),
        (("--gmail", "TOKEN"), "fairpost account set sales --gmail FILE"),
        (("--gmail-refresh-token", "KEY"), "must be a file of JSON with client_id"),
        (("--gmail", "/nonexistent"), "--gmail cannot be read: /nonexistent"),
        (("--gmail", "KEY", "--gmail-url", "http://mail.example.com"), "--gmail-url must be https://HOST, or http://"),
        (("--gmail", "KEY", "--gmail-url", "https://u:p@mail.example.com"), "--gmail-url must be"),
        (("--gmail", "KEY", "--gmail-url", "http://127.0.0.1:99999"), "--gmail-url must be"),
        (("--gmail", "KEY", "--subject", "ann"), "--subject must be a mailbox"),
        (("--subject", "ann@post.test"), "Give it a key: fairpost account set sales --gmail FILE"),
    ],
)
def test_what_does_not_go_together_is_said(
    cli: Cli, key_file: Path, token_file: Path, options: tuple[str, ...], error: str
) -> None:
    given = [{"KEY": str(key_file), "TOKEN": str(token_file)}.get(option, option) for option in options]
    assert error in cli.error(*ADD, *given)
    assert cli.json("account", "list") == []


def test_a_key_is_changed_and_the_rest_stays(
    cli: Cli, db: "psycopg.Connection[Any]", key_file: Path, google: GmailEmulator
) -> None:
    cli.ok(*ADD, "--gmail", key_file, "--gmail-url", google.url, "--subject", SALES)
    other = key_file.with_name("other.json")
    other.write_text(json.dumps(google.service_account_info(name="other")))
    cli.ok("account", "set", "sales", "--gmail", other)
    assert opened(cli, db) == other.read_text()
    server = cli.json("account", "show", "sales")["server"]
    assert (server["subject"], server["url"]) == (SALES, google.url)
    cli.ok("account", "set", "sales", "--subject", "")
    assert cli.json("account", "show", "sales")["server"]["subject"] is None
    assert opened(cli, db) == other.read_text()
    assert "Another URL needs its key" in cli.error("account", "set", "sales", "--gmail-url", "https://other.test")
    assert "a password is of no use" in cli.error("account", "set", "sales", "--password-env", "HOME")


def test_an_account_moves_from_smtp_to_gmail_and_back(cli: Cli, db: "psycopg.Connection[Any]", key_file: Path) -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:geheim@smtp.example.com")
    assert "does not send through the Gmail API" in cli.error("account", "set", "sales", "--subject", SALES)
    cli.ok("account", "set", "sales", "--gmail", key_file)
    assert opened(cli, db) == key_file.read_text()
    assert "Another host or user needs its password" in cli.error(
        "account", "set", "sales", "--smtp", "smtps://a@b.test"
    )
    cli.ok("account", "set", "sales", "--smtp", "smtp://relay.test:25")
    assert cli.json("account", "show", "sales")["server"]["has_password"] is False


# ── verify ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def add(cli: Cli, key_file: Path, google: GmailEmulator, *more: str) -> None:
    cli.ok(*ADD, "--gmail", key_file, "--gmail-url", google.url, *more)


def refused(cli: Cli) -> str:
    return run(cli, "account", "verify", "sales", code=1)


def test_a_mailbox_that_works_is_tried_step_by_step(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google)
    said = cli.ok("account", "verify", "sales")
    assert [line.split()[:2] for line in said.splitlines()] == [
        ["✓", "token"],
        ["✓", "mailbox"],
        ["✓", "sender"],
        ["✓", "draft"],
        ["sales", "can"],
    ]
    assert google.drafts(SALES) == []
    assert google.sent() == []
    facts = cli.json("account", "verify", "sales")
    assert facts["ok"]
    assert [step["step"] for step in facts["steps"]] == ["token", "mailbox", "sender", "draft"]


def test_an_alias_may_send(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google, "--subject", SALES)
    cli.ok("account", "set", "sales", "--from", "shop@post.test")
    assert "shop@post.test, an alias of sales@post.test" in cli.ok("account", "verify", "sales")


def test_an_address_of_another_mailbox_may_not(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google, "--subject", "ann@post.test")
    said = refused(cli)
    assert "✗ sender" in said
    assert "Gmail would put ann@post.test in its place" in said
    assert "fairpost account set sales --from ann@post.test" in said
    assert google.drafts("ann@post.test") == []


@pytest.mark.parametrize(
    ("fault", "step", "advice"),
    [
        (
            {"route": "getProfile", "action": "error", "reason": "accessNotConfigured"},
            "mailbox",
            "https://console.cloud.google.com/apis/library/gmail.googleapis.com?project=104729104729",
        ),
        (
            {"route": "getProfile", "action": "error", "reason": "insufficientPermissions"},
            "mailbox",
            "does not cover the scope",
        ),
        (
            {"route": "getProfile", "action": "error", "reason": "domainPolicy"},
            "mailbox",
            "does not let apps use Gmail",
        ),
        ({"route": "getProfile", "action": "error", "reason": "delegationDenied"}, "mailbox", "--subject MAILBOX"),
        ({"route": "getProfile", "action": "error", "status": 401}, "mailbox", "granted the token and then refused it"),
        ({"route": "getProfile", "action": "error", "status": 503}, "mailbox", "Google has trouble"),
        ({"route": "getProfile", "action": "garbage", "status": 403, "body": "<p>"}, "mailbox", "no proxy answers"),
        ({"route": "getProfile", "action": "drop"}, "mailbox", "Check that this machine can reach http://127.0.0.1"),
        ({"route": "drafts.create", "action": "error", "status": 429}, "draft", "has used up a limit"),
        (
            {"route": "drafts.delete", "action": "error", "reason": "strange", "status": 400},
            "draft",
            "Look up what Google said",
        ),
        ({"route": "token", "action": "error", "status": 503}, "token", "can reach the token server"),
        ({"route": "token", "action": "error", "reason": "invalid_grant"}, "token", "are active"),
    ],
)
def test_what_is_missing_is_said_so_that_somebody_can_act(
    cli: Cli, key_file: Path, google: GmailEmulator, fault: dict[str, Any], step: str, advice: str
) -> None:
    add(cli, key_file, google)
    google.faults.add(**fault)
    said = refused(cli)
    assert f"✗ {step}" in said
    assert advice in said
    assert "NAME" not in said


def test_a_key_without_delegation_names_the_client_and_the_scope(cli: Cli, tmp_path: Path) -> None:
    with emulating(User(address=SALES, delegated=False)) as google:
        info = google.service_account_info()
        path = tmp_path / "key.json"
        path.write_text(json.dumps(info))
        add(cli, path, google)
        said = refused(cli)
    assert "✗ token" in said
    assert f"add the client id {info['client_id']} with the scope https://mail.google.com/" in said


def test_a_mailbox_without_gmail(cli: Cli, tmp_path: Path) -> None:
    with emulating(User(address=SALES, mail_enabled=False)) as google:
        path = tmp_path / "key.json"
        path.write_text(json.dumps(google.service_account_info()))
        add(cli, path, google)
        said = refused(cli)
    assert "400 failedPrecondition: Mail service not enabled" in said
    assert "The mailbox sales@post.test has no Gmail" in said


def test_a_clock_that_is_off(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google)
    google.faults.add(route="token", action="skew-clock", seconds=7200, times=1)
    try:
        said = refused(cli)
    finally:
        google.clock.skew *= 0
    assert "✗ token" in said
    assert "Set it right: timedatectl" in said


def test_a_suspended_account_is_tried_before_it_resumes(
    cli: Cli, db: "psycopg.Connection[Any]", key_file: Path, google: GmailEmulator
) -> None:
    add(cli, key_file, google)
    db.execute("UPDATE fairpost.accounts SET status = 'suspended', status_reason = 'x'")
    google.faults.add(route="getProfile", action="error", status=403, times=1)
    assert "stays suspended" in cli.error("account", "resume", "sales")
    assert "sales is active" in cli.ok("account", "resume", "sales")
