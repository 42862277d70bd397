"""Options of `fairpost account` that describe an account's server. Some are derived from a kind's settings. A password
comes from exactly one source: a prompt, a file or an environment variable.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any

import typer

from fairpost.model.errors import FairpostError
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.transports.described import Group, Setting, WrongSetting
from fairpost.transports.kind import TransportKind

PASSWORD_BYTES_MAX = 10_000  # large enough for long tokens

AskPassword = Annotated[bool, typer.Option("--ask-password", help="Ask for the server's password.")]
PasswordFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with the password, or `-` for standard input.")
]
PasswordEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Read the password from this environment variable.")
]


@dataclass(frozen=True, kw_only=True)
class PasswordOptions:
    ask_password: AskPassword = False
    password_file: PasswordFile = None
    password_env: PasswordEnv = None


def given_password(options: PasswordOptions, *, in_url: str | None) -> str | None:
    """Returns the password, or None if none was given. `in_url` is the password from the server's URL."""
    ask, file, env = options.ask_password, options.password_file, options.password_env
    ways = {"the URL": in_url is not None, "--ask-password": ask, "--password-file": file, "--password-env": env}
    used = [way for way, given in ways.items() if given]
    if len(used) > 1:
        raise FairpostError(f"Specify the password in only one of these ways: {' and '.join(used)}.")
    if ask:
        return checked(typer.prompt("Password", hide_input=True, err=True), "--ask-password")
    if file is not None:
        return checked(read_file(file, option="--password-file", bytes_max=PASSWORD_BYTES_MAX), "--password-file")
    if env is not None:
        return checked(_from_environment(env), "--password-env")
    return in_url


def read_file(path: str, *, option: str, bytes_max: int) -> str:
    """Reads a file or standard input. Reads up to one byte more than allowed so that the caller can detect a file that
    is too long.
    """
    import sys

    try:
        if path == "-":
            data = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(bytes_max + 1)
        text = data.decode()
    except OSError as error:
        raise FairpostError(f"{option}: {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FairpostError(f"{option} must be UTF-8 text.") from None
    return text.removesuffix("\n").removesuffix("\r")  # editors and `echo` add a final newline


def _from_environment(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise FairpostError(f"--password-env: the variable {name} is not set.") from None


def checked(password: str, way: str, *, what: str = "password") -> str:
    try:
        length = len(password.encode())
    except UnicodeEncodeError:
        raise FairpostError(f"The {what} from {way} must be UTF-8 text.") from None
    if not 1 <= length <= PASSWORD_BYTES_MAX or set(password) & set("\0\r\n"):
        raise FairpostError(f"The {what} from {way} must be one line of 1..{PASSWORD_BYTES_MAX} bytes.")
    return password


# ── kinds without options of their own ────────────────────────────────────────────────────────────────────


def described_options(kind: TransportKind[Any]) -> type:
    """Returns an option for each setting: --KIND-SETTING, or --KIND-SETTING-FILE for a secret."""
    options = [(_field(kind, each), Annotated[_type(each), _option(each)], None) for each in kind.asked]
    return make_dataclass("Options", options, frozen=True, kw_only=True)


def described_given(kind: TransportKind[Any], options: Any) -> "DescribedServer | None":
    values: dict[str, Any] = {}
    for each in kind.asked:
        value = getattr(options, _field(kind, each))
        if value is not None and each.is_secret:
            text = read_file(value, option=option_of(kind, each), bytes_max=PASSWORD_BYTES_MAX)
            value = checked(text, option_of(kind, each), what=each.name)
        if value is not None:
            values[each.name] = value
    return DescribedServer(kind, values) if values else None


def option_of(kind: TransportKind[Any], setting: Setting) -> str:
    return f"--{_field(kind, setting)}".replace("_", "-")


@dataclass(frozen=True, slots=True)
class DescribedServer:
    """The values given as options, by setting. Settings that are not given keep their stored values."""

    kind: TransportKind[Any]
    values: Mapping[str, Any] = field(repr=False)

    @property
    def secret(self) -> str | None:
        found = [self.values[each.name] for each in self.kind.asked if each.is_secret and each.name in self.values]
        return found[0] if found else None

    def server(self, name: str, old: TransportSettings | None, *, mailbox: str) -> ServerSettings | None:
        given = {**self._kept(old), **self.values}
        try:
            server: ServerSettings = self.kind.requested(old, given, mailbox=mailbox)[0]
        except WrongSetting as wrong:
            options = {each.name: option_of(self.kind, each) for each in self.kind.asked}
            raise FairpostError(
                f"{options.get(wrong.field, wrong.field)} {wrong.rule}, for an account that sends {self.kind.way}."
            ) from None
        return server

    def _kept(self, old: TransportSettings | None) -> dict[str, Any]:
        if not isinstance(old, self.kind.settings):
            return {}
        kept = {each.name: getattr(old, each.name) for each in self.kind.asked if not each.is_secret}
        return {name: value for name, value in kept.items() if value is not None}


def _field(kind: TransportKind[Any], setting: Setting) -> str:
    return f"{kind.name}_{setting.name}{'_file' if setting.is_secret else ''}"


def _type(setting: Setting) -> Any:
    assert not isinstance(setting.type, Group), "a kind whose settings are grouped must define its own options"
    return setting.type | None if not setting.is_secret else str | None


def _option(setting: Setting) -> Any:
    if setting.is_secret:
        return typer.Option(metavar="FILE", help=f"{setting.about} Use `-` for standard input.".strip())
    return typer.Option(help=setting.about, min=setting.least, max=setting.most)
