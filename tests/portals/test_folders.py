"""Folders of templates: which file takes precedence, and every possible error."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairpost.portals.folder import BUILT_IN, ENTRIES_MAX, FILE_BYTES_MAX, PROBLEMS_MAX, BrokenTemplates
from fairpost.portals.loading import Portals, load_portals
from fairpost.templates.rendering import Unrenderable
from tests.facts import missing

SOON_S_MAX = (
    60  # of this process, for work that takes a second or two; without its limit, it takes much longer or never ends
)

PORTAL = """\
name = "Shop"
sender_name = "The shop"
tone = "Plain."
footer = "Sent by & for <friends>."

[colours]
accent = "#004400"
on_accent = "#ffffff"
background = "#eeeeee"
surface = "#ffffff"
text = "#111111"
muted = "#444444"
border = "#cccccc"

[[links]]
label = "Help"
url = "https://shop.dev/help"
"""
META = """\
description = "A test."
preheader = "Hello {{ name }}"
urgent = true
expires_after = "30m"

[fields.name]
description = "Who."
sample = "Ada"
required = true

[fields.url]
description = "Where."
kind = "url"
sample = "https://shop.dev/x"
required = false
"""
LAYOUT = """\
<!DOCTYPE html>
<html lang="en">
<head>
<title>{{ subject }}</title>
<style>
  p { color: {{ portal.colours.text }} }
  .b { color: {{ portal.colours.accent }} }
</style>
</head>
<body>
<div style="display: none">{{ preheader }}</div>
{{ content }}
<p>{{ portal.footer }}{% for link in portal.links %} <a href="{{ link.url }}">{{ link.label }}</a>{% endfor %}</p>
</body>
</html>
"""
FILES = {
    "portal.toml": PORTAL,
    "layout.html": LAYOUT,
    "layout.txt": "{{ content }}\n--\n{{ portal.footer }}\n",
    "note/meta.toml": META,
    "note/subject.txt": "A note & more for {{ name }}\n",
    "note/text.txt": "Hello {{ name }}\n{% if url %}{{ url }}{% endif %}\n",
    "note/html.html": '<p class="b">Hello {{ name }}</p>\n{% if url %}<p><a href="{{ url }}">{{ url }}</a></p>{% endif %}\n',
}


def shop(folder: Path, **changed: str | bytes | None) -> Path:
    """Creates a folder with one portal and one type. `changed` has other content by file name, with _ for . and __ for
    /."""
    replaced = {name.replace("__", "/").replace("_", "."): content for name, content in changed.items()}
    assert replaced.keys() <= FILES.keys()
    for name, content in {**FILES, **replaced}.items():
        if content is not None:
            write(folder / "shop" / name, content)
    return folder


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def refused(*folders: Path) -> list[str]:
    """Returns each problem on one line, with the file name as in the last folder."""
    with pytest.raises(BrokenTemplates) as error:
        load_portals(*folders)
    return [str(problem).removeprefix(f"{folders[-1]}/") for problem in error.value.problems]


def loaded(*folders: Path) -> Portals:
    return load_portals(*folders)


def test_a_portal_of_ones_own(tmp_path: Path) -> None:
    portals = loaded(shop(tmp_path))
    assert portals.warnings == ()
    rendered = portals.render("shop", "note", {"name": "A & B"})
    assert rendered.subject == "A note & more for A & B"
    assert rendered.text == "Hello A & B\n\n--\nSent by & for <friends>.\n"
    page = rendered.html or ""
    assert "<title>A note &amp; more for A &amp; B</title>" in page
    assert '<p style="color: #004400">Hello A &amp; B</p>' in page
    assert (
        '<p style="color: #111111">Sent by &amp; for &lt;friends&gt;. <a href="https://shop.dev/help">Help</a></p>'
        in page
    )
    assert '<div style="display: none">Hello A &amp; B</div>' in page
    assert "<style" not in page


def test_company_and_postal_address_stand_in_the_footers(tmp_path: Path) -> None:
    lines = {"company": "Shop & Sons Ltd", "postal_address": "1 High Street, Leeds"}
    for portal in ("hub", "org", "agency", "admin"):
        brand = (BUILT_IN / portal / "portal.toml").read_text("utf-8")
        written = "".join(f'{name} = "{line}"\n' for name, line in lines.items())
        write(tmp_path / portal / "portal.toml", written + brand)
        said = loaded(BUILT_IN, tmp_path).preview(portal, "welcome")
        for line in lines.values():
            assert line in (said.text or "").splitlines()[-2:] or f"[{line}]" in (said.text or "")
            assert line.replace("&", "&amp;") in (said.html or "")


def test_the_list_tells_what_an_author_and_a_caller_need(tmp_path: Path) -> None:
    (note,) = loaded(shop(tmp_path)).list()
    assert (note.portal.key, note.type, note.portal.sender_name) == ("shop", "note", "The shop")
    assert (note.meta.description, note.is_urgent, str(note.expires_after)) == ("A test.", True, "0:30:00")
    assert [(field.name, field.kind, field.is_required) for field in note.fields.values()] == [
        ("name", "text", True),
        ("url", "url", False),
    ]
    assert note.where == str(tmp_path / "shop" / "note")


# ── precedence ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_type_of_ones_own_replaces_the_built_in_one_and_nothing_else(tmp_path: Path) -> None:
    for name in ("meta.toml", "subject.txt", "text.txt", "html.html"):
        write(tmp_path / "hub" / "welcome" / name, FILES[f"note/{name}"])
    portals = loaded(BUILT_IN, tmp_path)
    assert portals.preview("hub", "welcome").subject == "A note & more for Ada"
    assert portals.preview("hub", "tfa") == loaded(BUILT_IN).preview("hub", "tfa")
    assert len(portals.list()) == 24
    (footer,) = {each.portal.values["footer"] for each in portals.list() if each.portal.key == "hub"}
    assert footer in (portals.preview("hub", "welcome").text or ""), "the portal's layout is kept"


def test_a_brand_of_ones_own_needs_only_its_file(tmp_path: Path) -> None:
    write(tmp_path / "hub" / "portal.toml", PORTAL + '[x]\ny = "z"\n')
    (problem,) = refused(BUILT_IN, tmp_path)
    known = (
        "colours, company, footer, links, logo_alt, logo_url, name, postal_address, sender_name, support_email, tone"
    )
    assert missing(problem, "hub/portal.toml, line 18, column 2: x ", known) == []
    write(
        tmp_path / "hub" / "portal.toml",
        'logo_url = "https://shop.dev/a.png"\nsupport_email = "help@shop.dev"\n' + PORTAL,
    )
    portals = loaded(BUILT_IN, tmp_path)
    rendered = portals.preview("hub", "welcome")
    assert rendered.subject == "Welcome to Shop, Ada!"
    assert '<img src="https://shop.dev/a.png" alt="Shop" width="120" height="40" style=' in (rendered.html or "")
    assert 'href="mailto:help@shop.dev"' in (rendered.html or "")
    assert "help@shop.dev" in (rendered.text or "")
    assert portals.preview("org", "welcome") == loaded(BUILT_IN).preview("org", "welcome")
    assert not [warning for warning in portals.warnings if "hub" in warning.file]


def test_the_last_folder_goes_first(tmp_path: Path) -> None:
    first, second = shop(tmp_path / "1"), shop(tmp_path / "2", note__subject_txt="Second, {{ name }}")
    assert loaded(first, second).preview("shop", "note").subject == "Second, Ada"
    assert loaded(second, first).preview("shop", "note").subject == "A note & more for Ada"


def test_a_type_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "hub" / "tfa" / "subject.txt", "My code")
    problems = refused(BUILT_IN, tmp_path)
    assert [problem.partition(": ")[0] for problem in problems] == [
        f"hub/tfa/{name}" for name in ("html.html", "meta.toml", "text.txt")
    ]
    assert all("meta.toml, subject.txt, text.txt, html.html" in problem for problem in problems)


def test_files_left_by_systems_and_editors_are_skipped(tmp_path: Path) -> None:
    shop(tmp_path)
    write(tmp_path / "README.md", "about us")
    write(tmp_path / ".git" / "config", "x")
    write(tmp_path / "shop" / ".DS_Store", b"\xff")
    write(tmp_path / "shop" / "note" / "text.txt~", "old")
    assert len(loaded(tmp_path).list()) == 1


def test_windows_files_and_byte_order_marks_are_fine(tmp_path: Path) -> None:
    for name, content in FILES.items():
        write(tmp_path / "a" / "shop" / name, b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())
    assert loaded(tmp_path / "a").preview("shop", "note") == loaded(shop(tmp_path / "b")).preview("shop", "note")


def test_links_within_the_folder_are_fine(tmp_path: Path) -> None:
    shop(tmp_path)
    write(tmp_path / ".data" / "text.txt", "Linked {{ name }} {{ url or '-' }}")
    (tmp_path / "shop" / "note" / "text.txt").unlink()
    (tmp_path / "shop" / "note" / "text.txt").symlink_to("../../.data/text.txt")
    assert (loaded(tmp_path).preview("shop", "note").text or "").startswith("Linked Ada")


# ── unreadable files ──────────────────────────────────────────────────────────────────────────────────────


def test_no_folder_no_templates(tmp_path: Path) -> None:
    assert loaded().list() == ()
    assert "No such file or directory" in refused(tmp_path / "nowhere")[0]
    write(tmp_path / "file", "x")
    assert "folder" in refused(tmp_path / "file")[0]


def outside(folder: Path) -> Path:
    secret = folder.parent / "secret.txt"
    write(secret, "password")
    return secret


def link_file(folder: Path) -> None:
    (folder / "shop/note/text.txt").unlink()
    (folder / "shop/note/text.txt").symlink_to(outside(folder))


def link_type(folder: Path) -> None:
    shutil.move(folder / "shop/note", folder.parent / "elsewhere")
    (folder / "shop/note").symlink_to(folder.parent / "elsewhere")


def link_portal(folder: Path) -> None:
    shutil.move(folder / "shop", folder.parent / "elsewhere")
    (folder / "shop").symlink_to(folder.parent / "elsewhere")


def link_to_itself(folder: Path) -> None:
    (folder / "shop/note/text.txt").unlink()
    (folder / "shop/note/text.txt").symlink_to("text.txt")


def link_to_nowhere(folder: Path) -> None:
    (folder / "mall").symlink_to("nowhere")


def pipe(folder: Path) -> None:
    (folder / "shop/note/text.txt").unlink()
    os.mkfifo(folder / "shop/note/text.txt")


def folder_for_file(folder: Path) -> None:
    (folder / "shop/note/text.txt").unlink()
    (folder / "shop/note/text.txt").mkdir()


def many_files(folder: Path) -> None:
    for number in range(ENTRIES_MAX + 1):
        write(folder / f"shop/note/{number}", "")


@pytest.mark.parametrize(
    ("spoil", "fact"),
    [
        (link_file, "shop/note/text.txt: "),
        (link_type, "shop/note: "),
        (link_portal, "shop: "),
        (link_to_itself, "shop/note/text.txt: "),
        (link_to_nowhere, "mall: "),
        (pipe, "shop/note/text.txt: "),
        (folder_for_file, "shop/note/text.txt: "),
        (many_files, f"{ENTRIES_MAX}"),
        (lambda folder: write(folder / "shop/note/extra.txt", ""), "shop/note/extra.txt: "),
        (lambda folder: write(folder / "shop/extra.txt", ""), "shop/extra.txt: "),
        (lambda folder: write(folder / "Shop/x", ""), "Shop: "),
        (lambda folder: write(folder / "shop/no-te/x", ""), "shop/no-te: "),
        (lambda folder: write(folder / "shop" / ("n" * 65) / "x", ""), f"shop/{'n' * 65}: "),
        (lambda folder: write(folder / "mall/x/meta.toml", META), "mall/portal.toml: "),
        (lambda folder: (folder / "shop/layout.txt").unlink(), "shop/layout.txt: "),
        (lambda folder: (folder / "shop/note/html.html").unlink(), "shop/note/html.html: "),
    ],
)
def test_files_outside_the_folder_and_special_files_are_not_read(
    spoil: Callable[[Path], None], fact: str, tmp_path: Path
) -> None:
    folder = shop(tmp_path / "templates")
    spoil(folder)
    with pytest.raises(BrokenTemplates) as error:
        loaded(folder)
    assert fact in str(error.value)
    assert "password" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"Hi {{ name }}\nGr\xfc\xdfe", ("line 2, column 3", "UTF-8")),
        (b"\xff\xfeH\x00i\x00", ("line 1, column 1", "UTF-8")),
        (b"a\nb\x00", ("line 2, column 2", "U+0000")),
        ("a \ufdd0content\ufdd0", ("line 1, column 3", "U+FDD0")),
        (b"x" * (FILE_BYTES_MAX + 1), ("262,144",)),
    ],
)
def test_a_file_that_is_not_text_is_refused(content: bytes | str, facts: tuple[str, ...], tmp_path: Path) -> None:
    assert missing("\n".join(refused(shop(tmp_path, note__text_txt=content))), *facts) == []


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    folder = shop(
        tmp_path,
        portal_toml=PORTAL.replace("#004400", "green").replace("https://shop.dev/help", "javascript:x"),
        layout_txt="{{ contents }}",
        note__subject_txt="Hi {{ nam }}",
        note__text_txt="Hi\n  {{ name",
        note__html_html="<p>Hi {{ name }}\n<td></td></div>",
        note__meta_toml=META.replace("{{ name }}", "{{ nome }}"),
    )
    assert [line.partition(": ")[0] for line in refused(folder)] == [
        "shop/layout.txt, line 1, column 4",
        "shop/note/html.html, line 1, column 1",
        "shop/note/html.html, line 2, column 1",
        "shop/note/html.html, line 2, column 10",
        "shop/note/meta.toml, line 2, column 23",
        "shop/note/subject.txt, line 1, column 7",
        "shop/note/text.txt, line 2, column 3",
        "shop/portal.toml, line 7, column 1",
        "shop/portal.toml, line 17, column 1",
    ]


def test_messages_name_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(BrokenTemplates) as error:
        loaded(shop(tmp_path, note__text_txt="Hello\n{{ first name }}", note__subject_txt="For {{ nam }}"))
    _, unknown, misplaced = str(error.value).splitlines()
    assert missing(unknown, f"{tmp_path}/shop/note/subject.txt, line 1, column 8: nam ", "[fields.nam]") == []
    assert missing(misplaced, f"{tmp_path}/shop/note/text.txt, line 2, column 10: ", '"name"') == []


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("a\nb", ("subject.txt", "line 1, column 1")),
        ("", ("subject.txt", "line 1, column 1")),
        ("Hi {{ other }}", ("subject.txt", "line 1, column 7", "meta.toml", "other")),
        ("Hi {{ name.first }}", ("subject.txt", "line 1, column 7", "name.first")),
        ("Hi {{ url }}", ("subject.txt", "line 1, column 7", "meta.toml", "{{ url ")),
        ("Hi {{ portal.nam }}", ("subject.txt", "line 1, column 7", "portal.nam")),
        ("Hi {{ portal.logo_url }}", ("portal.logo_url",)),
        ("Hi {{ content }}", ("subject.txt", "line 1, column 7", "content")),
        ("Hi {% for n in name %}{{ n }}{% endfor %}", ("name",)),
        ("Hi {% include 'x' %}", ("subject.txt", "line 1, column 4", '"include"')),
        ("x" * 1001, ("1,000", "subject")),
    ],
)
def test_a_subject_can_be_wrong(content: str, facts: tuple[str, ...], tmp_path: Path) -> None:
    assert missing("\n".join(refused(shop(tmp_path, note__subject_txt=content))), *facts) == []


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("<p>a", ("line 1, column 1", "<p>")),
        ("a</p>", ("line 1, column 2", "</p>")),
        ("<p><b>a</p></b>", ("line 1, column 8", "</p>", "<b>")),
        ("{% if name %}<p>{% endif %}</p>", ("line 1, column 17", '"endif"', "<p>")),
        ("<p>{% if name %}</p>{% endif %}", ("line 1, column 17", "</p>", "{% if %}")),
        ("{% if name %}<b>{% else %}</b>{% endif %}", ("line 1, column 17", '"else"', "<b>")),
        ("<p>1 < 2</p>", ("line 1, column 6", '"<"')),
        ("<p title='{{ name }}'>a</p>", ("line 1, column 1", '"<"')),
        ("<p title={{ name }}>a</p>", ('"<"',)),
        ("<p {{ name }}>a</p>", ('"<"',)),
        ("<{{ name }}>a</p>", ('"<"',)),
        ('<p title="a>a</p>', ('"<"',)),
        ("<!-- {{ name }} -->", ("line 1, column 1", "comment")),
        ("<!-- a", ('"<"',)),
        ("<script>alert(1)</script>", ("<script>",)),
        ("<style>p { color: {{ name }} }</style>", ("<style>", "<head>")),
        ("<form></form>", ("<form>",)),
        ("<html></html>", ("<html>", "portal", "layout")),
        ("<p>a</p><!DOCTYPE html>", ("doctype",)),
        ('<p onclick="x">a</p>', ("line 1, column 3", "onclick")),
        ('<p style="color: {{ name }}">a</p>', ("line 1, column 11", "style")),
        ('<p style="background: url(x)">a</p>', ("style",)),
        ('<p class="{% if name %}b{% endif %}">a</p>', ("if", "for")),
        ('<p id="a" id="b">a</p>', ("id",)),
        ('<a href="{{ name }}">a</a>', ("line 1, column 10", "href", "url", "kind")),
        ('<a href="javascript:{{ name }}">a</a>', ("href", "url", "kind")),
        ('<a href="javascript:x">a</a>', ("href", "url", "kind")),
        ('<a href="https://{{ name | urlencode }}/">a</a>', ("href", "url", "kind")),
        ('<a href="https://shop.dev/?q={{ name }}">a</a>', ("| urlencode",)),
        ('<a href="https://shop.dev{{ name | urlencode }}">a</a>', ("href", "url", "kind")),
        ("<a>a</a>", ("<a>", "href")),
        ('<img src="https://shop.dev/a.png" width="1">', ("<img>", "alt")),
        ('<img alt="" width="1" src="cid:x">', ("src",)),
        ("<tr><td>a</td></tr>", ("<tr>", "<table>", "<tbody>", "<thead>")),
        ("<table>a<tr><td>a</td></tr></table>", ("line 1, column 8", "<table>")),
        ("<table>{{ name }}</table>", ("<table>",)),
        ("<table><p>a</p></table>", ("<p>", "<table>")),
        ("<p><table></table></p>", ("<table>", "<p>")),
        ("<p><p>a</p></p>", ("<p>",)),
        ('<a href="{{ url }}"><a href="{{ url }}">a</a></a>', ("<a>",)),
        ("{{ name", ('"{{"',)),
    ],
)
def test_html_can_be_wrong(content: str, facts: tuple[str, ...], tmp_path: Path) -> None:
    assert missing("\n".join(refused(shop(tmp_path, note__html_html=content))), *facts) == []


@pytest.mark.parametrize(
    "content",
    [
        '<p title="{{ name or "a > b" }}">{{ name or "<b>" }} {{ url or "x" }}</p>',
        '<a href="https://shop.dev/?q={{ name | urlencode }}&amp;x=1">{{ url or "x" }}</a>',
        "<table><tr>{% if url %}<td>{{ url }}</td>{% else %}<td>{{ name }}</td>{% endif %}</tr></table>",
        '<table><tr><td>{# a <b #}<!-- <b> --><br/><img src="https://shop.dev/{{ name | urlencode }}.png" alt="{{ name }}" width="9"/></td></tr></table>',
        "<UL>\n{% if url %}<LI>{{ url }}</LI>{% endif %}</UL>",
    ],
)
def test_html_can_be_right(content: str, tmp_path: Path) -> None:
    portals = loaded(shop(tmp_path, note__html_html=content))
    page = portals.render("shop", "note", {"name": "A", "url": "https://shop.dev/x"}).html or ""
    assert "<style" not in page


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ("{{ content }}", "", ("layout.html", "{{ content }}")),
        ("{{ content }}", "{{ content }}{{ content }}", ("layout.html", "{{ content }}")),
        ("{{ content }}", '<p title="{{ content }}"></p>', ("{{ content }}",)),
        ("{{ content }}", "<p>{{ content }}</p>", ("<p>", "portal", "layout")),
        ("{{ content }}", "{ {{- content }}", ("brace",)),
        (
            "{{ content }}",
            "{{ content }}{{ name }}",
            ("layout.html", "line 12, column 17", "name", "portal"),
        ),
        ("{{ content }}", "{{ content }}{{ portal.nope }}", ("portal.nope",)),
        ("{{ content }}", "{{ content }}{{ portal.colours.nope }}", ("portal.colours.nope",)),
        ("{{ content }}", '{{ content }}<a href="{{ portal.name }}">a</a>', ("portal.toml", "href")),
        ("</body>", "", ("</html>", "<body>")),
        ("p { color", "p a { color", ("layout.html", "line 6, column 3", '"p a"')),
        ("p { color", "p#a { color", ('"p#a"',)),
        ("p { color", "@media x { p { color", ("rule",)),
        ("p { color:", "p { background: url(x); color:", ('"background: url(x)"',)),
        ("p { color:", 'p { font-family: "x"; color:', ("name",)),
        ("p { color:", "p { color red; color:", ('"color red"',)),
        ("portal.colours.text", "portal.name", ("layout.html", "line 6, column 14", "colours")),
        ("</head>", "<style>p { color: red }</style></head>", ("<style>", "layout")),
        (
            "<title>",
            "<!--[if mso]><style>p { color: red }</style><![endif]--><title>",
            ("comment",),
        ),
    ],
)
def test_a_layout_can_be_wrong(old: str, new: str, facts: tuple[str, ...], tmp_path: Path) -> None:
    assert old in LAYOUT
    assert missing("\n".join(refused(shop(tmp_path, layout_html=LAYOUT.replace(old, new, 1)))), *facts) == []


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ('name = "Shop"', "name = Shop", ("portal.toml", "line 1, column 8", "TOML")),
        ('name = "Shop"', "", ("portal.toml", "line 1, column 1", "name")),
        ('name = "Shop"', "name = 5", ("line 1, column 1", "name")),
        ('name = "Shop"', 'name = "{{ x }}"', ("name", "braces")),
        ('name = "Shop"', 'name = "a\\nb"', ("name",)),
        ('sender_name = "The shop"', 'sender_name = "a\\r\\nBcc: b"', ("line 2, column 1", "sender_name")),
        ('tone = "Plain."', 'nome = "x"\ntone = "Plain."', ("line 3, column 1", "nome")),
        ('tone = "Plain."', 'tone = "x"\nlogo_url = "ftp://x"', ("line 4, column 1", "logo_url")),
        (
            'tone = "Plain."',
            'tone = "x"\nsupport_email = "x"',
            ("line 4, column 1", "support_email"),
        ),
        ('accent = "#004400"', 'accent = "red; x"', ("line 7, column 1", "colours.accent", "#1a2b3c")),
        ('accent = "#004400"\n', "", ("line 6, column 1", "colours.accent")),
        ('border = "#cccccc"', 'border = "#cccccc"\nmore = "#cccccc"', ("line 14, column 1", "colours.more")),
        ('url = "https://shop.dev/help"', "", ("links.url",)),
        ('url = "https://shop.dev/help"', 'url = "javascript:x"', ("line 17, column 1", "links.url")),
        ("[[links]]", "[links]", ("links",)),
        ("[colours]", "colours = 5\n[color]", ("colours",)),
        ('name = "Shop"', "a = " + "[" * 50_000, ("portal.toml",)),
    ],
)
def test_a_brand_can_be_wrong(old: str, new: str, facts: tuple[str, ...], tmp_path: Path) -> None:
    assert old in PORTAL
    assert missing("\n".join(refused(shop(tmp_path, portal_toml=PORTAL.replace(old, new, 1)))), *facts) == []


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ('description = "A test."', "", ("meta.toml", "line 1, column 1", "description")),
        ("urgent = true", 'urgent = "yes"', ("line 3, column 1", "urgent")),
        ('"30m"', '"soon"', ("line 4, column 1", "expires_after", '"10m"')),
        ('"30m"', '"0m"', ("expires_after",)),
        ('"30m"', '"366d"', ("expires_after",)),
        ("{{ name }}", "{{ name", ("meta.toml", "line 2, column 20", '"{{"')),
        ("{{ name }}", "{{ url }}", ("meta.toml", "line 2, column 23", "url")),
        ('description = "Who."', "", ("line 6, column 1", "fields.name.description")),
        ('sample = "Ada"', 'sample = " "', ("fields.name.sample",)),
        ('sample = "Ada"', "sample = 5", ("line 8, column 1", "fields.name.sample")),
        ('sample = "Ada"', 'sample = "Ada"\nchars_max = 2', ("fields.name.sample", "3")),
        (
            'sample = "Ada"',
            'sample = "Ada"\nchars_max = 0',
            ("line 9, column 1", "fields.name.chars_max", "100,000"),
        ),
        ('sample = "Ada"', 'sample = "Ada"\nlength = 2', ("line 9, column 1", "fields.name.length")),
        ("required = true", "", ("fields.name.required",)),
        ("https://shop.dev/x", "javascript:x", ("line 14, column 1", "fields.url.sample")),
        ('kind = "url"', 'kind = "link"', ("line 13, column 1", "fields.url.kind")),
        ("[fields.url]", "[fields.Url]", ("'Url'", "name")),
        ("[fields.url]", "[fields.portal]", ("'portal'", "name")),
        ("[fields.url]", "[fields.in]", ("'in'", "name")),
        ("[fields.url]", '[fields."../x"]', ("'../x'", "name")),
        ("required = false", "required = false\n[fields.x]\n[fields.x]\n", ("TOML",)),
    ],
)
def test_a_meta_file_can_be_wrong(old: str, new: str, facts: tuple[str, ...], tmp_path: Path) -> None:
    assert old in META
    assert missing("\n".join(refused(shop(tmp_path, note__meta_toml=META.replace(old, new, 1)))), *facts) == []


def test_numbers_and_addresses_have_their_kinds(tmp_path: Path) -> None:
    meta = META + '[fields.n]\ndescription = "n"\nkind = "number"\nsample = 0\nrequired = true\n'
    meta += '[fields.mail]\ndescription = "m"\nkind = "email"\nsample = "a@b.dev"\nrequired = true\n'
    portals = loaded(
        shop(tmp_path, note__meta_toml=meta, note__text_txt="{{ n }} {{ mail }} {{ name }} {{ url or 1 }}")
    )
    assert (portals.preview("shop", "note").text or "").startswith("0 a@b.dev Ada")
    for wrong in (
        {"n": "5"},
        {"n": True},
        {"n": 10**20},
        {"mail": "a b@c"},
        {"mail": "a@b?bcc=c"},
        {"mail": "a\n@b.dev"},
    ):
        with pytest.raises(Unrenderable, match=next(iter(wrong))):
            portals.render("shop", "note", {"name": "A", "n": 5, "mail": "a@b.dev", **wrong})


# ── warnings ──────────────────────────────────────────────────────────────────────────────────────────────


def warned(folder: Path) -> list[str]:
    return [str(warning).removeprefix(f"{folder}/shop/") for warning in loaded(folder).warnings]


def test_a_field_that_nothing_prints_is_a_warning(tmp_path: Path) -> None:
    folder = shop(tmp_path, note__text_txt="Hi", note__html_html="<p>Hi</p>")
    (warning,) = warned(folder)
    assert missing(warning, "note/meta.toml, line 11, column 2: ", "url") == []


def test_colours_with_low_contrast_are_a_warning(tmp_path: Path) -> None:
    folder = shop(tmp_path, portal_toml=PORTAL.replace("#444444", "#bbbbbb"))
    on_background, on_surface = warned(folder)
    assert missing(on_background, "portal.toml: ", "muted", "background", "1.7", "4.5") == []
    assert missing(on_surface, "portal.toml: ", "muted", "surface", "1.9", "4.5") == []


def test_html_that_gmail_would_cut_off_is_a_warning(tmp_path: Path) -> None:
    (warning,) = warned(shop(tmp_path, note__html_html=f"<p>{'x' * 103_000}</p>{{{{ url or 1 }}}}"))
    assert "102,400" in warning


@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<p>", "</p>", "<p ", "{% if name %}<p></p>{% endif %}", '<a href="{{ url }}">x</a>', "{{ zz }} <b>"],
)
def test_a_mistake_on_every_line_is_reported_quickly(tmp_path: Path, piece: str) -> None:
    """Positions were once found by walking through all of them, which took minutes."""
    started_s = time.process_time()
    with pytest.raises(BrokenTemplates) as broken:
        load_portals(shop(tmp_path, note__html_html=piece * (FILE_BYTES_MAX // len(piece))))
    assert len(broken.value.problems) <= PROBLEMS_MAX + 50
    assert time.process_time() - started_s < SOON_S_MAX
