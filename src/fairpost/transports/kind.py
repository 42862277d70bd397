"""What a kind of transport is to the rest of the program: one class, in the kind's folder, that registry.py names.

What it describes is data; what it does imports what it needs when it is asked, because commands that only print help read this too.
Much has an answer here that follows from the settings alone; a kind that has grown ways of its own gives another.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from fairpost.model.report import Channel
from fairpost.model.transport import ServerSettings, TransportSettings
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

S = TypeVar("S", bound=ServerSettings)


class Given(Protocol):
    """What the options of a command say of a server."""

    @property
    def secret(self) -> str | None:
        """To be sealed. None: none was given."""

    def server(self, name: str, old: TransportSettings | None, *, mailbox: str) -> ServerSettings | None:
        """As it is to be stored. Its `secret` is what is sealed already, where that stays. None: all of it stays.
        `name`, `mailbox`: of the account. Raises FairpostError where something is missing."""


class TransportKind(ABC, Generic[S]):
    settings: type[S]
    title: ClassVar[str]
    way: ClassVar[str]  # how an account sends: by SMTP
    channel: ClassVar[Channel] = Channel.SMTP  # whose codes its replies have
    steps: ClassVar[tuple[str, ...]]  # that `verify` takes
    asked: ClassVar[tuple[Setting, ...]]  # what a request can say of it
    preset: ClassVar[str | None] = None  # whose limits it begins with; None: those of the address's provider
    presets: ClassVar[Mapping[str, str]] = {}  # and whose instead, by the address's provider
    keeps_secret: ClassVar[bool] = True  # a request that changes nothing of it may leave out its secret

    @property
    def name(self) -> str:
        return self.settings.kind

    @property
    def shown(self) -> tuple[Setting, ...]:
        """What an answer says of it."""
        plain = [
            Setting(name=each.name, type=each.type, is_needed=each.is_needed)
            for each in self.asked
            if not each.is_secret
        ]
        return (*plain, HAS_SECRET)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """On the page."""
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

    # ── stored ────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, stored: Mapping[str, Any]) -> S:
        """Raises KeyError, TypeError or ValueError for what is none."""
        return self.settings(**stored)

    # ── used ──────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def transport(
        self, account: "Account", settings: S, secret: str | None, *, guard: "NetworkGuard | None"
    ) -> "ClosableTransport":
        """`secret`: opened. `guard`: the account is not the operator's own. Raises VaultError where a secret is missing."""

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
        """Every step that was taken, in order, without sending anything; the last one is the one that failed, if any did.
        `name`, `address`: of the account. `is_brief`: a request waits for it."""

    def advice(self, failed: "Tried", settings: S, name: str) -> str:
        """What to type next after this step failed."""
        return failed.advice

    def preload(self) -> None:
        """Imports what `transport` needs: an engine forks its workers after that."""

    # ── of others than the operator ───────────────────────────────────────────────────────────────────────

    @abstractmethod
    def own_endpoint(self, settings: S) -> str | None:
        """The setting that leads away from the provider's public address, or into the operator's files. None: none does."""

    def public(self, settings: S) -> S:
        """The same, where no secret is believed that names a place to go to."""
        return settings

    async def refusal(self, settings: S, guard: "NetworkGuard") -> WrongSetting | None:
        """Why the guard does not let it go there."""
        return None

    # ── shown ─────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def in_short(self, settings: S) -> str:
        """For a table of accounts."""

    def in_full(self, settings: S) -> str:
        return self.in_short(settings)

    def in_words(self, settings: S) -> str:
        """On a page."""
        return self.title

    def in_audit(self, settings: S) -> str:
        return self.name

    def secret_in_short(self, settings: S) -> str | None:
        """What is sealed, if it is no password."""
        return None

    def facts(self, settings: S) -> dict[str, Any]:
        """For JSON of commands."""
        return {"kind": self.name, **self.values(settings)}

    def values(self, settings: S) -> dict[str, Any]:
        """Of what is `shown`."""
        own = {each.name: getattr(settings, each.name) for each in self.shown if each is not HAS_SECRET}
        return {**own, HAS_SECRET.name: settings.secret is not None}

    # ── told ──────────────────────────────────────────────────────────────────────────────────────────────

    def options(self) -> type:
        """A dataclass, whose fields are options of `fairpost account add` and `set`."""
        from fairpost.transports.options import described_options

        return described_options(self)

    def given(self, name: str, options: Any, *, is_new: bool) -> Given | None:
        """None: nothing of it. `name`: the account's; `is_new`: it has no server yet. Raises FairpostError where options do not
        go together."""
        from fairpost.transports.options import described_given

        return described_given(self, options)

    def requested(
        self, old: TransportSettings | None, given: Mapping[str, Any], *, mailbox: str
    ) -> tuple[S, str | None]:
        """As it is to be stored, and the secret to seal. Its own `secret` is what is sealed already, where that stays. Raises
        WrongSetting.

        Here: of at most one secret, which stays as long as everything else does."""
        for each in self.asked:
            if each.is_needed and not each.is_secret and given.get(each.name) is None:
                raise WrongSetting(each.name, "is needed")
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
            raise WrongSetting(secret.name, "is needed: none is sealed for these settings")
        return server, None


def written(settings: ServerSettings) -> dict[str, Any]:
    """As it is stored: without what is None."""
    return {"kind": settings.kind, **_without_none(asdict(settings))}


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _without_none(value) if isinstance(value, dict) else value for name, value in given.items()}
    return {name: value for name, value in plain.items() if value is not None}
