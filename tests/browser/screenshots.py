"""Takes the pictures in docs/screenshots/: every page on a desktop and a phone, light, and some of them dark.

    make screenshots [ARGS='campaign now']

It uses a temporary service with demonstration data. To add a picture, add a line to SHOTS.
"""

import asyncio
import io
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from math import dist
from pathlib import Path

import asyncpg
from PIL import Image
from playwright.async_api import Browser, Page

from fairpost.settings import read_settings
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from tests.api.conftest import Api, answering
from tests.browser.chromium import DESKTOP, DESKTOP_DARK, PHONE, PHONE_DARK, ChromiumMissing, Screen, chromium, context
from tests.browser.demonstration import Demonstration
from tests.browser.signing_in import Someone, add_admin, enter_password, signed_in

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
BYTES_MAX = 150_000
COLOURS, EXACT = 160, 32  # sizes of the palette, and of its exact part: frequent colours are kept
SCREENS_HIGH = 2  # a page is shown up to this many screens
HIGH_MIN = 420

ON_BOTH = (DESKTOP, PHONE)


class Stage(StrEnum):
    """The stages, in this order."""

    EMPTY = "nothing is there yet"
    AT_WORK = "mail flows; that takes two minutes"
    STOPPED = "no engine runs"
    PAUSED = "everything is paused"
    OUTSIDE = "nobody is signed in"


async def _nothing(page: Page, admin: Someone) -> None:
    pass


async def _password(page: Page, admin: Someone) -> None:
    await enter_password(page, admin)


async def _wrong_password(page: Page, admin: Someone) -> None:
    await enter_password(page, admin, "not these four words")


async def _one_path(page: Page, admin: Someone) -> None:
    await page.locator("h2").first.wait_for()
    await page.get_by_role("searchbox").fill("bulk")
    await page.locator("summary:visible").first.click()


async def _lose_the_connection(page: Page, admin: Someone) -> None:
    await page.locator(LIVE).wait_for()
    await page.locator(".figure").first.wait_for()
    await page.route("**/v1/live/**", lambda route: route.abort())
    await page.evaluate("dispatchEvent(new Event('pagehide')), document.dispatchEvent(new Event('visibilitychange'))")


@dataclass(frozen=True)
class Shot:
    name: str
    path: str  # {names} are from Demonstration.places()
    waits_for: str  # a selector that is visible when the page is ready
    does: Callable[[Page, Someone], Awaitable[None]] = _nothing  # runs before that
    screens: Sequence[Screen] = ON_BOTH
    stage: Stage = Stage.AT_WORK
    is_signed_in: bool = True


def _outside(
    name: str, path: str, waits_for: str, screen: Screen, does: Callable[[Page, Someone], Awaitable[None]] = _nothing
) -> Shot:
    return Shot(name, path, waits_for, does, (screen,), Stage.OUTSIDE, is_signed_in=False)


LIVE = ".live.is-live"
ROW = "tbody tr"
SHOP = "workspace=demo-shop"

SHOTS = (
    Shot("now-empty", "/", LIVE, stage=Stage.EMPTY),
    Shot("accounts-empty", "/accounts", LIVE, screens=(DESKTOP,), stage=Stage.EMPTY),
    Shot("campaigns-empty", "/campaigns", LIVE, screens=(PHONE,), stage=Stage.EMPTY),
    Shot("emails-empty", "/emails", ".empty", screens=(DESKTOP,), stage=Stage.EMPTY),
    Shot("inbox-empty", "/inbox", ".letter .empty", screens=(PHONE,), stage=Stage.EMPTY),
    Shot("campaigns", "/campaigns", ROW),
    Shot("campaign", f"/campaigns/summer-menu?{SHOP}", "svg", screens=(DESKTOP, DESKTOP_DARK, PHONE)),
    Shot("recipients", f"/campaigns/summer-menu/recipients?{SHOP}", ROW),
    Shot("now", "/", ".figure", screens=(DESKTOP, DESKTOP_DARK, PHONE, PHONE_DARK)),
    Shot("accounts", "/accounts", ROW),
    Shot("account", "/accounts/demo-warming", "svg"),
    Shot("fairness", "/fairness", "svg", screens=(DESKTOP, DESKTOP_DARK, PHONE)),
    Shot("emails", f"/emails?{SHOP}", ROW),
    Shot("email", f"/emails/{{retried}}?{SHOP}", ".timeline li"),
    Shot("email-in-doubt", f"/emails/{{doubt}}?{SHOP}", ".timeline li"),
    Shot("inbox", "/inbox", ".letters li"),
    Shot("inbox-mail", "/inbox/{mail}", "iframe.mail", screens=(DESKTOP, DESKTOP_DARK, PHONE)),
    Shot("inbox-checks", "/inbox/{careless}/checks", ".findings"),
    Shot("template", f"/settings/templates/summer-menu?{SHOP}", "iframe"),
    Shot("new-account", f"/settings/accounts?with=gmail-api&{SHOP}", "form[data-key^='form account']"),
    Shot("keys", f"/settings/keys?{SHOP}", ROW),
    Shot("installation", "/settings/installation", ROW),
    Shot("now-lost", "/", ".live.is-lost", _lose_the_connection),
    Shot("now-stopped", "/", ".reasons li[data-key^='engine.none']", stage=Stage.STOPPED),
    Shot("now-paused", "/", ".reasons li[data-key^='everything.paused']", stage=Stage.PAUSED),
    _outside("setup", "/setup?token=demonstration", "#form", DESKTOP),
    _outside("sign-in", "/sign-in", "#form", PHONE),
    _outside("sign-in-wrong", "/sign-in", "#wrong[data-code=wrong_credentials]", DESKTOP, _wrong_password),
    _outside("sign-in-code", "/sign-in", "[data-for=code]", PHONE_DARK, _password),
    _outside("invitation", "/invitation?token=demonstration", "#form", DESKTOP_DARK),
    _outside("reset", "/reset?token=demonstration", "#form", DESKTOP),
    _outside("api-docs", "/docs", "h2", DESKTOP),
    _outside("api-docs-path", "/docs", "pre:visible", PHONE, _one_path),
)


async def take(browser: Browser, api: Api, admin: Someone, shot: Shot, screen: Screen, path: str) -> bytes:
    async with context(browser, screen, api.url) as fresh:
        page = await fresh.new_page()
        if shot.is_signed_in:
            await signed_in(page, api.store, admin)
        await page.goto(path)
        await shot.does(page, admin)
        await page.locator(shot.waits_for).first.wait_for()
        if shot.is_signed_in:
            await _settled(page)
        await api.store.value(
            "DELETE FROM fairpost.sign_in_attempts"
        )  # a limit on sign-ins, because many people sign in here
        png = await _picture(page, screen, as_high_as="main" if shot.is_signed_in else "html")
    return await asyncio.to_thread(_small, png)


async def _picture(page: Page, screen: Screen, *, as_high_as: str) -> bytes:
    """Returns the height of the page, without content far below and without empty space at its end."""
    end = f"document.querySelector('{as_high_as}').getBoundingClientRect().bottom + scrollY"
    high = min(screen.height * SCREENS_HIGH, await page.evaluate(end))
    await page.set_viewport_size({"width": screen.width, "height": max(screen.height, int(high))})
    return await page.screenshot(clip={"x": 0, "y": 0, "width": screen.width, "height": max(HIGH_MIN, high)})


async def _settled(page: Page) -> None:
    """Waits until live data has been updated twice, and frames are as high as their content."""
    await page.wait_for_timeout(1800)


def _small(png: bytes) -> bytes:
    """With a palette, which takes a third of the bytes. Frequent colours are kept, and rare ones are approximated."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    parts = iter(picture.tobytes())
    pixels = list(zip(parts, parts, parts, strict=True))
    counted = Counter(pixels)
    flat = iter(picture.quantize(COLOURS - EXACT, Image.Quantize.MAXCOVERAGE).getpalette() or ())
    palette = [*(colour for colour, _ in counted.most_common(EXACT)), *zip(flat, flat, flat, strict=True)]
    nearest = {colour: min(range(len(palette)), key=lambda n: dist(palette[n], colour)) for colour in counted}
    small, told = Image.frombytes("P", picture.size, bytes(nearest[colour] for colour in pixels)), io.BytesIO()
    small.putpalette([part for colour in palette for part in colour])
    small.save(told, "PNG", optimize=True)
    return told.getvalue()


@asynccontextmanager
async def _watched(browser: Browser, api: Api, admin: Someone) -> AsyncIterator[None]:
    """Keeps the first page open all the time, because its charts start with the first viewer."""
    async with context(browser, DESKTOP, api.url) as other:
        page = await other.new_page()
        await signed_in(page, api.store, admin)
        await page.goto("/")
        yield


async def take_all(database_url: str, home: Path, names: list[str]) -> None:
    conn = await asyncpg.connect(database_url)
    await migrate(conn)
    await conn.close()
    settings = read_settings({"FAIRPOST_HOME": str(home), "FAIRPOST_DATABASE_URL": database_url})
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser, answering(settings) as api:
        admin = await add_admin(api.store)
        show = Demonstration(api, home, database_url)
        stages: dict[Stage, AbstractAsyncContextManager[None]] = {
            Stage.EMPTY: nullcontext(),
            Stage.AT_WORK: show.at_work(),
            Stage.STOPPED: nullcontext(),
            Stage.PAUSED: show.paused(),
            Stage.OUTSIDE: nullcontext(),
        }
        wanted = [shot for shot in SHOTS if not names or shot.name in names]
        is_still = {shot.stage for shot in wanted} <= {Stage.EMPTY, Stage.OUTSIDE}
        for stage, begun in stages.items():
            if is_still and stage not in (Stage.EMPTY, Stage.OUTSIDE):
                continue
            sys.stdout.write(f"{stage} …\n")
            async with _watched(browser, api, admin), begun:
                for shot in (each for each in wanted if each.stage is stage):
                    await _keep(browser, api, admin, shot, shot.path.format(**await show.places()))


async def _keep(browser: Browser, api: Api, admin: Someone, shot: Shot, path: str) -> None:
    for screen in shot.screens:
        png = await take(browser, api, admin, shot, screen, path)
        assert len(png) <= BYTES_MAX, f"{shot.name} on {screen} has {len(png):,} bytes"
        (FOLDER / f"{shot.name}-{screen}.png").write_bytes(png)
        sys.stdout.write(f"  {shot.name}-{screen}.png {len(png) / 1000:.0f} KB\n")
        sys.stdout.flush()


def main(names: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="fairpost-screenshots-") as scratch:
        server = EmbeddedServer(Path(scratch) / "database")
        try:
            asyncio.run(take_all(server.start(), Path(scratch), names))
        except ChromiumMissing as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            server.stop("immediate")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
