"""Accounts with a server: how the password is read, that it is never printed, and tests of real servers."""

import json
import ssl
import subprocess
from base64 import b64encode
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from fairpost.cli import app
from fairpost.vault.keys import new_key, write_key
from tests.cli.conftest import Case, Cli, missing
from tests.loops import beside
from tests.peers import servers
from tests.peers.certificates import Certificates, make_certificates
from tests.smtp.scripted_server import Says, Script, scripted

if TYPE_CHECKING:
    import psycopg

PASSWORD = "hunter2 correct horse"  # peers can be given it unquoted
URL = "smtp+starttls://ann@smtp.example.com"
ADD = ("account", "add", "sales", "--from", "sales@post.test")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    return path


def run(cli: Cli, *arguments: object, stdin: str | None = None, code: int = 0) -> str:
    """Returns everything it prints, on stdout and stderr."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env=cli.environment, input=stdin)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def refused(cli: Cli) -> tuple[dict[str, Any], str]:
    """Returns the step at which the account's server fails, and the advice."""
    facts = json.loads(run(cli, "account", "verify", "sales", "--json", code=1))
    assert not facts["ok"]
    return facts["steps"][-1], facts["then"]


def sealed(db: "psycopg.Connection[Any]", name: str = "sales") -> str | None:
    row = db.execute("SELECT transport ->> 'secret' FROM fairpost.accounts WHERE name = %s", (name,)).fetchone()
    assert row is not None
    secret: str | None = row[0]
    return secret


def key_id(db: "psycopg.Connection[Any]") -> str:
    """Returns the ID of the key that sealed the password."""
    return (sealed(db) or "").split(":")[1]


def opened(cli: Cli, db: "psycopg.Connection[Any]", name: str = "sales") -> str:
    """Opens the password with the key in the home."""
    from fairpost.vault.keyring import Keyring
    from fairpost.vault.vault import Vault

    row = db.execute("SELECT id FROM fairpost.accounts WHERE name = %s", (name,)).fetchone()
    secret = sealed(db, name)
    assert row is not None
    assert secret is not None
    return Vault(Keyring(Path(cli.environment["FAIRPOST_HOME"]))).open(secret, account_id=row[0], name=name)


def serving(script: Script, *, implicit: bool = False) -> AbstractContextManager[int]:
    """Runs the scripted server alongside a command that has its own event loop."""
    return beside(lambda: scripted(script, implicit=implicit))


def script_under(certificates: Certificates, **given: Any) -> Script:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.good.cert, certificates.good.key)
    return Script(features=("STARTTLS", "AUTH PLAIN"), tls=context, **given)


# ── reading the password ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_password_comes_in_the_url(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann%40post.test:p%40ss%2Fword@smtp.example.com")
    assert opened(cli, db) == "p@ss/word"
    server = cli.json("account", "show", "sales")["server"]
    assert server == {
        "kind": "smtp",
        "host": "smtp.example.com",
        "port": 465,
        "security": "implicit",
        "user": "ann@post.test",
        "ca_file": None,
        "bounce_domain": None,
        "hello_name": None,
        "oauth": None,
        "read": False,
        "imap": None,
        "has_password": True,
    }


def test_the_password_is_asked_for(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    said = run(cli, *ADD, "--smtp", URL, "--ask-password", stdin=f"{PASSWORD}\n")
    assert PASSWORD not in said
    assert "fairpost account verify sales" in said
    assert opened(cli, db) == PASSWORD


def test_the_password_comes_from_a_file(cli: Cli, db: "psycopg.Connection[Any]", password_file: Path) -> None:
    cli.ok(*ADD, "--smtp", URL, "--password-file", password_file)
    assert opened(cli, db) == PASSWORD


def test_the_password_comes_from_standard_input(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    run(cli, *ADD, "--smtp", URL, "--password-file", "-", stdin=" with spaces \r\n")
    assert opened(cli, db) == " with spaces "


def test_the_password_comes_from_a_variable(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli = Cli({**cli.environment, "SALES_PASSWORD": PASSWORD})
    cli.ok(*ADD, "--smtp", URL, "--password-env", "SALES_PASSWORD")
    assert opened(cli, db) == PASSWORD


def test_a_wrong_way_is_one_clear_line(cli: Cli) -> None:
    server = ("--smtp", URL)
    cases: tuple[Case, ...] = (
        (server, ("--ask-password",)),
        (("--smtp", "smtp://relay.test", "--password-env", "PW"), ("--smtp smtp+starttls://USER@HOST",)),
        (("--password-env", "PW"), ("--smtp smtp+starttls://USER@HOST",)),
        ((*server, "--password-env", "NO_SUCH"), ("--password-env", "NO_SUCH")),
        ((*server, "--password-file", "/nonexistent"), ("--password-file", "/nonexistent", "No such file")),
        ((*server, "--password-file", "/dev/null"), ("--password-file", "1..10000")),
        ((*server, "--password-env", "LINES"), ("--password-env", "1..10000")),
        ((*server, "--ask-password", "--password-env", "PW"), ("--ask-password", "--password-env")),
        (("--smtp", "smtp://ann:hunter2@h.test", "--password-env", "PW"), ("URL", "--password-env")),
        (("--smtp", "smtp://ann:hunter2"), ("URL", "1..65535")),
    )
    given = Cli({**cli.environment, "PW": "hunter2", "LINES": "hunter2\nhunter3"})
    assert given.wrong_errors((((*ADD, *options), facts) for options, facts in cases), secret="hunter") == []
    assert cli.json("account", "list") == []
    assert not Path(cli.environment["FAIRPOST_HOME"], "secret.key").exists()


def test_the_help_recommends_other_ways_than_the_url(bare: Cli) -> None:
    ways = ("USER:PASSWORD@", "--ask-password", "--password-file", "--password-env")
    assert missing(bare.ok("account", "add", "--help"), *ways) == []


def test_a_name_that_is_taken_keeps_its_password(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    assert "sales" in cli.error(*ADD, "--smtp", "smtps://ann:second@h.test")
    assert opened(cli, db) == "first"


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_password_replaces_the_old_one_alone(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test?hello=me.test")
    before = cli.json("account", "show", "sales")
    run(cli, "account", "set", "sales", "--ask-password", stdin="second\n")
    assert opened(cli, db) == "second"
    assert cli.json("account", "show", "sales") == before


def test_the_password_stays_when_the_port_changes(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    cli.ok("account", "set", "sales", "--smtp", "smtp+starttls://ann@h.test:2525")
    assert opened(cli, db) == "first"
    assert cli.json("account", "show", "sales")["server"]["port"] == 2525


@pytest.mark.parametrize("there", ["smtps://ann@other.test", "smtps://bob@h.test"])
def test_another_host_or_user_does_not_get_the_old_password(
    cli: Cli, db: "psycopg.Connection[Any]", there: str
) -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    assert "--ask-password" in cli.error("account", "set", "sales", "--smtp", there)
    assert opened(cli, db) == "first"
    assert cli.json("account", "show", "sales")["server"]["host"] == "h.test"
    cli.ok("account", "set", "sales", "--smtp", there.replace("@", ":second@"))
    assert opened(cli, db) == "second"


def test_a_server_without_a_user_keeps_no_password(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    cli.ok("account", "set", "sales", "--smtp", "smtps://h.test")
    assert sealed(db) is None


def test_a_password_without_a_user_is_of_no_use(cli: Cli) -> None:
    cli = Cli({**cli.environment, "PW": "hunter2"})
    cli.ok(*ADD, "--smtp", "smtp://relay.test")
    error = cli.error("account", "set", "sales", "--password-env", "PW")
    assert "fairpost account set sales --smtp smtp+starttls://USER@HOST --ask-password" in error


# ── it is never printed ──────────────────────────────────────────────────────────────────────────────────────────────


def test_no_command_prints_a_password_or_a_key(cli: Cli, db: "psycopg.Connection[Any]", password_file: Path) -> None:
    """Whatever the command, on stdout or stderr, as a table or as JSON, and in errors."""
    home = Path(cli.environment["FAIRPOST_HOME"])
    said = [
        run(cli, *ADD, "--smtp", "smtp+starttls://ann@127.0.0.1:1", "--password-file", password_file, "--json"),
        run(cli, *ADD, "--smtp", f"smtp://ann:{PASSWORD}@h", code=1),
        run(cli, "account", "set", "sales", "--password-file", password_file),
        *(run(cli, "account", command, *more) for command, *more in (("list",), ("list", "--json"))),
        *(run(cli, "account", "show", "sales", *more) for more in ((), ("--json",))),
        *(run(cli, "account", "verify", "sales", *more, code=1) for more in ((), ("--json",))),
        *(run(cli, "status", *more) for more in ((), ("--json",))),
        run(cli, "secrets", "rotate"),
        run(cli, "secrets", "rotate", "--json"),
    ]
    (home / "secret.key").chmod(0o644)
    said.append(run(cli, "account", "verify", "sales", code=1))
    (home / "secret.key").chmod(0o600)
    said.append(run(Cli({**cli.environment, "FAIRPOST_HOME": f"{home}2"}), "account", "verify", "sales", code=1))
    db.execute("UPDATE fairpost.accounts SET transport = jsonb_set(transport, '{secret}', '\"v1:ab:hunter2\"')")
    said.append(run(cli, "account", "verify", "sales", code=1))
    keys = [(home / name).read_text().strip() for name in ("secret.key", "secret.key.old")]
    for secret in (PASSWORD, b64encode(PASSWORD.encode()).decode(), "hunter2", *keys):
        assert not [text for text in said if secret in text]


def test_the_database_holds_the_password_sealed_only(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:hunter2secret@h.test")
    (row,) = db.execute("SELECT to_jsonb(a)::text FROM fairpost.accounts a").fetchall()
    assert "hunter2" not in row[0]
    assert (sealed(db) or "").startswith("v1:")


def test_a_secret_moved_to_another_account_does_not_open(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    cli.ok("account", "add", "news", "--from", "n@post.test", "--smtp", "smtps://ann:second@h.test")
    db.execute(
        """UPDATE fairpost.accounts SET transport = (SELECT transport FROM fairpost.accounts WHERE name = 'sales')
           WHERE name = 'news'"""
    )
    error = cli.error("account", "verify", "news")
    assert missing(error, '"news"', "fairpost account set news --ask-password") == []
    assert "first" not in error


def test_an_account_of_another_kind_does_not_hide_the_others(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    db.execute("SELECT fairpost.add_account('bird', 'b@post.test', 'default', '{\"kind\": \"pigeon\"}')")
    table = cli.ok("account", "list")
    assert missing(table, "pigeon", "h.test:465") == []
    assert cli.json("account", "show", "bird")["server"] == {"kind": "pigeon"}


# ── the key ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_made_with_the_first_password(cli: Cli) -> None:
    file = Path(cli.environment["FAIRPOST_HOME"], "secret.key")
    cli.ok("account", "add", "relay", "--from", "r@post.test", "--smtp", "smtp://relay.test")
    assert not file.exists()
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    assert file.stat().st_mode & 0o777 == 0o600


def test_processes_that_add_the_first_accounts_at_once_use_one_key(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    started = [
        cli.start("account", "add", f"a{n}", "--from", "a@post.test", "--smtp", f"smtps://ann:password{n}@h.test")
        for n in range(2)
    ]
    for process in started:
        out, err = process.communicate(timeout=150)
        assert process.returncode == 0, out + err
    assert [opened(cli, db, f"a{n}") for n in range(2)] == ["password0", "password1"]


def test_a_wrong_key_is_the_operators_error_and_suspends_no_account(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    other = Cli({**cli.environment, "FAIRPOST_HOME": "/nonexistent", "FAIRPOST_SECRET_KEY": write_key(new_key())})
    error = other.error("account", "verify", "sales")
    assert missing(error, '"sales"', key_id(db), "FAIRPOST_SECRET_KEY") == []
    assert cli.json("account", "show", "sales")["status"] == "active"


def test_a_rotation_says_what_it_did(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    assert cli.json("secrets", "rotate") is None  # there is no key yet
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    said = cli.ok("secrets", "rotate")
    assert missing(said, "1 password", key_id(db), f"{cli.environment['FAIRPOST_HOME']}/secret.key.old") == []
    assert opened(cli, db) == "first"
    assert cli.json("secrets", "rotate")["resealed"] == 1
    assert [each["action"] for each in cli.json("audit")] == ["secrets.rotate", "secrets.rotate", "account.add"]


def test_a_rotation_to_a_key_of_the_environment(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    old, new = write_key(new_key()), write_key(new_key())
    first = Cli({**cli.environment, "FAIRPOST_SECRET_KEY": old})
    first.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    said = first.ok("secrets", "rotate")
    assert missing(said, "openssl rand -base64 32", "FAIRPOST_SECRET_KEY", "FAIRPOST_SECRET_KEY_OLD") == []
    both = Cli({**cli.environment, "FAIRPOST_SECRET_KEY": new, "FAIRPOST_SECRET_KEY_OLD": old})
    before = key_id(db)
    assert "FAIRPOST_SECRET_KEY_OLD" in both.ok("secrets", "rotate")
    assert key_id(db) != before
    assert missing(first.error("account", "verify", "sales"), key_id(db), "FAIRPOST_SECRET_KEY") == []
    assert not list(Path(cli.environment["FAIRPOST_HOME"]).glob("secret.key*"))


def test_a_lost_key_is_given_up_and_the_passwords_are_given_again(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    cli.ok(*ADD, "--smtp", "smtps://ann:first@h.test")
    Path(cli.environment["FAIRPOST_HOME"], "secret.key").unlink()
    error = cli.error("secrets", "rotate")
    assert "fairpost secrets rotate --drop-unreadable" in error
    assert "fairpost account set sales --ask-password" in cli.ok("secrets", "rotate", "--drop-unreadable")
    assert sealed(db) is None
    assert missing(cli.error("account", "verify", "sales"), "sales", "ann") == []
    run(cli, "account", "set", "sales", "--ask-password", stdin="again\n")
    assert opened(cli, db) == "again"


# ── real servers ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_is_verified_step_by_step(cli: Cli, certificates: Certificates) -> None:
    script = script_under(certificates)
    with serving(script) as port:
        url = f"smtp+starttls://ann:first@localhost:{port}?ca_file={certificates.ca}&hello=me.test"
        cli.ok(*ADD, "--smtp", url)
        lines = cli.ok("account", "verify", "sales").splitlines()
        facts = cli.json("account", "verify", "sales")
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["✓", step] for step in ("connect", "greeting", "hello", "STARTTLS", "TLS", "login")
    ]
    assert "TLSv1" in lines[4]
    assert (facts["ok"], facts["then"]) == (True, None)
    assert "EHLO me.test" in script.commands
    assert not any(command.startswith("MAIL") for command in script.commands)


def test_a_refused_login_says_what_the_server_said_and_what_to_type(cli: Cli, certificates: Certificates) -> None:
    script = script_under(certificates, at="auth", misdeed=Says("535 5.7.8 Bad \x1b[31mcredentials"))
    with serving(script) as port:
        cli.ok(*ADD, "--smtp", f"smtp+starttls://ann:first@localhost:{port}?ca_file={certificates.ca}")
        said = run(cli, "account", "verify", "sales", code=1)
        step, then = refused(cli)
    assert missing(said, "✗ login", "535 5.7.8 Bad", then) == []
    assert "\x1b" not in said
    assert "fairpost account set sales --ask-password" in then
    assert (step["step"], step["reply"]["code"]) == ("auth", 535)


def test_a_suspended_account_is_resumed_only_when_its_server_takes_it(
    cli: Cli, db: "psycopg.Connection[Any]", certificates: Certificates
) -> None:
    def status() -> str:
        found: str = cli.json("account", "show", "sales")["status"]
        return found

    refusing = script_under(certificates, at="auth", misdeed=Says("535 5.7.8 no"))
    with serving(refusing) as port:
        cli.ok(*ADD, "--smtp", f"smtp+starttls://ann:first@localhost:{port}?ca_file={certificates.ca}")
        db.execute(
            "UPDATE fairpost.accounts SET status = 'suspended', status_reason = 'account.worker_died', status_params = '{\"times\": 3}'"
        )
        assert "fairpost account set sales --ask-password" in cli.error("account", "resume", "sales")
        assert status() == "suspended"
        refusing.at = ""
        cli.ok("account", "resume", "sales")
        assert status() == "active"
    db.execute("UPDATE fairpost.accounts SET status = 'suspended'")
    cli.ok("account", "resume", "sales", "--no-verify")
    assert status() == "active"
    cli.ok("account", "pause", "sales", "--reason", "a while")
    cli.ok("account", "resume", "sales")  # its server is unreachable, but nothing was wrong with its password
    assert status() == "active"


def test_the_account_is_verified_with_postfix(cli: Cli, certificates: Certificates) -> None:
    if reason := servers.why_not("postfix", tls=True):
        pytest.skip(reason)
    with servers.postfix(tls=certificates.good, login=servers.Login("robin", PASSWORD)) as server:
        right = Cli({**cli.environment, "PW": PASSWORD})
        for name, url in (
            ("starttls", f"smtp+starttls://robin@localhost:{server.port}?ca_file={certificates.ca}"),
            ("implicit", f"smtps://robin@localhost:{server.tls_port}?ca_file={certificates.ca}"),
            ("offered", f"smtp://robin@localhost:{server.port}?ca_file={certificates.ca}"),
            ("stranger", f"smtps://robin@localhost:{server.tls_port}"),
        ):
            right.ok("account", "add", name, "--from", "a@post.test", "--smtp", url, "--password-env", "PW")
        for name in ("starttls", "implicit", "offered"):
            assert "✓ login" in right.ok("account", "verify", name)
        said = run(right, "account", "verify", "stranger", code=1)
        assert missing(said, "✗ TLS", "certificate", "ca_file") == []
        Cli({**cli.environment, "PW": "wrong"}).ok("account", "set", "implicit", "--password-env", "PW")
        said = run(right, "account", "verify", "implicit", code=1)
        assert missing(said, "✗ login", "535") == []
        assert server.received() == []
    assert "✗ connect" in run(right, "account", "verify", "implicit", code=1)


def test_no_child_process_is_started_with_a_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a child process")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    cli.ok(*ADD, "--smtp", "smtps://ann:first@127.0.0.1:1")
    run(cli, "account", "verify", "sales", code=1)
    cli.ok("secrets", "rotate")


def test_an_account_of_a_workspace_has_no_server_that_an_engine_would_refuse(cli: Cli) -> None:
    cli.ok("workspace", "add", "acme")
    named = ("sales", "--workspace", "acme", "--from", "s@post.test")
    for url in ("smtp://203.0.113.7:9", "smtp://127.0.0.1:587"):
        refused = cli.error("account", "add", *named, "--smtp", url)
        assert missing(refused, "--smtp", "not allow", "FAIRPOST_ALLOWED") == []
    assert cli.json("account", "list") == []
    allowed = Cli({**cli.environment, "FAIRPOST_ALLOWED_NETWORKS": "127.0.0.0/8", "FAIRPOST_ALLOWED_PORTS": "1,587"})
    allowed.ok("account", "add", *named, "--smtp", "smtp://127.0.0.1:1")
    assert "FAIRPOST_ALLOWED" in cli.error("account", "set", "acme/sales", "--smtp", "smtp://127.0.0.1:587")


def test_verifying_takes_the_engines_way_with_the_network_rules_of_the_workspace(cli: Cli) -> None:
    cli.ok("workspace", "add", "acme")
    with serving(Script()) as port:
        environment = {"FAIRPOST_ALLOWED_NETWORKS": "127.0.0.0/8", "FAIRPOST_ALLOWED_PORTS": str(port)}
        allowed = Cli({**cli.environment, **environment})
        url = f"smtp://127.0.0.1:{port}"
        allowed.ok("account", "add", "sales", "--workspace", "acme", "--from", "s@post.test", "--smtp", url)
        assert allowed.json("account", "verify", "acme/sales")["ok"] is True
        result = CliRunner().invoke(app, ["account", "verify", "acme/sales", "--json"], env=cli.environment)
        told = json.loads(result.stdout)
        assert (result.exit_code, told["ok"], told["steps"][-1]["step"]) == (1, False, "connect")
