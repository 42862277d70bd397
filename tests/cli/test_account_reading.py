"""Accounts whose mailbox is read: the options, the output, and an engine that really reads."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from tests.cli.conftest import Cli
from tests.facts import missing
from tests.imap.scripted_server import Mailboxes, imap_server
from tests.loops import beside
from tests.smtp.scripted_server import Script, scripted

if TYPE_CHECKING:
    import psycopg

ADD = ("account", "add", "sales", "--from", "sales@post.test", "--password-file", "-")
ENGINE_S_MAX = 60


def run(cli: Cli, *arguments: object, stdin: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env=cli.environment, input=stdin)
    assert result.exit_code == code, result.output
    return result.output


def add(cli: Cli, smtp: str, *more: str) -> None:
    run(cli, *ADD, "--smtp", smtp, *more, stdin="secret\n")


def stored(db: "psycopg.Connection[Any]") -> dict[str, Any]:
    row = db.execute("SELECT transport FROM fairpost.accounts WHERE name = 'sales'").fetchone()
    assert row is not None
    found: dict[str, Any] = row[0]
    return found


@contextmanager
def servers(mailboxes: Mailboxes) -> Iterator[tuple[str, str]]:
    """Returns the URLs of an SMTP server and an IMAP server."""
    with (
        beside(lambda: scripted(Script(features=("AUTH PLAIN",)))) as smtp,
        beside(lambda: imap_server(mailboxes)) as imap,
    ):
        yield f"smtp://ann@127.0.0.1:{smtp}?tls=none", f"imap://127.0.0.1:{imap}"


def test_reading_is_off_until_it_is_switched_on_and_stays_with_the_server(
    cli: Cli, db: "psycopg.Connection[Any]"
) -> None:
    add(cli, "smtp+starttls://ann@smtp.example.com")
    assert not stored(db)["read"]
    assert cli.json("account", "show", "sales")["reading_code"] == "account.no_way_back"
    secret = stored(db)["secret"]
    run(cli, "account", "set", "sales", "--read", "--imap", "imaps://mail.example.com?folder=Bounces")
    kept = {"read": True, "imap": "imaps://mail.example.com?folder=Bounces", "secret": secret}
    assert stored(db) | kept == stored(db)
    run(cli, "account", "set", "sales", "--smtp", "smtps://ann@smtp.example.com")
    assert stored(db) | kept == stored(db)  # on the same host, another port does not affect reading
    assert cli.json("account", "show", "sales")["reading_code"] == "account.read_soon"
    run(cli, "account", "set", "sales", "--no-read", "--imap", "")
    assert (stored(db)["read"], stored(db).get("imap")) == (False, None)


def test_an_account_with_a_bounce_address_says_that_replies_stay_unknown(cli: Cli) -> None:
    add(cli, "smtp+starttls://ann@smtp.example.com?bounces=bounces.example.com")
    assert cli.json("account", "show", "sales")["reading_code"] == "account.replies_unknown"


@pytest.mark.parametrize(
    "options",
    [("--imap", "http://x"), ("--imap", "imaps://ann:secret@imap.example.com"), ("--imap", "imaps://x?folder=")],
)
def test_a_wrong_url_of_a_mailbox_is_refused(cli: Cli, options: tuple[str, ...]) -> None:
    add(cli, "smtp+starttls://ann@smtp.example.com")
    assert "secret" not in cli.error("account", "set", "sales", *options)


def test_reading_needs_a_login(cli: Cli) -> None:
    run(cli, "account", "add", "sales", "--from", "sales@post.test", "--smtp", "smtp://relay.example.com:25")
    cli.error("account", "set", "sales", "--read")


def test_verify_tries_to_read(cli: Cli) -> None:
    mailboxes = Mailboxes()
    with servers(mailboxes) as (smtp, imap):
        add(cli, smtp, "--read", "--imap", imap)
        steps = cli.json("account", "verify", "sales")["steps"]
        assert (steps[-1]["step"], steps[-1]["ok"]) == ("reading", True)
        mailboxes.passwords = {"ann": "another"}
        facts = json.loads(run(cli, "account", "verify", "sales", "--json", code=1))
        assert (facts["steps"][-1]["step"], facts["steps"][-1]["ok"]) == ("reading", False)


def test_a_mailbox_that_cannot_be_read_is_shown_everywhere(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    add(cli, "smtp+starttls://ann@smtp.example.com", "--read")
    db.execute(
        """INSERT INTO fairpost.mailbox_reads (account_id, looked_at, reason, params, failed_at)
           SELECT a.id, now() - interval '3 hours', 'account.read_refused', '{"account": "sales", "why": "no such folder"}', now()
           FROM fairpost.accounts a WHERE a.name = 'sales'"""
    )
    db.commit()
    facts = cli.json("account", "show", "sales")
    told = {name: facts[name] for name in ("reading_state", "reading_code", "unknown")}
    assert told == {
        "reading_state": "failing",
        "reading_code": "account.read_refused",
        "unknown": ["late_bounces", "complaints", "replies"],
    }
    assert facts["last_read_at"] is not None
    for each in (*cli.json("account", "list"), *cli.json("status")["accounts"]):
        assert told.items() <= each.items()
    assert missing(run(cli, "account", "list"), "failing", "refused") == []
    assert all("no such folder" in run(cli, *each) for each in (("account", "show", "sales"), ("status",)))
    checks = json.loads(run(cli, "doctor", "--json", code=1))["checks"]
    (found,) = (each for each in checks if each["name"] == "mailboxes")
    assert (found["grade"], found["code"]) == ("problem", "account.read_refused")


def test_an_engine_reads(cli: Cli) -> None:
    mailboxes = Mailboxes()
    with servers(mailboxes) as (smtp, imap):
        add(cli, smtp, "--read", "--imap", imap)
        engine = cli.start("work")
        try:
            until = time.monotonic() + ENGINE_S_MAX
            while cli.json("account", "show", "sales")["reading_code"] != "account.read" and time.monotonic() < until:
                assert engine.poll() is None
            assert cli.json("account", "show", "sales")["reading_code"] == "account.read"
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.communicate(timeout=ENGINE_S_MAX)
