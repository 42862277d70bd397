"""What a check-up looks at: the machine, the server, the schema, and what is at work in it. Facts only; checkup.py judges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairpost.model.rights import MissingRight, RightKind
from fairpost.policy.facts import Facts
from fairpost.policy.restored import Sound, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    what: str
    path: str
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`home_mode` None: there is no home yet. `key_trouble`: the master key is there and cannot be used."""

    home: str
    home_mode: int | None
    disks: Sequence[Disk] = ()
    redirect_all: str | None = None
    key_from: str | None = None
    key_trouble: str | None = None
    settings_file: str | None = None
    settings_file_mode: int | None = None
    settings_file_has_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdback:
    """Something that keeps vacuum, or the log, from letting go. `age_s` None where its age is not known."""

    what: str
    then: str
    age_s: float | None = None
    kept_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """`is_pooled`: something stands between us and PostgreSQL. `sees_sessions`: also those of other roles. `is_standby`: it only
    repeats what another server does. `resets`: what to type, or to do, to have the default of a setting again."""

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
    """`role` is the one that this login works as."""

    role: str
    pending: Sequence[str] = ()
    trouble: str | None = None
    is_readable: bool = True
    missing: Sequence[MissingRight] = ()

    @property
    def is_usable(self) -> bool:
        """By engine and commands. Requests may lack something yet."""
        is_fit = self.is_readable and not self.pending and not self.trouble
        return is_fit and all(right.kind is RightKind.TENANT for right in self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The account that the variables of this process give. `trouble`: why that cannot be told."""

    account: str
    is_there: bool = False
    is_theirs: bool = False  # else people look after it
    differs: str | None = None  # what is not yet as they say
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What is known when the schema can be read."""

    facts: Facts
    standing: Standing = field(default_factory=Sound)
    sees_identity: bool = True
    unopenable: Sequence[str] = ()  # accounts whose password is sealed with a key that is not here
    environment: Environment | None = None  # None: it gives no account
    shut_out: Sequence[str] = ()  # logins of applications that lack the rights to enqueue
    borrowers: Sequence[str] = ()  # workspaces that send through the pool of the service's own e-mails
    service_pool: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What could not be read is None; `unreachable` says why there is no server."""

    machine: Machine
    server: Server | None = None
    unreachable: str | None = None
    schema: Schema | None = None
    engine: Engine | None = None
