"""Carrier pigeons: an e-mail becomes a file in a loft."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.model.transport import ServerSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.described import Setting
from fairpost.transports.kind import TransportKind
from fairpost.transports.port import Permission, Tried


@dataclass(frozen=True, slots=True, kw_only=True)
class PigeonSettings(ServerSettings):
    kind: ClassVar[str] = "pigeon"
    loft: str

    @property
    def folder(self) -> Path:
        return Path(os.environ["LOFTS"]) / self.loft


class PigeonTransport:
    def __init__(self, settings: PigeonSettings, whistle: str | None) -> None:
        self._folder = settings.folder
        self._whistle = whistle

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        if not permission():
            return Report(reached=Reached.UNTOUCHED, error="the lease ran out")
        with (self._folder / f"{email.id}").open("a") as landed:
            landed.write(f"{self._whistle} {account.address} {email.content.subject}\n")
        return Report(reached=Reached.REPLIED, reply=Reply(250, "2.0.0 it has landed"))

    async def close(self) -> None: ...


class Pigeon(TransportKind[PigeonSettings]):
    settings = PigeonSettings
    title = "Carrier pigeons"
    way = "by pigeon"
    steps = ("loft",)
    asked = (
        Setting(name="loft", is_needed=True, pattern="[a-z]+", chars_max=20, about="Where its pigeons land."),
        Setting(name="whistle", is_needed=True, is_secret=True, about="What calls them home."),
    )

    def transport(
        self, account: Account, settings: PigeonSettings, secret: str | None, *, guard: NetworkGuard | None
    ) -> PigeonTransport:
        return PigeonTransport(settings, secret)

    async def verify(
        self,
        settings: PigeonSettings,
        secret: str | None,
        *,
        name: str,
        address: str,
        guard: NetworkGuard | None,
        is_brief: bool = False,
    ) -> list[Tried]:
        advice = f"Build it: mkdir {settings.folder}"
        return [Tried(step=Step.CONNECT, name="loft", ok=settings.folder.is_dir(), advice=advice)]

    def own_endpoint(self, settings: PigeonSettings) -> str | None:
        return None

    def in_short(self, settings: PigeonSettings) -> str:
        return f"pigeons to {settings.loft}"


KIND = Pigeon()
