"""Accounts of the Gmail API: how the key is read, that it is never printed, and the advice if a mailbox cannot be used."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fairpost.dev.emulate.mailbox import User
from fairpost.dev.emulate.server import GmailEmulator
from tests.cli.conftest import Case, Cli, missing
from tests.cli.test_account_server import key_id, opened, refused, run

if TYPE_CHECKING:
    import psycopg

SALES, ANN = "sales@post.test", "ann@post.test"
NOT_DELEGATED, WITHOUT_GMAIL = "far@post.test", "bare@post.test"
ADD = ("account", "add", "sales", "--from", SALES)


@pytest.fixture(scope="module")
def google() -> Iterator[GmailEmulator]:
    """Runs alongside commands that have their own event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    emulator = GmailEmulator(
        users=[
            User(address=SALES, aliases=("shop@post.test",)),
            ANN,
            User(address=NOT_DELEGATED, delegated=False),
            User(address=WITHOUT_GMAIL, mail_enabled=False),
        ]
    )
    try:
        asyncio.run_coroutine_threadsafe(emulator.start(), loop).result(120)
        yield emulator
    finally:
        asyncio.run_coroutine_threadsafe(emulator.stop(), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


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


# ── reading the key ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_sealed_and_never_shown(cli: Cli, db: "psycopg.Connection[Any]", key_file: Path) -> None:
    said = run(cli, *ADD, "--gmail", key_file, "--subject", ANN)
    assert "fairpost account verify sales" in said
    assert opened(cli, db) == key_file.read_text()
    shown = cli.json("account", "show", "sales")["server"]
    assert shown == {
        "kind": "gmail",
        "oauth": "google-service-account",
        "client_id": None,
        "subject": ANN,
        "url": None,
        "read": False,
        "has_key": True,
    }
    said = cli.ok("account", "show", "sales") + cli.ok("account", "list")
    assert missing(said, ANN, key_id(db)) == []
    assert "PRIVATE" not in said + json.dumps(shown)


def test_a_refresh_token_is_sealed_with_its_clients_secret(
    cli: Cli, db: "psycopg.Connection[Any]", token_file: Path, google: GmailEmulator
) -> None:
    run(cli, *ADD, "--gmail-refresh-token", token_file, "--gmail-url", google.url)
    given = json.loads(token_file.read_text())
    assert json.loads(opened(cli, db)) == {name: given[name] for name in ("refresh_token", "client_secret")}
    said = cli.ok("account", "show", "sales")
    assert missing(said, google.url, given["client_id"]) == []
    assert given["refresh_token"] not in said
    assert cli.json("account", "verify", "sales")["ok"]


def test_contradicting_options_are_reported(cli: Cli, key_file: Path, token_file: Path) -> None:
    key, token, url = ("--gmail", key_file), ("--gmail-refresh-token", token_file), "--gmail-url"
    cases: tuple[Case, ...] = (
        ((*key, "--smtp", "smtp://relay.test"), ("SMTP", "Gmail API")),
        ((*key, *token), ("--gmail", "--gmail-refresh-token")),
        ((*token, "--subject", ANN), ("--subject", "--gmail")),
        (
            ("--gmail", token_file),
            ('"authorized_user"', '"service_account"', "fairpost account set sales --gmail FILE"),
        ),
        (("--gmail-refresh-token", key_file), ("--gmail-refresh-token", "client_id", "client_secret", "refresh_token")),
        (("--gmail", "/nonexistent"), ("--gmail", "/nonexistent")),
        ((*key, url, "http://mail.example.com"), (url, "https://HOST", "http://127.0.0.1")),
        ((*key, url, "https://u:p@mail.example.com"), (url, "https://HOST")),
        ((*key, url, "http://127.0.0.1:99999"), (url, "https://HOST")),
        ((*key, "--subject", "ann"), ("--subject", "'ann'")),
        (("--subject", ANN), ("sales", "fairpost account set sales --gmail FILE")),
    )
    assert cli.wrong_errors(((*ADD, *options), facts) for options, facts in cases) == []
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
    assert "--gmail FILE" in cli.error("account", "set", "sales", "--gmail-url", "https://other.test")
    assert "fairpost account set sales --smtp" in cli.error("account", "set", "sales", "--password-env", "HOME")
    assert cli.json("account", "show", "sales")["server"] == {**server, "subject": None}


def test_an_account_moves_from_smtp_to_gmail_and_back(cli: Cli, db: "psycopg.Connection[Any]", key_file: Path) -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:geheim@smtp.example.com")
    assert "fairpost account set sales --gmail FILE" in cli.error("account", "set", "sales", "--subject", SALES)
    cli.ok("account", "set", "sales", "--gmail", key_file)
    assert opened(cli, db) == key_file.read_text()
    assert "--ask-password" in cli.error("account", "set", "sales", "--smtp", "smtps://a@b.test")
    cli.ok("account", "set", "sales", "--smtp", "smtp://relay.test:25")
    assert cli.json("account", "show", "sales")["server"]["has_password"] is False


# ── verify ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def add(cli: Cli, key_file: Path, google: GmailEmulator, *more: str) -> None:
    cli.ok(*ADD, "--gmail", key_file, "--gmail-url", google.url, *more)


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
    sender = cli.json("account", "verify", "sales")["steps"][2]
    assert (sender["step"], missing(sender["text"], "shop@post.test", SALES)) == ("sender", [])


def test_an_address_of_another_mailbox_may_not(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google, "--subject", ANN)
    step, then = refused(cli)
    assert (step["step"], missing(step["text"], SALES, ANN)) == ("sender", [])
    assert f"fairpost account set sales --from {ANN}" in then
    assert google.drafts(ANN) == []


AGAIN = "fairpost account verify sales"
# What fails where, the step, Google's status code, and the facts in the advice.
FAULTS: tuple[tuple[str, dict[str, Any], str, int | None, tuple[str, ...]], ...] = (
    (
        "getProfile",
        {"reason": "accessNotConfigured"},
        "mailbox",
        403,
        ("https://console.cloud.google.com/apis/library/gmail.googleapis.com?project=104729104729", AGAIN),
    ),
    ("getProfile", {"reason": "insufficientPermissions"}, "mailbox", 403, ("https://mail.google.com/", AGAIN)),
    ("getProfile", {"reason": "domainPolicy"}, "mailbox", 403, ("API controls", AGAIN)),
    ("getProfile", {"reason": "delegationDenied"}, "mailbox", 400, (SALES, "--subject MAILBOX")),
    ("getProfile", {"status": 401}, "mailbox", 401, ("clock", AGAIN)),
    ("getProfile", {"status": 503}, "mailbox", 503, (AGAIN,)),
    (
        "getProfile",
        {"action": "garbage", "status": 403, "body": "<p>"},
        "mailbox",
        403,
        ("http://127.0.0.1", "proxy", AGAIN),
    ),
    ("getProfile", {"action": "drop"}, "mailbox", None, ("http://127.0.0.1", AGAIN)),
    ("drafts.create", {"status": 429}, "draft", 429, (AGAIN,)),
    (
        "drafts.delete",
        {"reason": "strange", "status": 400},
        "draft",
        400,
        ("https://developers.google.com/gmail/api/guides/handle-errors", AGAIN),
    ),
    ("token", {"status": 503}, "token", None, (AGAIN,)),
    ("token", {"reason": "invalid_grant"}, "token", None, ("@fairpost-emulator.iam.gserviceaccount.com", SALES)),
)


def test_each_fault_is_told_by_its_step_with_an_advice_of_its_own(
    cli: Cli, key_file: Path, google: GmailEmulator
) -> None:
    add(cli, key_file, google)
    wrong, advices = [], set()
    for route, fault, step, code, facts in FAULTS:
        google.faults.clear()
        google.faults.add(**{"route": route, "action": "error", **fault})
        failed, then = refused(cli)
        found = (failed["step"], failed["reply"] and failed["reply"]["code"])
        if found != (step, code) or missing(then, *facts) or "NAME" in then:
            wrong.append((route, fault, found, then))
        advices.add(then)
    assert wrong == []
    assert len(advices) == len(FAULTS)


def test_a_key_without_delegation_names_the_client_and_the_scope(
    cli: Cli, key_file: Path, google: GmailEmulator
) -> None:
    add(cli, key_file, google, "--subject", NOT_DELEGATED)
    step, then = refused(cli)
    assert step["step"] == "token"
    assert missing(then, json.loads(key_file.read_text())["client_id"], "https://mail.google.com/") == []


def test_a_mailbox_without_gmail(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google, "--subject", WITHOUT_GMAIL)
    step, then = refused(cli)
    assert (step["reply"]["code"], "failedPrecondition" in step["reply"]["text"]) == (400, True)
    assert WITHOUT_GMAIL in then


def test_a_clock_that_is_off(cli: Cli, key_file: Path, google: GmailEmulator) -> None:
    add(cli, key_file, google)
    google.faults.add(route="token", action="skew-clock", seconds=7200, times=1)
    try:
        step, _ = refused(cli)
    finally:
        google.clock.skew *= 0
    assert (step["step"], "timedatectl" in step["text"]) == ("token", True)


def test_a_suspended_account_is_tried_before_it_resumes(
    cli: Cli, db: "psycopg.Connection[Any]", key_file: Path, google: GmailEmulator
) -> None:
    add(cli, key_file, google)
    db.execute(
        "UPDATE fairpost.accounts SET status = 'suspended', status_reason = 'account.worker_died', status_params = '{\"times\": 3}'"
    )
    google.faults.add(route="getProfile", action="error", status=403, times=1)
    cli.error("account", "resume", "sales")
    assert cli.json("account", "show", "sales")["status"] == "suspended"
    cli.ok("account", "resume", "sales")
    assert cli.json("account", "show", "sales")["status"] == "active"
