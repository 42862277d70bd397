"""The development inbox on the command line: served by a separate process, listed, saved, emptied."""

import asyncio
import re
import shlex
import signal
import smtplib
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.dev.inbox.mails import Arrived, add_mail
from fairpost.store.store import Store
from tests.cli.conftest import PROCESS_S_MAX, Cli
from tests.docs.test_commands import COMMANDS, options


def put(url: str, raw: bytes, *, to: tuple[str, ...] = ("ann@example.com",)) -> str:
    """Stores a message in the inbox without a server. Returns its id."""
    arrived = Arrived(
        sender="app@example.com", recipients=to, helo="h.test", peer="127.0.0.1:9", tls=None, auth_user="ann", raw=raw
    )

    async def work() -> str:
        async with Store.open(url) as store:
            return str((await add_mail(store, arrived)).id)

    return asyncio.run(work())


def full() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "App <app@example.com>", "ann@example.com", "Welcome ✓"
    mail["Message-ID"], mail["X-Mood"] = "<1@example.com>", "fine"
    mail.set_content("Hello\tAnn\n\x1b[2Jall gone\n")
    mail.add_alternative("<p>Hello\n<b>Ann</b>", subtype="html")
    mail.add_attachment(b"\x00\x01", maintype="image", subtype="png", filename="../../logo.png")
    mail.add_attachment(b"two", maintype="image", subtype="png", filename="logo.png")
    return mail.as_bytes()


@contextmanager
def serving(cli: Cli, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yields the process, once it is ready, and its port. SIGTERM ends it if it is still running."""
    process = cli.start("inbox", "serve", "--port", "0", *options)
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        assert ready.startswith("ready: "), process.communicate()
        yield process, int(ready.split("smtp://127.0.0.1:")[1].split()[0])
    finally:
        process.terminate()
        process.communicate(timeout=PROCESS_S_MAX)


def deliver_to(port: int, subject: str, *to: str) -> None:
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("app@example.com", to or "b@example.com", f"Subject: {subject}\r\n\r\n")


def test_it_serves_as_its_options_say_until_sigterm(cli: Cli, url: str) -> None:
    """While the table is missing, senders get 451, and the server keeps running."""
    ids = [put(url, b"Subject: old\r\n\r\n") for _ in range(3)]
    options = ("--keep-mails", "1", "--fault", "auth=reject:535 5.7.0 Closed", "--fault", "mail=delay:1ms")
    with serving(cli, *options) as (process, port):
        assert process.stdout is not None
        assert [mail["id"] for mail in cli.json("inbox", "list")] == ids[2:], "old messages are deleted when it starts"
        with smtplib.SMTP("127.0.0.1", port) as client, pytest.raises(smtplib.SMTPAuthenticationError) as refused:
            client.login("ann", "any")
        assert (refused.value.smtp_code, refused.value.smtp_error) == (535, b"5.7.0 Closed")
        deliver_to(port, "\x1b[2JHi", "ann@example.com", "bob@example.com")
        line = process.stdout.readline()
        assert all(part in line for part in ("app@example.com", "ann@example.com +1", "\\x1b[2JHi", "19 bytes")), line
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("ALTER TABLE fairpost.inbox RENAME TO elsewhere")
            with pytest.raises(smtplib.SMTPDataError) as caught:
                deliver_to(port, "lost")
            conn.execute("ALTER TABLE fairpost.elsewhere RENAME TO inbox")
        assert caught.value.smtp_code == 451
        deliver_to(port, "after")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PROCESS_S_MAX)
    assert process.returncode == 0
    assert "fairpost inbox list" in out.splitlines()[-1]
    assert err.startswith("error: ")
    assert "451" in err
    subjects = [mail["subject"] for mail in cli.json("inbox", "list")]
    assert subjects[0] == "after"
    assert "lost" not in subjects


def test_it_serves_until_sigint_even_when_nothing_reads_its_output(cli: Cli) -> None:
    with serving(cli) as (process, port):
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        for _ in range(2):
            deliver_to(port, "a")
        with smtplib.SMTP("127.0.0.1", port) as client:
            client.login("ann", "any")
            client.sendmail("a@example.com", "b@example.com", "Subject: a\r\n\r\n")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PROCESS_S_MAX)
    assert process.returncode in (0, 1), "the process ended without being told to"
    assert [mail["auth_user"] for mail in cli.json("inbox", "list")] == ["ann", None, None]


def test_a_port_in_use_is_reported_with_what_to_type(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = cli.error("inbox", "serve", "--port", port)
    assert error.startswith("error: ")
    assert f"127.0.0.1 port {port}" in error
    assert "fairpost inbox serve --port 1026" in error


def test_an_address_beyond_this_machine_is_warned_of(cli: Cli) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        error = cli.error("inbox", "serve", "--host", "0.0.0.0", "--port", taken.getsockname()[1])
    assert error.startswith("warning: ")
    assert "0.0.0.0" in error.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--fault", "rcpt=explode"), "explode"),
        (("--fault", "nonsense"), "STEP=ACTION"),
        (("--implicit-tls",), "--tls-key"),
        (("--tls-cert", __file__), "--tls-key"),
        (("--tls-cert", "/nonexistent"), "/nonexistent"),
    ],
)
def test_a_wrong_option_of_the_server_is_a_usage_error(bare: Cli, options: tuple[str, ...], named: str) -> None:
    assert named in bare.error("inbox", "serve", *options, code=2)


def test_files_that_are_no_certificate_are_one_clear_line(bare: Cli) -> None:
    error = bare.error("inbox", "serve", "--tls-cert", __file__, "--tls-key", __file__)
    assert __file__ in error
    assert error.count("\n") == 1


def test_an_empty_inbox_says_so(cli: Cli) -> None:
    assert cli.ok("inbox", "list").count("\n") == 1
    assert cli.json("inbox", "list") == []
    assert cli.ok("inbox", "search", "hello").count("\n") == 1
    for command in ("show", "check"):
        assert "fairpost inbox serve" in cli.error("inbox", command, "latest")


def test_mails_are_listed_newest_first_by_page_and_recipient(cli: Cli, url: str) -> None:
    ids = [put(url, b"Subject: %d\r\n\r\n" % n, to=("ann@example.com",)) for n in range(3)]
    other = put(url, full(), to=("bob@example.com", "eve@example.com"))
    assert [mail["id"] for mail in cli.json("inbox", "list")] == [other, *ids[::-1]]
    assert [mail["id"] for mail in cli.json("inbox", "list", "--to", "ANN@example.com", "--limit", 1)] == [ids[2]]
    assert [mail["id"] for mail in cli.json("inbox", "list", "--before", ids[1])] == [ids[0]]
    assert [mail["id"] for mail in cli.json("inbox", "list", "--after", ids[1])] == [other, ids[2]]
    table = cli.ok("inbox", "list", "--limit", 2).splitlines()
    assert len(table[0].split()) == 7
    assert "App <app@example.com>" in table[1]
    assert "bob@example.com +1" in table[1]
    assert "Welcome ✓" in table[1]


def test_a_listed_mail_has_these_fields_in_json(cli: Cli, url: str) -> None:
    id_ = put(url, full())
    (mail,) = cli.json("inbox", "list")
    assert mail.pop("received_at").endswith("Z")
    assert mail.pop("size") > 500
    assert mail == {
        "id": id_,
        "sender": "app@example.com",
        "recipients": ["ann@example.com"],
        "subject": "Welcome ✓",
        "from": "App <app@example.com>",
        "message_id": "<1@example.com>",
        "attachments": [
            {"filename": "../../logo.png", "content_type": "image/png", "inline_id": None, "bytes": 2},
            {"filename": "logo.png", "content_type": "image/png", "inline_id": None, "bytes": 3},
        ],
        "helo": "h.test",
        "peer": "127.0.0.1:9",
        "tls": None,
        "auth_user": "ann",
    }


def test_mails_are_searched_by_all_words_taken_literally(cli: Cli, url: str) -> None:
    first = put(url, b"Subject: 100% sure\r\n\r\nsnake_case\r\n")
    put(url, b"Subject: 100 sure\r\n\r\nsnakeXcase\r\n")
    assert [mail["id"] for mail in cli.json("inbox", "search", "SNAKE_case", "100%")] == [first]
    assert len(cli.json("inbox", "search", "sure")) == 2
    assert "100% sure" in cli.ok("inbox", "search", "100%")


def test_a_mail_is_shown_and_cannot_steer_the_terminal(cli: Cli, url: str) -> None:
    id_ = put(url, full())
    shown = cli.ok("inbox", "show", "latest")
    assert shown == cli.ok("inbox", "show", id_)
    for part in (
        "ann@example.com",
        "Welcome ✓",
        "<1@example.com>",
        "Hello   Ann",
        "../../logo.png (image/png, 2 bytes)",
    ):
        assert part in shown
    assert "\\x1b[2Jall gone" in shown
    assert "\x1b" not in shown
    assert "fine" not in shown
    assert cli.ok("inbox", "show", id_, "--html") == "<p>Hello\n<b>Ann</b>\n\n"


def test_a_shown_mail_has_headers_text_and_html_in_json(cli: Cli, url: str) -> None:
    put(url, full())
    mail = cli.json("inbox", "show", "latest")
    assert {"name": "X-Mood", "value": "fine"} in mail["headers"]
    assert mail["text"] == "Hello\tAnn\n\x1b[2Jall gone\n"
    assert mail["html"] == "<p>Hello\n<b>Ann</b>\n"


def test_missing_parts_of_a_mail_are_reported(cli: Cli, url: str) -> None:
    text = put(url, b"Subject: a\r\n\r\nonly text\r\n")
    assert cli.error("inbox", "show", text, "--html").endswith(f"fairpost inbox show {text}\n")
    html = put(url, b"Content-Type: text/html\r\n\r\n<p>only html\r\n")
    assert f"fairpost inbox show {html} --html" in cli.ok("inbox", "show", html)
    assert cli.ok("inbox", "attachments", text).count("\n") == 1
    assert cli.json("inbox", "attachments", text) == []


def test_the_source_is_exactly_what_came(cli: Cli, url: str) -> None:
    raw = bytes(range(256)) + b"\r\n.\r\n\n"
    put(url, raw)
    result = CliRunner().invoke(app, ["inbox", "source", "latest"], env=cli.environment)
    assert result.stdout_bytes == raw


def test_a_mail_that_does_not_exist_is_reported_with_what_to_type(cli: Cli) -> None:
    for command in ("show", "source", "attachments", "delete", "check"):
        error = cli.error("inbox", command, "7")
        assert error.startswith("error: "), command
        assert " 7 " in error, command
        assert "fairpost inbox list" in error, command
        assert "fairpost inbox list" in cli.error("inbox", command, "x", code=2), command


def test_attachments_are_listed_and_saved_under_safe_names(cli: Cli, url: str, tmp_path: Path) -> None:
    put(url, full())
    assert [line.split() for line in cli.ok("inbox", "attachments", "latest").splitlines()[1:]] == [
        ["../../logo.png", "image/png", "2"],
        ["logo.png", "image/png", "3"],
    ]
    folder = tmp_path / "deep" / "down"
    saved = cli.ok("inbox", "attachments", "latest", "--save", folder)
    assert [line.split()[-1] for line in saved.splitlines()] == [f"{folder}/logo.png", f"{folder}/logo-2.png"]
    assert (folder / "logo.png").read_bytes() == b"\x00\x01"
    assert (folder / "logo-2.png").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["deep"]


def test_nothing_is_overwritten_unasked_nor_through_a_link(cli: Cli, url: str, tmp_path: Path) -> None:
    put(url, full())
    mine, folder = tmp_path / "mine", tmp_path / "folder"
    mine.write_text("mine")
    folder.mkdir()
    (folder / "logo-2.png").symlink_to(mine)
    error = cli.error("inbox", "attachments", "latest", "--save", folder)
    assert f"{folder}/logo-2.png" in error
    assert "--force" in error
    assert not (folder / "logo.png").exists()
    files = cli.json("inbox", "attachments", "latest", "--save", folder, "--force")
    assert [file["saved_as"] for file in files] == [f"{folder}/logo.png", f"{folder}/logo-2.png"]
    assert (folder / "logo-2.png").read_bytes() == b"two"
    assert mine.read_text() == "mine"


def test_a_place_where_nothing_can_be_saved_is_one_clear_line(cli: Cli, url: str, tmp_path: Path) -> None:
    put(url, full())
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    error = cli.error("inbox", "attachments", "latest", "--save", below)
    assert str(below) in error
    assert error.count("\n") == 1


def test_mails_are_deleted_one_by_one_or_all(cli: Cli, url: str) -> None:
    ids = [put(url, b"a\r\n") for _ in range(4)]
    assert " 2 " in cli.ok("inbox", "delete", ids[0], "latest")
    assert [mail["id"] for mail in cli.json("inbox", "list")] == [ids[2], ids[1]]
    assert f" {ids[0]} " in cli.error("inbox", "delete", ids[0], ids[1])
    assert [mail["id"] for mail in cli.json("inbox", "list")] == [ids[2]]
    assert "fairpost inbox delete --all --yes" in cli.error("inbox", "delete", "--all")
    assert len(cli.json("inbox", "list")) == 1
    assert " 1 " in cli.ok("inbox", "delete", "--all", "--yes")
    assert " 0 " in cli.ok("inbox", "delete", "--all", "--yes")


@pytest.mark.parametrize("arguments", [(), ("1", "--all"), ("--yes",)])
def test_deleting_needs_ids_or_all_and_not_both(bare: Cli, arguments: tuple[str, ...]) -> None:
    assert "--all" in bare.error("inbox", "delete", *arguments, code=2)


def test_the_examples_of_the_guide_use_only_what_exists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inbox.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    examples = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(examples) > 5
    for words in examples:
        command = COMMANDS[" ".join(words[:3])]
        assert {word for word in words if word.startswith("--")} <= options(command)


def test_a_mail_is_checked(cli: Cli, url: str) -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "app@example.com", "Welcome {{ name }}"
    mail.set_content('<p>Hi <a href="http://example.com/\x1b[2J">\x1b[2JShop</a>', subtype="html")
    first, second = put(url, full()), put(url, mail.as_bytes())
    printed = cli.ok("inbox", "check")
    assert "\x1b" not in printed
    assert "name (" in printed
    assert cli.ok("inbox", "check", second) == cli.ok("inbox", "check", "latest") == printed
    told = cli.json("inbox", "check", second)
    assert told["id"] == second
    assert told["links"] == [{"url": "http://example.com/\x1b[2J", "text": "\x1b[2JShop", "part": "html"}]
    assert {(each["level"], each["what"]) for each in told["checks"]} >= {("good", "from"), ("bad", "links")}
    bad = sum(each["level"] == "bad" for each in told["checks"])
    assert printed.splitlines()[-1].startswith(f"{bad} ")
    assert cli.json("inbox", "check", first)["links"] == []
