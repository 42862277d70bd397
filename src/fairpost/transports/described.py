"""The form in which a kind of transport describes its settings. Each setting and its limits are described once, and
options, requests and forms are derived from this description. This module does no I/O and contains nothing specific to
one kind. The settings of each kind are in the kind's own folder.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairpost.model.errors import FairpostError

SECRET_BYTES_MAX = 10_000  # large enough for long tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `type` is str, int, bool, an enumeration, or a group of settings.

    If an optional setting is omitted or null, its value is `default`.
    """

    name: str
    type: "type | Group" = str
    about: str = ""
    is_needed: bool = False
    default: Any = None
    is_secret: bool = False  # the value is sealed and never shown
    chars_min: int | None = None
    chars_max: int | None = None
    pattern: str | None = None  # must match the whole text
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Settings that belong together and form an object in a request. `name` is the name of that object's shape."""

    name: str
    settings: tuple[Setting, ...]
    about: str = ""


HAS_SECRET = Setting(name="has_secret", type=bool, is_needed=True)  # in responses, instead of the secret itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A setting on a form. `setting` is the name of the setting, prefixed with its group, as in `oauth.client_id`."""

    setting: str
    label: str
    hint: str = ""
    is_needed: bool = False
    input: str = ""  # HTML input type (email, file), if it cannot be derived from the setting
    accept: str = ""  # the `accept` attribute of a file input
    placeholder: str = ""
    options: tuple[tuple[str, str], ...] = ()  # each value of an enumeration, with its label
    explained: str = ""  # shown if the value does not match the setting's pattern


READ = Setting(
    name="read",
    type=bool,
    about="Whether to read the mailbox for bounces and replies. Nothing in the mailbox is changed. [default: unchanged, or false for a new account]",
)
READ_ENTRY = Entry(
    setting="read",
    label="Read the mailbox",
    options=(("false", "No"), ("true", "Yes: detect bounces and replies")),
    hint="Nothing in the mailbox is deleted, moved or marked.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A sign-in method and the settings that it needs. `name` is shown for a server that uses this method."""

    name: str
    title: str
    entries: tuple[Entry, ...] = ()
    fixed: Mapping[str, str | None] = field(default_factory=dict)  # values that this method implies for other settings
    user: str | None = None  # the setting that defaults to the account's address
    hosts: tuple[
        str, ...
    ] = ()  # a server with this sign-in method matches this choice only if its host has one of these endings


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An option offered when adding an account: a kind of transport at a provider.

    The default sign-in comes first. `preset` is the default; presets that name this option in `choices` follow.
    """

    name: str
    title: str
    about: str = ""
    preset: str | None = None
    sign_ins: tuple[SignIn, ...]


class WrongSetting(FairpostError):
    """The value of a setting is invalid.

    `field` is the setting's name, prefixed with its groups. It is empty if the problem concerns the server as a whole.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field or 'the server'} {rule}")
        self.field = field
        self.rule = rule


def require_fit(setting: Setting, value: Any) -> None:
    """Raises WrongSetting if the value is not valid for the setting."""
    if isinstance(value, str):
        least, most = setting.chars_min or 0, setting.chars_max or len(value)
        if not least <= len(value) <= most:
            raise WrongSetting(setting.name, f"must have {least} to {most} characters")
        if setting.pattern is not None and not re.fullmatch(setting.pattern, value):
            raise WrongSetting(setting.name, f"must match {setting.pattern}")
    elif isinstance(value, int):
        least = value if setting.least is None else setting.least
        most = value if setting.most is None else setting.most
        if not least <= value <= most:
            raise WrongSetting(setting.name, f"must be {least} to {most}")


def one_line(secret: str, where: str) -> str:
    """Returns the secret if it is a single line. Raises WrongSetting otherwise."""
    if not 1 <= len(secret.encode()) <= SECRET_BYTES_MAX or set(secret) & set("\0\r\n"):
        raise WrongSetting(where, f"must be one line of 1 to {SECRET_BYTES_MAX:,} bytes")
    return secret
