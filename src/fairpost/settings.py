"""Every setting, described once: its type, kind, default and help. Read from the environment and a file, and checked once.

A new setting is a field of Settings; docs/settings.md and deploy/fairpost.toml follow, or their tests fail. How texts are read is in
`setting_kinds.py`. What belongs to one account, workspace or e-mail is data, and lives in the database.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Self

from fairpost import setting_kinds as kinds
from fairpost.model.errors import NotFound, SettingsError
from fairpost.model.sender import AbuseMode, Priority, Tier
from fairpost.model.transport import Security
from fairpost.regions.directory import MAIN, Directory
from fairpost.setting_kinds import Kind
from fairpost.vault.keys import Key

NUMBER_MAX = 1_000_000_000
COUNT_MAX = 2**31 - 1  # an integer of the database
USERS_OF_A_WORKSPACE = 100  # inventing more of them lets nobody send more
FILE_VARIABLE = "FAIRPOST_CONFIG"
FILE_BYTES_MAX = 100_000  # with every setting explained, it has a few KB
DAYS_MAX = 36_500


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class RequestLog(StrEnum):
    ALL = "all"
    API = "api"
    FAILED = "failed"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`also`: other names of its variable, each with a kind of its own; the first that is set counts, where its own variable is not."""

    name: str = ""
    kind: Kind
    default: str | None
    help: str
    also: Mapping[str, Kind]
    absent: Any = None  # the value where nothing is set and there is no default

    @property
    def variable(self) -> str:
        return f"FAIRPOST_{self.name.upper()}"


def setting(
    kind: Kind, default: str | None, help_: str, *, also: Mapping[str, Kind] | tuple[str, ...] = (), absent: Any = None
) -> Any:
    """A field of Settings. `also`: names alone are of the same kind."""
    names = also if isinstance(also, Mapping) else dict.fromkeys(also, kind)
    described = Setting(kind=kind, default=default, help=help_, also=names, absent=absent)
    return field(metadata={"setting": described}, repr=not kind.is_secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path = setting(
        kinds.DIRECTORY,
        "~/.fairpost",
        "Where Fairpost keeps its files, among them the data of the embedded PostgreSQL.",
    )
    database_url: str | None = setting(
        kinds.POSTGRES_URL,
        None,
        "A PostgreSQL you run yourself, used instead of the embedded one. Needed where `fairpost[local]` is not installed.",
    )  # of the region, where one is chosen; None: the embedded one
    regions: Directory | None = setting(
        kinds.REGIONS,
        None,
        "The regions and the database of each. Without it there is one, `main`: the database of `FAIRPOST_DATABASE_URL`.",
    )
    region: str | None = setting(
        kinds.REGION, None, "The region whose mail every command works on. Needed where `FAIRPOST_REGIONS` is set."
    )
    workspace: str = setting(
        kinds.WORKSPACE,
        "default",
        "The workspace of `fairpost email send` and `fairpost suppress` where none is given.",
    )
    secret_key: Key | None = setting(
        kinds.KEY,
        None,
        "The master key that seals the accounts' passwords, used instead of `secret.key` in `FAIRPOST_HOME`.",
    )
    secret_key_old: Key | None = setting(
        kinds.KEY,
        None,
        "The master key before, which still opens what it sealed, until `fairpost secrets rotate` is done.",
    )
    redirect_all: str | None = setting(
        kinds.ADDRESS, None, "For staging: every e-mail goes to this address, and none to its recipients."
    )
    fair_queue: int = setting(
        kinds.PERCENTAGE,
        "on",
        "Whether the fair queue serves all workspaces, none, or this share of them. The others are served by arrival.",
        also={"SMTP_FAIR_QUEUE_ENABLED": kinds.true_or_false(100, 0)},
    )  # percent of the workspaces
    priority: Priority = setting(
        kinds.one_of(Priority),
        "weights",
        "What a tier is worth: a weight for each sender, or a share of the capacity for all in it together.",
    )
    tier_weights: Mapping[Tier, float] = setting(
        kinds.WEIGHTS, "2,1,0.5,0.1", "The weight of a sender in each tier.", also=("SMTP_PRIORITY_MULTIPLIERS",)
    )
    lane_shares: Mapping[Tier, int] = setting(
        kinds.SHARES, "40,40,15,5", "The percentage of the capacity that each tier has as a lane."
    )
    abuse_detection: AbuseMode = setting(
        kinds.one_of(AbuseMode),
        "enforce",
        "Whether senders are scored, and whether throttles count. With observe nobody is stopped, and you see who would be.",
        also={"SMTP_ABUSE_DETECTION_ENABLED": kinds.true_or_false(AbuseMode.ENFORCE, AbuseMode.OFF)},
    )
    abuse_threshold: int = setting(
        kinds.whole(0, 100), "50", "The abuse score above which a sender is throttled.", also=("SMTP_ABUSE_THRESHOLD",)
    )
    throttle_max: timedelta = setting(
        kinds.DURATION, "24h", "The longest throttle.", also={"SMTP_MAX_THROTTLE_DURATION": kinds.MILLISECONDS}
    )
    max_queue: int = setting(
        kinds.whole(1, NUMBER_MAX),
        "1000000",
        "How many queued e-mails are a full queue. Its health is measured by it; nothing is refused.",
    )
    user_daily_max: int = setting(
        kinds.whole(0, NUMBER_MAX),
        "300",
        "How many e-mails a user may submit over SMTP or HTTP in 24 hours; 0: any number.",
    )
    user_waiting_max: int = setting(
        kinds.whole(0, NUMBER_MAX), "10000", "How many e-mails of a user may wait; 0: any number."
    )
    workspace_daily_max: int | None = setting(
        kinds.whole(0, NUMBER_MAX),
        None,
        "How many e-mails all users of a workspace together may submit over SMTP or HTTP in 24 hours; 0: any number. "
        f"Where it is not set, {USERS_OF_A_WORKSPACE} times FAIRPOST_USER_DAILY_MAX.",
    )
    paid_plans: frozenset[str] = setting(
        kinds.PLANS, "team,enhanced_protection", "The plans whose senders are in the tier HIGH."
    )
    free_plans: frozenset[str] = setting(kinds.PLANS, "free", "The plans whose senders are in the tier LOW.")
    operators: tuple[str, ...] = setting(
        kinds.ADDRESSES, None, "Who is told by e-mail when a sender is throttled.", absent=()
    )
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = setting(
        kinds.NETWORKS, None, "Where the servers of workspaces' accounts may be, beside the public internet.", absent=()
    )
    allowed_ports: frozenset[int] = setting(
        kinds.PORTS, "465,587,2525", "The ports that the servers of workspaces' accounts may have."
    )
    service_pool: str = setting(
        kinds.POOL,
        "default",
        "The accounts that send the service's own e-mails: sign-in codes, invitations and notices.",
    )
    name: str = setting(
        kinds.INSTALLATION,
        "Fairpost",
        "What this installation is called in its own e-mails: sign-in codes and invitations. A `portal.toml` of yours goes before it.",
    )
    public_url: str = setting(
        kinds.PUBLIC_URL,
        "http://127.0.0.1:8080",
        "Where people reach this Fairpost with a browser: links in e-mails begin with it.",
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = setting(
        kinds.NETWORKS,
        None,
        "Proxies before `fairpost api` whose word counts on who asks (X-Forwarded-For, X-Forwarded-Proto).",
        absent=(),
    )
    client_connections_max: int = setting(
        kinds.whole(1, 1000),
        "300",
        "Most connections that one network address (of IPv6, a /64) may have to a process of `fairpost api`; behind a trusted proxy, most requests at once.",
    )
    client_heads_max: int = setting(
        kinds.whole(1, 1000), "100", "Of these, most that have not sent a whole request head yet."
    )
    retention_days: int | None = setting(
        kinds.whole(1, DAYS_MAX),
        None,
        "How many days history is kept, at least. Where it is not set, it is kept for good.",
    )
    patience_urgent: timedelta = setting(
        kinds.DURATION,
        "24h",
        "How long urgent mail that only one account may send waits while that account is suspended. Then it fails.",
    )
    patience_bulk: timedelta = setting(
        kinds.DURATION, "7d", "The same for bulk mail, follow-ups of sequences among it."
    )
    engine: bool = setting(
        kinds.ON_OFF,
        "on",
        "Whether `fairpost work` and `fairpost up` send. With off, `up` runs everything else, and `work` only waits to be ended.",
        also={"EMAIL_WORKER_ENABLED": kinds.true_or_false(True, False)},
    )  # False: nothing is sent from here
    poll_interval: timedelta = setting(
        kinds.INTERVAL,
        "1s",
        "How long at most from one look of an engine to the next, for work that it is not told about. It looks every two seconds anyway.",
        also=("EMAIL_WORKER_POLL_INTERVAL",),
    )
    log_format: LogFormat | None = setting(
        kinds.one_of(LogFormat),
        None,
        "How long-running commands write their log. Where it is not set: for people on a terminal, text elsewhere.",
    )
    log_requests: RequestLog = setting(
        kinds.one_of(RequestLog),
        "api",
        "Which HTTP requests `fairpost api` logs: with api, all but reads of pages and health checks that went well; with failed, those with a status of 400 and more.",
    )
    smtp_host: str | None = setting(
        kinds.HOST,
        None,
        "The server of an account that engines make by themselves, from this and the settings below.",
        also=("SMTP_HOST",),
    )
    smtp_port: int | None = setting(
        kinds.PORT,
        None,
        "Its port. Where it is not set: 465 with implicit TLS, 587 with starttls or a user, else 25.",
        also=("SMTP_PORT",),
    )
    smtp_tls: Security | None = setting(
        kinds.one_of(Security),
        None,
        "How its connections are encrypted. Where it is not set: implicit on port 465, starttls with a user, else offered: where the server can.",
    )
    smtp_user: str | None = setting(
        kinds.line(500),
        None,
        "As whom it logs in. Where it is not set, it does not.",
        also=("SMTP_USER", "SMTP_USERNAME"),
    )
    smtp_password: str | None = setting(
        kinds.PASSWORD,
        None,
        "The password of that user. It is sealed with the master key before it is stored.",
        also=("SMTP_PASSWORD",),
    )
    smtp_from_address: str | None = setting(
        kinds.ADDRESS, None, "The address that it sends from, where an e-mail names none.", also=("SMTP_FROM_ADDRESS",)
    )
    smtp_from_name: str | None = setting(
        kinds.line(200), None, "The name that is shown beside that address.", also=("SMTP_FROM_NAME",)
    )
    smtp_batch_size: int | None = setting(
        kinds.whole(1, 1000),
        None,
        "Most e-mails that it claims at once. Where it is not set: 50, or what `fairpost account set` says.",
        also=("EMAIL_WORKER_BATCH_SIZE",),
    )
    smtp_account: str = setting(kinds.ACCOUNT, "env", "What that account is called.")
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


SETTINGS = tuple(
    replace(each.metadata["setting"], name=each.name) for each in fields(Settings) if "setting" in each.metadata
)


@dataclass(frozen=True, slots=True)
class Found:
    """The text of a setting (None: nothing is set), what it must be, and where it comes from.

    `origin` is `environment`, the name of the alias, `file` with its path, or `default`. `name` is what an error calls it.
    """

    text: str | None
    kind: Kind
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
            each.kind.show(self.texts[each.name]) != self.texts[each.name]
            for each in SETTINGS
            if each.name in self.texts
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
        return Found(text, setting.kind, "environment", setting.variable)
    for name, kind in setting.also.items():
        if text := environ.get(name):
            return Found(text, kind, name, name)
    if setting.name in file.texts:
        return Found(file.texts[setting.name], setting.kind, f"file {file.path}", f"{file.path}: {setting.name}")
    return Found(setting.default, setting.kind, "default", setting.variable)


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
        value=None if found.text is None else setting.kind.show(found.text),
        origin=found.origin,
        rule=setting.kind.rule,
        help=setting.help,
        is_secret=setting.kind.is_secret,
    )


def _value(setting: Setting, found: Found) -> Any:
    if found.text is None:
        return setting.absent
    value = found.kind.read(found.text)
    if value is None:
        raise SettingsError(f"{found.name} must be {found.kind.rule}, got {setting.kind.show(found.text)}")
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
            raise SettingsError(f"{path}: {key} must be {by_name[key].kind.rule}, got {_kind(value)}")
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
