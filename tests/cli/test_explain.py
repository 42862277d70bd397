"""`fairpost explain`: one reply for people, and a stream of them for programs."""

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fairpost.cli import app
from fairpost.policy.replies import ReplyClass
from tests.cli.conftest import PROGRAM, Cli, missing, process_environment
from tests.returns.mails import complaint, mail, report

KEYS = ["class", "scope", "retry", "suppress_recipient", "why", "email", "uses_try", "account"]


def stream(*lines: Any, arguments: tuple[str, ...] = ()) -> Result:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return CliRunner().invoke(app, ["explain", *arguments], input=text)


def told(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_people_are_told_what_it_means_and_what_follows(bare: Cli) -> None:
    reply = ("explain", "550 5.1.1 User unknown", "--phase", "rcpt")
    found = bare.json(*reply)
    assert [found[key] for key in KEYS[:4]] == ["hard_bounce", "recipient", False, True]
    said = bare.ok(*reply)
    assert said.startswith(found["why"])
    assert missing(said, "hard_bounce", "recipient") == []


def test_every_class_has_its_consequences(bare: Cli) -> None:
    replies = (
        *("250 ok", "452 4.2.2 full", "421 too many connections", "451 4.3.0 later", "450 4.1.8 later"),
        *("550 5.7.26 spf", "552 5.3.4 big", "550 5.1.1 User unknown", "554 no", "354 what", "535 no", "454 4.7.0 no"),
    )
    classes = set()
    for reply in replies:
        phase = "auth" if reply[:3] in ("535", "454") else "rcpt"
        found = bare.json("explain", reply, "--phase", phase)["class"]
        said = bare.ok("explain", reply, "--phase", phase)
        assert found in said
        assert len(said.splitlines()) >= 9  # the last three are about the e-mail, the recipient and the account
        classes.add(found)
    assert classes == set(ReplyClass)


def test_a_reply_may_have_lines_that_repeat_the_code(bare: Cli) -> None:
    reply = "550-5.7.26 This mail has been blocked because the sender\n550 5.7.26 is unauthenticated."
    assert bare.json("explain", reply, "--phase", "dot")["class"] == "policy_sender"


def test_json_has_what_the_streams_lines_have(bare: Cli) -> None:
    found = bare.json("explain", "550 5.1.1 User unknown")
    assert list(found) == KEYS
    assert found["class"] == "hard_bounce"
    assert found["suppress_recipient"] is True


def test_a_wait_that_the_server_names_is_shown(bare: Cli) -> None:
    assert bare.json("explain", "451 4.7.1 Greylisted, try again in 300 seconds")["wait_s"] == 300
    google = ("explain", "429 rateLimitExceeded: Limit.  Retry after 2023-03-07T18:18:23Z", "--channel", "gmail")
    assert bare.json(*google)["wait_until"] == "2023-03-07T18:18:23Z"
    assert "2023-03-07T18:18:23Z" in bare.ok(*google)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("rcpt", "hard_bounce"),
        ("RCPT TO", "hard_bounce"),
        ("rcpt_to", "hard_bounce"),
        ("mail from", "policy_sender"),
        ("ehlo", "policy_sender"),
        ("connect", "policy_sender"),
        ("auth", "auth"),
        ("data", "unknown"),
        ("end_of_data", "unknown"),
        ("dot", "unknown"),
    ],
)
def test_phases_have_the_names_that_people_use(bare: Cli, phase: str, expected: str) -> None:
    assert bare.json("explain", "550 mailbox unavailable", "--phase", phase)["class"] == expected


def test_unreadable_input_is_a_usage_error(bare: Cli) -> None:
    cases = (
        (("explain", "550 no", "--phase", "lunch"), ("'lunch'", "rcpt", "dot")),
        (("explain", "550 no", "--channel", "pigeon"), ("'pigeon'", "smtp", "gmail")),
    )
    assert bare.wrong_errors(cases, code=2) == []


@pytest.mark.parametrize(
    ("reply", "phase", "expected"),
    [
        ("250 ok", "final", ("sent", True, "goes_on")),
        ("550 5.1.1 no such user", "rcpt", ("bounced", True, "goes_on")),
        ("550 5.7.1 spam", "final", ("failed", True, "goes_on")),
        ("599 what", "final", ("retried", True, "goes_on")),
        ("451 4.7.1 Rate limit exceeded for this recipient", "to", ("retried", True, "goes_on")),
        ("452 4.2.2 full", "rcpt", ("retried", True, "goes_on")),
        ("421 4.7.0 too many messages", "mail", ("deferred", False, "rests_minutes")),
        ("421 4.7.0 too many connections", "banner", ("deferred", False, "rests_minutes")),
        ("421 4.3.2 closing", "ehlo", ("deferred", False, "rests_seconds")),
        ("535 5.7.8 no", "login", ("deferred", False, "suspended")),
        ("503 UNAVAILABLE: The service is unavailable", "api", ("deferred", False, "rests_minutes")),
        ("connect to mx.example.com: Connection timed out", "tcp", ("deferred", False, "rests_seconds")),
    ],
)
def test_the_explained_consequences_match_the_engine(
    bare: Cli, reply: str, phase: str, expected: tuple[str, bool, str]
) -> None:
    found = bare.json("explain", reply, "--phase", phase)
    assert (found["email"], found["uses_try"], found["account"]) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"code": "ErrorSendAsDenied", "message": "No."}}, "policy_sender"),
        ({"error": {"code": "InvalidAuthenticationToken", "message": "Expired.", "innerError": {}}}, "auth"),
        ({"error": {"code": "Throttled", "innerError": {"code": "ApplicationThrottled"}}}, "rate_limit"),
        ({"error": {"code": "UnknownError", "message": ""}}, "transient"),
        ({"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}], "message": "m"}}, "rate_limit"),
        ({"error": {"code": 401, "message": "m", "status": "UNAUTHENTICATED"}}, "auth"),
        ({"error": "invalid_grant", "error_description": "AADSTS700082: expired"}, "auth"),
        ({"error": {"code": "SomethingNew", "message": "?"}}, "unknown"),
    ],
)
def test_the_error_body_of_an_api_is_read_as_it_is(bare: Cli, body: dict[str, Any], expected: str) -> None:
    assert bare.json("explain", json.dumps(body))["class"] == expected
    assert bare.json("explain", f"400 {json.dumps(body)}", "--phase", "api")["class"] == expected
    assert [line["class"] for line in told(stream(body))] == [expected]


def test_words_without_a_code_will_do(bare: Cli) -> None:
    assert bare.json("explain", "User unknown")["class"] == "hard_bounce"
    assert [line["class"] for line in told(stream({"text": "Connection reset by peer"}))] == ["transient"]


def test_a_stream_is_answered_line_by_line_in_its_order() -> None:
    result = stream(
        {"channel": "smtp", "phase": "rcpt", "code": 550, "enhanced": "5.1.1", "text": "User unknown"},
        {"code": "452", "enhanced": None, "text": "4.2.2 full", "id": 7, "more": [1]},
        {"channel": "gmail", "code": 429},
        {"code": 250},
    )
    assert result.exit_code == 0
    assert result.stderr == ""
    assert [line["class"] for line in told(result)] == ["hard_bounce", "soft_bounce", "rate_limit", "accepted"]
    assert all(list(line) == KEYS for line in told(result))


def test_options_stand_for_what_a_line_leaves_out() -> None:
    result = stream({"code": 550}, {"code": 550, "phase": "auth"}, arguments=("--phase", "mail from"))
    assert [line["class"] for line in told(result)] == ["policy_sender", "auth"]


@pytest.mark.parametrize(
    ("bad", "facts"),
    [
        ("{", ("JSON",)),
        ("", ("JSON",)),
        ("[" * 100_000, ("JSON",)),
        ([1], ('{"code": 550',)),
        ({"code": None}, ("code", "550", "null")),
        ({"code": True}, ("code", "550", "true")),
        ({"code": 550.5}, ("code", "550.5")),
        ({"code": "five"}, ("code", "550", '"five"')),
        ({"code": 10**30}, ("code", "550", "1000000000")),
        ({"code": 550, "text": 1}, ("text", "1")),
        ({"code": 550, "enhanced": [5, 1, 1]}, ("enhanced", "[5, 1, 1]")),
        ({"code": 550, "phase": "lunch"}, ("'lunch'", "rcpt")),
        ({"code": 550, "channel": "pigeon"}, ("'pigeon'", "gmail")),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_the_others_are_answered(bad: Any, facts: tuple[str, ...]) -> None:
    result = stream({"code": 250}, bad, {"code": 250})
    assert result.exit_code == 1
    first, second, third = told(result)
    assert first == third
    assert missing(second["error"], *facts) == []
    assert missing(result.stderr, "line 2", second["error"]) == []


def test_bytes_that_are_no_text_spoil_only_their_line() -> None:
    result = CliRunner().invoke(app, ["explain"], input=b'\xff\n{"code": 250}')
    assert result.exit_code == 1
    assert [next(iter(line)) for line in told(result)] == ["error", "class"]


def test_an_empty_stream_gets_an_empty_answer() -> None:
    result = stream()
    assert (result.exit_code, result.stdout) == (0, "")


def test_each_line_is_answered_before_the_next_comes() -> None:
    with subprocess.Popen(
        [*PROGRAM, "explain"], env=process_environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write('{"code": 550, "text": "5.1.1 User unknown"}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["class"] == "hard_bounce"
        process.stdin.close()
        assert process.wait(timeout=150) == 0


def test_without_a_reply_on_a_terminal_it_explains_itself() -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [*PROGRAM, "explain"],
            env=process_environment({}),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=150,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert "Usage:" in done.stdout
    assert "--phase" in done.stdout


def test_a_folder_of_mails_is_explained_in_a_line_each(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(report("5.1.1", "550 5.1.1 User unknown"))
    (tmp_path / "b.eml").write_bytes(complaint())
    (tmp_path / "c.eml").write_bytes(
        mail("I am out of the office until 27 November 2026.", subject="Automatic reply: x")
    )
    result = CliRunner().invoke(app, ["explain", "--message", str(tmp_path), "--json"])
    lines = told(result)
    assert [(line["file"], line["kind"], len(line["recipients"])) for line in lines] == [
        ("a.eml", "report", 1),
        ("b.eml", "complaint", 1),
        ("c.eml", "auto_reply", 1),
    ]
    assert list(lines[0]["recipients"][0]) == ["address", "status", *KEYS[:5]]
    assert (lines[0]["recipients"][0]["status"], lines[2]["back_on"]) == ("5.1.1", "2026-11-28")


def test_a_mail_is_explained_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    raw = report("5.1.1", "550 5.1.1 User unknown")
    (tmp_path / "a.eml").write_bytes(raw)
    from_file = CliRunner().invoke(app, ["explain", "--message", str(tmp_path / "a.eml")])
    from_stdin = CliRunner().invoke(app, ["explain", "--message", "-", "--json"], input=raw)
    assert missing(from_file.stdout, "a.eml", "report", "ann@people.example", "hard_bounce", "5.1.1") == []
    assert [line["kind"] for line in told(from_stdin)] == ["report"]


def test_what_cannot_be_read_is_reported_and_the_rest_explained(tmp_path: Path) -> None:
    for name in (b"a.eml", b"bad\xff.eml", b".hidden", b"below/z.eml"):
        path = os.fsencode(tmp_path) + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(report("5.1.1", "550 5.1.1 User unknown"))
    (tmp_path / "gone.eml").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.eml")
    result = CliRunner().invoke(app, ["explain", "--message", str(tmp_path), "--json"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["file"], line["kind"]) for line in lines] == [
        (name, "report") for name in ("a.eml", "bad\\xff.eml", "below/z.eml")
    ]
    assert result.exit_code == 1
    assert "gone.eml" in result.stderr


def test_a_mail_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    results = [
        CliRunner().invoke(app, ["explain", "--message", str(tmp_path / "none.eml")]),
        CliRunner().invoke(app, ["explain", "550 no", "--message", str(tmp_path)]),
    ]
    assert [result.exit_code for result in results] == [2, 2]
