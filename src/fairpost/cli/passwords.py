"""How a password comes in: asked for, from a file, from a variable, or in the server's URL. One way at a time."""

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from fairpost.model.errors import FairpostError

PASSWORD_BYTES_MAX = 10_000  # tokens can be long

AskPassword = Annotated[bool, typer.Option("--ask-password", help="Ask for the server's password.")]
PasswordFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Read the password from this file; - is standard input.")
]
PasswordEnv = Annotated[str | None, typer.Option(metavar="NAME", help="Take the password from this variable.")]
Smtp = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Its server: smtp+starttls://USER@HOST:587, smtps://USER@HOST:465 or smtp://HOST:25. A password in it "
        "(USER:PASSWORD@) can be seen by others on this machine: better use one of the options below.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    smtp: Smtp = None
    ask_password: AskPassword = False
    password_file: PasswordFile = None
    password_env: PasswordEnv = None


def given_password(options: ServerOptions, *, in_url: str | None) -> str | None:
    """None: none was given."""
    ask, file, env = options.ask_password, options.password_file, options.password_env
    ways = {"the URL": in_url is not None, "--ask-password": ask, "--password-file": file, "--password-env": env}
    used = [way for way, given in ways.items() if given]
    if len(used) > 1:
        raise FairpostError(f"Give the password in one way, not by {' and '.join(used)}.")
    if ask:
        return checked(typer.prompt("Password", hide_input=True, err=True), "--ask-password")
    if file is not None:
        return checked(read_file(file, option="--password-file", bytes_max=PASSWORD_BYTES_MAX), "--password-file")
    if env is not None:
        return checked(_from_environment(env), "--password-env")
    return in_url


def read_file(path: str, *, option: str, bytes_max: int) -> str:
    """A byte more than allowed, where it has that many: the caller sees that it is too long."""
    import sys

    try:
        if path == "-":
            data = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(bytes_max + 1)
        text = data.decode()
    except OSError as error:
        raise FairpostError(f"{option} cannot be read: {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FairpostError(f"{option} must be UTF-8 text.") from None
    return text.removesuffix("\n").removesuffix("\r")  # editors and echo end their last line


def _from_environment(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise FairpostError(f"--password-env names {name}, and that variable is not set.") from None


def checked(password: str, way: str, *, what: str = "password") -> str:
    try:
        length = len(password.encode())
    except UnicodeEncodeError:
        raise FairpostError(f"The {what} from {way} must be UTF-8 text.") from None
    if not 1 <= length <= PASSWORD_BYTES_MAX or set(password) & set("\0\r\n"):
        raise FairpostError(f"The {what} from {way} must be one line of 1..{PASSWORD_BYTES_MAX} bytes.")
    return password
