"""Single e-mails by hand: sent, listed, shown, retried, cancelled, resolved."""

from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairpost.model.report import Reached, Reply, Report
from fairpost.model.states import OUTBOX_WORDS, State
from tests.cli.conftest import Cli, deliver, send

Db = psycopg.Connection[Any]

NO_SUCH_USER = Report(reached=Reached.REPLIED, reply=Reply(550, "5.1.1 no such user"))
REFUSED = Report(reached=Reached.REPLIED, reply=Reply(554, "5.7.1 \x1b[2Jgo away"))
TRY_LATER = Report(reached=Reached.REPLIED, reply=Reply(451, "4.3.0 try later"))
CUT_AFTER_DOT = Report(reached=Reached.AFTER_DOT, error="connection lost")


@pytest.fixture(autouse=True)
def sales(cli: Cli) -> None:
    cli.ok("account", "add", "sales", "--from", "sales@post.test", "--provider", "none")


def in_doubt(cli: Cli, url: str) -> str:
    id_ = send(cli, "--stream", "news")
    deliver(url, CUT_AFTER_DOT)
    assert cli.json("email", "show", id_)["state"] == "in_doubt"
    return id_


def test_sending_queues_an_e_mail_and_prints_its_id(cli: Cli) -> None:
    printed = cli.ok("email", "send", "--to", "ann@there.test", "--subject", "Hello", "--text", "Hi")
    word, id_ = printed.split()
    assert word == "queued"
    assert cli.json("email", "show", id_)["state"] == "ready"


def test_every_option_of_send_reaches_the_e_mail(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    id_ = cli.json(
        *("email", "send", "--to", "Ann Lee <ann@there.test>", "--to", "bob@there.test", "--cc", "eve@there.test"),
        *("--bcc", "max@there.test", "--from", "Me <me@here.test>", "--subject", "Hello", "--text", "Hi"),
        *("--html", "<p>Hi", "--workspace", "acme", "--user", "u1", "--stream", "spring", "--class", "urgent"),
        *("--account", "sales", "--due-at", "2030-01-31T09:00:00+01:00", "--expires-at", "2030-02-01T00:00:00Z"),
        *("--key", "order 7", "--attach", tmp_path / "logo.png"),
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
        "meaning": "due later, for the first time or again",
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
    assert again == {"id": first, "new": False}
    printed = cli.ok("email", "send", "--to", "x@there.test", "--subject", "s", "--text", "t", "--key", "order 7")
    assert printed.startswith(f"already queued {first}")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--to", "nobody", "--text", "t"), 'to[0]: "nobody" is not an e-mail address'),
        (("--to", "a@b.test"), "text: text or html is needed"),
        (("--to", "a@b.test", "--text", "t", "--pool", "p", "--account", "a"), "account: give a pool or an account"),
        (("--to", "a@b.test", "--text", "t", "--expires-at", "2001-01-01T00:00:00Z"), "expires_at: must lie after"),
    ],
)
def test_a_bad_e_mail_is_one_clear_line(cli: Cli, options: tuple[str, ...], error: str) -> None:
    assert cli.error("email", "send", "--subject", "s", *options).startswith(f"error: {error}")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--due-at", "tomorrow"), "is no time; write it like 2030-01-31T09:00:00Z"),
        (("--due-at", "2030-01-31T09:00:00"), "has no zone"),
        (("--attach", "/nonexistent/file"), "does not exist"),
        (("--class", "slow"), "urgent"),
    ],
)
def test_a_wrong_option_is_a_usage_error(cli: Cli, options: tuple[str, ...], error: str) -> None:
    assert error in cli.error("email", "send", "--to", "a@b.test", "--subject", "s", *options, code=2)


def test_too_large_an_attachment_is_refused_before_it_is_read(cli: Cli, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(26_214_401)
    error = cli.error("email", "send", "--to", "a@b.test", "--subject", "s", "--attach", tmp_path / "large")
    assert "has 26,214,401 bytes" in error


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
    header, row = cli.ok("email", "list").splitlines()
    assert header.split() == ["id", "state", "workspace", "to", "subject", "tried", "due"]
    assert row.split()[:6] == [id_, "ready", "default", "ann@there.test", "+1", "Hello"]
    assert cli.ok("email", "list", "--state", "sent") == "no e-mails\n"


def test_showing_has_each_attempt_with_code_reply_and_time(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, TRY_LATER)
    shown = cli.json("email", "show", id_)
    assert (shown["state"], shown["outbox"], shown["reason"]) == ("scheduled", "pending", "4.3.0 try later")
    (attempt,) = shown["log"]
    assert (attempt["n"], attempt["account"], attempt["outcome"]) == (1, "sales", "retry")
    assert (attempt["code"], attempt["reply"]) == (451, "4.3.0 try later")
    assert attempt["response_ms"] >= 0
    assert attempt["begun_at"].endswith("Z")


def test_showing_explains_the_state_to_people(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, TRY_LATER)
    shown = cli.ok("email", "show", id_)
    assert "scheduled: due later, for the first time or again (outbox: pending)" in shown
    assert "451" in shown
    assert "4.3.0 try later" in shown


def test_what_a_server_wrote_cannot_steer_the_terminal(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, REFUSED)
    shown = cli.ok("email", "show", id_)
    assert "\x1b" not in shown
    assert "\\x1b[2Jgo away" in shown


def test_every_state_has_an_outbox_word() -> None:
    assert set(OUTBOX_WORDS) == set(State)


@pytest.mark.parametrize(
    "command",
    [("show", "7"), ("retry", "7"), ("cancel", "7"), ("resolve", "7", "--as", "sent")],
    ids=lambda c: str(c[0]),
)
def test_an_unknown_id_is_an_error(cli: Cli, command: tuple[str, ...]) -> None:
    assert cli.error("email", *command).startswith("error: There is no e-mail 7.")


@pytest.mark.parametrize("id_", ["abc", "0", "9223372036854775808", "-1", "1.5", "٣"])
def test_what_is_no_id_is_a_usage_error(cli: Cli, id_: str) -> None:
    cli.error("email", "show", "--", id_, code=2)


def test_a_failed_e_mail_is_retried(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, REFUSED)
    assert cli.ok("email", "retry", id_) == f"retried {id_}\n"
    deliver(url)
    assert cli.json("email", "show", id_)["state"] == "sent"


def test_retrying_a_bounced_e_mail_says_that_its_address_is_suppressed(cli: Cli, url: str) -> None:
    id_ = send(cli)
    deliver(url, NO_SUCH_USER)
    assert "fairpost unsuppress ADDRESS" in cli.ok("email", "retry", id_)


def test_only_what_was_given_up_can_be_retried(cli: Cli, url: str) -> None:
    failed = send(cli)
    deliver(url, REFUSED)
    waiting = send(cli)
    error = cli.error("email", "retry", waiting, failed)
    assert f"E-mail {waiting} is ready (may be claimed); only failed and bounced ones can be retried" in error
    assert cli.json("email", "show", failed)["state"] == "ready"  # one that cannot does not keep the others from it


def test_waiting_e_mails_are_cancelled(cli: Cli, url: str) -> None:
    first, second = send(cli), send(cli)
    assert cli.ok("email", "cancel", first, second) == f"cancelled {first}\ncancelled {second}\n"
    assert cli.json("email", "show", first)["outbox"] == "cancelled"


def test_what_was_sent_cannot_be_cancelled(cli: Cli, url: str) -> None:
    sent = send(cli)
    deliver(url)
    waiting = send(cli)
    error = cli.error("email", "cancel", sent, waiting)
    assert f"E-mail {sent} cannot be cancelled: it is sent (accepted by the next hop)" in error
    assert cli.json("email", "show", waiting)["state"] == "cancelled"


def test_what_is_in_doubt_cannot_be_cancelled_but_resolved(cli: Cli, url: str) -> None:
    assert "fairpost email resolve" in cli.error("email", "cancel", in_doubt(cli, url))


@pytest.mark.parametrize(("decision", "state"), [("sent", "sent"), ("failed", "failed"), ("resend", "ready")])
def test_what_is_in_doubt_is_resolved_as_decided(cli: Cli, url: str, decision: str, state: str) -> None:
    id_ = in_doubt(cli, url)
    assert cli.ok("email", "resolve", id_, "--as", decision).startswith(f"resolved {id_}")
    assert cli.json("email", "show", id_)["state"] == state


def test_what_is_not_in_doubt_cannot_be_resolved(cli: Cli) -> None:
    id_ = send(cli)
    assert f"E-mail {id_} is not in doubt: it is ready" in cli.error("email", "resolve", id_, "--as", "sent")


def test_a_waiting_e_mail_says_what_holds_it_back_and_how_to_end_that(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann", "--stream", "spring", "--from", "x@here.test")
    assert cli.json("email", "show", id_)["held_back_by"] == []
    cli.ok("user", "throttle", "acme", "ann", "--until", "2099-01-31T09:00:00Z", "--reason", "a bought list")
    cli.ok("hold", "acme", "--stream", "spring", "--reason", "wrong prices")
    cli.ok("hold", "acme", "--user", "bob", "--reason", "another's")
    cli.ok("hold", "other", "--reason", "another's")
    throttle, hold = cli.json("email", "show", id_)["held_back_by"]
    assert throttle == {
        "workspace": "acme",
        "level": "user",
        "key": "ann",
        "until": "2099-01-31T09:00:00Z",
        "reason": "a bought list",
        "is_throttle": True,
    }
    assert (hold["level"], hold["key"], hold["until"], hold["is_throttle"]) == ("stream", "spring", None, False)
    page = cli.ok("email", "show", id_)
    assert "throttled     user ann, until 2099-01-31 09:00:00 UTC: a bought list\n" in page
    assert "held          stream spring, until released: wrong prices\n" in page
    assert "next          fairpost user lift acme ann\nnext          fairpost release acme --stream spring\n" in page


@pytest.mark.parametrize("name", [(), ("--user", "ann"), ("--domain", "here.test")], ids=lambda n: " ".join(n) or "all")
def test_a_hold_on_any_name_of_an_e_mail_is_named(cli: Cli, name: tuple[str, ...]) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann", "--from", "x@here.test")
    cli.ok("hold", "acme", *name, "--for", "1h", "--reason", "unpaid")
    assert f"next          {' '.join(('fairpost release acme', *name))}\n" in cli.ok("email", "show", id_)


def test_a_hold_and_a_throttle_on_one_name_are_both_told(cli: Cli) -> None:
    id_ = send(cli, "--workspace", "acme", "--user", "ann")
    cli.ok("hold", "acme", "--user", "ann", "--reason", "unpaid")
    cli.ok("user", "throttle", "acme", "ann", "--reason", "a bought list")
    stops = cli.json("email", "show", id_)["held_back_by"]
    assert [stop["is_throttle"] for stop in stops] == [False, True]


def test_nothing_holds_back_what_is_sent(cli: Cli, url: str) -> None:
    id_ = send(cli, "--workspace", "acme")
    deliver(url)
    cli.ok("hold", "acme", "--reason", "unpaid")
    assert cli.json("email", "show", id_)["held_back_by"] == []


def test_an_e_mail_is_found_by_one_word(cli: Cli) -> None:
    id_ = send(cli, "--key", "order 7", "--user", "u1")
    send(cli)
    for word, understood in ((id_, "id"), ("order 7", "key")):
        found = cli.json("email", "find", word)
        assert (found["understood"], [each["id"] for each in found["emails"]]) == (understood, [id_])
        assert cli.ok("email", "find", word).startswith(f"by {understood}:")
    address = cli.json("email", "show", id_)["recipients"][0]["address"].upper()
    assert len(cli.json("email", "find", address)["emails"]) == 2
    assert cli.ok("email", "find", "nothing like it") == "no e-mails\n"
    assert cli.json("email", "find", "nothing like it") == {"understood": "nothing", "emails": []}
    assert cli.json("email", "find", "order 7", "--workspace", "other")["understood"] == "nothing"


def test_a_list_has_only_what_is_asked_for(cli: Cli) -> None:
    id_ = send(cli, "--key", "order 7", "--user", "u1", "--stream", "news")
    send(cli)
    for options in (("--key", "order 7"), ("--user", "u1"), ("--stream", "news", "--since", "2020-01-01T00:00:00Z")):
        assert [each["id"] for each in cli.json("email", "list", *options)] == [id_]
    for options in (
        ("--campaign", "x"),
        ("--account", "sales"),
        ("--to", "x@y.test"),
        ("--until", "2020-01-01T00:00:00Z"),
    ):
        assert cli.json("email", "list", *options) == []
        assert cli.ok("email", "list", *options) == "no e-mails\n"


def test_the_life_of_an_e_mail_is_told(cli: Cli, url: str) -> None:
    id_ = in_doubt(cli, url)
    printed = cli.ok("email", "show", id_)
    assert "attempt 1 begun" in printed
    assert "--as resend" in printed
    cli.ok("email", "resolve", id_, "--as", "failed")
    life = cli.json("email", "show", id_)["life"]
    assert [moment["kind"] for moment in life["moments"]] == ["accepted", "begun", "ended", "decided", "failed"]
