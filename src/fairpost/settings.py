"""Every setting, in one table: its name, default, rule and help. Read from the environment and checked once.

A new setting is a line in SETTINGS and a field of Settings; docs/settings.md follows, or its test fails.
What belongs to one account, workspace or e-mail is data, and lives in the database.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpost.model.errors import SettingsError
from fairpost.vault.keys import Key, read_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path
    database_url: str | None
    workspace: str
    secret_key: Key | None
    secret_key_old: Key | None
    redirect_all: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`read` turns the text into its value; None when it breaks the rule."""

    name: str
    default: str | None
    rule: str
    help: str
    read: Callable[[str], Any]
    show: Callable[[str], str] = str  # how a wrong value is named: no secret belongs in an error

    @property
    def variable(self) -> str:
        return f"FAIRPOST_{self.name.upper()}"


def without_password(url: str) -> str:
    """For messages, which may stand in a log for years. Hides too much rather than too little."""
    return re.sub(r"([?&]password=)[^&]*", r"\1***", re.sub(r"(//[^:/@]*):.*@", r"\1:***@", url))


def _hidden(text: str) -> str:
    return f"{len(text)} characters, which are not shown"


def _directory(text: str) -> Path | None:
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError:  # ~nobody
        return None
    return path if path.is_dir() or not path.exists() else None


def _postgres_url(text: str) -> str | None:
    return text if text.startswith(("postgresql://", "postgres://")) else None


def _address(text: str) -> str | None:
    return (
        text
        if len(text) <= 254 and re.fullmatch(r"[!#-'*+./0-9=?A-Z^-~-]+@[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*", text)
        else None
    )


def _workspace(text: str) -> str | None:
    return text if len(text) <= 200 and text.isprintable() and text != "*" else None


SETTINGS = (
    Setting(
        name="home",
        default="~/.fairpost",
        rule="a directory, or a path where one can be made",
        help="Where Fairpost keeps its files, among them the data of the embedded PostgreSQL.",
        read=_directory,
    ),
    Setting(
        name="database_url",
        default=None,
        rule="a URL that begins with postgresql://",
        help="A PostgreSQL you run yourself, used instead of the embedded one.",
        read=_postgres_url,
        show=without_password,
    ),
    Setting(
        name="workspace",
        default="default",
        rule="1..200 characters on one line, and not *",
        help="The workspace of `fairpost email send` and `fairpost suppress` where none is given.",
        read=_workspace,
    ),
    Setting(
        name="secret_key",
        default=None,
        rule="32 bytes as base64 or hex",
        help="The master key that seals the accounts' passwords, used instead of `secret.key` in `FAIRPOST_HOME`.",
        read=read_key,
        show=_hidden,
    ),
    Setting(
        name="secret_key_old",
        default=None,
        rule="32 bytes as base64 or hex",
        help="The master key before, which still opens what it sealed, until `fairpost secrets rotate` is done.",
        read=read_key,
        show=_hidden,
    ),
    Setting(
        name="redirect_all",
        default=None,
        rule="one e-mail address in ASCII",
        help="For staging: every e-mail goes to this address, and none to its recipients.",
        read=_address,
    ),
)


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """All settings, or a SettingsError that names key, rule and value. An empty variable counts as not set."""
    return Settings(**{setting.name: _read(setting, environ) for setting in SETTINGS})


def _read(setting: Setting, environ: Mapping[str, str]) -> Any:
    text = environ.get(setting.variable) or setting.default
    if text is None:
        return None
    value = setting.read(text)
    if value is None:
        raise SettingsError(f"{setting.variable} must be {setting.rule}, got {setting.show(text)}")
    return value
