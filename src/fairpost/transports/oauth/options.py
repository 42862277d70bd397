"""Command-line options for signing in with OAuth, and rules for combining them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import typer

from fairpost.model.errors import FairpostError
from fairpost.transports.oauth.described import KEY_BYTES_MAX
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.options import PASSWORD_BYTES_MAX, checked, read_file


class Provider(StrEnum):
    GOOGLE = "google"
    MICROSOFT = "microsoft"


Oauth = Annotated[
    Provider | None,
    typer.Option(
        help="Log in with access tokens instead of a password. For `microsoft`, use the password options for the application's secret."
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Your Microsoft directory (tenant) ID, or one of your organisation's domains."),
]
ClientId = Annotated[str | None, typer.Option(metavar="ID", help="ID of the registered application.")]
KeyFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A Google service account's JSON key file, or `-` for standard input."),
]
RefreshTokenFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="File with a refresh token granted by a user, or `-` for standard input."),
]


@dataclass(frozen=True, kw_only=True)
class OauthOptions:
    oauth: Oauth = None
    tenant: Tenant = None
    client_id: ClientId = None
    key_file: KeyFile = None
    refresh_token_file: RefreshTokenFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    settings: OauthSettings
    secret: str = field(repr=False)


def given_grant(options: OauthOptions, password: str | None) -> Grant | None:
    """Returns the OAuth settings, or None if there are none. `password` is the application's secret, if it has one."""
    match options.oauth:
        case None:
            _only(options, (), "without --oauth")
            return None
        case Provider.GOOGLE if options.key_file is not None:
            _only(options, ("--key-file",), "with --key-file")
            return _service_account(options.key_file, password)
        case Provider.GOOGLE:
            _only(options, ("--client-id", "--refresh-token-file"), "with --oauth google")
            if options.refresh_token_file is None:
                raise FairpostError(
                    "--oauth google needs --key-file (for a service account), or --client-id and --refresh-token-file."
                )
            return _person(OauthKind.GOOGLE_PERSON, options, password)
        case Provider.MICROSOFT:
            _only(options, ("--tenant", "--client-id", "--refresh-token-file"), "with --oauth microsoft")
            if options.refresh_token_file is not None:
                return _person(OauthKind.MICROSOFT_PERSON, options, password)
            if password is None:
                raise FairpostError(
                    "--oauth microsoft needs the application's secret, or --refresh-token-file. Add: --ask-password"
                )
            return Grant(settings=_settings(OauthKind.MICROSOFT_CLIENT, options), secret=password)


def _only(options: OauthOptions, allowed: tuple[str, ...], where: str) -> None:
    given = {
        "--tenant": options.tenant,
        "--client-id": options.client_id,
        "--key-file": options.key_file,
        "--refresh-token-file": options.refresh_token_file,
    }
    wrong = [name for name, value in given.items() if value is not None and name not in allowed]
    if wrong:
        raise FairpostError(f"{' and '.join(wrong)} cannot be used {where}.")


def _service_account(path: str, password: str | None) -> Grant:
    from fairpost.transports.oauth.google import read_service_key

    if password is not None:
        raise FairpostError("A service account uses only a key file. Omit the password.")
    text = read_file(path, option="--key-file", bytes_max=KEY_BYTES_MAX)
    read_service_key(text)
    return Grant(settings=OauthSettings(kind=OauthKind.GOOGLE_SERVICE_ACCOUNT), secret=text)


def _person(kind: OauthKind, options: OauthOptions, password: str | None) -> Grant:
    from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret

    settings = _settings(kind, options)
    assert options.refresh_token_file is not None
    option = "--refresh-token-file"
    text = read_file(options.refresh_token_file, option=option, bytes_max=PASSWORD_BYTES_MAX)
    secret = RefreshSecret(refresh_token=checked(text, option, what="refresh token"), client_secret=password)
    return Grant(settings=settings, secret=write_refresh_secret(secret))


def _settings(kind: OauthKind, options: OauthOptions) -> OauthSettings:
    needed = {"--client-id": options.client_id} | ({} if kind.is_google else {"--tenant": options.tenant})
    for name, value in needed.items():
        if not value:
            raise FairpostError(f"--oauth {options.oauth} needs {name}.")
        if len(value) > 200 or not all(c.isascii() and (c.isalnum() or c in "-._") for c in value):
            raise FairpostError(f"{name} must be 1..200 letters, digits and -._, got {value!r}")
    return OauthSettings(kind=kind, client_id=options.client_id, tenant=options.tenant)
