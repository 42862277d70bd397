"""`fairpost status`: its counts, and each reason if and only if its cause exists."""

import asyncio
import json
from typing import Any

import asyncpg
import psycopg
import pytest

from fairpost.model.report import Reached, Report
from fairpost.observe.status import read_facts
from fairpost.store.store import Store
from fairpost.transports.scripted.send import OK
from tests.cli.conftest import Cli, deliver, missing, send

Db = psycopg.Connection[Any]

CUT_AFTER_DOT = Report(reached=Reached.AFTER_DOT, error="connection lost")
LATER = ("--due-at", "2099-01-01T00:00:00Z")


def add_account(cli: Cli, name: str = "sales", *options: object) -> None:
    server = ("--smtp", "smtp://127.0.0.1:1")
    cli.ok("account", "add", name, "--from", f"{name}@post.test", "--provider", "none", *server, *options)


def take_lease(db: Db, name: str = "sales", *, claim: int = 0) -> None:
    """A live engine drives the account, which has just sent an e-mail and has claimed this many."""
    db.execute("SELECT fairpost.engine_here('worker 1', false)")
    db.execute("UPDATE fairpost.leases SET last_begun_at = clock_timestamp()")
    db.execute(
        """SELECT fairpost.claim(a.id, (fairpost.take_lease(a.id, 'worker 1', 60)).epoch, %s)
           FROM fairpost.accounts a WHERE a.name = %s""",
        (claim, name),
    )


def causes(cli: Cli) -> list[str]:
    return [reason["code"] for reason in cli.json("status")["reasons"]]


def test_an_empty_queue_with_an_account_has_nothing_to_explain(cli: Cli) -> None:
    add_account(cli)
    status = cli.json("status")
    assert status["queue"] == {"waiting": 0, "claimed": 0, "sending": 0, "in_doubt": 0, "next_due_at": None}
    assert status["reasons"] == []
    cli.ok("status")


def test_waiting_mail_is_counted_before_and_after_the_tree_has_learned_of_it(cli: Cli, db: Db) -> None:
    add_account(cli)
    for _ in range(3):
        send(cli)
    cancelled = send(cli)
    cli.ok("email", "cancel", cancelled)
    assert cli.json("status")["queue"]["waiting"] == 3
    take_lease(db)
    send(cli)
    status = cli.json("status")
    assert status["queue"]["waiting"] == 4
    assert status["routes"] == [{"route": "default", "waiting": 4, "due": True, "next_at": None}]


def test_claimed_and_finished_emails_are_counted(cli: Cli, url: str, db: Db) -> None:
    add_account(cli)
    send(cli)
    send(cli, "--stream", "news")
    deliver(url, OK, CUT_AFTER_DOT)
    for _ in range(2):
        send(cli)
    take_lease(db, claim=1)
    status = cli.json("status")
    assert {name: status["queue"][name] for name in ("waiting", "claimed", "sending", "in_doubt")} == {
        "waiting": 1,
        "claimed": 1,
        "sending": 0,
        "in_doubt": 1,
    }
    assert status["finished_24h"] == {"sent": 1, "failed": 0, "bounced": 0, "suppressed": 0, "cancelled": 0}
    (account,) = status["accounts"]
    assert account["driven_by"] == "worker 1"
    assert account["lease_until"] is not None


def test_emails_finished_long_ago_are_not_counted(cli: Cli, url: str, db: Db) -> None:
    add_account(cli)
    send(cli)
    deliver(url)
    db.execute("UPDATE fairpost.emails SET finished_at = finished_at - interval '25 hours'")
    assert cli.json("status")["finished_24h"]["sent"] == 0


def test_mail_that_goes_out_needs_no_explanation(cli: Cli, db: Db) -> None:
    add_account(cli)
    send(cli)
    take_lease(db)
    assert causes(cli) == []
    cli.ok("status")


def test_no_account_at_all_is_a_reason(cli: Cli) -> None:
    send(cli)
    assert causes(cli) == ["account.none"]
    assert "fairpost account add --help" in cli.ok("status")


def test_a_pool_without_an_account_is_a_reason(cli: Cli, db: Db) -> None:
    add_account(cli)
    take_lease(db)
    send(cli, "--pool", "news")
    assert causes(cli) == ["pool.empty"]
    add_account(cli, "paper", "--pool", "news")
    take_lease(db, "paper")
    assert causes(cli) == []


def test_a_pin_to_an_account_that_does_not_exist_is_a_reason(cli: Cli, db: Db) -> None:
    add_account(cli)
    take_lease(db)
    send(cli, "--account", "gone")
    assert causes(cli) == ["account.unknown"]
    add_account(cli, "gone", "--pool", "other")
    take_lease(db, "gone")
    assert causes(cli) == []


def test_accounts_that_are_all_paused_are_a_reason(cli: Cli, db: Db) -> None:
    add_account(cli)
    take_lease(db)
    send(cli)
    cli.ok("account", "pause", "sales", "--reason", "bad password")
    (reason,) = cli.json("status")["reasons"]
    assert reason["code"] == "account.paused"
    assert missing(reason["text"], "sales", "bad password") == []
    cli.ok("account", "resume", "sales")
    assert causes(cli) == []


def test_limits_reached_are_a_reason_until_a_moment(cli: Cli, url: str) -> None:
    add_account(cli, "sales", "--hourly", 1)
    send(cli)
    send(cli)
    deliver(url)
    (reason,) = cli.json("status")["reasons"]
    assert reason["code"] == "account.hourly_limit"
    assert reason["until"] == cli.json("account", "list")[0]["may_send_at"]


@pytest.mark.parametrize("staged", [False, True])
def test_a_hold_with_mail_behind_it_is_a_reason(cli: Cli, db: Db, staged: bool) -> None:
    add_account(cli)
    take_lease(db)
    send(cli, "--workspace", "acme", "--user", "ann", "--stream", "spring")
    if staged:
        db.execute("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    for name in ((), ("--user", "ann"), ("--stream", "spring")):
        cli.ok("hold", "--workspace", "acme", *name, "--for", "1h", "--reason", "bounces")
        (reason,) = cli.json("status")["reasons"]
        level = name[0].removeprefix("--") if name else "workspace"
        assert reason["code"] == f"hold.{level}"
        assert "bounces" in reason["text"]
        assert reason["then"] == " ".join(("fairpost release --workspace acme", *name))
        cli.ok("release", "--workspace", "acme", *name)
        assert causes(cli) == []


def test_a_throttle_with_mail_behind_it_is_a_reason_and_is_lifted(cli: Cli, db: Db) -> None:
    add_account(cli)
    take_lease(db)
    send(cli, "--workspace", "acme", "--user", "ann")
    for names in (("acme",), ("acme", "ann")):
        cli.ok("user", "throttle", "--workspace", *names, "--reason", "a bought list")
        status = cli.json("status")
        assert [hold["is_throttle"] for hold in status["holds"]] == [True]
        (reason,) = status["reasons"]
        assert reason["code"] == ("throttle.workspace" if len(names) == 1 else "throttle.user")
        assert missing(reason["text"], 1, names[-1]) == []
        assert reason["then"] == " ".join(("fairpost user unthrottle --workspace", *names))
        assert reason["then"] in cli.ok("status")
        cli.ok("user", "unthrottle", "--workspace", *names)
        assert causes(cli) == []


def test_the_longer_of_a_hold_and_a_throttle_is_reported(cli: Cli, db: Db) -> None:
    add_account(cli)
    take_lease(db)
    send(cli, "--workspace", "acme", "--user", "ann")
    cli.ok("user", "throttle", "--workspace", "acme", "ann", "--for", "2h", "--reason", "a bought list")
    cli.ok("hold", "--workspace", "acme", "--user", "ann", "--for", "1h", "--reason", "unpaid")
    assert cli.json("status")["reasons"][0]["then"] == "fairpost user unthrottle --workspace acme ann"
    cli.ok("hold", "--workspace", "acme", "--user", "ann", "--reason", "unpaid")
    assert cli.json("status")["reasons"][0]["then"] == "fairpost release --workspace acme --user ann"


def test_a_hold_with_nothing_behind_it_is_shown_but_no_reason(cli: Cli) -> None:
    add_account(cli)
    cli.ok("hold", "--workspace", "acme", "--reason", "spam")
    status = cli.json("status")
    assert [hold["waiting"] for hold in status["holds"]] == [0]
    assert status["reasons"] == []


@pytest.mark.parametrize("staged", [False, True])
def test_mail_that_is_all_for_later_is_a_reason(cli: Cli, db: Db, staged: bool) -> None:
    add_account(cli)
    send(cli, *LATER)
    if staged:
        db.execute("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    status = cli.json("status")
    assert [reason["code"] for reason in status["reasons"]] == ["mail.scheduled"]
    assert status["queue"]["next_due_at"] == "2099-01-01T00:00:00Z"
    take_lease(db)
    send(cli)
    assert causes(cli) == []


def test_held_mail_beside_mail_for_later_does_not_count_as_due(cli: Cli, db: Db) -> None:
    add_account(cli)
    send(cli, "--workspace", "acme")
    send(cli, "--workspace", "other", *LATER)
    db.execute("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    cli.ok("hold", "--workspace", "acme", "--reason", "spam")
    assert causes(cli) == ["hold.workspace", "mail.scheduled"]


def test_mail_in_doubt_is_a_reason(cli: Cli, url: str) -> None:
    add_account(cli)
    id_ = send(cli, "--stream", "news")
    deliver(url, CUT_AFTER_DOT)
    (reason,) = cli.json("status")["reasons"]
    assert reason["code"] == "mail.undecided"
    assert "1 " in reason["text"]
    cli.ok("email", "resolve", id_, "--as", "sent")
    assert causes(cli) == []


def test_ready_mail_without_a_worker_is_a_reason(cli: Cli, db: Db) -> None:
    add_account(cli)
    send(cli)
    assert causes(cli) == ["engine.none"]
    take_lease(db)
    assert causes(cli) == []


def test_mail_in_the_hands_of_a_dead_worker_is_a_reason(cli: Cli, db: Db) -> None:
    add_account(cli)
    send(cli)
    take_lease(db, claim=1)
    assert causes(cli) == []
    db.execute("UPDATE fairpost.leases SET until = clock_timestamp() - interval '1 second'")
    assert causes(cli) == ["mail.stranded"]


@pytest.mark.fresh
def test_looking_costs_the_same_however_much_is_waiting(url: str, db: Db) -> None:
    """Counted by the database itself: the queue rows that were read, with ten e-mails waiting and with a thousand."""
    db.execute("SELECT fairpost.add_account('sales', 'sales@post.test', 'default', '{}')")
    enqueue_many(db, 10)
    take_lease(db, claim=5)
    few = asyncio.run(queue_rows_read(url, waiting=5))
    enqueue_many(db, 1_000)
    assert asyncio.run(queue_rows_read(url, waiting=1_005)) == few == 10


def enqueue_many(db: Db, n: int) -> None:
    email = {"to": "a@b.test", "subject": "s", "text": "t", "stream": "c"}
    emails = [{**email, "workspace": f"w{i % 10}"} for i in range(n)]
    db.execute("SELECT fairpost.enqueue_many(%s)", (json.dumps(emails),))
    db.execute("SELECT fairpost.absorb_arrivals(ARRAY['default'])")
    db.execute("VACUUM ANALYZE fairpost.queue")


async def queue_rows_read(url: str, *, waiting: int) -> int:
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            facts = await read_facts(Store(conn))
            assert sum(route.waiting for route in facts.routes) == waiting
            return int(await conn.fetchval(_ROWS_READ))
    finally:
        await conn.close()


_ROWS_READ = """
    SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'fairpost.queue'::regclass"""
