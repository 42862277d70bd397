"""Every setting, in one table: its name, default, rule and help. Read from the environment and a file, and checked once.

A new setting is a line in SETTINGS and a field of Settings; docs/settings.md follows, or its test fails.
What belongs to one account, workspace or e-mail is data, and lives in the database.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Self

from fairpost.model.durations import read_duration
from fairpost.model.errors import NotFound, SettingsError
from fairpost.model.names import is_name, is_pool
from fairpost.model.sender import AbuseMode, Priority, Tier
from fairpost.model.transport import Security
from fairpost.model.urls import without_password
from fairpost.regions.directory import MAIN, NAME, Directory, hidden, parse_regions, regions_of_table
from fairpost.vault.keys import Key, read_key

TIERS = (Tier.HIGH, Tier.NORMAL, Tier.LOW, Tier.THROTTLED)  # in this order their weights and shares are written
WEIGHT_MAX = 1000.0
THROTTLE_MAX = timedelta(days=30)
NUMBER_MAX = 1_000_000_000
COUNT_MAX = 2**31 - 1  # an integer of the database
USERS_OF_A_WORKSPACE = 100  # inventing more of them lets nobody send more
FILE_VARIABLE = "FAIRPOST_CONFIG"
FILE_BYTES_MAX = 100_000  # with every setting explained, it has a few KB
DAYS_MAX = 36_500
POLL_MIN, POLL_MAX = timedelta(milliseconds=100), timedelta(minutes=10)
PASSWORD_BYTES_MAX = 10_000  # tokens can be long


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path
    database_url: str | None  # of the region, where one is chosen; None: the embedded one
    regions: Directory | None  # None: only the one database
    region: str | None  # whose mail commands and engines work on
    workspace: str
    secret_key: Key | None
    secret_key_old: Key | None
    redirect_all: str | None
    fair_queue: int  # percent of the workspaces
    priority: Priority
    tier_weights: Mapping[Tier, float]
    lane_shares: Mapping[Tier, int]
    abuse_detection: AbuseMode
    abuse_threshold: int
    throttle_max: timedelta
    max_queue: int
    user_daily_max: int  # 0: no limit
    user_waiting_max: int  # 0: no limit
    workspace_daily_max: int | None  # None: as many as a hundred users
    paid_plans: frozenset[str]
    free_plans: frozenset[str]
    operators: tuple[str, ...]
    allowed_networks: tuple[IPv4Network | IPv6Network, ...]
    allowed_ports: frozenset[int]
    service_pool: str
    name: str  # of the installation
    public_url: str
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...]
    client_connections_max: int
    client_heads_max: int
    retention_days: int | None  # None: for good
    patience_urgent: timedelta
    patience_bulk: timedelta
    engine: bool  # False: nothing is sent from here
    poll_interval: timedelta
    log_format: LogFormat | None  # None: for people on a terminal, text elsewhere
    smtp_host: str | None  # None: the environment gives no account
    smtp_port: int | None
    smtp_tls: Security | None
    smtp_user: str | None
    smtp_password: str | None = field(repr=False)
    smtp_from_address: str | None
    smtp_from_name: str | None
    smtp_batch_size: int | None
    smtp_account: str
    home_database_url: str | None = None  # what FAIRPOST_DATABASE_URL says, whichever region is chosen

    @property
    def region_name(self) -> str:
        return self.region or MAIN

    @property
    def daily_max_of_workspace(self) -> int:
        """0: no limit."""
        given = self.workspace_daily_max
        return min(COUNT_MAX, USERS_OF_A_WORKSPACE * self.user_daily_max) if given is None else given

    def at(self, region: str) -> Self:
        """The same for the database of this region."""
        if self.regions is None:
            if region != MAIN:
                raise SettingsError(f"There is no region {region!r}, only {MAIN}. Name the others in FAIRPOST_REGIONS")
            return replace(self, region=region, database_url=self.home_database_url)
        try:
            return replace(self, region=region, database_url=self.regions.url(region))
        except NotFound as error:
            raise SettingsError(str(error)) from error

    def at_home(self) -> Self:
        """The same for the home database: it knows which workspace lives in which region, and no e-mail."""
        return replace(self, region=None, database_url=self.home_database_url)

    @property
    def retention(self) -> timedelta | None:
        return None if self.retention_days is None else timedelta(days=self.retention_days)


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a setting, with a rule of its own. It is read where the setting's own variable is not set."""

    variable: str
    rule: str
    read: Callable[[str], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`read` turns the text into its value; None when it breaks the rule."""

    name: str
    default: str | None
    rule: str
    help: str
    read: Callable[[str], Any]
    show: Callable[[str], str] = str  # how a wrong value is named: no secret belongs in an error
    aliases: tuple[Alias, ...] = ()  # the first that is set counts
    absent: Any = None  # the value where nothing is set and there is no default

    @property
    def variable(self) -> str:
        return f"FAIRPOST_{self.name.upper()}"


@dataclass(frozen=True, slots=True)
class Found:
    """The text of a setting (None: nothing is set), whose rule it must keep, and where it comes from.

    `origin` is `environment`, the name of the alias, `file` with its path, or `default`. `name` is what an error calls it.
    """

    text: str | None
    by: Setting | Alias
    origin: str
    name: str


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a file sets: texts that keep their rules. Without a path there is none."""

    path: Path | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_secret(self) -> bool:
        return any(
            each.show(self.texts[each.name]) != self.texts[each.name] for each in SETTINGS if each.name in self.texts
        )


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


def _regions(text: str) -> Directory | None:
    if "://" in text:
        return parse_regions(text)
    try:
        return regions_of_table(tomllib.loads(Path(text).expanduser().read_text("utf-8")))
    except (OSError, RuntimeError, ValueError):  # not there, ~nobody, or no TOML
        return None


def _region(text: str) -> str | None:
    return text if NAME.fullmatch(text) else None


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


def _number(least: int, most: int) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        is_number = re.fullmatch(r"[0-9]{1,15}", text) is not None
        return int(text) if is_number and least <= int(text) <= most else None

    return read


def _one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum | None]:
    return lambda text: kind(text) if text in set(kind) else None


def _true_or_false(true: Any, false: Any) -> Callable[[str], Any]:
    return {"true": true, "false": false}.get


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
    return length if length is not None and timedelta() < length <= THROTTLE_MAX else None


def _interval(text: str) -> timedelta | None:
    """As Go writes them, too: 500ms, 5s, 1m30s."""
    length = read_duration(text, is_fine=True)
    return length if length is not None and POLL_MIN <= length <= POLL_MAX else None


def _host(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        is_name = len(text) <= 253 and re.fullmatch(r"(?!-)[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*", text)
        return text.lower() if is_name else None


def _user(text: str) -> str | None:
    return text if len(text) <= 500 and text.isprintable() else None


def _password(text: str) -> str | None:
    """Bytes that are no UTF-8 come as surrogates."""
    is_one_line = len(text.encode(errors="surrogatepass")) <= PASSWORD_BYTES_MAX and not set(text) & set("\0\r\n")
    return text if is_one_line and not any("\ud800" <= char <= "\udfff" for char in text) else None


def _name_of_sender(text: str) -> str | None:
    return text if len(text) <= 200 and text.isprintable() else None


def _installation(text: str) -> str | None:
    return text.strip() if text.strip() and len(text) <= 80 and text.isprintable() else None


def _account(text: str) -> str | None:
    return text if is_name(text) else None


def _milliseconds(text: str) -> timedelta | None:
    number = _number(1, THROTTLE_MAX // timedelta(milliseconds=1))(text)
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


def _pool(text: str) -> str | None:
    return text if is_pool(text) else None


def _public_url(text: str) -> str | None:
    """Without the slash at its end, so that pages can be put after it."""
    matched = re.fullmatch(r"https?://([\w-]+(\.[\w-]+)*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[\w./~-]*)?", text)
    return text.rstrip("/") if matched and len(text) <= 500 else None


WEIGHTS_RULE = f"four numbers above 0 and up to {WEIGHT_MAX:g}, for HIGH, NORMAL, LOW and THROTTLED, with commas"
DURATION_RULE = "a duration such as 90m, 24h or 1d, 30d at most"
THRESHOLD_RULE = "a whole number, 0..100"
PLANS_RULE = "names of 1..100 characters, with commas"
POLL_RULE = "a duration such as 500ms, 5s or 1m30s, 100ms..10m"
HOST_RULE = "the name of a host, or an IP address"
PORT_RULE = "a port, 1..65535"
TLS_RULE = "implicit, starttls, offered or none"
USER_RULE = "1..500 characters on one line"
PASSWORD_RULE = f"one line of 1..{PASSWORD_BYTES_MAX} bytes in UTF-8"
ADDRESS_RULE = "one e-mail address in ASCII"
NAME_RULE = "1..200 characters on one line"
BATCH_RULE = "a whole number, 1..1000"

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
        help="A PostgreSQL you run yourself, used instead of the embedded one. Needed where `fairpost[local]` is not installed.",
        read=_postgres_url,
        show=without_password,
    ),
    Setting(
        name="regions",
        default=None,
        rule="eu=postgresql://…,us=postgresql://…, or a TOML file with [regions]; names of a-z, 0-9 and -, 31 at most, none of them home, each with a URL of its own",
        help="The regions and the database of each. Without it there is one, `main`: the database of `FAIRPOST_DATABASE_URL`.",
        read=_regions,
        show=hidden,
    ),
    Setting(
        name="region",
        default=None,
        rule="a name of a-z, 0-9 and -, 31 at most, that is one of the regions",
        help="The region whose mail every command works on. Needed where `FAIRPOST_REGIONS` is set.",
        read=_region,
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
    Setting(
        name="fair_queue",
        default="on",
        rule="on, off or a percentage such as 50%",
        help="Whether the fair queue serves all workspaces, none, or this share of them. The others are served by arrival.",
        read=_share_of_workspaces,
        aliases=(Alias("SMTP_FAIR_QUEUE_ENABLED", "true or false", _true_or_false(100, 0)),),
    ),
    Setting(
        name="priority",
        default="weights",
        rule="weights or lanes",
        help="What a tier is worth: a weight for each sender, or a share of the capacity for all in it together.",
        read=_one_of(Priority),
    ),
    Setting(
        name="tier_weights",
        default="2,1,0.5,0.1",
        rule=WEIGHTS_RULE,
        help="The weight of a sender in each tier.",
        read=_weights,
        aliases=(Alias("SMTP_PRIORITY_MULTIPLIERS", WEIGHTS_RULE, _weights),),
    ),
    Setting(
        name="lane_shares",
        default="40,40,15,5",
        rule="four whole numbers from 1 on that make 100, for HIGH, NORMAL, LOW and THROTTLED, with commas",
        help="The percentage of the capacity that each tier has as a lane.",
        read=_shares,
    ),
    Setting(
        name="abuse_detection",
        default="enforce",
        rule="off, observe or enforce",
        help="Whether senders are scored, and whether throttles count. With observe nobody is stopped, and you see who would be.",
        read=_one_of(AbuseMode),
        aliases=(
            Alias("SMTP_ABUSE_DETECTION_ENABLED", "true or false", _true_or_false(AbuseMode.ENFORCE, AbuseMode.OFF)),
        ),
    ),
    Setting(
        name="abuse_threshold",
        default="50",
        rule=THRESHOLD_RULE,
        help="The abuse score above which a sender is throttled.",
        read=_number(0, 100),
        aliases=(Alias("SMTP_ABUSE_THRESHOLD", THRESHOLD_RULE, _number(0, 100)),),
    ),
    Setting(
        name="throttle_max",
        default="24h",
        rule=DURATION_RULE,
        help="The longest throttle.",
        read=_duration,
        aliases=(Alias("SMTP_MAX_THROTTLE_DURATION", "milliseconds, 1..2592000000", _milliseconds),),
    ),
    Setting(
        name="max_queue",
        default="1000000",
        rule=f"a whole number, 1..{NUMBER_MAX}",
        help="How many queued e-mails are a full queue. Its health is measured by it; nothing is refused.",
        read=_number(1, NUMBER_MAX),
    ),
    Setting(
        name="user_daily_max",
        default="300",
        rule=f"a whole number, 0..{NUMBER_MAX}",
        help="How many e-mails a user may submit over SMTP or HTTP in 24 hours; 0: any number.",
        read=_number(0, NUMBER_MAX),
    ),
    Setting(
        name="user_waiting_max",
        default="10000",
        rule=f"a whole number, 0..{NUMBER_MAX}",
        help="How many e-mails of a user may wait; 0: any number.",
        read=_number(0, NUMBER_MAX),
    ),
    Setting(
        name="workspace_daily_max",
        default=None,
        rule=f"a whole number, 0..{NUMBER_MAX}",
        help="How many e-mails all users of a workspace together may submit over SMTP or HTTP in 24 hours; 0: any number. "
        f"Where it is not set, {USERS_OF_A_WORKSPACE} times FAIRPOST_USER_DAILY_MAX.",
        read=_number(0, NUMBER_MAX),
    ),
    Setting(
        name="paid_plans",
        default="team,enhanced_protection",
        rule=PLANS_RULE,
        help="The plans whose senders are in the tier HIGH.",
        read=_plans,
    ),
    Setting(
        name="free_plans",
        default="free",
        rule=PLANS_RULE,
        help="The plans whose senders are in the tier LOW.",
        read=_plans,
    ),
    Setting(
        name="operators",
        default=None,
        rule="e-mail addresses in ASCII, with commas",
        help="Who is told by e-mail when a sender is throttled.",
        read=_addresses,
        absent=(),
    ),
    Setting(
        name="allowed_networks",
        default=None,
        rule="networks such as 10.1.0.0/16 or fd00:1::/32, with commas",
        help="Where the servers of workspaces' accounts may be, beside the public internet.",
        read=_networks,
        absent=(),
    ),
    Setting(
        name="allowed_ports",
        default="465,587,2525",
        rule="ports, 1..65535, with commas",
        help="The ports that the servers of workspaces' accounts may have.",
        read=_ports,
    ),
    Setting(
        name="service_pool",
        default="default",
        rule="the name of a pool, 1..100 characters and no @ at its beginning",
        help="The accounts that send the service's own e-mails: sign-in codes, invitations and notices.",
        read=_pool,
    ),
    Setting(
        name="name",
        default="Fairpost",
        rule="1..80 characters on one line",
        help="What this installation is called in its own e-mails: sign-in codes and invitations. A `portal.toml` of yours goes before it.",
        read=_installation,
    ),
    Setting(
        name="public_url",
        default="http://127.0.0.1:8080",
        rule="a URL that begins with https:// or http://, without ? and #",
        help="Where people reach this Fairpost with a browser: links in e-mails begin with it.",
        read=_public_url,
    ),
    Setting(
        name="trusted_proxies",
        default=None,
        rule="networks such as 10.1.0.0/16 or 192.0.2.7/32, with commas",
        help="Proxies before `fairpost api` whose word counts on who asks (X-Forwarded-For, X-Forwarded-Proto).",
        read=_networks,
        absent=(),
    ),
    Setting(
        name="client_connections_max",
        default="300",
        rule="a whole number, 1..1000",
        help="Most connections that one network address (of IPv6, a /64) may have to a process of `fairpost api`; behind a trusted proxy, most requests at once.",
        read=_number(1, 1000),
    ),
    Setting(
        name="client_heads_max",
        default="100",
        rule="a whole number, 1..1000",
        help="Of these, most that have not sent a whole request head yet.",
        read=_number(1, 1000),
    ),
    Setting(
        name="retention_days",
        default=None,
        rule=f"a whole number, 1..{DAYS_MAX}",
        help="How many days history is kept, at least. Where it is not set, it is kept for good.",
        read=_number(1, DAYS_MAX),
    ),
    Setting(
        name="patience_urgent",
        default="24h",
        rule=DURATION_RULE,
        help="How long urgent mail that only one account may send waits while that account is suspended. Then it fails.",
        read=_duration,
    ),
    Setting(
        name="patience_bulk",
        default="7d",
        rule=DURATION_RULE,
        help="The same for bulk mail, follow-ups of sequences among it.",
        read=_duration,
    ),
    Setting(
        name="engine",
        default="on",
        rule="on or off",
        help="Whether `fairpost work` and `fairpost up` send. With off, `up` runs everything else, and `work` only waits to be ended.",
        read={"on": True, "off": False}.get,
        aliases=(Alias("EMAIL_WORKER_ENABLED", "true or false", _true_or_false(True, False)),),
    ),
    Setting(
        name="poll_interval",
        default="1s",
        rule=POLL_RULE,
        help="How long at most from one look of an engine to the next, for work that it is not told about. It looks every two seconds anyway.",
        read=_interval,
        aliases=(Alias("EMAIL_WORKER_POLL_INTERVAL", POLL_RULE, _interval),),
    ),
    Setting(
        name="log_format",
        default=None,
        rule="text or json",
        help="How long-running commands write their log. Where it is not set: for people on a terminal, text elsewhere.",
        read=_one_of(LogFormat),
    ),
    Setting(
        name="smtp_host",
        default=None,
        rule=HOST_RULE,
        help="The server of an account that engines make by themselves, from this and the settings below.",
        read=_host,
        aliases=(Alias("SMTP_HOST", HOST_RULE, _host),),
    ),
    Setting(
        name="smtp_port",
        default=None,
        rule=PORT_RULE,
        help="Its port. Where it is not set: 465 with implicit TLS, 587 with starttls or a user, else 25.",
        read=_number(1, 65_535),
        aliases=(Alias("SMTP_PORT", PORT_RULE, _number(1, 65_535)),),
    ),
    Setting(
        name="smtp_tls",
        default=None,
        rule=TLS_RULE,
        help="How its connections are encrypted. Where it is not set: implicit on port 465, starttls with a user, else offered: where the server can.",
        read=_one_of(Security),
    ),
    Setting(
        name="smtp_user",
        default=None,
        rule=USER_RULE,
        help="As whom it logs in. Where it is not set, it does not.",
        read=_user,
        aliases=(Alias("SMTP_USER", USER_RULE, _user), Alias("SMTP_USERNAME", USER_RULE, _user)),
    ),
    Setting(
        name="smtp_password",
        default=None,
        rule=PASSWORD_RULE,
        help="The password of that user. It is sealed with the master key before it is stored.",
        read=_password,
        show=_hidden,
        aliases=(Alias("SMTP_PASSWORD", PASSWORD_RULE, _password),),
    ),
    Setting(
        name="smtp_from_address",
        default=None,
        rule=ADDRESS_RULE,
        help="The address that it sends from, where an e-mail names none.",
        read=_address,
        aliases=(Alias("SMTP_FROM_ADDRESS", ADDRESS_RULE, _address),),
    ),
    Setting(
        name="smtp_from_name",
        default=None,
        rule=NAME_RULE,
        help="The name that is shown beside that address.",
        read=_name_of_sender,
        aliases=(Alias("SMTP_FROM_NAME", NAME_RULE, _name_of_sender),),
    ),
    Setting(
        name="smtp_batch_size",
        default=None,
        rule=BATCH_RULE,
        help="Most e-mails that it claims at once. Where it is not set: 50, or what `fairpost account set` says.",
        read=_number(1, 1000),
        aliases=(Alias("EMAIL_WORKER_BATCH_SIZE", BATCH_RULE, _number(1, 1000)),),
    ),
    Setting(
        name="smtp_account",
        default="env",
        rule="1..100 letters, digits and ._-, beginning with a letter or digit",
        help="What that account is called.",
        read=_account,
    ),
)


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """All settings, or a SettingsError that names key, rule and value. An empty variable counts as not set."""
    file = read_settings_file(environ)
    values = {setting.name: _value(setting, find(setting, environ, file)) for setting in SETTINGS}
    settings = Settings(**values, home_database_url=values["database_url"])
    return settings.at(settings.region) if settings.region else settings


def find(setting: Setting, environ: Mapping[str, str], file: SettingsFile) -> Found:
    """The environment goes before the file, and the file before the default."""
    if text := environ.get(setting.variable):
        return Found(text, setting, "environment", setting.variable)
    for alias in setting.aliases:
        if text := environ.get(alias.variable):
            return Found(text, alias, alias.variable, alias.variable)
    if setting.name in file.texts:
        return Found(file.texts[setting.name], setting, f"file {file.path}", f"{file.path}: {setting.name}")
    return Found(setting.default, setting, "default", setting.variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """`value` has no secret in it; None: nothing is set."""

    variable: str
    value: str | None
    origin: str
    rule: str
    help: str
    is_secret: bool


def shown_settings(environ: Mapping[str, str] = os.environ) -> list[ShownSetting]:
    """Every setting as a process that starts now has it, and where it comes from. Raises SettingsError."""
    read_settings(environ)
    file = read_settings_file(environ)
    return [_shown(setting, find(setting, environ, file)) for setting in SETTINGS]


def _shown(setting: Setting, found: Found) -> ShownSetting:
    return ShownSetting(
        variable=setting.variable,
        value=None if found.text is None else setting.show(found.text),
        origin=found.origin,
        rule=setting.rule,
        help=setting.help,
        is_secret=setting.show is _hidden,
    )


def _value(setting: Setting, found: Found) -> Any:
    if found.text is None:
        return setting.absent
    value = found.by.read(found.text)
    if value is None:
        raise SettingsError(f"{found.name} must be {found.by.rule}, got {setting.show(found.text)}")
    return value


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────


def read_settings_file(environ: Mapping[str, str] = os.environ) -> SettingsFile:
    """What FAIRPOST_CONFIG names, checked whole: also what the environment overrules must be right."""
    if not environ.get(FILE_VARIABLE):
        return SettingsFile()
    path = Path(os.path.expanduser(environ[FILE_VARIABLE])).absolute()
    by_name = {setting.name: setting for setting in SETTINGS}
    texts = {}
    for key, value in _toml(path).items():
        if key not in by_name:
            raise SettingsError(f"{path}: there is no setting {key}{_hint(key, value)}")
        if value in ("", []):
            raise SettingsError(f"{path}: {key} is empty; leave it out where nothing is to be set")
        text = _text(value)
        if text is None:
            raise SettingsError(f"{path}: {key} must be {by_name[key].rule}, got {_kind(value)}")
        texts[key] = text
    file = SettingsFile(path, texts)
    for name in texts:
        _value(by_name[name], find(by_name[name], {}, file))
    return file


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise SettingsError(f"{path} has more than {FILE_BYTES_MAX} bytes, too many for a file of settings")
        return tomllib.loads(content.decode(), parse_float=str)  # a number as it was written
    except OSError as error:
        raise SettingsError(f"{FILE_VARIABLE} names {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not TOML: it is not in UTF-8") from None
    except (ValueError, RecursionError) as error:  # endless numbers and nests among them
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _hint(key: str, value: object) -> str:
    if isinstance(value, dict):
        return ": settings stand at the top, under no heading"
    near = get_close_matches(key.lower().removeprefix("fairpost_"), [setting.name for setting in SETTINGS], n=1)
    return f"; did you mean {near[0]}?" if near else "; docs/settings.md has them all"


def _text(value: object) -> str | None:
    """As the environment would have it: a list is its parts with commas. None where there is no such text."""
    match value:
        case bool():
            return str(value).lower()
        case int() if value.bit_length() < 64:
            return str(value)
        case str():
            return value
        case list():
            parts = [_text(part) for part in value if isinstance(part, str | int) and not isinstance(part, bool)]
            texts = [part for part in parts if part and "," not in part]
            return ",".join(texts) if len(texts) == len(value) else None
        case _:
            return None


def _kind(value: object) -> str:
    match value:
        case dict():
            return "a table"
        case list():
            return "a list with more in it than numbers, and texts without commas"
        case int():
            return "a number beyond 64 bits"
        case _:
            return "a date or time"
