"""`fairpost settings`: the values in effect, and their sources."""

from base64 import b64encode
from pathlib import Path

from fairpost.settings import SETTINGS
from tests.cli.conftest import Cli, missing


def test_every_setting_is_reported_with_its_value_and_where_it_comes_from(bare: Cli) -> None:
    cli = Cli({**bare.environment, "FAIRPOST_MAX_QUEUE": "7", "SMTP_FAIR_QUEUE_ENABLED": "false"})
    told = {each["variable"]: each for each in cli.json("settings")}
    assert set(told) == {setting.variable for setting in SETTINGS}
    assert (told["FAIRPOST_MAX_QUEUE"]["value"], told["FAIRPOST_MAX_QUEUE"]["from"]) == ("7", "environment")
    assert told["FAIRPOST_FAIR_QUEUE"]["from"] == "SMTP_FAIR_QUEUE_ENABLED"
    assert (told["FAIRPOST_WORKSPACE"]["value"], told["FAIRPOST_WORKSPACE"]["from"]) == ("default", "default")
    assert "FAIRPOST_MAX_QUEUE" in cli.ok("settings")


def test_no_secret_is_shown(bare: Cli) -> None:
    key = b64encode(bytes(range(32))).decode()
    url = "postgresql://ann:hunter2@db.test/mail"
    cli = Cli({**bare.environment, "FAIRPOST_SECRET_KEY": key, "FAIRPOST_DATABASE_URL": url})
    said = cli.ok("settings") + str(cli.json("settings"))
    assert key not in said
    assert "hunter2" not in said
    assert "db.test" in said


def test_the_password_of_the_mail_server_is_not_shown(bare: Cli) -> None:
    cli = Cli({**bare.environment, "SMTP_HOST": "mail.test", "SMTP_PASSWORD": "hunter2"})
    told = {each["variable"]: each for each in cli.json("settings")}
    assert "7 " in told["FAIRPOST_SMTP_PASSWORD"]["value"]
    assert told["FAIRPOST_SMTP_HOST"] == told["FAIRPOST_SMTP_HOST"] | {"value": "mail.test", "from": "SMTP_HOST"}
    assert "hunter2" not in cli.ok("settings") + str(told)


def test_a_wrong_one_is_named(bare: Cli) -> None:
    cli = Cli({**bare.environment, "FAIRPOST_MAX_QUEUE": "many"})
    assert missing(cli.error("settings"), "FAIRPOST_MAX_QUEUE", "many") == []


def test_a_setting_from_a_file_is_shown_with_its_path(bare: Cli, tmp_path: Path) -> None:
    path = tmp_path / "fairpost.toml"
    path.write_text('max_queue = 7\nabuse_threshold = 60\ndatabase_url = "postgresql://ann:hunter2@db.test/mail"')
    cli = Cli({**bare.environment, "FAIRPOST_CONFIG": str(path), "FAIRPOST_ABUSE_THRESHOLD": "70"})
    told = {each["variable"]: (each["value"], each["from"]) for each in cli.json("settings")}
    assert told["FAIRPOST_MAX_QUEUE"] == ("7", f"file {path}")
    assert told["FAIRPOST_DATABASE_URL"] == ("postgresql://ann:***@db.test/mail", f"file {path}")
    assert told["FAIRPOST_ABUSE_THRESHOLD"] == ("70", "environment")
    assert told["FAIRPOST_WORKSPACE"] == ("default", "default")


def test_a_wrong_file_is_named(bare: Cli, tmp_path: Path) -> None:
    path = tmp_path / "fairpost.toml"
    path.write_text("max_queu = 7")
    cli = Cli({**bare.environment, "FAIRPOST_CONFIG": str(path)})
    assert missing(cli.error("settings"), path, "max_queu", "max_queue") == []


def test_a_database_that_only_the_file_names_is_the_one_that_is_used(url: str, tmp_path: Path) -> None:
    path = tmp_path / "fairpost.toml"
    path.write_text(f'home = "{tmp_path / "home"}"\ndatabase_url = "{url}"\nworkspace = "acme"')
    cli = Cli({"FAIRPOST_CONFIG": str(path)})
    cli.ok("email", "send", "--to", "ann@there.test", "--subject", "Hello", "--text", "Hi")
    (email,) = Cli({"FAIRPOST_DATABASE_URL": url}).json("email", "list")
    assert email["workspace"] == "acme"
