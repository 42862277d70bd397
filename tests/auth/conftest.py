"""People in a real database, with the cheapest Argon2 parameters: its cost is not tested here."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from argon2 import PasswordHasher

from fairpost.auth import membership, passwords, signing_in
from fairpost.auth.mails import ServiceMail
from fairpost.model.auth import Offered, Person, Refused, Role, SignedIn, SignInBegun
from fairpost.model.tokens import hash_of
from fairpost.portals.loading import built_in_portals
from fairpost.store import auth as rows
from fairpost.store.store import Store

T0 = datetime(2030, 1, 31, 9, 0, tzinfo=UTC)
PASSWORD = "four words that fit"
CLIENT = "192.0.2.7"


class CountingHasher(PasswordHasher):
    """The real Argon2, which counts its calls."""

    def __init__(self, *, time_cost: int = 1) -> None:
        super().__init__(time_cost=time_cost, memory_cost=8, parallelism=1)
        self.verified: list[str] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002
        self.verified.append(str(hash))
        return super().verify(hash, password)


@pytest.fixture(autouse=True)
def hasher(monkeypatch: pytest.MonkeyPatch) -> CountingHasher:
    hasher = CountingHasher()
    monkeypatch.setattr(passwords, "HASHER", hasher)
    return hasher


@pytest.fixture(scope="session")
def mail() -> ServiceMail:
    return ServiceMail(portals=built_in_portals(), pool="service", public_url="https://post.example.com")


@dataclass
class Desk:
    """The actions of people, with the usual values filled in."""

    store: Store
    mail: ServiceMail

    async def offered_to(self, token: str, *, now: datetime = T0) -> Person | None:
        """Returns the person who may choose a password with this link, while it is valid."""
        found = await rows.offered(self.store, hash_of(token), now=now)
        return found[1] if found and found[0] in ("invite", "reset") else None

    async def admin(self, address: str = "ann@example.com", name: str = "Ann Lee") -> Person:
        return await self.person(None, address, Role.ADMIN, name)

    async def person(
        self, workspace: str | None, address: str, role: Role, name: str = "", *, now: datetime = T0
    ) -> Person:
        offered = await membership.invite(
            self.store, workspace=workspace, address=address, name=name, role=role, now=now
        )
        assert isinstance(offered, Offered)
        person = await membership.accept_invitation(self.store, offered.token, PASSWORD, now=now)
        assert isinstance(person, Person)
        return person

    async def begin(
        self,
        address: str = "ann@example.com",
        password: str = PASSWORD,
        *,
        workspace: str | None = None,
        client: str = CLIENT,
        now: datetime | None = T0,
    ) -> SignInBegun | Refused:
        return await signing_in.begin_sign_in(
            self.store,
            workspace=workspace,
            address=address,
            password=password,
            client=client,
            mail=self.mail,
            now=now,
        )

    async def begun(self, *args: Any, **options: Any) -> tuple[str, str]:
        """The browser's secret, and the code from the e-mail."""
        begun = await self.begin(*args, **options)
        assert isinstance(begun, SignInBegun), begun
        return begun.browser_secret, await self.code()

    async def finish(self, secret: str, code: str, *, now: datetime | None = T0) -> SignedIn | Refused:
        return await signing_in.finish_sign_in(
            self.store, browser_secret=secret, code=code, agent="Firefox on Linux", now=now
        )

    async def signed_in(self, *args: Any, now: datetime | None = T0, **options: Any) -> SignedIn:
        secret, code = await self.begun(*args, now=now, **options)
        done = await self.finish(secret, code, now=now)
        assert isinstance(done, SignedIn), done
        return done

    async def emails(self) -> list[Any]:
        """Returns them, newest first."""
        return await self.store.fetch(
            """SELECT q.*, c.subject, c.text_body, c.html_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id
               ORDER BY q.id DESC"""
        )

    async def code(self) -> str:
        (newest, *_) = await self.emails()
        (code,) = re.findall(r"^ +(\d{6})$", newest["text_body"], re.MULTILINE)
        return str(code)


def another(code: str, by: int = 1) -> str:
    """Returns a code that is certainly wrong."""
    return f"{(int(code) + by) % 1_000_000:06}"


@pytest.fixture
def desk(store: Store, mail: ServiceMail) -> Desk:
    return Desk(store, mail)
