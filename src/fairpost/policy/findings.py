"""Facts about the machine, server, schema and engines, for the check-up. checkup.py judges them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairpost.model.rights import MissingRight, RightKind
from fairpost.policy.domain_health import Finding
from fairpost.policy.facts import Facts
from fairpost.policy.restored import Lineage, Sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    what: str
    path: str
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """This machine.

    `home_mode` is None if there is no home yet. `key_trouble` explains why an existing master key cannot be used.
    """

    home: str
    home_mode: int | None
    disks: Sequence[Disk] = ()
    redirect_all: str | None = None
    host: str | None = None  # the name sent to mail servers; None: the address is sent instead
    key_from: str | None = None
    key_trouble: str | None = None
    settings_file: str | None = None
    settings_file_mode: int | None = None
    settings_file_has_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdback:
    """Something that keeps vacuum from cleaning up, or old log files from being removed. `age_s` is None if unknown."""

    what: str
    then: str
    age_s: float | None = None
    kept_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The database server.

    `is_pooled` means that connections pass through a pooler. `sees_sessions` means that sessions of other roles are
    visible. `is_standby` means that the server only replays another server's changes. `resets` maps a setting to the
    command or action that restores its default.
    """

    version: str
    major: int
    settings: Mapping[str, str]
    skew_s: float
    is_pooled: bool = False
    sees_sessions: bool = True
    is_standby: bool = False
    resets: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "UTF8"
    transactions: Sequence[Holdback] = ()
    prepared: Sequence[Holdback] = ()
    slots: Sequence[Holdback] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The schema. `role` is the role that is active after login."""

    role: str
    pending: Sequence[str] = ()
    trouble: str | None = None
    is_readable: bool = True
    missing: Sequence[MissingRight] = ()

    @property
    def is_usable(self) -> bool:
        """Whether the engine and commands can use the schema. HTTP requests may still lack privileges."""
        is_fit = self.is_readable and not self.pending and not self.trouble
        return is_fit and all(right.kind is RightKind.TENANT for right in self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The account defined by this process's environment variables. `trouble` explains why the account cannot be
    determined.
    """

    account: str
    is_there: bool = False
    is_theirs: bool = False  # otherwise, the account is managed manually
    differs: str | None = None  # parts of the account that do not match the variables yet
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDomain:
    """A sending domain, as found by its last check. `is_own` means that the domain belongs to the operator's own
    workspace.
    """

    workspace: str
    domain: str
    findings: Sequence[Finding]
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The state of the engines, if the schema can be read."""

    facts: Facts
    lineage: Lineage = field(default_factory=Sound)
    sees_identity: bool = True
    unopenable: Sequence[str] = ()  # accounts whose password is sealed with a missing key
    environment: Environment | None = None  # None if the environment does not define an account
    shut_out: Sequence[str] = ()  # applications' logins that lack the privileges to enqueue
    borrowers: Sequence[str] = ()  # workspaces that send through the pool for the service's own e-mails
    service_pool: str = "default"
    domains: Sequence[CheckedDomain] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings. Parts that could not be read are None. `unreachable` explains why the server is unreachable."""

    machine: Machine
    server: Server | None = None
    unreachable: str | None = None
    schema: Schema | None = None
    engine: Engine | None = None
