"""Kinds of settings. Each kind consists of a rule (as text) and a parser. The settings are in `settings.py`."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

from fairpost.model.durations import read_duration
from fairpost.model.names import NAME_RULE, is_full_name, is_name, is_pool
from fairpost.model.sender import Tier
from fairpost.model.urls import without_password
from fairpost.regions.directory import NAME as REGION_NAME
from fairpost.regions.directory import Directory, hidden, parse_regions, regions_of_table
from fairpost.vault.keys import read_key

TIERS = (Tier.HIGH, Tier.NORMAL, Tier.LOW, Tier.THROTTLED)  # the order of the weights and shares in a setting
WEIGHT_MAX = 1000.0
DURATION_MAX = timedelta(days=30)
INTERVAL_MIN, INTERVAL_MAX = timedelta(milliseconds=100), timedelta(minutes=10)
PASSWORD_BYTES_MAX = 10_000  # some passwords are tokens, which can be long


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of setting.

    `read` converts text to a value, or returns None if the text breaks the rule. `show` formats an invalid value for
    errors, which must not contain secrets.
    """

    rule: str
    read: Callable[[str], Any]
    show: Callable[[str], str] = str

    @property
    def is_secret(self) -> bool:
        return self.show is _hidden


def whole(least: int, most: int) -> Kind:
    return Kind(f"a whole number, {least}..{most}", _number(least, most))


def one_of(values: type[StrEnum]) -> Kind:
    *others, last = values
    return Kind(f"{', '.join(others)} or {last}", lambda text: values(text) if text in set(values) else None)


def true_or_false(true: Any, false: Any) -> Kind:
    return Kind("true or false", {"true": true, "false": false}.get)


def line(most: int) -> Kind:
    return Kind(
        f"1..{most} characters on one line", lambda text: text if len(text) <= most and text.isprintable() else None
    )


def _number(least: int, most: int) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        is_number = re.fullmatch(r"[0-9]{1,15}", text) is not None
        return int(text) if is_number and least <= int(text) <= most else None

    return read


def _hidden(text: str) -> str:
    return f"{len(text)} characters, which are not shown"


def _directory(text: str) -> Path | None:
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError:  # for example, ~nobody
        return None
    return path if path.is_dir() or not path.exists() else None


def _postgres_url(text: str) -> str | None:
    return text if text.startswith(("postgresql://", "postgres://")) else None


def _regions(text: str) -> Directory | None:
    if "://" in text:
        return parse_regions(text)
    try:
        return regions_of_table(tomllib.loads(Path(text).expanduser().read_text("utf-8")))
    except (OSError, RuntimeError, ValueError):  # the file is missing, is not TOML, or is in an unknown user's home
        return None


def _region(text: str) -> str | None:
    return text if REGION_NAME.fullmatch(text) else None


def _address(text: str) -> str | None:
    return (
        text
        if len(text) <= 254 and re.fullmatch(r"[!#-'*+./0-9=?A-Z^-~-]+@[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*", text)
        else None
    )


def _workspace(text: str) -> str | None:
    return text if len(text) <= 200 and text.isprintable() and text != "*" else None


def _share_of_workspaces(text: str) -> int | None:
    if text in ("on", "off"):
        return 100 if text == "on" else 0
    return _number(0, 100)(text.removesuffix("%")) if text.endswith("%") else None


def _weights(text: str) -> dict[Tier, float] | None:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(TIERS) or not all(re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", part) for part in parts):
        return None
    weights = dict(zip(TIERS, map(float, parts), strict=True))
    return weights if all(0 < weight <= WEIGHT_MAX for weight in weights.values()) else None


def _shares(text: str) -> dict[Tier, int] | None:
    parts = [_number(1, 100)(part.strip()) for part in text.split(",")]
    shares = [part for part in parts if part is not None]
    if len(shares) != len(parts) or len(parts) != len(TIERS) or sum(shares) != 100:
        return None
    return dict(zip(TIERS, shares, strict=True))


def _duration(text: str) -> timedelta | None:
    length = read_duration(text)
    return length if length is not None and timedelta() < length <= DURATION_MAX else None


def _interval(text: str) -> timedelta | None:
    """Parses a duration, including Go's format: 500ms, 5s, 1m30s."""
    length = read_duration(text, is_fine=True)
    return length if length is not None and INTERVAL_MIN <= length <= INTERVAL_MAX else None


def _host(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        is_name = len(text) <= 253 and re.fullmatch(r"(?!-)[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*", text)
        return text.lower() if is_name else None


def _password(text: str) -> str | None:
    """Returns the password. Bytes in the text that are not UTF-8 are represented as surrogates."""
    is_one_line = len(text.encode(errors="surrogatepass")) <= PASSWORD_BYTES_MAX and not set(text) & set("\0\r\n")
    return text if is_one_line and not any("\ud800" <= char <= "\udfff" for char in text) else None


def _installation(text: str) -> str | None:
    return text.strip() if text.strip() and len(text) <= 80 and text.isprintable() else None


def _milliseconds(text: str) -> timedelta | None:
    number = _number(1, DURATION_MAX // timedelta(milliseconds=1))(text)
    return timedelta(milliseconds=number) if number is not None else None


def _plans(text: str) -> frozenset[str] | None:
    names = [name.strip() for name in text.split(",")]
    return frozenset(names) if all(0 < len(name) <= 100 and name.isprintable() for name in names) else None


def _addresses(text: str) -> tuple[str, ...] | None:
    found = [_address(part.strip()) for part in text.split(",")]
    addresses = tuple(address for address in found if address is not None)
    return addresses if len(addresses) == len(found) else None


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...] | None:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(","))
    except ValueError:
        return None


def _ports(text: str) -> frozenset[int] | None:
    parts = [_number(1, 65_535)(part.strip()) for part in text.split(",")]
    ports = frozenset(part for part in parts if part is not None)
    return ports if None not in parts else None


def _public_url(text: str) -> str | None:
    """Returns the URL without its trailing slash, so that paths can be appended."""
    matched = re.fullmatch(r"https?://([\w-]+(\.[\w-]+)*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[\w./~-]*)?", text)
    return text.rstrip("/") if matched and len(text) <= 500 else None


DIRECTORY = Kind("a directory, which is created if it does not exist", _directory)
POSTGRES_URL = Kind("a URL that begins with postgresql://", _postgres_url, without_password)
REGIONS = Kind(
    "eu=postgresql://…,us=postgresql://…, or the path of a TOML file with [regions]; a name must have 1..31 characters (a-z, 0-9 and -) and must not be home, and each region must have its own URL",
    _regions,
    hidden,
)
REGION = Kind("a region name", _region)
WORKSPACE = Kind("a workspace name other than *, 1..200 characters on one line", _workspace)
KEY = Kind("32 bytes as base64 or hex", read_key, _hidden)
ADDRESS = Kind("one e-mail address in ASCII", _address)
ADDRESSES = Kind("e-mail addresses in ASCII, separated by commas", _addresses)
ON_OFF = Kind("on or off", {"on": True, "off": False}.get)
PERCENTAGE = Kind("on, off or a percentage such as 50%", _share_of_workspaces)
WEIGHTS = Kind(
    f"four numbers above 0 and up to {WEIGHT_MAX:g}, for HIGH, NORMAL, LOW and THROTTLED, separated by commas", _weights
)
SHARES = Kind(
    "four whole numbers of at least 1 that add up to 100, for HIGH, NORMAL, LOW and THROTTLED, separated by commas",
    _shares,
)
DURATION = Kind("a duration such as 90m, 24h or 1d, at most 30d", _duration)
INTERVAL = Kind("a duration such as 500ms, 5s or 1m30s, 100ms..10m", _interval)
MILLISECONDS = Kind("milliseconds, 1..2592000000", _milliseconds)
PLANS = Kind("names of 1..100 characters, separated by commas", _plans)
NETWORKS = Kind("networks such as 10.1.0.0/16 or fd00:1::/32, separated by commas", _networks)
PORT = Kind("a port, 1..65535", _number(1, 65_535))
PORTS = Kind("ports, 1..65535, separated by commas", _ports)
POOL = Kind("a pool name, 1..100 characters, not starting with @", lambda text: text if is_pool(text) else None)
INSTALLATION = Kind("1..80 characters on one line", _installation)
PUBLIC_URL = Kind("a URL that begins with https:// or http://, without ? and #", _public_url)
HOST_NAME = Kind("a full host name such as mail.example.com", lambda text: text if is_full_name(text) else None)
HOST = Kind("a host name or an IP address", _host)
PASSWORD = Kind(f"one line of 1..{PASSWORD_BYTES_MAX} bytes in UTF-8", _password, _hidden)
ACCOUNT = Kind(NAME_RULE, lambda text: text if is_name(text) else None)
