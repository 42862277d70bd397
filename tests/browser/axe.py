"""Checks pages for accessibility with axe-core, which is fetched from npm on first use."""

import fcntl
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

VERSION = "4.14.0"
SCRIPT = "package/axe.min.js"  # inside the archive
NPM_S_MAX = 120
GRAVE = ("serious", "critical")
# Without rules that find nothing grave (findings are as grave as their rule), and without frames, which contain no axe
# and would only be waited for.
RUN = """(grave) => {
  const mild = axe._audit.rules.filter((rule) => rule.impact && !grave.includes(rule.impact));
  const rules = Object.fromEntries(mild.map((rule) => [rule.id, { enabled: false }]));
  return axe.run({ resultTypes: ["violations"], iframes: false, rules }).then((result) => JSON.stringify(result.violations));
}"""


class AxeMissing(Exception):
    """Not available here. The message is the reason for skipping."""


async def check_accessibility(page: Page) -> None:
    """Fails on findings that axe calls serious or critical. Skips if npm or its registry cannot be reached."""
    try:
        script = _axe()
    except AxeMissing as error:
        pytest.skip(str(error))
    found = await violations(page, script)
    assert not found, f"{page.url} has barriers:\n" + "\n".join(found)


async def violations(page: Page, script: str) -> list[str]:
    """Injected by the debugger, to which the page's policy does not apply."""
    if not await page.evaluate("'axe' in globalThis"):
        await page.evaluate(script)
    found: list[dict[str, Any]] = json.loads(await page.evaluate(RUN, GRAVE))
    return [_in_words(each) for each in found if each["impact"] in GRAVE]


def _in_words(violation: dict[str, Any]) -> str:
    places = [
        f"    {' '.join(map(str, node['target']))}: {' '.join(node['failureSummary'].split())}"
        for node in violation["nodes"]
    ]
    return "\n".join([f"  {violation['impact']}: {violation['help']} ({violation['id']})", *places])


@cache
def _axe() -> str:
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fairpost-tests"
    script = home / f"axe-{VERSION}.js"
    if not script.exists():
        home.mkdir(parents=True, exist_ok=True)
        with (home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process fetches it, the others find it
            if not script.exists():
                _fetch(script)
    return script.read_text(encoding="utf-8")


def _fetch(script: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise AxeMissing("there is no npm here, which fetches axe-core")
    with tempfile.TemporaryDirectory(dir=script.parent) as scratch:
        asked = [npm, "pack", "--loglevel=error", "--fetch-retries=1", f"axe-core@{VERSION}"]
        try:
            done = subprocess.run(asked, cwd=scratch, capture_output=True, text=True, timeout=NPM_S_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise AxeMissing(f"npm did not fetch axe-core in {NPM_S_MAX} s") from None
        if done.returncode != 0:
            raise AxeMissing(
                f"npm could not fetch axe-core: {(done.stderr.strip().splitlines() or ['nothing said'])[0]}"
            )
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as packed:
            source = packed.extractfile(SCRIPT)
            assert source is not None
            part = Path(scratch) / "axe.js"
            part.write_bytes(source.read())
        part.rename(script)
