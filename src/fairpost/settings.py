"""Every setting, described once: its type, kind, default and help.

Settings are read from the environment and a file, and checked once. To add a setting, add a field to Settings. Update
docs/settings.md and deploy/fairpost.toml as well, or their tests will fail. Parsers are in `setting_kinds.py`. The
settings of a single account, workspace or e-mail are data, stored in the database.
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
from fairpost.model.campaign import ReplyStops
from fairpost.model.errors import NotFound, SettingsError
from fairpost.model.sender import AbuseMode, Priority, Tier
from fairpost.model.transport import Security
from fairpost.regions.directory import MAIN, Directory
from fairpost.setting_kinds import Kind
from fairpost.vault.keys import Key

NUMBER_MAX = 1_000_000_000
COUNT_MAX = 2**31 - 1  # the maximum value of an `integer` in PostgreSQL
USERS_OF_A_WORKSPACE = 100  # default limit of a workspace, counted in users, so that inventing users does not help
FILE_VARIABLE = "FAIRPOST_CONFIG"
FILE_BYTES_MAX = 100_000  # even with every setting explained, a file is only a few KB
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
    """A setting. `also` maps alternative names of the setting's variable to their kinds. The first of these names that
    is set is used, unless the setting's own variable is set as well.
    """

    name: str = ""
    kind: Kind
    default: str | None
    help: str
    also: Mapping[str, Kind]
    absent: Any = None  # the value if nothing is set and there is no default

    @property
    def variable(self) -> str:
        return f"FAIRPOST_{self.name.upper()}"


def setting(
    kind: Kind, default: str | None, help_: str, *, also: Mapping[str, Kind] | tuple[str, ...] = (), absent: Any = None
) -> Any:
    """Returns a field of Settings. Names in `also` without a kind inherit the setting's kind."""
    names = also if isinstance(also, Mapping) else dict.fromkeys(also, kind)
    described = Setting(kind=kind, default=default, help=help_, also=names, absent=absent)
    return field(metadata={"setting": described}, repr=not kind.is_secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path = setting(
        kinds.DIRECTORY,
        "~/.fairpost",
        "Directory for Fairpost's files, including the embedded PostgreSQL's data.",
    )
    database_url: str | None = setting(
        kinds.POSTGRES_URL,
        None,
        "URL of your own PostgreSQL, which is used instead of the embedded one. Required without `fairpost[local]`.",
    )  # the URL of the region's database if a region is chosen; None for the embedded one
    regions: Directory | None = setting(
        kinds.REGIONS,
        None,
        "Regions and their databases. By default there is one region, `main`, with the database in `FAIRPOST_DATABASE_URL`.",
    )
    region: str | None = setting(kinds.REGION, None, "Region that commands work on. Required with `FAIRPOST_REGIONS`.")
    workspace: str = setting(
        kinds.WORKSPACE,
        "default",
        "Default workspace for commands.",
    )
    secret_key: Key | None = setting(
        kinds.KEY,
        None,
        "Master key that encrypts account passwords, instead of `secret.key` in `FAIRPOST_HOME`.",
    )
    secret_key_old: Key | None = setting(
        kinds.KEY,
        None,
        "Previous master key, needed until `fairpost secrets rotate` has finished.",
    )
    redirect_all: str | None = setting(
        kinds.ADDRESS, None, "For staging: send every e-mail to this address instead of its recipients."
    )
    fair_queue: int = setting(
        kinds.PERCENTAGE,
        "on",
        "Share of workspaces served by the fair queue: all, none, or a percentage. The others are served in order of arrival.",
        also={"SMTP_FAIR_QUEUE_ENABLED": kinds.true_or_false(100, 0)},
    )  # percentage of the workspaces
    priority: Priority = setting(
        kinds.one_of(Priority),
        "weights",
        "How tiers are weighted: a weight for each sender (`weights`), or a share of the capacity for the whole tier (`lanes`).",
    )
    tier_weights: Mapping[Tier, float] = setting(
        kinds.WEIGHTS, "2,1,0.5,0.1", "Weight of a sender in each tier.", also=("SMTP_PRIORITY_MULTIPLIERS",)
    )
    lane_shares: Mapping[Tier, int] = setting(kinds.SHARES, "40,40,15,5", "Percentage of the capacity for each tier.")
    abuse_detection: AbuseMode = setting(
        kinds.one_of(AbuseMode),
        "enforce",
        "Abuse detection. With `observe`, throttles are only reported. With `off`, senders are not scored.",
        also={"SMTP_ABUSE_DETECTION_ENABLED": kinds.true_or_false(AbuseMode.ENFORCE, AbuseMode.OFF)},
    )
    abuse_threshold: int = setting(
        kinds.whole(0, 100), "50", "Abuse score above which a sender is throttled.", also=("SMTP_ABUSE_THRESHOLD",)
    )
    throttle_max: timedelta = setting(
        kinds.DURATION,
        "24h",
        "Maximum duration of a throttle.",
        also={"SMTP_MAX_THROTTLE_DURATION": kinds.MILLISECONDS},
    )
    max_queue: int = setting(
        kinds.whole(1, NUMBER_MAX),
        "1000000",
        "Queue length that is considered full when queue health is computed. E-mails beyond this length are still accepted.",
    )
    user_daily_max: int = setting(
        kinds.whole(0, NUMBER_MAX),
        "300",
        "Maximum number of e-mails that a user may submit over SMTP or HTTP in 24 hours. 0 means no limit.",
    )
    user_waiting_max: int = setting(
        kinds.whole(0, NUMBER_MAX), "10000", "Maximum number of queued e-mails per user. 0 means no limit."
    )
    workspace_daily_max: int | None = setting(
        kinds.whole(0, NUMBER_MAX),
        None,
        "Maximum number of e-mails that all users in a workspace together may submit over SMTP or HTTP in 24 hours. 0 means no limit. "
        f"Default: {USERS_OF_A_WORKSPACE} times FAIRPOST_USER_DAILY_MAX.",
    )
    paid_plans: frozenset[str] = setting(
        kinds.PLANS, "team,enhanced_protection", "Plans whose senders are in tier HIGH."
    )
    free_plans: frozenset[str] = setting(kinds.PLANS, "free", "Plans whose senders are in tier LOW.")
    operators: tuple[str, ...] = setting(
        kinds.ADDRESSES, None, "Addresses that are notified when a sender is throttled.", absent=()
    )
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = setting(
        kinds.NETWORKS,
        None,
        "Networks that workspaces' accounts may connect to, in addition to the public internet.",
        absent=(),
    )
    allowed_ports: frozenset[int] = setting(
        kinds.PORTS, "465,587,2525", "Ports that workspaces' accounts may connect to."
    )
    service_pool: str = setting(
        kinds.POOL,
        "default",
        "Pool that sends the service's own e-mails: sign-in codes, invitations and notices.",
    )
    name: str = setting(
        kinds.INSTALLATION,
        "Fairpost",
        "This installation's name in its own e-mails, such as sign-in codes and invitations. Your `portal.toml` overrides it.",
    )
    public_url: str = setting(
        kinds.PUBLIC_URL,
        "http://127.0.0.1:8080",
        "Public URL of this installation, used for links in e-mails.",
    )
    ehlo_name: str | None = setting(
        kinds.HOST_NAME,
        None,
        "Host name sent to mail servers in EHLO, unless the account's URL has `hello`. Use the name in the PTR record of your IP address. Default: this machine's full name or, if it has none, its IP address.",
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = setting(
        kinds.NETWORKS,
        None,
        "Proxies in front of `fairpost api` whose X-Forwarded-For and X-Forwarded-Proto headers are trusted.",
        absent=(),
    )
    client_connections_max: int = setting(
        kinds.whole(1, 1000),
        "300",
        "Maximum number of connections from one address (for IPv6, one /64 network) to a process of `fairpost api`. Behind a trusted proxy: maximum number of concurrent requests.",
    )
    client_heads_max: int = setting(
        kinds.whole(1, 1000),
        "100",
        "Maximum number of connections from one address that have not yet sent complete request headers.",
    )
    retention_days: int | None = setting(
        kinds.whole(1, DAYS_MAX),
        None,
        "Minimum number of days to keep history. If not set, history is kept forever.",
    )
    events_days: int = setting(
        kinds.whole(1, DAYS_MAX), "30", "Number of days to keep events, which programs read by cursor."
    )
    patience_urgent: timedelta = setting(
        kinds.DURATION,
        "24h",
        "How long urgent mail waits while the only account that may send it is suspended. After that, the mail fails.",
    )
    patience_bulk: timedelta = setting(
        kinds.DURATION,
        "7d",
        "How long bulk mail, including follow-ups in sequences, waits while the only account that may send it is suspended.",
    )
    reply_stops: ReplyStops = setting(
        kinds.one_of(ReplyStops),
        "person",
        "Who stops receiving a campaign after a reply: only the person who replied, or everyone at the "
        "company's domain. With `company`, domains of public mailbox providers are excluded.",
    )
    engine: bool = setting(
        kinds.ON_OFF,
        "on",
        "Whether `fairpost work` and `fairpost up` send mail. With `off`, `up` runs everything else, and `work` waits until it is stopped.",
        also={"EMAIL_WORKER_ENABLED": kinds.true_or_false(True, False)},
    )  # False: nothing is sent from here
    poll_interval: timedelta = setting(
        kinds.INTERVAL,
        "1s",
        "Maximum time between two polls by an engine. Polls find work for which there was no notification. An engine polls at least every two seconds.",
        also=("EMAIL_WORKER_POLL_INTERVAL",),
    )
    log_format: LogFormat | None = setting(
        kinds.one_of(LogFormat),
        None,
        "Log format of long-running commands. Default: readable lines on a terminal, otherwise `text`.",
    )
    log_requests: RequestLog = setting(
        kinds.one_of(RequestLog),
        "api",
        "HTTP requests that `fairpost api` logs. `api` means all requests except successful page loads and health checks. `failed` means requests with a response status of 400 or above.",
    )
    smtp_host: str | None = setting(
        kinds.HOST,
        None,
        "Mail server of an account that engines create from this and the following settings.",
        also=("SMTP_HOST",),
    )
    smtp_port: int | None = setting(
        kinds.PORT,
        None,
        "The server's port. Default: 465 with implicit TLS, 587 with `starttls` or a user, otherwise 25.",
        also=("SMTP_PORT",),
    )
    smtp_tls: Security | None = setting(
        kinds.one_of(Security),
        None,
        "How connections to the server are encrypted. Default: `implicit` on port 465, `starttls` with a user, otherwise `offered` (encrypted if the server supports it).",
    )
    smtp_user: str | None = setting(
        kinds.line(500),
        None,
        "User to log in with. Default: no login.",
        also=("SMTP_USER", "SMTP_USERNAME"),
    )
    smtp_password: str | None = setting(
        kinds.PASSWORD,
        None,
        "Password of the user in `FAIRPOST_SMTP_USER`. It is encrypted with the master key before it is stored.",
        also=("SMTP_PASSWORD",),
    )
    smtp_from_address: str | None = setting(
        kinds.ADDRESS, None, "Sender address for e-mails that do not specify one.", also=("SMTP_FROM_ADDRESS",)
    )
    smtp_from_name: str | None = setting(
        kinds.line(200), None, "Display name for the address in `FAIRPOST_SMTP_FROM_ADDRESS`.", also=("SMTP_FROM_NAME",)
    )
    smtp_batch_size: int | None = setting(
        kinds.whole(1, 1000),
        None,
        "Maximum number of e-mails per claim. Default: 50, or the value set with `fairpost account set`.",
        also=("EMAIL_WORKER_BATCH_SIZE",),
    )
    smtp_account: str = setting(kinds.ACCOUNT, "env", "The account's name.")
    home_database_url: str | None = None  # the value of FAIRPOST_DATABASE_URL, whichever region is chosen

    @property
    def region_name(self) -> str:
        return self.region or MAIN

    @property
    def daily_max_of_workspace(self) -> int:
        """The daily limit of a workspace; 0 means no limit."""
        given = self.workspace_daily_max
        return min(COUNT_MAX, USERS_OF_A_WORKSPACE * self.user_daily_max) if given is None else given

    def at(self, region: str) -> Self:
        """Returns the settings for this region's database."""
        if self.regions is None:
            if region != MAIN:
                raise SettingsError(f"There is no region {region!r}, only {MAIN}. Add regions in FAIRPOST_REGIONS")
            return replace(self, region=region, database_url=self.home_database_url)
        try:
            return replace(self, region=region, database_url=self.regions.url(region))
        except NotFound as error:
            raise SettingsError(str(error)) from error

    def at_home(self) -> Self:
        """Returns the settings for the home database, which stores the region of each workspace, but no e-mails."""
        return replace(self, region=None, database_url=self.home_database_url)

    @property
    def retention(self) -> timedelta | None:
        return None if self.retention_days is None else timedelta(days=self.retention_days)

    @property
    def events_kept(self) -> timedelta:
        return timedelta(days=self.events_days)


SETTINGS = tuple(
    replace(each.metadata["setting"], name=each.name) for each in fields(Settings) if "setting" in each.metadata
)


@dataclass(frozen=True, slots=True)
class Found:
    """The text of a setting (None if nothing is set), its rule, and its source.

    `origin` is `environment`, the name of the alias, `file` with its path, or `default`. `name` is the setting's name
    in error messages.
    """

    text: str | None
    kind: Kind
    origin: str
    name: str


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings in a file. Each text must follow the rule for its setting. If `path` is None, there is no file."""

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
    """Returns all settings. Raises SettingsError with the key, rule and value. An empty variable counts as not set."""
    file = read_settings_file(environ)
    values = {setting.name: _value(setting, find(setting, environ, file)) for setting in SETTINGS}
    settings = Settings(**values, home_database_url=values["database_url"])
    return settings.at(settings.region) if settings.region else settings


def find(setting: Setting, environ: Mapping[str, str], file: SettingsFile) -> Found:
    """Finds the value of a setting. The environment takes precedence over the file, and the file over the default."""
    if text := environ.get(setting.variable):
        return Found(text, setting.kind, "environment", setting.variable)
    for name, kind in setting.also.items():
        if text := environ.get(name):
            return Found(text, kind, name, name)
    if setting.name in file.texts:
        return Found(file.texts[setting.name], setting.kind, f"file {file.path}", f"{file.path}: {setting.name}")
    return Found(setting.default, setting.kind, "default", setting.variable)


def misspelt_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns variables that are not settings but look like them, each with the setting that was probably meant."""
    known = {name for setting in SETTINGS for name in (setting.variable, *setting.also)} | {FILE_VARIABLE}
    unknown = sorted(name for name in environ if name.startswith("FAIRPOST_") and name not in known)
    near = {name: get_close_matches(name, known, n=1, cutoff=0.9) for name in unknown}
    return {name: matches[0] for name, matches in near.items() if matches}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """A setting for display. `value` contains no secret, and is None if nothing is set."""

    variable: str
    value: str | None
    origin: str
    rule: str
    help: str
    is_secret: bool


def shown_settings(environ: Mapping[str, str] = os.environ) -> list[ShownSetting]:
    """Returns every setting with the value and source that a process started now would have. Raises SettingsError."""
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
    """Returns the settings in the file named by FAIRPOST_CONFIG. Values that are overridden by the environment are also
    checked.
    """
    if not environ.get(FILE_VARIABLE):
        return SettingsFile()
    path = Path(os.path.expanduser(environ[FILE_VARIABLE])).absolute()
    by_name = {setting.name: setting for setting in SETTINGS}
    texts = {}
    for key, value in _toml(path).items():
        if key not in by_name:
            raise SettingsError(f"{path}: there is no setting {key}{_hint(key, value)}")
        if value in ("", []):
            raise SettingsError(f"{path}: {key} is empty. Omit it to use the default")
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
            raise SettingsError(f"{path} is larger than {FILE_BYTES_MAX} bytes, the maximum for a settings file")
        return tomllib.loads(content.decode(), parse_float=str)  # numbers are kept as written
    except OSError as error:
        raise SettingsError(f"{FILE_VARIABLE} is set to {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not TOML: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # also raised for very long numbers and deep nesting
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _hint(key: str, value: object) -> str:
    if isinstance(value, dict):
        return ": write settings at the top level, not in a table"
    near = get_close_matches(key.lower().removeprefix("fairpost_"), [setting.name for setting in SETTINGS], n=1)
    return f"; did you mean {near[0]}?" if near else "; see docs/settings.md"


def _text(value: object) -> str | None:
    """Returns the value as it would be written in the environment, with commas between list items.

    Returns None if it cannot be written that way.
    """
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
            return "a list that contains something other than numbers and strings without commas"
        case int():
            return "a number that does not fit in 64 bits"
        case _:
            return "a date or time"
