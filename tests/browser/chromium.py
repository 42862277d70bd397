"""A real Chromium: the system's, or the one unpacked by `make peers`. Playwright never downloads one."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from playwright.async_api import Browser, BrowserContext, async_playwright, expect

from tests.peers import fetch

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WAIT_S_MAX = 120  # for anything that a page shows: only guards against waiting forever

FLAGS = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # pages can only reach this machine
    "--disable-gpu",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)


class ChromiumMissing(Exception):
    """No browser can run here. The message is the reason for skipping."""


@dataclass(frozen=True)
class Screen:
    name: str
    width: int
    height: int
    scheme: Literal["light", "dark"] = "light"
    is_phone: bool = False

    def __str__(self) -> str:
        return self.name


DESKTOP = Screen("desktop", 1280, 800)
DESKTOP_DARK = Screen("desktop-dark", 1280, 800, "dark")
PHONE = Screen("phone", 390, 844, is_phone=True)
PHONE_DARK = Screen("phone-dark", 390, 844, "dark", is_phone=True)
SCREENS = (DESKTOP, DESKTOP_DARK, PHONE, PHONE_DARK)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Raises ChromiumMissing."""
    program, environment = _program()
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox does not work as root
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            args=[*FLAGS, *as_root],
            ignore_default_args=["--disable-back-forward-cache"],  # real browsers restore pages from this cache
            env={**os.environ, **environment},
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def context(browser: Browser, screen: Screen, base_url: str) -> AsyncIterator[BrowserContext]:
    """A fresh browser with this screen size and without animations."""
    made = await browser.new_context(
        base_url=base_url,
        viewport={"width": screen.width, "height": screen.height},
        color_scheme=screen.scheme,
        is_mobile=screen.is_phone,
        has_touch=screen.is_phone,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    made.set_default_timeout(WAIT_S_MAX * 1000)
    expect.set_options(timeout=WAIT_S_MAX * 1000)
    try:
        yield made
    finally:
        await made.close()


def _program() -> tuple[str, dict[str, str]]:
    for name in NAMES:
        if found := shutil.which(name):
            return found, {}
    unpacked = fetch.find("chromium")
    if unpacked is None:
        raise ChromiumMissing(f"there is no {', '.join(NAMES)} here; install one, or try: make peers")
    return str(unpacked.root / unpacked.programs[0]), unpacked.environment()
