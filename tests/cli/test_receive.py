"""`fairpost receive` and `fairpost email returned`: returned mail from a file and over SMTP, and its listing."""

import re
import signal
import smtplib
from pathlib import Path

from tests.cli.conftest import PROCESS_S_MAX, Cli
from tests.returns.mails import report

DEAD = "550 5.1.1 User unknown"


def test_a_mail_is_taken_in_once_and_an_uncertain_one_is_listed(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bounce.eml"
    path.write_bytes(report("5.1.1", DEAD))
    taken = [cli.json("receive", "--message", path) for _ in range(2)]
    assert [(each["kind"], [f["effect"] for f in each["findings"]]) for each in taken] == [("report", ["bounced"])] * 2
    assert [f["is_new"] for each in taken for f in each["findings"]] == [True, False]
    (listed,) = cli.json("email", "returned", "--uncertain")
    assert (listed["email"], listed["address"], listed["is_applied"]) == (None, "ann@people.example", False)
    assert cli.json("email", "returned", "--workspace", "default") == []


def test_a_mail_that_cannot_be_read_is_kept_by_the_mail_server(cli: Cli) -> None:
    cli.error("receive", "--message", "/nowhere/mail.eml", code=75)


def test_the_server_takes_mail_until_it_is_ended(cli: Cli) -> None:
    server = cli.start("receive", "--listen", "127.0.0.1:0", "--also", "complaints@here.example")
    try:
        assert server.stdout is not None
        ready = re.search(r":(\d+)$", server.stdout.readline().strip())
        assert ready
        with smtplib.SMTP("127.0.0.1", int(ready[1]), timeout=PROCESS_S_MAX) as client:
            client.sendmail("", ["complaints@here.example"], report("5.1.1", DEAD))
        server.send_signal(signal.SIGTERM)
        assert server.wait(PROCESS_S_MAX) == 0
    finally:
        server.kill()
        server.communicate()
    assert len(cli.json("email", "returned")) == 1
