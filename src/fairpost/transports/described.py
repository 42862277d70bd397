"""How a kind of transport describes what it is told: every setting once, with its bounds. Options, requests and forms are made from it.

No I/O, and nothing of any kind: its settings are in its folder.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairpost.model.errors import FairpostError

SECRET_BYTES_MAX = 10_000  # tokens can be long


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`type`: str, int, an enumeration, or a group of settings. What is not needed may be left out or null, and is then `default`."""

    name: str
    type: "type | Group" = str
    about: str = ""
    is_needed: bool = False
    default: Any = None
    is_secret: bool = False  # sealed, and never shown
    chars_min: int | None = None
    chars_max: int | None = None
    pattern: str | None = None  # of the whole text
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Settings that go together: an object in a request. `name`: what its shape is called there."""

    name: str
    settings: tuple[Setting, ...]
    about: str = ""


HAS_SECRET = Setting(name="has_secret", type=bool, is_needed=True)  # of what is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A setting on a form. `setting`: its name, with that of its group before it, like oauth.client_id."""

    setting: str
    label: str
    hint: str = ""
    is_needed: bool = False
    input: str = ""  # of HTML, where it does not follow from the setting: email, file
    accept: str = ""  # of a file
    placeholder: str = ""
    options: tuple[tuple[str, str], ...] = ()  # of an enumeration: each value, and how it is called
    explained: str = ""  # said of what does not fit the setting's pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A way to sign in, and what it asks for. `name`: as it is shown of a server that has it."""

    name: str
    title: str
    entries: tuple[Entry, ...] = ()
    fixed: Mapping[str, str | None] = field(default_factory=dict)  # settings that this way implies
    user: str | None = None  # the setting that is the address where it is left out
    hosts: tuple[str, ...] = ()  # a server that signs in so is of this choice only if its host ends so


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What people choose from who add an account: a kind of transport, at a provider. The usual one of its presets and sign-ins comes first."""

    name: str
    title: str
    about: str = ""
    presets: tuple[str, ...] = ()
    sign_ins: tuple[SignIn, ...]


class WrongSetting(FairpostError):
    """What was given for a setting does not do. `field`: its name, with its groups before it; empty: the server as a whole."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field or 'the server'} {rule}")
        self.field = field
        self.rule = rule


def require_fit(setting: Setting, value: Any) -> None:
    """Raises WrongSetting."""
    if isinstance(value, str):
        least, most = setting.chars_min or 0, setting.chars_max or len(value)
        if not least <= len(value) <= most:
            raise WrongSetting(setting.name, f"must have {least} to {most} characters")
        if setting.pattern is not None and not re.fullmatch(setting.pattern, value):
            raise WrongSetting(setting.name, f"must fit {setting.pattern}")
    elif isinstance(value, int):
        least = value if setting.least is None else setting.least
        most = value if setting.most is None else setting.most
        if not least <= value <= most:
            raise WrongSetting(setting.name, f"must be {least} to {most}")


def one_line(secret: str, where: str) -> str:
    """Raises WrongSetting."""
    if not 1 <= len(secret.encode()) <= SECRET_BYTES_MAX or set(secret) & set("\0\r\n"):
        raise WrongSetting(where, f"must be one line of 1 to {SECRET_BYTES_MAX:,} bytes")
    return secret
