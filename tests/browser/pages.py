"""Helpers for tests of all pages."""

from playwright.async_api import Locator, Page, expect

GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')) }"


async def go(page: Page, path: str, workspace: str | None = None) -> Locator:
    """Opens another page within the application, without reloading. Returns its content."""
    await page.evaluate(GO, f"{path}?workspace={workspace}" if workspace else path)
    shown = page.locator(f'[data-key="page {path} {workspace or "null"}"]')
    await expect(shown).to_be_visible()
    return shown


async def fits(page: Page) -> bool:
    """Checks that nothing needs horizontal scrolling."""
    return bool(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
