"""The units in deploy/systemd fit this version of Fairpost, and systemd accepts them."""

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from fairpost.settings import FILE_VARIABLE, read_settings
from tests.deploy.recipes import DEPLOY, ENGINE_ENDS_WITHIN_S, check_command, seconds

UNITS = DEPLOY / "systemd"
SERVICES = ("fairpost-api", "fairpost-metrics", "fairpost-migrate", "fairpost-work")
LASTING = ("fairpost-api", "fairpost-metrics", "fairpost-work")
PROGRAM = "/opt/fairpost/bin/fairpost"
EXPOSURE_MAX = 25  # in tenths, as in systemd-analyze; 0 is safe, 100 is not

HARDENED = {
    "CapabilityBoundingSet": "",
    "NoNewPrivileges": "yes",
    "PrivateTmp": "yes",
    "ProtectHome": "yes",
    "ProtectSystem": "strict",
    "StateDirectory": "fairpost",
    "UMask": "0077",
    "User": "fairpost",
}


def unit(name: str) -> dict[str, list[str]]:
    """Returns every key with all its values, whatever its section."""
    found = defaultdict(list)
    for line in (UNITS / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def service(name: str) -> dict[str, list[str]]:
    return unit(f"{name}.service")


def test_the_units_are_those_that_are_promised() -> None:
    assert {path.name for path in UNITS.iterdir()} == {f"{name}.service" for name in SERVICES} | {"fairpost.target"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_runs_a_command_that_there_is(name: str) -> None:
    (line,) = service(name)["ExecStart"]
    program, *arguments = line.split()
    assert program == PROGRAM
    check_command(arguments)


@pytest.mark.parametrize("name", SERVICES)
def test_settings_of_a_unit_are_valid(name: str) -> None:
    environment = dict(value.replace("%S", "/var/lib").split("=", 1) for value in service(name)["Environment"])
    assert environment.pop(FILE_VARIABLE) == "/etc/fairpost/fairpost.toml"
    assert read_settings(environment).home == Path("/var/lib", *service(name)["StateDirectory"])
    assert service(name)["EnvironmentFile"] == ["-/etc/fairpost/fairpost.env"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_may_do_no_more_than_it_needs(name: str) -> None:
    assert {key: service(name)[key] for key in HARDENED} == {key: [value] for key, value in HARDENED.items()}


@pytest.mark.parametrize("name", LASTING)
def test_a_unit_that_is_stopped_has_time_to_finish_and_gets_one_signal(name: str) -> None:
    assert seconds(service(name)["TimeoutStopSec"][0]) > ENGINE_ENDS_WITHIN_S
    assert (service(name)["KillMode"], service(name)["KillSignal"]) == (["mixed"], ["SIGTERM"])
    assert service(name)["Restart"] == ["on-failure"]


def test_the_api_can_be_reloaded() -> None:
    assert service("fairpost-api")["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_one_worker_out_of_memory_does_not_stop_the_engine() -> None:
    assert service("fairpost-work")["OOMPolicy"] == ["continue"]


def test_the_target_starts_and_stops_both_and_never_changes_the_schema() -> None:
    wanted = unit("fairpost.target")["Wants"][0].split()
    assert set(wanted) == {f"{name}.service" for name in LASTING}
    for name in LASTING:
        assert service(name)["PartOf"] == service(name)["WantedBy"] == ["fairpost.target"]
        assert not {"Requires", "BindsTo"} & set(service(name))
    assert service("fairpost-migrate")["Type"] == ["oneshot"]
    assert "WantedBy" not in service("fairpost-migrate")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Returns the units, with a program that exists."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine: the units are not verified by systemd itself")
    program = tmp_path / "fairpost"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAM, str(program)))
    return tmp_path


def test_systemd_finds_nothing_wrong(installed: Path) -> None:
    files = [str(path) for path in sorted(installed.glob("fairpost*.*"))]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "fairpost" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_little_that_could_be_misused(installed: Path, name: str) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", f"./{name}.service"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=installed)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is too old to judge a unit that is not installed")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
