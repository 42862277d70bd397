"""Folders of templates: which file counts, and every way in which one can be wrong."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairpost.templates.folder import ENTRIES_MAX, FILE_BYTES_MAX, PROBLEMS_MAX, BrokenTemplates
from fairpost.templates.portals import BUILT_IN, Portals, load_portals
from fairpost.templates.rendering import Unrenderable

SOON_S_MAX = (
    60  # of this process, for what takes a second or two; without its limit it takes much longer, or never ends
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
    """A folder with one portal and one type. `changed`: other words for a file, by its name with _ for . and __ for /."""
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
    """Each problem in a line, with its file as it is called in the last folder."""
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


def test_the_list_tells_what_an_author_and_a_caller_need(tmp_path: Path) -> None:
    (note,) = loaded(shop(tmp_path)).list()
    assert (note.portal.key, note.type, note.portal.sender_name) == ("shop", "note", "The shop")
    assert (note.meta.description, note.is_urgent, str(note.expires_after)) == ("A test.", True, "0:30:00")
    assert [(field.name, field.kind, field.is_required) for field in note.fields.values()] == [
        ("name", "text", True),
        ("url", "url", False),
    ]
    assert note.where == str(tmp_path / "shop" / "note")


# ── which file counts ─────────────────────────────────────────────────────────────────────────────────────


def test_a_type_of_ones_own_replaces_the_built_in_one_and_nothing_else(tmp_path: Path) -> None:
    for name in ("meta.toml", "subject.txt", "text.txt", "html.html"):
        write(tmp_path / "hub" / "welcome" / name, FILES[f"note/{name}"])
    portals = loaded(BUILT_IN, tmp_path)
    assert portals.preview("hub", "welcome").subject == "A note & more for Ada"
    assert portals.preview("hub", "tfa") == loaded(BUILT_IN).preview("hub", "tfa")
    assert len(portals.list()) == 24
    assert "You get this e-mail because" in (portals.preview("hub", "welcome").text or ""), "the portal's layout stays"


def test_a_brand_of_ones_own_needs_only_its_file(tmp_path: Path) -> None:
    write(tmp_path / "hub" / "portal.toml", PORTAL + '[x]\ny = "z"\n')
    assert refused(BUILT_IN, tmp_path) == ["hub/portal.toml, line 18, column 2: x is not known here: there are colours, footer, links, logo_alt, logo_url, name, sender_name, support_email, tone"]  # fmt: skip
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
    assert refused(BUILT_IN, tmp_path) == [
        f"hub/tfa/{name}: it is not there: a type has meta.toml, subject.txt, text.txt, html.html, all in one folder"
        for name in ("html.html", "meta.toml", "text.txt")
    ]


def test_what_systems_and_editors_leave_behind_is_passed_over(tmp_path: Path) -> None:
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


# ── which cannot be read ──────────────────────────────────────────────────────────────────────────────────


def test_no_folder_no_templates(tmp_path: Path) -> None:
    assert loaded().list() == ()
    assert "the folder cannot be read: No such file or directory" in refused(tmp_path / "nowhere")[0]
    write(tmp_path / "file", "x")
    assert "this is no folder" in refused(tmp_path / "file")[0]


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
    ("spoil", "message"),
    [
        (link_file, "a link leads out of"),
        (link_type, "a link leads out of"),
        (link_portal, "a link leads out of"),
        (link_to_itself, "it cannot be read"),
        (link_to_nowhere, "it cannot be read"),
        (pipe, "it cannot be read: it is no file"),
        (folder_for_file, "it cannot be read: "),
        (many_files, f"there are more than {ENTRIES_MAX} files and folders"),
        (lambda folder: write(folder / "shop/note/extra.txt", ""), "this is not one of a type's files"),
        (lambda folder: write(folder / "shop/extra.txt", ""), "this is not one of a portal's files"),
        (lambda folder: write(folder / "Shop/x", ""), "a name has up to 64"),
        (lambda folder: write(folder / "shop/no-te/x", ""), "a name has up to 64"),
        (lambda folder: write(folder / "shop" / ("n" * 65) / "x", ""), "a name has up to 64"),
        (lambda folder: write(folder / "mall/x/meta.toml", META), "it is not there: a portal has"),
        (lambda folder: (folder / "shop/layout.txt").unlink(), "it is not there: a portal has"),
        (lambda folder: (folder / "shop/note/html.html").unlink(), "it is not there: a type has"),
    ],
)
def test_what_lies_elsewhere_or_is_no_file_is_not_read(
    spoil: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    folder = shop(tmp_path / "templates")
    spoil(folder)
    with pytest.raises(BrokenTemplates) as error:
        loaded(folder)
    assert message in str(error.value)
    assert "password" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"Hi {{ name }}\nGr\xfc\xdfe", "line 2, column 3: this is not UTF-8"),
        (b"\xff\xfeH\x00i\x00", "line 1, column 1: this is not UTF-8"),
        (b"a\nb\x00", "line 2, column 2: the character U+0000 is no text"),
        ("a \ufdd0content\ufdd0", "line 1, column 3: the character U+FDD0 is no text"),
        (b"x" * (FILE_BYTES_MAX + 1), "it has more than 262,144 bytes"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes | str, problem: str, tmp_path: Path) -> None:
    assert problem in "\n".join(refused(shop(tmp_path, note__text_txt=content)))


# ── which are wrong ───────────────────────────────────────────────────────────────────────────────────────


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
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


def test_what_is_told_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(BrokenTemplates) as error:
        loaded(shop(tmp_path, note__text_txt="Hello\n{{ first name }}", note__subject_txt="For {{ nam }}"))
    assert str(error.value).splitlines() == [
        "Templates cannot be used as they are:",
        f"{tmp_path}/shop/note/subject.txt, line 1, column 8: nam is not known:"
        " meta.toml does not declare it: write [fields.nam] there, or one of its names here",
        f'{tmp_path}/shop/note/text.txt, line 2, column 10: "name" cannot be used here',
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a\nb", "subject.txt, line 1, column 1: a subject is one line"),
        ("", "subject.txt, line 1, column 1: a subject is one line"),
        ("Hi {{ other }}", "subject.txt, line 1, column 7: other is not known: meta.toml does not declare it"),
        ("Hi {{ name.first }}", "subject.txt, line 1, column 7: name.first is not known"),
        ("Hi {{ url }}", "subject.txt, line 1, column 7: url may be missing, says meta.toml: write {{ url or"),
        ("Hi {{ portal.nam }}", "subject.txt, line 1, column 7: portal.nam is not known"),
        ("Hi {{ portal.logo_url }}", "portal.logo_url missing"),
        ("Hi {{ content }}", "subject.txt, line 1, column 7: content is not known"),
        ("Hi {% for n in name %}{{ n }}{% endfor %}", "name is not a list"),
        ("Hi {% include 'x' %}", 'subject.txt, line 1, column 4: "include" is not available'),
        ("x" * 1001, "the subject becomes longer than 1,000 characters"),
    ],
)
def test_a_subject_can_be_wrong(content: str, problem: str, tmp_path: Path) -> None:
    assert problem in "\n".join(refused(shop(tmp_path, note__subject_txt=content)))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("<p>a", "line 1, column 1: <p> is never closed"),
        ("a</p>", "line 1, column 2: </p> closes something else: nothing is open here"),
        ("<p><b>a</p></b>", "line 1, column 8: </p> closes something else: <b> is open here"),
        ("{% if name %}<p>{% endif %}</p>", 'line 1, column 17: "endif" comes before <p> is closed'),
        ("<p>{% if name %}</p>{% endif %}", "line 1, column 17: </p> closes something else: {% if %} is open here"),
        ("{% if name %}<b>{% else %}</b>{% endif %}", 'line 1, column 17: "else" comes before <b> is closed'),
        ("<p>1 < 2</p>", 'line 1, column 6: this "<" begins no tag: write &lt;'),
        ("<p title='{{ name }}'>a</p>", 'line 1, column 1: this "<" begins no tag'),
        ("<p title={{ name }}>a</p>", 'this "<" begins no tag'),
        ("<p {{ name }}>a</p>", 'this "<" begins no tag'),
        ("<{{ name }}>a</p>", 'this "<" begins no tag'),
        ('<p title="a>a</p>', 'this "<" begins no tag'),
        ("<!-- {{ name }} -->", "line 1, column 1: a comment cannot have fields"),
        ("<!-- a", 'this "<" begins no tag'),
        ("<script>alert(1)</script>", "<script> has no place in an e-mail"),
        ("<style>p { color: {{ name }} }</style>", "<style> can only stand right in <head>"),
        ("<form></form>", "<form> has no place"),
        ("<html></html>", "in the portal's layout: <html> cannot stand"),
        ("<p>a</p><!DOCTYPE html>", "a doctype stands at the beginning"),
        ('<p onclick="x">a</p>', "line 1, column 3: onclick has no place in an e-mail"),
        ('<p style="color: {{ name }}">a</p>', "line 1, column 11: style cannot have fields"),
        ('<p style="background: url(x)">a</p>', "a style cannot load or run anything"),
        ('<p class="{% if name %}b{% endif %}">a</p>', "if and for cannot stand within a tag"),
        ('<p id="a" id="b">a</p>', "id is there twice"),
        ('<a href="{{ name }}">a</a>', "line 1, column 10: href must be a field of kind url by itself"),
        ('<a href="javascript:{{ name }}">a</a>', "href must be a field of kind url"),
        ('<a href="javascript:x">a</a>', "href must be a field of kind url"),
        ('<a href="https://{{ name | urlencode }}/">a</a>', "href must be a field of kind url"),
        ('<a href="https://shop.dev/?q={{ name }}">a</a>', "needs | urlencode"),
        ('<a href="https://shop.dev{{ name | urlencode }}">a</a>', "href must be a field of kind url"),
        ("<a>a</a>", "<a> needs href"),
        ('<img src="https://shop.dev/a.png" width="1">', "<img> needs alt"),
        ('<img alt="" width="1" src="cid:x">', "src must be"),
        ("<tr><td>a</td></tr>", "<tr> can only stand right in <table> or <tbody> or <thead>"),
        ("<table>a<tr><td>a</td></tr></table>", "line 1, column 8: text cannot stand right in a <table>"),
        ("<table>{{ name }}</table>", "text cannot stand right in a <table>"),
        ("<table><p>a</p></table>", "<p> cannot stand right in <table>"),
        ("<p><table></table></p>", "<table> cannot stand in <p>"),
        ("<p><p>a</p></p>", "<p> cannot stand in <p>"),
        ('<a href="{{ url }}"><a href="{{ url }}">a</a></a>', "<a> cannot stand in <a>"),
        ("{{ name", '"{{" is never closed'),
    ],
)
def test_html_can_be_wrong(content: str, problem: str, tmp_path: Path) -> None:
    assert problem in "\n".join(refused(shop(tmp_path, note__html_html=content)))


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
    ("old", "new", "problem"),
    [
        ("{{ content }}", "", "layout.html: write {{ content }} once"),
        ("{{ content }}", "{{ content }}{{ content }}", "layout.html: write {{ content }} once"),
        ("{{ content }}", '<p title="{{ content }}"></p>', "{{ content }} cannot stand within a tag"),
        ("{{ content }}", "<p>{{ content }}</p>", "in the portal's layout: <p> cannot stand in <p>"),
        ("{{ content }}", "{ {{- content }}", "a brace before a value"),
        (
            "{{ content }}",
            "{{ content }}{{ name }}",
            "layout.html, line 12, column 17: name is not known: a layout has only portal",
        ),
        ("{{ content }}", "{{ content }}{{ portal.nope }}", "portal.nope is not known"),
        ("{{ content }}", "{{ content }}{{ portal.colours.nope }}", "portal.colours.nope missing"),
        ("{{ content }}", '{{ content }}<a href="{{ portal.name }}">a</a>', "with what portal.toml says: href must be"),
        ("</body>", "", "</html> closes something else: <body> is open here"),
        ("p { color", "p a { color", 'layout.html, line 6, column 3: "p a" cannot be used'),
        ("p { color", "p#a { color", '"p#a" cannot be used'),
        ("p { color", "@media x { p { color", "this is no rule"),
        ("p { color:", "p { background: url(x); color:", '"background: url(x)" cannot be used'),
        ("p { color:", 'p { font-family: "x"; color:', "cannot be used: write name: value"),
        ("p { color:", "p { color red; color:", '"color red" cannot be used'),
        ("portal.colours.text", "portal.name", "layout.html, line 6, column 14: only colours can be filled in here"),
        ("</head>", "<style>p { color: red }</style></head>", "a layout has one <style>"),
        (
            "<title>",
            "<!--[if mso]><style>p { color: red }</style><![endif]--><title>",
            "a comment cannot have fields or styles",
        ),
    ],
)
def test_a_layout_can_be_wrong(old: str, new: str, problem: str, tmp_path: Path) -> None:
    assert old in LAYOUT
    assert problem in "\n".join(refused(shop(tmp_path, layout_html=LAYOUT.replace(old, new, 1))))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('name = "Shop"', "name = Shop", "portal.toml, line 1, column 8: this is not TOML: Invalid value"),
        ('name = "Shop"', "", "portal.toml, line 1, column 1: name is missing"),
        ('name = "Shop"', "name = 5", "line 1, column 1: name must be text in quotes"),
        ('name = "Shop"', 'name = "{{ x }}"', "name must have no braces"),
        ('name = "Shop"', 'name = "a\\nb"', "name must be one line of text"),
        ('sender_name = "The shop"', 'sender_name = "a\\r\\nBcc: b"', "line 2, column 1: sender_name must be one line"),
        ('tone = "Plain."', 'nome = "x"\ntone = "Plain."', "line 3, column 1: nome is not known here"),
        ('tone = "Plain."', 'tone = "x"\nlogo_url = "ftp://x"', "line 4, column 1: logo_url must be a link"),
        (
            'tone = "Plain."',
            'tone = "x"\nsupport_email = "x"',
            "line 4, column 1: support_email must be an e-mail address",
        ),
        ('accent = "#004400"', 'accent = "red; x"', "line 7, column 1: colours.accent must be a colour like #1a2b3c"),
        ('accent = "#004400"\n', "", "line 6, column 1: colours.accent is missing"),
        ('border = "#cccccc"', 'border = "#cccccc"\nmore = "#cccccc"', "line 14, column 1: colours.more is not known"),
        ('url = "https://shop.dev/help"', "", "links.url is missing"),
        ('url = "https://shop.dev/help"', 'url = "javascript:x"', "line 17, column 1: links.url must be a link"),
        ("[[links]]", "[links]", "links must be a list"),
        ("[colours]", "colours = 5\n[color]", "colours must be a table"),
        ('name = "Shop"', "a = " + "[" * 50_000, "portal.toml"),
    ],
)
def test_a_brand_can_be_wrong(old: str, new: str, problem: str, tmp_path: Path) -> None:
    assert old in PORTAL
    assert problem in "\n".join(refused(shop(tmp_path, portal_toml=PORTAL.replace(old, new, 1))))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('description = "A test."', "", "meta.toml, line 1, column 1: description is missing"),
        ("urgent = true", 'urgent = "yes"', "line 3, column 1: urgent must be true or false"),
        ('"30m"', '"soon"', 'line 4, column 1: expires_after must be a time like "10m"'),
        ('"30m"', '"0m"', "expires_after must be a time"),
        ('"30m"', '"366d"', "expires_after must be a time"),
        ("{{ name }}", "{{ name", 'meta.toml, line 2, column 20: "{{" is never closed'),
        ("{{ name }}", "{{ url }}", "meta.toml, line 2, column 23: url may be missing"),
        ('description = "Who."', "", "line 6, column 1: fields.name.description is missing"),
        ('sample = "Ada"', 'sample = " "', "fields.name.sample must not be empty"),
        ('sample = "Ada"', "sample = 5", "line 8, column 1: fields.name.sample must be text in quotes"),
        ('sample = "Ada"', 'sample = "Ada"\nchars_max = 2', "fields.name.sample does not fit: name has 3 characters"),
        (
            'sample = "Ada"',
            'sample = "Ada"\nchars_max = 0',
            "line 9, column 1: fields.name.chars_max must be 1 to 100,000",
        ),
        ('sample = "Ada"', 'sample = "Ada"\nlength = 2', "line 9, column 1: fields.name.length is not known"),
        ("required = true", "", "fields.name.required is missing"),
        ("https://shop.dev/x", "javascript:x", "line 14, column 1: fields.url.sample does not fit"),
        ('kind = "url"', 'kind = "link"', "line 13, column 1: fields.url.kind must be one of text, lines, url"),
        ("[fields.url]", "[fields.Url]", "'Url' cannot be the name of a field"),
        ("[fields.url]", "[fields.portal]", "'portal' cannot be the name of a field"),
        ("[fields.url]", "[fields.in]", "'in' cannot be the name of a field"),
        ("[fields.url]", '[fields."../x"]', "'../x' cannot be the name of a field"),
        ("required = false", "required = false\n[fields.x]\n[fields.x]\n", "this is not TOML"),
    ],
)
def test_a_meta_file_can_be_wrong(old: str, new: str, problem: str, tmp_path: Path) -> None:
    assert old in META
    assert problem in "\n".join(refused(shop(tmp_path, note__meta_toml=META.replace(old, new, 1))))


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


# ── which work, but ───────────────────────────────────────────────────────────────────────────────────────


def warned(folder: Path) -> list[str]:
    return [str(warning).removeprefix(f"{folder}/shop/") for warning in loaded(folder).warnings]


def test_a_field_that_nothing_prints_is_a_warning(tmp_path: Path) -> None:
    folder = shop(tmp_path, note__text_txt="Hi", note__html_html="<p>Hi</p>")
    assert warned(folder) == ["note/meta.toml, line 11, column 2: nothing prints url"]


def test_colours_that_cannot_be_told_apart_are_a_warning(tmp_path: Path) -> None:
    folder = shop(tmp_path, portal_toml=PORTAL.replace("#444444", "#bbbbbb"))
    assert warned(folder) == [
        "portal.toml: muted on background is hard to read: the contrast is 1.7, less than 4.5",
        "portal.toml: muted on surface is hard to read: the contrast is 1.9, less than 4.5",
    ]


def test_html_that_gmail_would_cut_off_is_a_warning(tmp_path: Path) -> None:
    (warning,) = warned(shop(tmp_path, note__html_html=f"<p>{'x' * 103_000}</p>{{{{ url or 1 }}}}"))
    assert "and Gmail hides what is beyond 102,400" in warning


@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<p>", "</p>", "<p ", "{% if name %}<p></p>{% endif %}", '<a href="{{ url }}">x</a>', "{{ zz }} <b>"],
)
def test_what_is_wrong_everywhere_is_told_soon(tmp_path: Path, piece: str) -> None:
    """Places were once looked up by walking through all of them: that took minutes."""
    started_s = time.process_time()
    with pytest.raises(BrokenTemplates) as broken:
        load_portals(shop(tmp_path, note__html_html=piece * (FILE_BYTES_MAX // len(piece))))
    assert len(broken.value.problems) <= PROBLEMS_MAX + 50
    assert time.process_time() - started_s < SOON_S_MAX
