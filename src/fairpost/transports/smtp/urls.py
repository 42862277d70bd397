"""A server as a URL: `smtp+starttls://user:password@host:587?ca_file=/etc/ca.pem`. This module only parses and formats
URLs. It does no I/O. Errors never repeat any part of the URL, because after a typo, any part may contain the password.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from fairpost.compose.domains import ascii_domain
from fairpost.model.errors import FairpostError
from fairpost.model.transport import Security
from fairpost.transports.smtp.settings import SmtpSettings

SCHEMES = {"smtp": Security.OFFERED, "smtp+starttls": Security.STARTTLS, "smtps": Security.IMPLICIT}
OPTIONS = ("bounces", "ca_file", "hello", "tls")
URL_CHARS_MAX = 4_000

_HOST = re.compile(r"(?=.{1,253}$)[0-9a-z_]([0-9a-z_.-]*[0-9a-z_])?")
_HELLO = re.compile(r"[0-9A-Za-z._:\[\]-]{1,255}")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class WrongUrl(FairpostError):
    """A server's URL is invalid. `part` names the invalid part."""

    def __init__(self, part: str, rule: str, *, example: str = "smtp+starttls://USER@HOST:587") -> None:
        super().__init__(f"The server's URL is not valid: {part} {rule}. Use a format such as {example}")
        self.rule = rule
        self.part = part


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpUrl:
    settings: SmtpSettings
    password: str | None = field(default=None, repr=False)


def parse_smtp_url(url: str) -> SmtpUrl:
    """Parses a server's URL. Raises WrongUrl."""
    scheme, user, password, address, tail = url_parts(url, SCHEMES, "smtp://, smtp+starttls:// or smtps://")
    options = _options(tail)
    security = _security(SCHEMES[scheme], options)
    host, port = url_address(address)
    return SmtpUrl(
        settings=SmtpSettings(
            host=host,
            port=port or usual_port(security, with_login=user is not None),
            security=security,
            user=user,
            ca_file=_ca_file(options),
            hello_name=_hello(options),
            bounce_domain=_bounces(options),
        ),
        password=password,
    )


def url_of(settings: SmtpSettings) -> str:
    """Returns the server's URL without the password."""
    scheme = next((name for name, security in SCHEMES.items() if security is settings.security), "smtp")
    user = f"{quote(settings.user, safe='')}@" if settings.user is not None else ""
    host = f"[{quote(settings.host, safe=':')}]" if ":" in settings.host else settings.host
    options = {
        "tls": "none" if settings.security is Security.NONE else None,
        "ca_file": settings.ca_file,
        "hello": settings.hello_name,
        "bounces": settings.bounce_domain,
    }
    query = "&".join(f"{name}={quote(value, safe='/:[]')}" for name, value in options.items() if value is not None)
    return f"{scheme}://{user}{host}:{settings.port}{'?' if query else ''}{query}"


class UrlParts(NamedTuple):
    scheme: str
    user: str | None
    password: str | None
    address: str
    tail: str  # after the question mark


def url_parts(url: str, schemes: Collection[str], allowed: str) -> UrlParts:
    """Splits a server's URL into its parts. `allowed` names the schemes in the error."""
    if len(url) > URL_CHARS_MAX or not url.isprintable():
        raise WrongUrl("it", f"must be a single line of at most {URL_CHARS_MAX} printable characters")
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() not in schemes:
        raise WrongUrl("its scheme", f"must be {allowed}")
    authority, tail = _split(rest)
    login, _, address = authority.rpartition("@")
    return UrlParts(scheme.lower(), *_login(login), address, tail)


def _split(rest: str) -> tuple[str, str]:
    """Splits the URL into two parts: everything up to the host and port, and the query after the question mark."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    tail = rest[len(authority) :].removeprefix("/")
    if "@" in tail:
        raise WrongUrl("its user or password", "must have its special characters as %2F (/), %3F (?), %23 (#), %40 (@)")
    if tail and not tail.startswith("?"):
        raise WrongUrl("it", "must end after the port or continue with ? and options")
    return authority, tail.removeprefix("?")


def _login(login: str) -> tuple[str | None, str | None]:
    name, colon, secret = login.partition(":")
    user = url_decoded(name, "its user")
    if not user and secret:
        raise WrongUrl("its user", "is required with a password")
    if len(user) > 500 or (user and not user.isprintable()):
        raise WrongUrl("its user", "must have at most 500 printable characters")
    return user or None, url_decoded(secret, "its password") if colon and secret else None


def url_address(address: str) -> tuple[str, int | None]:
    if address.startswith("["):
        host, bracket, port = address[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise WrongUrl("its host", "must end with ] before the port")
        return _ipv6(url_decoded(host, "its host")), _port(port.removeprefix(":"))
    host, _, port = address.partition(":")
    return _host(url_decoded(host, "its host")), _port(port)


def _host(host: str) -> str:
    try:
        name = ascii_domain(host.lower())
    except ValueError:  # includes idna's errors
        name = ""
    if not _HOST.fullmatch(name) or ".." in name:
        raise WrongUrl("its host", "must be a name such as smtp.example.com or an address (IPv6 in brackets)")
    return name


def _ipv6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        raise WrongUrl("its host", "must have an IPv6 address between the brackets") from None


def _port(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65_535:
        raise WrongUrl("its port", "must be 1..65535")
    return int(text)


def usual_port(security: Security, *, with_login: bool) -> int:
    match security:
        case Security.IMPLICIT:
            return 465
        case Security.STARTTLS:
            return 587
        case Security.OFFERED | Security.NONE:
            return 587 if with_login else 25


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        name, _, value = pair.partition("=")
        if name not in OPTIONS or name in options:
            raise WrongUrl("its options", f"can be {', '.join(OPTIONS)}, each at most once")
        options[name] = url_decoded(value, f"its option {name}")
    return options


def _security(security: Security, options: dict[str, str]) -> Security:
    if "tls" not in options:
        return security
    if security is not Security.OFFERED or options["tls"] != "none":
        raise WrongUrl("its option tls", "must be none, and only with smtp://")
    return Security.NONE


def _ca_file(options: dict[str, str]) -> str | None:
    path = options.get("ca_file")
    if path is not None and (not path.startswith("/") or not path.isprintable()):
        raise WrongUrl("its option ca_file", "must be the absolute path of a file with certificates")
    return path


def _hello(options: dict[str, str]) -> str | None:
    name = options.get("hello")
    if name is not None and not _HELLO.fullmatch(name):
        raise WrongUrl("its option hello", "must be a host name or an address in brackets")
    return name


def _bounces(options: dict[str, str]) -> str | None:
    if (domain := options.get("bounces")) is None:
        return None
    try:
        name = ascii_domain(domain.lower())
    except ValueError:
        name = ""
    if not _HOST.fullmatch(name) or "." not in name or ".." in name:
        raise WrongUrl("its option bounces", "must be a domain such as bounces.example.com")
    return name


def url_decoded(text: str, part: str) -> str:
    if _ESCAPE.search(text):
        raise WrongUrl(part, "must write % as %25")
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeError:
        raise WrongUrl(part, "must be UTF-8") from None
    if "\0" in decoded:
        raise WrongUrl(part, "must not contain %00")
    return decoded
