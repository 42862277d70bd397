"""The interface between a kind of transport and the rest of the program. Each kind has one class in its own folder,
listed in registry.py. A kind's descriptions are data. Its methods import other modules only when they are called,
because commands that only print help also load this module. Many methods have a default that is derived from the
settings and can be overridden by a kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from fairpost.model.report import Channel
from fairpost.model.transport import ServerSettings, Tls, TransportSettings
from fairpost.transports.described import (
    HAS_SECRET,
    Choice,
    Entry,
    Setting,
    SignIn,
    WrongSetting,
    one_line,
    require_fit,
)

if TYPE_CHECKING:
    from fairpost.model.account import Account
    from fairpost.smtp.guard import NetworkGuard
    from fairpost.transports.port import ClosableTransport, Tried
    from fairpost.transports.reading import MailboxReader

S = TypeVar("S", bound=ServerSettings)


class Given(Protocol):
    """The server described by a command's options."""

    @property
    def secret(self) -> str | None:
        """The secret to seal, or None if none was given."""

    def server(self, name: str, old: TransportSettings | None, *, mailbox: str) -> ServerSettings | None:
        """Returns the settings to store, or None to keep all settings. Raises FairpostError if something is missing.

        If the sealed secret is kept, the returned settings contain it as `secret`. `name` and `mailbox` belong to the
        account.
        """


class TransportKind(ABC, Generic[S]):
    settings: type[S]
    title: ClassVar[str]
    way: ClassVar[str]  # how an account sends, for example "by SMTP"
    channel: ClassVar[Channel] = Channel.SMTP  # the provider whose reply codes the server uses
    steps: ClassVar[tuple[str, ...]]  # the steps of `verify`
    asked: ClassVar[tuple[Setting, ...]]  # the settings that a request may contain
    preset: ClassVar[str | None] = None  # the initial preset, or None for the preset of the address's provider
    presets: ClassVar[Mapping[str, str]] = {}  # presets that replace `preset`, by the address's provider
    read_option: ClassVar[str] = "--help"  # option of `fairpost account set` that enables reading the mailbox
    keeps_secret: ClassVar[bool] = True  # whether a request that changes no setting may omit the secret

    @property
    def name(self) -> str:
        return self.settings.kind

    @property
    def shown(self) -> tuple[Setting, ...]:
        """The settings in a response."""
        plain = [
            Setting(name=each.name, type=each.type, is_needed=each.is_needed)
            for each in self.asked
            if not each.is_secret
        ]
        return (*plain, HAS_SECRET)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """This kind's choices on the page for adding an account."""
        entries = [
            Entry(
                setting=each.name,
                label=each.name.replace("_", " ").capitalize(),
                hint=each.about,
                is_needed=each.is_needed,
            )
            for each in self.asked
        ]
        return (
            Choice(
                name=self.name,
                title=self.title,
                sign_ins=(SignIn(name=self.name, title=self.title, entries=tuple(entries)),),
            ),
        )

    # ── storage ───────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, stored: Mapping[str, Any]) -> S:
        """Parses stored settings. Raises KeyError, TypeError or ValueError if they are invalid."""
        return self.settings(**stored)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def transport(
        self, account: "Account", settings: S, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "ClosableTransport":
        """Returns the transport. `secret` has already been opened. Raises VaultError if a secret is missing.

        `guard` is set if the account is not the operator's own.
        """

    @abstractmethod
    async def verify(
        self,
        settings: S,
        secret: str | None,
        *,
        name: str,
        address: str,
        guard: "NetworkGuard | None",
        is_brief: bool = False,
    ) -> "list[Tried]":
        """Tests the server without sending anything. Returns every step taken, in order. If a step failed, it is the
        last one.

        `name` and `address` belong to the account. `is_brief` means that an HTTP request is waiting for the result.
        """

    def advice(self, failed: "Tried", settings: S, name: str) -> str:
        """Returns the command that may fix the failed step."""
        return failed.advice

    def announced(self, settings: S, host: str | None) -> S:
        """Returns the settings. If the kind announces a name and the settings do not contain one, this machine's name
        is added.
        """
        return settings

    def preload(self) -> None:
        """Imports the modules that `transport` needs, before an engine forks its workers."""

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────

    def reads(self, settings: S) -> bool:
        """Whether the account's mailbox should be read."""
        return False

    def bounce_domain(self, settings: S) -> str | None:
        """The envelope sender's domain, if reports are returned to a Fairpost address in that domain."""
        return None

    def reader(
        self, account: "Account", settings: S, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "MailboxReader":
        """Returns the mailbox reader of an account for which `reads` is true. The arguments are the same as for
        `transport`.
        """
        raise NotImplementedError(self.name)

    # ── signing ───────────────────────────────────────────────────────────────────────────────────────────────

    def provider_signs(self, settings: S) -> bool:
        """Returns whether the provider signs its mail with DKIM. If not, the transport has a `signer`."""
        return True

    def sending_host(self, settings: S) -> str | None:
        """Returns a server that sends the mail to the internet and must therefore be allowed by SPF, or None if no such
        server is known. Any other host name of the same organization would also work.
        """
        return None

    async def tls(self, settings: S, *, guard: "NetworkGuard | None") -> Tls | None:
        """Returns the TLS support that the server offers, without signing in.

        Returns None if connections to the server always use TLS or the server is on this machine.
        """
        return None

    # ── accounts that are not the operator's ──────────────────────────────────────────────────────────────────

    @abstractmethod
    def own_endpoint(self, settings: S) -> str | None:
        """Returns the name of the setting that replaces the provider's public address or refers to the operator's
        files, or None.
        """

    def public(self, settings: S) -> S:
        """Returns the settings, changed so that any server named in the secret is ignored."""
        return settings

    async def refusal(self, settings: S, guard: "NetworkGuard") -> WrongSetting | None:
        """Returns the reason why the guard does not allow this server, or None if the guard allows it."""
        return None

    # ── display ───────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def in_short(self, settings: S) -> str:
        """Describes the server for the accounts table."""

    def in_full(self, settings: S) -> str:
        return self.in_short(settings)

    def in_words(self, settings: S) -> str:
        """Describes the server for a page."""
        return self.title

    def in_audit(self, settings: S) -> str:
        return self.name

    def secret_in_short(self, settings: S) -> str | None:
        """Describes what kind of secret is sealed, unless it is a password."""
        return None

    def facts(self, settings: S) -> dict[str, Any]:
        """Returns the settings for the JSON output of commands."""
        return {"kind": self.name, **self.values(settings)}

    def values(self, settings: S) -> dict[str, Any]:
        """Returns the values of the settings in `shown`."""
        own = {each.name: getattr(settings, each.name) for each in self.shown if each is not HAS_SECRET}
        return {**own, HAS_SECRET.name: settings.secret is not None}

    # ── options and requests ──────────────────────────────────────────────────────────────────────────────────

    def options(self) -> type:
        """Returns a dataclass whose fields are options of `fairpost account add` and `set`."""
        from fairpost.transports.options import described_options

        return described_options(self)

    def given(self, name: str, options: Any, *, is_new: bool) -> Given | None:
        """Returns the server described by the options, or None if no option of this kind was given.

        `name` is the account name. `is_new` means that the account has no server yet. Raises FairpostError if options contradict
        each other.
        """
        from fairpost.transports.options import described_given

        return described_given(self, options)

    def requested(
        self, old: TransportSettings | None, given: Mapping[str, Any], *, mailbox: str
    ) -> tuple[S, str | None]:
        """Returns the settings to store and the secret to seal. Raises WrongSetting.

        If the sealed secret is kept, the returned settings contain it as `secret`. This default implementation supports
        at most one secret, which is kept as long as no other setting changes.
        """
        for each in self.asked:
            if each.is_needed and not each.is_secret and given.get(each.name) is None:
                raise WrongSetting(each.name, "is required")
            require_fit(each, given.get(each.name))
        plain = {each.name: given.get(each.name, each.default) for each in self.asked if not each.is_secret}
        server = self.settings(**{name: value for name, value in plain.items() if value is not None})
        secret = next((each for each in self.asked if each.is_secret), None)
        if secret is None:
            return server, None
        if given.get(secret.name) is not None:
            return server, one_line(given[secret.name], secret.name)
        if isinstance(old, self.settings) and replace(old, secret=None, origin=None) == server:
            return replace(server, secret=old.secret), None
        if secret.is_needed:
            raise WrongSetting(secret.name, "is required: none is stored for these settings")
        return server, None


def written(settings: ServerSettings) -> dict[str, Any]:
    """Returns the settings in their stored form, without None values."""
    return {"kind": settings.kind, **_without_none(asdict(settings))}


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _without_none(value) if isinstance(value, dict) else value for name, value in given.items()}
    return {name: value for name, value in plain.items() if value is not None}
