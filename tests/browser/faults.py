"""A browser's complaints while a test uses pages. Each is a fault, unless the test expected it."""

import re
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Request, WebError

OURS = "127.0.0.1"
TOLD_BY_CONSOLE = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.effectiveDirective} forbids ${event.blockedURI}, line ${event.lineNumber} of ${event.sourceFile}`));
"""
LEFT_BEHIND = "net::ERR_ABORTED"  # the page was left before the response arrived


class Faults:
    """Console errors, uncaught exceptions, policy violations, failed requests, and requests to other hosts."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._allowed: list[re.Pattern[str]] = []

    async def watch(self, context: BrowserContext) -> None:
        context.on("console", self._said)
        context.on("weberror", self._thrown)
        context.on("requestfailed", self._failed)
        context.on("request", self._asked)
        await context.add_init_script(TOLD_BY_CONSOLE)

    def allow(self, pattern: str) -> None:
        """Expects such a fault, before or after it occurs."""
        self._allowed.append(re.compile(pattern))

    def allow_status(self, status: int, path: str) -> None:
        """Chromium logs an error to the console for every response of 400 and above."""
        self.allow(rf"^console: .*status of {status} .*{re.escape(path)}$")

    @property
    def unexpected(self) -> list[str]:
        return [fault for fault in self.seen if not any(each.search(fault) for each in self._allowed)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.seen.append(f"console: {message.text} at {message.location['url']}")

    def _thrown(self, error: WebError) -> None:
        self.seen.append(f"exception: {error.error}")

    def _failed(self, request: Request) -> None:
        if request.failure != LEFT_BEHIND:
            self.seen.append(f"request: {request.failure} at {request.url}")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != OURS:
            self.seen.append(f"request: to another host, {request.url}")
