"""Single e-mails on the command line: sent, listed, shown, retried, cancelled, resolved."""

from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairpost.model.report import Reached, Reply, Report
from fairpost.model.states import MEANING, OUTBOX_WORDS, State
from tests.cli.conftest import Case, Cli, deliver, missing, send

Db = psycopg.Connection[Any]

NO_SUCH_USER = Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.1 no such user"))
REFUSED = Report(reached=Reached.REPLIED, reply=Reply(554, "5.7.1 \x1b[2Jgo away"))
TRY_LATER = Report(reached=Reached.REPLIED, reply=Reply(451, "4.3.0 try later"))
CUT_AFTER_DOT = Report(reached=Reached.AFTER_DOT, error="connection lost")


@pytest.fixture(autouse=True)
def sales(db: Db) -> None:
    db.execute("SELECT fairpost.add_account('sales', 'sales@post.test', 'default', '{}')")


def in_doubt(cli: Cli, url: str) -> str:
    id_ = send(cli, "--stream", "news")
    deliver(url, CUT_AFTER_DOT)
    assert cli.json("email", "show", id_)["state"] == "in_doubt"
    return id_


def test_sending_queues_an_e_mail_and_prints_its_id(cli: Cli) -> None:
    printed = cli.ok("email", "send", "--to", "ann@there.test", "--subject", "Hello", "--text", "Hi")
    assert cli.json("email", "show", printed.split()[-1])["state"] == "ready"


def test_every_option_of_send_reaches_the_e_mail(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    id_ = cli.json(
        *("email", "send", "--to", "Ann Lee <ann@there.test>", "--to", "bob@there.test", "--cc", "eve@there.test"),
        *("--bcc", "max@there.test", "--from", "Me <me@here.test>", "--subject", "Hello", "--text", "Hi"),
        *("--html", "<p>Hi", "--workspace", "acme", "--user", "u1", "--stream", "spring", "--class", "urgent"),
        *("--account", "sales", "--due-at", "2030-01-31T09:00:00+01:00", "--expires-at", "2030-02-01T00:00:00Z"),
        *("--key", "order 7", "--attach", tmp_path / "logo.png", "--type", "order_thanks"),
        *("--tag", "order=7", "--tag", "note=a=b", "--metadata", '{"cart": [1]}'),
    )["id"]
    shown = cli.json("email", "show", id_)
    assert [(r["kind"], r["name"], r["address"]) for r in shown["recipients"]] == [
        ("to", "Ann Lee", "ann@there.test"),
        ("to", None, "bob@there.test"),
        ("cc", None, "eve@there.test"),
        ("bcc", None, "max@there.test"),
    ]
    expected = {
        "id": id_,
        "state": "scheduled",
        "meaning": MEANING[State.SCHEDULED],
        "outbox": "pending",
        "sender": {"address": "me@here.test", "name": "Me"},
        "subject": "Hello",
        "text": "Hi",
        "html": "<p>Hi",
        "workspace": "acme",
        "domain": "here.test",
        "user": "u1",
        "stream": "spring",
        "class": "urgent",
        "route": "@sales",
        "due_at": "2030-01-31T08:00:00Z",
        "expires_at": "2030-02-01T00:00:00Z",
        "idempotency_key": "order 7",
        "type": "order_thanks",
        "tags": {"order": "7", "note": "a=b"},
        "metadata": {"cart": [1]},
        "attachments": [{"filename": "logo.png", "content_type": "image/png", "inline_id": None, "bytes": 4}],
        "log": [],
    }
    assert {name: shown[name] for name in expected} == expected


def test_the_workspace_comes_from_the_setting_unless_it_is_given(cli: Cli) -> None:
    acme = Cli({**cli.environment, "FAIRPOST_WORKSPACE": "acme"})
    assert cli.json("email", "show", send(cli))["workspace"] == "default"
    assert cli.json("email", "show", send(acme))["workspace"] == "acme"
    assert cli.json("email", "show", send(acme, "--workspace", "other"))["workspace"] == "other"


def test_a_key_used_before_writes_nothing(cli: Cli) -> None:
    first = send(cli, "--key", "order 7")
    again = cli.json("email", "send", "--to", "x@there.test", "--subject", "s", "--text", "t", "--key", "order 7")
    assert again == {"id": first, "public_id": cli.json("email", "show", first)["public_id"], "new": False}
    printed = cli.ok("email", "send", "--to", "x@there.test", "--subject", "s", "--text", "t", "--key", "order 7")
    assert first in printed
    assert len(cli.json("email", "list")) == 1


def test_a_bad_e_mail_is_one_clear_line(cli: Cli) -> None:
    subject, mail = ("email", "send", "--subject", "s"), ("--to", "a@b.test", "--text", "t")
    cases: tuple[Case, ...] = (
        ((*subject, "--to", "nobody", "--text", "t"), ("error: to[0]:", '"nobody"')),
        ((*subject, "--to", "a@b.test"), ("error: text:", "html")),
        ((*subject, *mail, "--pool", "p", "--account", "a"), ("error: account:", "pool")),
        ((*subject, *mail, "--expires-at", "2001-01-01T00:00:00Z"), ("error: expires_at:",)),
    )
    assert cli.wrong_errors(cases) == []
    assert cli.json("email", "list") == []


def test_a_wrong_option_is_a_usage_error(cli: Cli) -> None:
    cases: tuple[Case, ...] = (
        (("--due-at", "tomorrow"), ("'tomorrow'", "2030-01-31T09:00:00Z")),
        (("--due-at", "2030-01-31T09:00:00"), ("'2030-01-31T09:00:00'", "2030-01-31T09:00:00Z", "+01:00")),
        (("--attach", "/nonexistent/file"), ("--attach", "/nonexistent/file")),
        (("--class", "slow"), ("--class", "slow", "urgent")),
    )
    sent = ("email", "send", "--to", "a@b.test", "--subject", "s")
    assert cli.wrong_errors((((*sent, *options), facts) for options, facts in cases), code=2) == []


def test_too_large_an_attachment_is_refused_before_it_is_read(cli: Cli, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(26_214_401)
    error = cli.error("email", "send", "--to", "a@b.test", "--subject", "s", "--attach", tmp_path / "large")
    assert missing(error, tmp_path / "large", "26,214,401", "26,214,400") == []


def listed(cli: Cli, *options: object) -> list[str]:
    return [email["id"] for email in cli.json("email", "list", *options)]


def test_the_list_has_the_newest_first_of_queue_and_history_together(cli: Cli, url: str) -> None:
    finished = [send(cli), send(cli)]
    deliver(url)
    waiting = [send(cli), send(cli, "--due-at", "2099-01-01T00:00:00Z")]
    emails = cli.json("email", "list")
    assert [email["id"] for email in emails] == [*reversed(waiting), *reversed(finished)]
    assert [email["state"] for email in emails] == ["scheduled", "ready", "sent", "sent"]
    assert [email["outbox"] for email in emails] == ["pending", "pending", "sent", "sent"]
    assert all(isinstance(email["id"], str) and int(email["id"]) > 2**53 for email in emails)
    assert datetime.fromisoformat(emails[0]["due_at"]) == datetime.fromisoformat("2099-01-01T00:00:00Z")


def test_pages_follow_each_other_without_gap_or_overlap(cli: Cli, url: str) -> None:
    for _ in range(3):
        send(cli)
    deliver(url)
    for _ in range(4):
        send(cli)
    pages: list[str] = []
    while page := listed(cli, "--limit", 2, *(("--before", pages[-1]) if pages else ())):
        pages += page
    assert pages == listed(cli)
    assert len(pages) == 7


def test_the_list_can_be_kept_to_a_workspace_and_to_states(cli: Cli, url: str) -> None:
    bounced = send(cli, "--workspace", "acme", "--to", "gone@there.test")
    deliver(url, NO_SUCH_USER)
    sent = send(cli, "--workspace", "acme", "--to", "bob@there.test")
    deliver(url)
    doubtful = in_doubt(cli, url)
    ready = send(cli, "--workspace", "acme", "--to", "bob@there.test")
    later = send(cli, "--due-at", "2099-01-01T00:00:00Z")
    assert listed(cli, "--workspace", "acme") == [ready, sent, bounced]
    assert listed(cli, "--state", "bounced") == [bounced]
    assert listed(cli, "--state", "bounced", "--workspace", "acme") == [bounced]
    assert listed(cli, "--state", "bounced", "--workspace", "default") == []
    assert listed(cli, "--state", "sent", "--state", "in_doubt") == [doubtful, sent]
    assert listed(cli, "--state", "ready") == [ready]
    assert listed(cli, "--state", "scheduled", "--state", "ready") == [later, ready]
    assert listed(cli, "--state", "in_doubt", "--before", doubtful) == []


def test_the_list_is_a_table_for_people(cli: Cli) -> None:
    id_ = send(cli, "--to", "bob@there.test")
    _, row = cli.ok("email", "list").splitlines()
    assert row.split()[:6] == [id_, "ready", "default", "ann@there.test", "+1", "Hello"]
    assert id_ not in cli.ok("email", "list", "--state", "sent")


def test_showing_has_each_attempt_with_code_reply_and_time(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, TRY_LATER)
    shown = cli.json("email", "show", id_)
    assert (shown["state"], shown["outbox"]) == ("scheduled", "pending")
    assert (shown["reason_code"], shown["reason_params"]) == (
        "email.server_busy",
        {"code": 451, "reply": "4.3.0 try later"},
    )
    (attempt,) = shown["log"]
    assert (attempt["n"], attempt["account"], attempt["outcome"]) == (1, "sales", "retry")
    assert (attempt["code"], attempt["reply"]) == (451, "4.3.0 try later")
    assert attempt["response_ms"] >= 0
    assert attempt["begun_at"].endswith("Z")


def test_showing_explains_the_state_to_people(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, TRY_LATER)
    shown = cli.ok("email", "show", id_)
    assert missing(shown, "scheduled", MEANING[State.SCHEDULED], "pending", "451", "4.3.0 try later") == []


def test_a_servers_text_cannot_control_the_terminal(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, REFUSED)
    shown = cli.ok("email", "show", id_)
    assert "\x1b" not in shown
    assert "\\x1b[2Jgo away" in shown


def test_every_state_has_an_outbox_word() -> None:
    assert set(OUTBOX_WORDS) == set(State)


def test_an_unknown_id_is_an_error(cli: Cli) -> None:
    commands = (("show", "7"), ("retry", "7"), ("cancel", "7"), ("resolve", "7", "--as", "sent"))
    assert cli.wrong_errors((("email", *command), ("e-mail 7", "fairpost email list")) for command in commands) == []


def test_an_invalid_id_is_a_usage_error(cli: Cli) -> None:
    for id_ in ("abc", "0", "9223372036854775808", "-1", "1.5", "٣"):
        cli.error("email", "show", "--", id_, code=2)


def test_every_command_takes_the_number_and_the_public_id(cli: Cli, url: str) -> None:
    older, id_ = send(cli), send(cli)
    public_id = cli.json("email", "show", id_)["public_id"]
    assert cli.json("email", "show", public_id)["id"] == id_
    assert public_id in cli.ok("email", "show", id_)
    for given in (id_, public_id):
        found = cli.json("email", "find", given)
        assert (found["understood"], [each["public_id"] for each in found["emails"]]) == ("id", [public_id])
        assert [each["id"] for each in cli.json("email", "list", "--before", given)] == [older]
    assert {each["id"]: each["public_id"] for each in cli.json("email", "list")}[id_] == public_id
    cli.ok("email", "cancel", public_id, older)
    assert cli.json("email", "show", id_)["state"] == "cancelled"
    doubted = cli.json("email", "show", in_doubt(cli, url))["public_id"]
    cli.ok("email", "resolve", doubted, "--as", "failed")
    cli.ok("email", "retry", doubted)
    assert cli.json("email", "show", doubted)["state"] == "ready"


def test_a_public_id_of_another_database_is_unknown(cli: Cli) -> None:
    send(cli)
    for given in ("em_079kt5312d80w", "em_f37gfthx8ab4h", "em_92pttv712fmsm", "em_d6kshwcgane53"):
        for command in (("show",), ("cancel",), ("retry",), ("resolve", "--as", "sent")):
            assert given in cli.error("email", *command, given)


def test_a_failed_e_mail_is_retried(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, REFUSED)
    assert id_ in cli.ok("email", "retry", id_)
    deliver(url)
    assert cli.json("email", "show", id_)["state"] == "sent"


def test_retrying_a_bounced_e_mail_says_that_its_address_is_suppressed(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, NO_SUCH_USER)
    assert "fairpost suppress remove ADDRESS" in cli.ok("email", "retry", id_)


def test_only_what_was_given_up_can_be_retried(cli: Cli, url: str) -> None:
    failed = send(cli)
    deliver(url, REFUSED)
    waiting = send(cli)
    error = cli.error("email", "retry", waiting, failed)
    assert missing(error, waiting, "ready", "failed", "bounced") == []
    assert (
        cli.json("email", "show", failed)["state"] == "ready"
    )  # one that cannot be retried does not affect the others


def test_waiting_e_mails_are_cancelled(cli: Cli, url: str) -> None:
    first, second = send(cli), send(cli)
    assert missing(cli.ok("email", "cancel", first, second), first, second) == []
    assert [email["outbox"] for email in cli.json("email", "list")] == ["cancelled", "cancelled"]


def test_a_sent_email_cannot_be_cancelled(cli: Cli, url: str) -> None:
    sent = send(cli)
    deliver(url)
    waiting = send(cli)
    error = cli.error("email", "cancel", sent, waiting)
    assert missing(error, sent, "sent") == []
    assert cli.json("email", "show", sent)["state"] == "sent"
    assert cli.json("email", "show", waiting)["state"] == "cancelled"


def test_an_email_in_doubt_cannot_be_cancelled_but_resolved(cli: Cli, url: str) -> None:
    id_ = in_doubt(cli, url)
    assert f"fairpost email show {id_}" in cli.error("email", "cancel", id_)
    assert cli.json("email", "show", id_)["state"] == "in_doubt"


def test_an_email_in_doubt_is_resolved_as_decided(cli: Cli, url: str) -> None:
    states = {"sent": "sent", "failed": "failed", "resend": "ready"}
    ids = {decision: in_doubt(cli, url) for decision in states}
    for decision, id_ in ids.items():
        assert id_ in cli.ok("email", "resolve", id_, "--as", decision)
    assert {decision: cli.json("email", "show", id_)["state"] for decision, id_ in ids.items()} == states


def test_an_email_that_is_not_in_doubt_cannot_be_resolved(cli: Cli) -> None:
    id_ = send(cli)
    assert missing(cli.error("email", "resolve", id_, "--as", "sent"), id_, "ready") == []
    assert cli.json("email", "show", id_)["state"] == "ready"


def test_a_waiting_e_mail_says_what_holds_it_back_and_how_to_end_that(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann", "--stream", "spring", "--from", "x@here.test")
    assert cli.json("email", "show", id_)["held_back_by"] == []
    cli.ok(
        "user", "throttle", "--workspace", "acme", "ann", "--until", "2099-01-31T09:00:00Z", "--reason", "a bought list"
    )
    cli.ok("hold", "--workspace", "acme", "--stream", "spring", "--reason", "wrong prices")
    cli.ok("hold", "--workspace", "acme", "--user", "bob", "--reason", "another's")
    cli.ok("hold", "--workspace", "other", "--reason", "another's")
    throttle, hold = cli.json("email", "show", id_)["held_back_by"]
    assert throttle == {
        "workspace": "acme",
        "level": "user",
        "key": "ann",
        "until": "2099-01-31T09:00:00Z",
        "reason": "a bought list",
        "reason_code": "throttle.by_hand",
        "reason_params": {"note": "a bought list"},
        "kind": "throttled",
        "is_throttle": True,
    }
    assert (hold["level"], hold["key"], hold["until"], hold["is_throttle"]) == ("stream", "spring", None, False)
    page = cli.ok("email", "show", id_)
    assert (
        missing(
            page,
            "user ann",
            "2099-01-31 09:00:00 UTC",
            "a bought list",
            "fairpost user unthrottle --workspace acme ann",
        )
        == []
    )
    assert missing(page, "stream spring", "wrong prices", "fairpost release --workspace acme --stream spring") == []


def test_a_hold_on_any_name_of_an_e_mail_is_named(cli: Cli) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann", "--from", "x@here.test")
    names = ((), ("--user", "ann"), ("--domain", "here.test"))
    for name in names:
        cli.ok("hold", "--workspace", "acme", *name, "--for", "1h", "--reason", "unpaid")
    page = cli.ok("email", "show", id_)
    assert [name for name in names if f" {' '.join(('fairpost release --workspace acme', *name))}\n" not in page] == []


def test_a_hold_and_a_throttle_on_one_name_are_reported(cli: Cli) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann")
    cli.ok("hold", "--workspace", "acme", "--user", "ann", "--reason", "unpaid")
    cli.ok("user", "throttle", "--workspace", "acme", "ann", "--reason", "a bought list")
    stops = cli.json("email", "show", id_)["held_back_by"]
    assert [stop["is_throttle"] for stop in stops] == [False, True]


def test_nothing_holds_back_what_is_sent(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "acme")
    deliver(url)
    cli.ok("hold", "--workspace", "acme", "--reason", "unpaid")
    assert cli.json("email", "show", id_)["held_back_by"] == []


def test_an_e_mail_is_found_by_one_word(cli: Cli) -> None:
    id_ = send(cli, "--key", "order 7", "--user", "u1")
    send(cli)
    for word, understood in ((id_, "id"), ("order 7", "key")):
        found = cli.json("email", "find", word)
        assert (found["understood"], [each["id"] for each in found["emails"]]) == (understood, [id_])
        assert missing(cli.ok("email", "find", word), understood, id_) == []
    address = cli.json("email", "show", id_)["recipients"][0]["address"].upper()
    assert len(cli.json("email", "find", address)["emails"]) == 2
    assert cli.json("email", "find", "nothing like it") == {"understood": "nothing", "emails": []}
    assert cli.json("email", "find", "order 7", "--workspace", "other")["understood"] == "nothing"


def test_a_list_has_only_what_is_asked_for(cli: Cli) -> None:
    id_ = send(cli, "--key", "order 7", "--user", "u1", "--stream", "news", "--type", "receipt", "--tag", "order=7")
    send(cli)
    for options in (
        ("--key", "order 7"),
        ("--user", "u1"),
        ("--stream", "news", "--since", "2020-01-01T00:00:00Z"),
        ("--type", "receipt", "--state", "ready"),
        ("--tag", "order=7"),
    ):
        assert [each["id"] for each in cli.json("email", "list", *options)] == [id_]
    for options in (
        ("--campaign", "x"),
        ("--account", "sales"),
        ("--to", "x@y.test"),
        ("--type", "receipt", "--state", "failed"),
        ("--tag", "order=8"),
        ("--tag", "order=7", "--tag", "plan=gold"),
        ("--until", "2020-01-01T00:00:00Z"),
    ):
        assert cli.json("email", "list", *options) == []
        assert id_ not in cli.ok("email", "list", *options)


def test_the_timeline_of_an_e_mail_is_shown(cli: Cli, url: str) -> None:
    id_ = in_doubt(cli, url)
    assert missing(cli.ok("email", "show", id_), "--as sent", "--as failed", "--as resend") == []
    cli.ok("email", "resolve", id_, "--as", "failed")
    life = cli.json("email", "show", id_)["life"]
    assert [moment["kind"] for moment in life["moments"]] == ["accepted", "begun", "ended", "decided", "failed"]


def test_a_state_is_shown_and_queried_in_the_terms_of_sequences(cli: Cli, url: str) -> None:
    new = send(cli, "--due-at", "2100-01-01T00:00:00Z")
    later = send(cli)
    deliver(url, TRY_LATER)
    bounced = send(cli)
    deliver(url, NO_SUCH_USER)
    sent = send(cli, "--to", "bob@there.test")
    deliver(url)
    ready = send(cli, "--to", "eve@there.test")
    cancelled = send(cli)
    cli.ok("email", "cancel", cancelled)
    expected = {
        "SCHEDULED": [ready, new],
        "RETRY_SCHEDULED": [later],
        "SENDING": [],
        "SENT": [sent],
        "PERMANENTLY_FAILED": [bounced],
        "CANCELLED": [cancelled],
    }
    for word, ids in expected.items():
        for whose in ((), ("--workspace", "default"), ("--workspace", "default", "--user", "")):
            found = cli.json("email", "list", "--state", word, *whose)
            assert {str(each["id"]) for each in found} == set(ids), (word, whose)
            assert {each["sequence_status"] for each in found} <= {word}
    both = cli.json("email", "list", "--state", "RETRY_SCHEDULED", "--state", "scheduled")
    assert {str(each["id"]) for each in both} == {later, new}, "of both workspaces together"
    assert cli.json("email", "show", later)["sequence_status"] == "RETRY_SCHEDULED"
    cli.error("email", "list", "--state", "LOST", code=2)


def test_all_that_failed_for_a_reason_is_retried(cli: Cli, url: str) -> None:
    ids = [send(cli, "--account", "sales") for _ in range(3)]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("UPDATE fairpost.accounts SET status = 'suspended'")
        db.execute("SELECT fairpost.give_up_pinned(10, clock_timestamp() + interval '8 days')")
    assert {cli.json("email", "show", id_)["reason_code"] for id_ in ids} == {"email.account_suspended"}
    left = {"retried": 0, "would_retry": 0, "still_suspended": 3}
    assert cli.json("email", "retry", "--reason", "account_suspended") == left
    cli.ok("account", "resume", "sales", "--no-verify")
    dry = cli.json("email", "retry", "--reason", "account_suspended", "--dry-run", "--account", "sales")
    assert dry == {"retried": 0, "would_retry": 3, "still_suspended": 0}
    assert cli.json("email", "retry", "--reason", "account_suspended", "--workspace", "other")["retried"] == 0
    assert "3" in cli.ok("email", "retry", "--reason", "account_suspended")
    assert {cli.json("email", "show", id_)["state"] for id_ in ids} == {"ready"}


def test_retry_takes_ids_or_a_reason(cli: Cli) -> None:
    for wrong in ((), ("7", "--reason", "account_suspended"), ("7", "--dry-run"), ("--reason", "bad weather")):
        cli.error("email", "retry", *wrong, code=2)
