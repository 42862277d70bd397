"""`fairpost emulate`: a separate process, with a key file that google-auth can read."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google.auth.transport.requests
import pytest
import requests
from google.oauth2 import service_account
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.dev.emulate.keys import made_or_reused
from fairpost.dev.emulate.tokens import FULL_ACCESS
from tests.dev.emulate.conftest import encoded, mail

PROGRAM = [sys.executable, "-c", "from fairpost.cli import main; main()"]
PROCESS_S_MAX = 150


@contextmanager
def playing(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields the process and its `ready` line."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FAIRPOST_")}
    process = subprocess.Popen(
        [*PROGRAM, "emulate", "gmail", "--port", "0", *options],
        env={**kept, "FAIRPOST_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        assert ready.startswith("ready: "), process.communicate()
        yield process, ready
    finally:
        process.terminate()
        process.communicate(timeout=PROCESS_S_MAX)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_plays_gmail_until_it_is_asked_to_stop(tmp_path: Path, signum: signal.Signals) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps([{"route": "labels.list", "action": "error"}]))
    options = ("--user", "ann@example.com", "--user", "bob@example.com", "--faults", str(faults), "--keep-message-id")
    with playing(tmp_path / "home", *options) as (process, ready):
        key_file = tmp_path / "home" / "gmail-emulator.json"
        (url,) = set(re.findall(r"http://127\.0\.0\.1:\d+", ready))
        assert f"fairpost account add NAME --from ann@example.com --gmail {key_file} --gmail-url {url}" in ready
        from_file: Any = service_account.Credentials.from_service_account_file
        bob = from_file(str(key_file), scopes=[FULL_ACCESS]).with_subject("bob@example.com")
        with requests.Session() as session:
            session.trust_env = False
            bob.refresh(google.auth.transport.requests.Request(session=session))
            session.headers["Authorization"] = f"Bearer {bob.token}"
            body = {"raw": encoded(mail(sender="bob@example.com", Message_ID="<kept@example.com>"))}
            assert session.post(f"{url}/gmail/v1/users/me/messages/send", json=body, timeout=120).ok
            assert session.get(f"{url}/gmail/v1/users/me/labels", timeout=120).status_code == 503
            (sent,) = session.get(f"{url}/emulator/messages", timeout=120).json()["messages"]
        assert sent["messageId"] == "<kept@example.com>"
        process.send_signal(signum)
        out, err = process.communicate(timeout=PROCESS_S_MAX)
    assert process.returncode == 0
    assert re.fullmatch(r"stopped: .*\b1\b.*\n", out)
    assert err.splitlines() == [
        "200  token  bob@example.com",
        "200  messages.send  bob@example.com",
        "503  labels.list  bob@example.com  (fault)",
        "200  emulator.messages  -",
    ]


def test_the_key_file_has_googles_format_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "key.json"
    made = made_or_reused(path, token_url="http://127.0.0.1:1/token")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(made) >= {
        "type",
        "project_id",
        "private_key_id",
        "private_key",
        "client_email",
        "client_id",
        "token_uri",
    }
    assert made["type"] == "service_account"
    again = made_or_reused(path, token_url="http://127.0.0.1:2/token")
    assert again == {**made, "token_uri": "http://127.0.0.1:2/token"}
    assert json.loads(path.read_text()) == again
    assert [child.name for child in path.parent.iterdir()] == ["key.json"]


@pytest.mark.parametrize("change", [None, {"project_id": "real"}, {"private_key": "x"}, {"client_email": 7}])
def test_a_file_that_is_not_the_emulator_s_is_left_alone(tmp_path: Path, change: dict[str, object] | None) -> None:
    path = tmp_path / "key.json"
    made = made_or_reused(path, token_url="http://127.0.0.1:1/token")
    text = "nonsense" if change is None else json.dumps({**made, **change})
    path.write_text(text)
    result = CliRunner().invoke(app, ["emulate", "gmail", "--port", "0", "--credentials-file", str(path)])
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", "{", "7", '[{"action": "explode"}]'])
def test_a_script_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    result = CliRunner().invoke(app, ["emulate", "gmail", "--faults", str(path)])
    assert result.exit_code == 1
    assert str(path) in result.stderr


@pytest.mark.parametrize("options", [["--user", "nobody"], ["--port", "-1"], ["--daily", "-1"], ["--quota-units", "0"]])
def test_an_option_that_will_not_do(options: list[str]) -> None:
    assert CliRunner().invoke(app, ["emulate", "gmail", *options]).exit_code == 2


def test_smtp_is_the_inbox() -> None:
    one = CliRunner().invoke(app, ["emulate", "smtp", "--help"]).stdout
    other = CliRunner().invoke(app, ["inbox", "serve", "--help"]).stdout
    assert one.partition("Options:")[2] == other.partition("Options:")[2] != ""
