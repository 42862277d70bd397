"""Pages of a real service in a real browser.

All of this folder runs in one event loop and one process, with one Chromium and one service: starting the browser takes
a second, a browser context 50 ms.
"""

import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page

from fairpost.api.topics import TOPICS
from fairpost.settings import read_settings
from tests.api.conftest import Api
from tests.browser.chromium import DESKTOP, PHONE_DARK, SCREENS, ChromiumMissing, Screen, chromium
from tests.browser.chromium import context as context_on
from tests.browser.faults import Faults
from tests.browser.service import House, opened
from tests.conftest import Databases

HERE = Path(__file__).parent
LIVE_EVERY_S = 0.25

on_every_screen = pytest.mark.parametrize("screen", SCREENS, ids=str)
on_two_screens = pytest.mark.parametrize("screen", [DESKTOP, PHONE_DARK], ids=str)  # the most different ones


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: "pytest.FixtureDef[Any]") -> Iterator[None]:
    """Async fixtures of these tests, wherever they are defined, run in the browser's loop: awaited in another, they
    would wait forever."""
    function: Any = fixturedef.func
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(function, "_loop_scope", "session", raising=False)
        return (yield)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    try:
        async with chromium() as running:
            yield running
    except ChromiumMissing as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def house(databases: Databases) -> AsyncIterator[House]:
    with databases.new() as url:
        async with opened(url) as house:
            yield house


@pytest.fixture
def url(house: House) -> str:
    """Yields the settings of the database behind `api`, for an engine that uses it."""
    return house.database_url


@pytest.fixture
async def api(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """A service on an empty database. Live topics are refreshed more often than usual, because tests wait for them."""
    often = {name: replace(watched, every_s=LIVE_EVERY_S) for name, watched in TOPICS.items()}
    monkeypatch.setattr("fairpost.api.routes.live.TOPICS", often)
    settings = read_settings({"FAIRPOST_HOME": str(tmp_path), "FAIRPOST_DATABASE_URL": house.database_url})
    async with house.empty(settings) as api:
        yield api


@pytest.fixture
def screen() -> Screen:
    """The screen of `page`. To use others, parametrize: @on_every_screen, or pytest.mark.parametrize("screen",
    [PHONE])."""
    return DESKTOP


@pytest.fixture
def faults() -> Iterator[Faults]:
    """The browser's complaints. Empty at the end, except for those the test allows."""
    faults = Faults()
    yield faults
    assert faults.unexpected == []


@pytest.fixture
async def context(browser: Browser, api: Api, screen: Screen, faults: Faults) -> AsyncIterator[BrowserContext]:
    async with context_on(browser, screen, api.url) as context:
        await faults.watch(context)
        yield context


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    """A blank page. `await page.goto("/sign-in")` opens a page of `api`."""
    return await context.new_page()
