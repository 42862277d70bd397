"""The pages that links lead to: they contain nothing from others, and load nothing from others."""

import hashlib
import posixpath
import re
from base64 import b64encode

import httpx2 as httpx

from fairpost.api.routes.pages import FILES, FRAMES, POLICY, SHELL
from tests.api.conftest import Api

PATHS = (
    "/setup?token=abc",
    "/invitation?token=abc",
    "/enter?token=abc",
    "/reset",
    "/sign-in",
    "/docs",
    *SHELL,
    "/campaigns/spring",
    "/settings/keys",
)


async def test_a_page_is_there_and_lets_nothing_in(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url) as client:
        for path in PATHS:
            page = await client.get(path)
            assert page.status_code == 200
            policy = page.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert page.headers["X-Frame-Options"] == "DENY"
            assert page.headers["Referrer-Policy"] == "no-referrer"
            assert "abc" not in page.text  # only the browser reads the token


NAMES = re.compile(r'''(?:src|href)="(/static/[^"]+)"|(?:from|import\()\s*"(\.[^"]+)"|"(/static/[^"]+)"''')


def _named_by(name: str) -> set[str]:
    """Returns what a file refers to: by a URL, or by importing a file next to it."""
    folder = name.rpartition("/")[0]
    found = set()
    for absolute, relative, quoted in NAMES.findall(FILES[name].content.decode()):
        path = (absolute or quoted).removeprefix("/static/") or posixpath.normpath(posixpath.join(folder, relative))
        found.add(path)
    return found


def test_all_that_a_page_names_is_there_and_nothing_else() -> None:
    reached, todo = set[str](), {"auth.html", "docs.html", "app.html"}
    while todo:
        name = todo.pop()
        reached.add(name)
        todo |= _named_by(name) - reached
    assert reached == set(FILES)


async def test_files_are_given_once_small_and_no_others(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url) as client:
        first = await client.get("/static/app.js", headers={"Accept-Encoding": "gzip"})
        assert first.content == FILES["app.js"].content
        assert first.headers["Content-Encoding"] == "gzip"
        again = await client.get("/static/app.js", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        for path in ("/static/..%2fapp.py", "/static/app.py", "/static/%2e%2e%2f%2e%2e%2fsettings.py", "/static/"):
            assert (await client.get(path)).json()["error"]["code"] == "not_found"


async def test_the_frame_for_mail_has_no_origin_and_runs_nothing_of_the_mail(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url) as client:
        for name in FRAMES:
            page = await client.get(f"/static/{name}")
            headers = page.headers
            policy = headers["Content-Security-Policy"]
            assert "sandbox allow-scripts" in policy
            assert "allow-same-origin" not in policy
            (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
            hash_ = b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"script-src 'sha256-{hash_}'; style-src" in policy  # not even another script of ours
            assert "'self'" not in policy.replace("frame-ancestors 'self'", "")
            assert headers["X-Frame-Options"] == "SAMEORIGIN"
            assert ("http:" in policy) == (
                name == "frame-images.html"
            )  # its author is not informed, unless the reader wants that
    assert "unsafe" not in POLICY


def test_a_page_has_no_script_or_style_of_its_own() -> None:
    """The linter checks scripts in files (.oxlintrc.json), but not those in pages."""
    allowed_once = {
        name: 1 if name in FRAMES else 0 for name in FILES if name.endswith(".html")
    }  # its policy allows it
    for name, scripts in allowed_once.items():
        html = FILES[name].content.decode()
        assert len(re.findall(r"<script(?![^>]*\bsrc=)", html)) <= scripts, name
        found = re.findall(
            r"https?://|<style|\son\w+=|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", html
        )
        assert found == [], name


SCRIPTS = {name: file.content.decode() for name, file in FILES.items() if name.endswith(".js")}
IMPORTS = re.compile(r"import \{([^}]*)\} from \"([^\"]+)\"")


def _imports(name: str) -> list[tuple[str, str, str]]:
    """Returns the imports of a script: the file, the name, and the local name."""
    folder, found = posixpath.dirname(name), []
    for names, source in IMPORTS.findall(SCRIPTS[name]):
        for each in names.split(","):
            what, _, called = each.strip().partition(" as ")
            found.append((posixpath.normpath(posixpath.join(folder, source)), what, called or what))
    return found


def test_exports_and_imports_of_scripts_match() -> None:
    given = {
        (name, what)
        for name, text in SCRIPTS.items()
        for what in re.findall(r"^export (?:async )?(?:function|class|const|let) (\w+)", text, re.MULTILINE)
    }
    taken = {(source, what) for name in SCRIPTS for source, what, _ in _imports(name)}
    assert taken == given
    for name, text in SCRIPTS.items():
        for _, _, called in _imports(name):
            assert len(re.findall(rf"\b{called}\b", IMPORTS.sub("", text))) > 0, (name, called)


def test_the_stylesheet_of_the_pages_has_no_unused_class() -> None:
    sheet = re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", FILES["app.css"].content.decode(), flags=re.DOTALL)
    defined = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", sheet))
    texts = [*SCRIPTS.values(), FILES["app.html"].content.decode()]
    used = {"is-live", "is-lost", "is-trouble"}  # composed of a word and a state
    for text in texts:
        for classes in re.findall(r"[\"`]\w*((?:\.[\w-]+)+)", text):
            used |= set(classes.strip(".").split("."))
        for classes in re.findall(r"class=\"([^\"]*)\"", text):
            used |= set(classes.split())
        for value in re.findall(r"(?:class|tone|className)\b[^,;]*|classList\.\w+\([^)]*\)", text):
            used |= {each for words in re.findall(r"\"([^\"]*)\"", value) for each in words.split()}
    tones = {"good", "bad", "wait", "quiet"}
    assert defined - used - tones == set()
