"""Takes the pictures in docs/screenshots/: each page on a phone and a desktop, light and dark.

    make screenshots [ARGS=sign-in]

A service of its own with demonstration data, that is gone afterwards. Another picture is another line in SHOTS.
"""

import asyncio
import io
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from PIL import Image
from playwright.async_api import Browser, Page

from fairpost.postgres.embedded import EmbeddedServer
from fairpost.postgres.migrations import migrate
from fairpost.settings import read_settings
from tests.api.conftest import Api, answering
from tests.browser.chromium import SCREENS, ChromiumMissing, Screen, chromium, context
from tests.browser.signing_in import Someone, add_admin, enter_password, signed_in

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
BYTES_MAX = 150_000
COLOURS = 128  # of a palette: a quarter of the bytes, and nobody sees it


async def _nothing(page: Page, api: Api, admin: Someone) -> None:
    pass


async def _password(page: Page, api: Api, admin: Someone) -> None:
    await enter_password(page, admin)


async def _wrong_password(page: Page, api: Api, admin: Someone) -> None:
    await enter_password(page, admin, "not these four words")


async def _one_path(page: Page, api: Api, admin: Someone) -> None:
    await page.locator("h2").first.wait_for()
    await page.get_by_role("searchbox").fill("bulk")
    await page.locator("summary:visible").first.click()


@dataclass(frozen=True)
class Shot:
    name: str
    path: str
    waits_for: str  # as a selector of what is visible when the page is ready
    does: Callable[[Page, Api, Someone], Awaitable[None]] = _nothing  # before that
    is_signed_in: bool = False


SHOTS = (
    Shot("setup", "/setup?token=demonstration", "text=Become the first admin"),
    Shot("sign-in", "/sign-in", "text=E-mail address"),
    Shot("sign-in-wrong", "/sign-in", "text=is not right", _wrong_password),
    Shot("sign-in-code", "/sign-in", "text=on its way to you", _password),
    Shot("invitation", "/invitation?token=demonstration", "text=Choose a password"),
    Shot("reset", "/reset?token=demonstration", "text=Choose another password"),
    Shot("api-docs", "/docs", "h2"),
    Shot("api-docs-path", "/docs", "pre:visible", _one_path),
)


async def demonstration(api: Api) -> Someone:
    """What the pictures show: who runs the service, and what it has to do."""
    admin = await add_admin(api.store)
    await api.workspace("acme")
    return admin


async def take(browser: Browser, api: Api, admin: Someone, shot: Shot, screen: Screen) -> bytes:
    async with context(browser, screen, api.url) as fresh:
        page = await fresh.new_page()
        if shot.is_signed_in:
            await signed_in(page, api.store, admin)
        await page.goto(shot.path)
        await shot.does(page, api, admin)
        await page.locator(shot.waits_for).first.wait_for()
        await api.store.value("DELETE FROM fairpost.sign_in_attempts")  # many come in at once today
        return _small(await page.screenshot())


def _small(png: bytes) -> bytes:
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small = io.BytesIO()
    picture.save(small, "PNG", optimize=True)
    return small.getvalue()


async def take_all(database_url: str, home: Path, names: list[str]) -> None:
    conn = await asyncpg.connect(database_url)
    await migrate(conn)
    await conn.close()
    settings = read_settings({"FAIRPOST_HOME": str(home), "FAIRPOST_DATABASE_URL": database_url})
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser, answering(settings) as api:
        admin = await demonstration(api)
        for shot in SHOTS:
            for screen in SCREENS if not names or shot.name in names else ():
                png = await take(browser, api, admin, shot, screen)
                assert len(png) <= BYTES_MAX, f"{shot.name} on {screen} has {len(png):,} bytes"
                (FOLDER / f"{shot.name}-{screen}.png").write_bytes(png)
                sys.stdout.write(f"{shot.name}-{screen}.png {len(png) / 1000:.0f} KB\n")


def main(names: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="fairpost-screenshots-") as scratch:
        server = EmbeddedServer(Path(scratch) / "database")
        try:
            asyncio.run(take_all(server.start(), Path(scratch), names))
        except ChromiumMissing as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            server.stop("immediate")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
