"""People for the tests of pages, and two ways to sign in: like a person, and directly."""

import re
from dataclasses import dataclass

from playwright.async_api import Page, expect

from fairpost.api.access import SESSION_COOKIE
from fairpost.auth import passwords
from fairpost.model.auth import Person, Role
from fairpost.store import auth as rows
from fairpost.store.store import Store
from tests.api.signed_in import session_of

PASSWORD = "four words that fit"

_hashes: list[str] = []  # of the only password, computed once, because hashing is slow by design


@dataclass(frozen=True)
class Someone:
    person: Person
    password: str = PASSWORD

    @property
    def address(self) -> str:
        return self.person.address

    @property
    def workspace(self) -> str | None:
        return self.person.workspace


async def add_admin(store: Store, address: str = "ann@example.com", *, name: str = "Ann Lee") -> Someone:
    """Adds a person who runs the service."""
    return await _add(store, None, address, name, Role.ADMIN)


async def add_member(
    store: Store,
    workspace: str = "acme",
    address: str = "bob@example.com",
    *,
    name: str = "Bob Ray",
    role: Role = Role.MANAGER,
) -> Someone:
    """Adds a member of an existing workspace: `await api.workspace("acme")`."""
    return await _add(store, workspace, address, name, role)


async def _add(store: Store, workspace: str | None, address: str, name: str, role: Role) -> Someone:
    if not _hashes:
        _hashes.append(await passwords.hashed(PASSWORD))
    person = await rows.add_invited(store, workspace=workspace, address=address, name=name, role=role, now=None)
    assert person is not None
    await rows.set_password(store, person.id, _hashes[0])
    return Someone(person)


async def sign_in(page: Page, store: Store, someone: Someone) -> None:
    """Signs in like a person: address and password, then the code from the e-mail. Ends at /."""
    await page.goto("/sign-in")
    await enter_password(page, someone)
    await page.get_by_label("Code").fill(await code_for(store, someone.address))
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/")


async def enter_password(
    page: Page, someone: Someone, password: str | None = None, *, is_right: bool | None = None
) -> None:
    """Submits the form at /sign-in. If the input is right, the page asks for a code."""
    await page.get_by_label("E-mail address").fill(someone.address)
    await page.get_by_label("Password").fill(password or someone.password)
    await page.get_by_role("button", name="Continue").click()
    if password in (None, someone.password) if is_right is None else is_right:
        await expect(page.get_by_label("Code")).to_be_visible()


async def code_for(store: Store, address: str) -> str:
    """Returns the six digits in the newest e-mail to this person."""
    text = await store.value(
        """SELECT c.text_body FROM fairpost.queue q JOIN fairpost.contents c ON c.id = q.content_id
           WHERE q.recipients -> 0 ->> 'address' = $1 ORDER BY q.id DESC LIMIT 1""",
        address,
    )
    (code,) = re.findall(r"^ +(\d{6})$", text, re.MULTILINE)
    return str(code)


async def signed_in(page: Page, store: Store, someone: Someone) -> None:
    """Signs in directly, with a session in the database. For tests of what comes after signing in."""
    cookie = {
        "name": SESSION_COOKIE,
        "value": await session_of(store, someone.person, agent="Chromium"),
        "domain": "127.0.0.1",
        "path": "/",
    }
    await page.context.add_cookies([{**cookie, "httpOnly": True, "sameSite": "Strict"}])  # type: ignore[typeddict-item]
