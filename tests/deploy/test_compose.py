"""deploy/compose.yaml, its Dockerfile and its examples are consistent with each other and with this version. No Docker
is needed."""

import re
import shlex
import tomllib
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairpost.model.transport import Security
from fairpost.settings import FILE_VARIABLE, SETTINGS, read_settings, read_settings_file
from fairpost.startup.environment import given_account
from tests.deploy.recipes import (
    DEPLOY,
    ENGINE_ENDS_WITHIN_S,
    PAGE,
    ROOT,
    asked_for,
    check_command,
    compose,
    example_environment,
    filled_in,
    seconds,
)

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "fairpost"}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
KEY = b64encode(bytes(32)).decode()


def environment_of(service: dict[str, Any]) -> dict[str, str]:
    given = {**example_environment(), "FAIRPOST_SECRET_KEY": KEY}
    return {name: filled_in(value, given) for name, value in service["environment"].items()}


def instructions(name: str) -> list[str]:
    """Returns what follows this word in the Dockerfile, each time."""
    whole = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", whole, re.MULTILINE)


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in instructions("ENV") for pair in shlex.split(line))


def test_the_services_are_those_that_are_promised() -> None:
    assert set(SERVICES) == {"postgres", "migrate", "api", "work", "metrics", "mailpit"}
    assert set(OURS) == {"migrate", "api", "work", "metrics"}


def test_the_recipes_install_a_server_and_nothing_for_development() -> None:
    lines = [line for line in (DOCKERFILE + PAGE.read_text()).splitlines() if "/bin/pip install" in line]
    assert {shlex.split(line, comments=True)[-1] for line in lines} == {".[server]"}


@pytest.mark.parametrize("path", [p for p in (*DEPLOY.rglob("*"), PAGE) if p.is_file()], ids=lambda path: path.name)
def test_every_variable_of_ours_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"\bFAIRPOST_[A-Z_]+\b", path.read_text()))
    assert named <= {setting.variable for setting in SETTINGS} | {FILE_VARIABLE}


@pytest.mark.parametrize("name", OURS)
def test_settings_of_a_service_are_valid(name: str) -> None:
    environment = environment_of(OURS[name])
    mounted = environment.pop(FILE_VARIABLE)
    settings = read_settings({**image_environment(), **environment})
    assert settings.secret_key is not None
    assert mounted == f"/run/secrets/{OURS[name]['secrets'][0]}"


def test_the_image_sets_nothing_that_breaks_a_rule_or_is_secret() -> None:
    assert read_settings(image_environment()).home == Path("/var/lib/fairpost")
    assert not re.search(r"PASSWORD|SECRET_KEY|DATABASE_URL|TOKEN", DOCKERFILE)


def test_environment_variables_and_their_explanations_match() -> None:
    explained = set(example_environment()) - {"COMPOSE_PROFILES"}
    assert asked_for((DEPLOY / "compose.yaml").read_text()) == explained


def test_no_password_stands_in_the_files_but_one_that_says_it_is_for_development() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|KEY|TOKEN", name):
                assert re.fullmatch(r"\$\{\w+:[-?].*\}", value), f"{name} is written down"
    secret = {name: value for name, value in example_environment().items() if re.search("PASSWORD|SECRET|KEY", name)}
    assert {value for value in secret.values() if value} == {"development-only"}
    assert "deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_without_a_password_nothing_starts() -> None:
    with pytest.raises(AssertionError, match=r"copy \.env\.example to \.env"):
        filled_in(OURS["work"]["environment"]["FAIRPOST_DATABASE_URL"], {})


@pytest.mark.parametrize("name", OURS)
def test_the_database_is_the_one_beside(name: str) -> None:
    url = urlsplit(environment_of(OURS[name])["FAIRPOST_DATABASE_URL"])
    server = environment_of(SERVICES["postgres"])
    assert (url.hostname, url.port) == ("postgres", 5432)
    assert (url.username, url.path[1:]) == (server["POSTGRES_USER"], server["POSTGRES_DB"])
    assert url.password == server["POSTGRES_PASSWORD"]


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_there_is(name: str) -> None:
    assert instructions("ENTRYPOINT") == ['["fairpost"]']
    check_command(OURS[name]["command"])


def test_the_image_runs_a_command_that_there_is() -> None:
    (words,) = instructions("CMD")
    check_command(re.findall(r'"([^"]*)"', words))


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_services_that_can_be_waited_for(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "no"


def test_nothing_starts_before_the_schema_exists() -> None:
    assert SERVICES["migrate"]["command"] == ["db", "migrate"]
    for name in ("api", "work", "metrics"):
        assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_the_api_is_asked_for_its_health_where_it_listens() -> None:
    api = SERVICES["api"]
    command = api["command"]
    host, _, port = command[command.index("--listen") + 1].rpartition(":")
    (url,) = re.findall(r"http://[^']*", " ".join(api["healthcheck"]["test"]))
    (published,) = api["ports"]
    assert host == "0.0.0.0"
    assert (urlsplit(url).port, urlsplit(url).path) == (int(port), "/healthz")
    assert published.rpartition(":")[2] == port
    assert instructions("EXPOSE") == [port]
    within = float(re.findall(r"timeout=(\d+)", " ".join(api["healthcheck"]["test"]))[0])
    assert within < seconds(api["healthcheck"]["timeout"])


def test_ports_are_open_to_this_machine_alone_and_the_database_has_none() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published)
    assert len(published) == len(set(published)) == 4
    assert "ports" not in SERVICES["postgres"]


def test_mailpit_is_for_development() -> None:
    mailpit = SERVICES["mailpit"]
    assert mailpit["ports"] == ["127.0.0.1:1025:1025", "127.0.0.1:8025:8025"]
    assert mailpit["profiles"] == [example_environment()["COMPOSE_PROFILES"]]


def test_the_engine_sends_to_mailpit_without_another_command() -> None:
    given = given_account(read_settings(environment_of(OURS["work"]) | {FILE_VARIABLE: ""}))
    assert given is not None
    (port,) = [port for port in SERVICES["mailpit"]["ports"] if port.endswith(f":{given.server.port}")]
    assert (given.server.host, port) == ("mailpit", "127.0.0.1:1025:1025")
    assert given.server.security is Security.OFFERED
    assert given.password is None


@pytest.mark.parametrize("name", ["api", "migrate", "metrics"])
def test_only_the_engine_has_the_password_of_the_mail_server(name: str) -> None:
    assert not [variable for variable in OURS[name]["environment"] if "SMTP" in variable]
    assert OURS[name]["environment"].items() <= OURS["work"]["environment"].items()


@pytest.mark.parametrize("name", ["api", "work"])
def test_a_service_that_is_stopped_has_time_to_finish(name: str) -> None:
    assert seconds(SERVICES[name]["stop_grace_period"]) > ENGINE_ENDS_WITHIN_S
    assert instructions("STOPSIGNAL") == ["SIGTERM"]


@pytest.mark.parametrize("name", SERVICES)
def test_volumes_and_secrets_are_declared(name: str) -> None:
    assert {volume.partition(":")[0] for volume in SERVICES[name].get("volumes", ())} <= set(compose()["volumes"])
    for secret in SERVICES[name].get("secrets", ()):
        assert (DEPLOY / filled_in(compose()["secrets"][secret]["file"], {})).is_file()


@pytest.mark.parametrize("name", OURS)
def test_the_memory_outlives_the_container(name: str) -> None:
    home = image_environment()["FAIRPOST_HOME"]
    assert OURS[name]["volumes"] == [f"home:{home}"]
    assert instructions("VOLUME") == [home]


def test_the_database_outlives_its_container() -> None:
    postgres = SERVICES["postgres"]
    major = int(postgres["image"].removeprefix("postgres:"))
    assert major >= 18  # earlier versions stored their data in /var/lib/postgresql/data
    assert postgres["volumes"] == ["postgres:/var/lib/postgresql"]


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_may_do_no_more_than_it_needs(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert instructions("USER") == ["fairpost"]


# ── the image ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_image_is_made_of_what_is_there_and_of_nothing_else() -> None:
    copied = [word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]]
    let_in = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(let_in)
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyproject.toml", project["readme"], *project["license-files"]} <= set(copied)


def test_the_image_has_a_python_that_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {re.findall(r"python:([\d.]+)-slim", line)[0] for line in instructions("FROM")}
    assert all(f"Programming Language :: Python :: {version}" in project["classifiers"] for version in versions)


def test_the_image_is_made_from_the_top_of_the_repository() -> None:
    for service in OURS.values():
        assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
        assert ROOT / service["build"]["dockerfile"] == DEPLOY / "Dockerfile"


# ── the example of a settings file ───────────────────────────────────────────────────────────────────────

EXAMPLE = DEPLOY / "fairpost.toml"


def test_the_example_as_it_stands_changes_nothing() -> None:
    assert read_settings({FILE_VARIABLE: str(EXAMPLE)}) == read_settings({})


def test_the_example_has_every_setting_with_its_help_and_its_default(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    lines = dict(re.findall(r"^# (\w+) = (.*)$", text, re.MULTILINE))
    assert list(lines) == [setting.name for setting in SETTINGS], "deploy/fairpost.toml names other settings"
    for name in ("secret_key", "secret_key_old"):
        lines[name] = f'"{KEY}"'  # the value in the file explains how to create one
    path = tmp_path / "fairpost.toml"
    path.write_text("\n".join(f"{name} = {value}" for name, value in lines.items()))
    texts = read_settings_file({FILE_VARIABLE: str(path)}).texts
    unwrapped = text.replace("\n# ", " ")
    for setting in SETTINGS:
        assert setting.default in (None, texts[setting.name])
        assert setting.help in unwrapped


# ── the docs page ────────────────────────────────────────────────────────────────────────────────────────


def commands_on(page: str) -> list[list[str]]:
    """Returns the arguments of every `fairpost` that is run there, with or without a path."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            names = [index for index, word in enumerate(words) if word.rpartition("/")[2] == "fairpost"]
            if names and words[names[-1] + 1 :]:
                found.append(words[names[-1] + 1 :])
    return found


@pytest.mark.parametrize("arguments", commands_on(PAGE.read_text()), ids=" ".join)
def test_a_command_on_the_page_is_one_that_there_is(arguments: list[str]) -> None:
    check_command(arguments)


@pytest.mark.parametrize("name", re.findall(r"docker compose (?:exec|run --rm|stop|logs) (\w+)", PAGE.read_text()))
def test_a_service_on_the_page_is_one_that_there_is(name: str) -> None:
    assert name in SERVICES
