"""The pages that links lead to: nothing of others in them, and nothing of others let in."""

import re

import httpx2 as httpx
import pytest

from fairpost.api.routes.pages import CONTENTS
from tests.api.conftest import Api


@pytest.mark.parametrize("path", ["/setup?token=abc", "/invitation?token=abc", "/reset", "/sign-in", "/docs"])
async def test_a_page_is_there_and_lets_nothing_in(api: Api, path: str) -> None:
    async with httpx.AsyncClient(base_url=api.url) as client:
        page = await client.get(path)
    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "abc" not in page.text  # the token is read in the browser alone


async def test_all_that_a_page_names_is_there_and_nothing_else(api: Api) -> None:
    pages = CONTENTS["people.html"] + CONTENTS["docs.html"]
    named = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', pages.decode()))
    assert {name for name in CONTENTS if not name.endswith(".html")} == {
        name.removeprefix("/static/") for name in named
    }
    async with httpx.AsyncClient(base_url=api.url) as client:
        for path in named:
            assert (await client.get(path)).status_code == 200
        for path in ("/static/..%2fapp.py", "/static/app.py", "/static/%2e%2e%2f%2e%2e%2fsettings.py", "/static/"):
            assert (await client.get(path)).json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("name", ["people.html", "docs.html"])
def test_a_page_has_no_script_or_style_of_its_own(name: str) -> None:
    html = CONTENTS[name].decode()
    assert not re.search(r"https?://", html)  # and nothing of others
    assert not re.search(r"<script(?![^>]*\bsrc=)", html)
    assert "<style" not in html
    assert not re.search(r"\son\w+=", html)
