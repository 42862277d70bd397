"""Accounts that log in with OAuth: which options are required, what is sealed, and the errors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Case, Cli, missing
from tests.cli.test_account_server import key_id, opened, refused, run, script_under, sealed, serving
from tests.peers.certificates import Certificates, make_certificates
from tests.smtp.scripted_server import Says, Script
from tests.transports.oauth.entra import authority, entra, refusing
from tests.transports.oauth.keys import MAILBOX, google, granted, key_file, key_pair, saying
from tests.transports.oauth.token_server import serving as token_serving

if TYPE_CHECKING:
    import psycopg

ADD = ("account", "add", "sales", "--from", f"Ann <{MAILBOX}>")
OFFICE = ("--smtp", "smtp+starttls://smtp.office365.com:587", "--oauth", "microsoft")
ENTRA = ("--tenant", "example.onmicrosoft.com", "--client-id", "1111-2222")
GMAIL = ("--smtp", "smtp+starttls://smtp.gmail.com", "--oauth", "google")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def given(cli: Cli) -> Cli:
    """With secrets in variables."""
    return Cli({**cli.environment, "PW": "hunter2", "NEXT": "hunter3"})


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "refresh-token"
    path.write_text("refresh-me\n")
    return path


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    path = tmp_path / "service.json"
    path.write_text(key_file())
    return path


def server(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("account", "show", "sales")["server"]
    return found


def oauth(cli: Cli) -> dict[str, Any]:
    return {name: value for name, value in server(cli)["oauth"].items() if value is not None}


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_microsoft_application_has_its_secret_sealed(given: Cli, db: "psycopg.Connection[Any]") -> None:
    given.ok(*ADD, *OFFICE, *ENTRA, "--password-env", "PW")
    assert oauth(given) == {
        "kind": "microsoft-client",
        "client_id": "1111-2222",
        "tenant": "example.onmicrosoft.com",
    }
    assert server(given)["user"] == MAILBOX
    assert opened(given, db) == "hunter2"
    assert missing(given.ok("account", "show", "sales"), "microsoft-client", key_id(db)) == []


def test_the_secret_is_asked_for(cli: Cli, db: "psycopg.Connection[Any]") -> None:
    run(cli, *ADD, *OFFICE, *ENTRA, "--ask-password", stdin="hunter2\n")
    assert opened(cli, db) == "hunter2"


@pytest.mark.parametrize("more", [(), ("--password-env", "PW")])
def test_a_person_of_microsofts_has_a_refresh_token(
    given: Cli, db: "psycopg.Connection[Any]", token_file: Path, more: tuple[str, ...]
) -> None:
    given.ok(*ADD, *OFFICE, *ENTRA, "--refresh-token-file", token_file, *more)
    assert oauth(given)["kind"] == "microsoft-refresh-token"
    secret = {"refresh_token": "refresh-me"} | ({"client_secret": "hunter2"} if more else {})
    assert json.loads(opened(given, db)) == secret


def test_a_service_account_has_its_key_file_sealed(cli: Cli, db: "psycopg.Connection[Any]", key_path: Path) -> None:
    cli.ok(*ADD, *GMAIL, "--key-file", key_path)
    assert oauth(cli) == {"kind": "google-service-account"}
    assert json.loads(opened(cli, db)) == json.loads(key_file())


def test_a_person_of_googles_has_a_refresh_token(given: Cli, db: "psycopg.Connection[Any]", token_file: Path) -> None:
    options = ("--client-id", "7.apps", "--refresh-token-file", token_file, "--password-env", "PW")
    given.ok(*ADD, *GMAIL, *options)
    assert oauth(given) == {"kind": "google-refresh-token", "client_id": "7.apps"}
    assert json.loads(opened(given, db)) == {"refresh_token": "refresh-me", "client_secret": "hunter2"}


def test_a_user_in_the_url_is_the_mailbox(cli: Cli, key_path: Path) -> None:
    url = "smtp+starttls://bob%40example.com@smtp.gmail.com"
    cli.ok(*ADD, "--smtp", url, "--oauth", "google", "--key-file", key_path)
    assert server(cli)["user"] == "bob@example.com"


def test_a_wrong_combination_is_one_clear_line(given: Cli, tmp_path: Path, key_path: Path) -> None:
    client = tmp_path / "client.json"
    client.write_text(json.dumps({"installed": {"client_id": "7.apps", "client_secret": "hunter2"}}))
    key, password = ("--key-file", key_path), ("--password-env", "PW")
    cases: tuple[Case, ...] = (
        ((*OFFICE, *ENTRA), ("--oauth microsoft", "--refresh-token-file", "--ask-password")),
        ((*OFFICE, "--client-id", "1", *password), ("--oauth microsoft", "--tenant")),
        ((*OFFICE, "--tenant", "1", *password), ("--oauth microsoft", "--client-id")),
        ((*OFFICE, "--tenant", "a/b", "--client-id", "1", *password), ("--tenant", "1..200", "'a/b'")),
        ((*OFFICE, *ENTRA, *key), ("--key-file", "--oauth microsoft")),
        ((*OFFICE, *ENTRA, "--refresh-token-file", "/dev/null"), ("--refresh-token-file", "1..10000")),
        (GMAIL, ("--oauth google", "--key-file", "--client-id", "--refresh-token-file")),
        ((*GMAIL, "--tenant", "1"), ("--tenant", "--oauth google")),
        ((*GMAIL, *key, "--client-id", "1"), ("--client-id", "--key-file")),
        ((*GMAIL, *key, *password), ("service account", "password")),
        ((*GMAIL, "--key-file", "/nonexistent"), ("--key-file", "/nonexistent", "No such file")),
        ((*GMAIL, "--key-file", client), ("key file", "OAuth client")),
        ((*GMAIL, "--refresh-token-file", key_path), ("--oauth google", "--client-id")),
        (("--smtp", "smtps://h.test", *ENTRA), ("--tenant", "--client-id", "--oauth")),
        (("--oauth", "google", *key), ("--oauth", "--smtp smtp+starttls://HOST")),
        (
            ("--smtp", "smtp://relay.test?tls=none", "--oauth", "google", *key),
            ("smtp+starttls://", "smtps://", "--oauth"),
        ),
    )
    assert given.wrong_errors((((*ADD, *options), facts) for options, facts in cases), secret="hunter") == []
    assert given.json("account", "list") == []


def test_clear_text_is_allowed_to_this_very_machine(cli: Cli, key_path: Path) -> None:
    cli.ok(*ADD, "--smtp", "smtp://127.0.0.1:2525?tls=none", "--oauth", "google", "--key-file", key_path)


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_secret_of_an_application_replaces_the_old_one(given: Cli, db: "psycopg.Connection[Any]") -> None:
    given.ok(*ADD, *OFFICE, *ENTRA, "--password-env", "PW")
    before = server(given)
    given.ok("account", "set", "sales", "--password-env", "NEXT")
    assert opened(given, db) == "hunter3"
    assert server(given) == before


def test_a_password_alone_does_not_replace_a_key_file(
    given: Cli, key_path: Path, db: "psycopg.Connection[Any]"
) -> None:
    given.ok(*ADD, *GMAIL, "--key-file", key_path)
    said = given.error("account", "set", "sales", "--password-env", "PW")
    assert "fairpost account set sales --oauth google --key-file FILE" in said
    assert json.loads(opened(given, db)) == json.loads(key_file())


def test_a_password_account_becomes_an_oauth_account_and_back(
    given: Cli, key_path: Path, db: "psycopg.Connection[Any]"
) -> None:
    given.ok(*ADD, "--smtp", "smtps://ann@smtp.gmail.com", "--password-env", "PW")
    given.ok("account", "set", "sales", "--oauth", "google", "--key-file", key_path)
    assert (server(given)["user"], server(given)["port"], oauth(given)["kind"]) == (
        "ann",
        465,
        "google-service-account",
    )
    assert "PRIVATE KEY" in opened(given, db)
    given.ok("account", "set", "sales", "--smtp", "smtps://ann@smtp.gmail.com", "--password-env", "PW")
    assert server(given)["oauth"] is None
    assert opened(given, db) == "hunter2"


def test_another_port_leaves_the_login_as_it_is(given: Cli, db: "psycopg.Connection[Any]") -> None:
    given.ok(*ADD, *OFFICE, *ENTRA, "--password-env", "PW")
    given.ok("account", "set", "sales", "--smtp", "smtp+starttls://smtp.office365.com:25")
    assert (server(given)["port"], server(given)["user"], oauth(given)["tenant"]) == (25, MAILBOX, ENTRA[1])
    assert opened(given, db) == "hunter2"


def test_another_host_gets_no_tokens(given: Cli, db: "psycopg.Connection[Any]") -> None:
    given.ok(*ADD, *OFFICE, *ENTRA, "--password-env", "PW")
    error = given.error("account", "set", "sales", "--smtp", "smtps://ann%40example.com@elsewhere.test")
    assert "--ask-password" in error
    assert server(given)["host"] == "smtp.office365.com"
    given.ok("account", "set", "sales", "--smtp", "smtps://elsewhere.test")
    assert server(given)["oauth"] is None
    assert sealed(db) is None


def test_an_account_without_a_server_gets_one_with_its_oauth(cli: Cli, key_path: Path) -> None:
    cli.ok(*ADD)
    given = ("--oauth", "google", "--key-file", key_path)
    assert missing(cli.error("account", "set", "sales", *given), "sales", "--smtp smtp+starttls://HOST") == []
    cli.ok("account", "set", "sales", "--smtp", "smtps://smtp.gmail.com", *given)
    assert server(cli)["user"] == MAILBOX


def test_a_rotation_keeps_how_it_logs_in(given: Cli, db: "psycopg.Connection[Any]", key_path: Path) -> None:
    given.ok(*ADD, *GMAIL, "--key-file", key_path)
    before = server(given)
    given.ok("secrets", "rotate")
    assert server(given) == before
    assert json.loads(opened(given, db)) == json.loads(key_file())


# ── verify ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def oauth_script(certificates: Certificates, **given: Any) -> Script:
    script = script_under(certificates, **given)
    script.features = ("STARTTLS", "AUTH PLAIN XOAUTH2")
    return script


def url(port: int, certificates: Certificates) -> str:
    return f"smtp+starttls://localhost:{port}?ca_file={certificates.ca}"


def test_an_account_of_googles_is_verified(cli: Cli, certificates: Certificates, tmp_path: Path) -> None:
    script = oauth_script(certificates)
    key = tmp_path / "key.json"
    with token_serving(google()) as tokens, serving(script) as port:
        key.write_text(key_file(tokens.url))
        cli.ok(*ADD, "--smtp", url(port, certificates), "--oauth", "google", "--key-file", key)
        facts = cli.json("account", "verify", "sales")
    assert (facts["ok"], facts["steps"][-1]["step"]) == (True, "auth")
    assert any(command.startswith("AUTH XOAUTH2 ") for command in script.commands)


def test_missing_delegation_is_reported_after_the_steps_that_are_fine(
    cli: Cli, certificates: Certificates, tmp_path: Path
) -> None:
    key = tmp_path / "key.json"
    with token_serving(google(delegated=False)) as tokens, serving(oauth_script(certificates)) as port:
        key.write_text(key_file(tokens.url))
        cli.ok(*ADD, "--smtp", url(port, certificates), "--oauth", "google", "--key-file", key)
        said = run(cli, "account", "verify", "sales", code=1)
        step, then = refused(cli)
    assert missing(said, "✓ TLS", "✗ login", then) == []
    assert "PRIVATE" not in said
    assert (step["step"], missing(step["text"], MAILBOX, "unauthorized_client")) == ("auth", [])
    assert missing(then, "Domain-wide delegation", "104857600000000000007", "https://mail.google.com/") == []


def test_microsofts_refusals_come_with_advice(
    given: Cli, db: "psycopg.Connection[Any]", certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    answers = (
        (refusing(7000222, "The secret has expired."), (ENTRA[3], "fairpost account set sales --ask-password")),
        (refusing(700016, "Application not found."), (ENTRA[1], ENTRA[3])),
        (saying(503, "busy"), ("fairpost account verify sales",)),
    )
    wrong = []
    with entra(answers[0][0], certificates) as tokens, serving(oauth_script(certificates)) as port:
        given.ok(*ADD, "--smtp", url(port, certificates), "--oauth", "microsoft", *ENTRA, "--password-env", "PW")
        at_home(db, authority(tokens))
        for answer, facts in answers:
            tokens.answer = answer
            said = run(given, "account", "verify", "sales", code=1)
            if missing(said, "✗ login", *facts) or "hunter" in said:
                wrong.append(said)
    assert wrong == []


def test_a_mailbox_that_takes_no_token_is_told_how_to_open_it(
    given: Cli, db: "psycopg.Connection[Any]", certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    script = oauth_script(certificates, at="auth", misdeed=Says("535 5.7.3 Authentication unsuccessful"))
    with entra(saying(*granted(1)), certificates) as tokens, serving(script) as port:
        given.ok(*ADD, "--smtp", url(port, certificates), "--oauth", "microsoft", *ENTRA, "--password-env", "PW")
        at_home(db, authority(tokens))
        said = run(given, "account", "verify", "sales", code=1)
        db.execute("UPDATE fairpost.accounts SET status = 'suspended'")
        given.error("account", "resume", "sales")
    assert given.json("account", "show", "sales")["status"] == "suspended"
    allow = f"Set-CASMailbox {MAILBOX} -SmtpClientAuthenticationDisabled $false"
    assert missing(said, "535 5.7.3 Authentication unsuccessful", allow, "Add-MailboxPermission") == []
    assert "token-1" not in said


def test_a_server_that_knows_no_tokens_is_reported(cli: Cli, certificates: Certificates, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    with token_serving(google()) as tokens, serving(script_under(certificates)) as port:
        key.write_text(key_file(tokens.url))
        cli.ok(*ADD, "--smtp", url(port, certificates), "--oauth", "google", "--key-file", key)
        step, then = refused(cli)
    assert (step["step"], "XOAUTH2" in then) == ("auth", True)


def test_no_command_prints_a_secret(given: Cli, certificates: Certificates, key_path: Path, token_file: Path) -> None:
    said = [
        run(given, *ADD, *GMAIL, "--key-file", key_path, "--json"),
        run(given, "account", "show", "sales", "--json"),
        run(
            given,
            "account",
            "set",
            "sales",
            *OFFICE,
            *ENTRA,
            "--refresh-token-file",
            token_file,
            "--password-env",
            "PW",
        ),
        *(run(given, "account", *words) for words in (("show", "sales"), ("list",), ("list", "--json"))),
        run(given, "status"),
    ]
    for secret in ("hunter2", "refresh-me", key_pair().private[40:80], "PRIVATE"):
        assert secret not in " ".join(said)


def at_home(db: "psycopg.Connection[Any]", authority: str) -> None:
    """A local server replaces Microsoft's token server."""
    db.execute(
        "UPDATE fairpost.accounts SET transport = jsonb_set(transport, '{oauth,authority}', to_jsonb(%s::text))",
        (authority,),
    )
