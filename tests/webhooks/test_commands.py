"""`fairpost webhook`: its output, including a request of the log with its body."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fairpost.cli import app

HOOK = "http://127.0.0.1:1025/hook"  # no HTTP server listens there


def test_an_endpoint_is_added_listed_shown_tried_and_its_log_read(url: str, tmp_path: Path) -> None:
    environment = {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path)}

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["webhook", *arguments], env=environment)
        assert done.exit_code == code, done.output
        return done.output

    def read(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json"))

    added = read("add", HOOK, "--everywhere", "--type", "email.bounced", "--tag", "order=7", "--description", "shop")
    name = added["webhook"]
    assert added["secret"].startswith("whsec_")
    assert [each["webhook"] for each in read("list")] == [name]
    assert added["secret"] not in run("list") + run("show", name)
    shown = read("show", name)
    assert (shown["types"], shown["tags"], shown["state"], shown["workspace"]) == (
        *(["email.bounced"], {"order": "7"}, "active"),
        None,
    )
    run("test", name, code=1)
    (entry,) = read("log", name, "--failed")
    assert (entry["kind"], entry["status"]) == ("webhook.test", None)
    request = read("log", name, entry["delivery"])["request"]
    assert json.loads(request)["id"] == entry["message_id"]
    assert entry["message_id"] in run("log", name)
    assert read("edit", name, "--all-types", "--all-tags")["types"] == []
    run("replay", name, code=1)
    run("show", "wh_0000000000000", code=1)
