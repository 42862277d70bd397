"""A workspace's own content for the product's e-mails: checked before it is stored, used immediately everywhere, and
harmless."""

import shutil
import time
import tomllib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.errors import FairpostError, NotFound
from fairpost.portals.building import WORDS_BYTES_MAX
from fairpost.portals.folder import BUILT_IN, BrokenTemplates
from fairpost.portals.loading import built_in_portals, portals_at
from fairpost.portals.template import Words
from fairpost.portals.workspace import KEPT_CHARS_MAX, Kept, Saved, WorkspacePortals
from fairpost.store import portal_overrides
from fairpost.store.store import Store
from fairpost.templates.rendering import Unrenderable
from tests.thorough import times

SOON_S_MAX = (
    60  # of this process, for work that takes a second or two; without its limit, it takes much longer or never ends
)
LOADED = built_in_portals()
TFA = LOADED.get("hub", "tfa").words
OWN = Words(
    subject="{{ code }}, says the shop",
    text="Shop code: {{ code }}{% if place %} ({{ place }}){% endif %}",
    html='<p class="text">Shop code: <b>{{ code }}</b></p>',
    preheader="From the shop",
)
CODE = {"code": "482913"}


@pytest.fixture
def ours(store: Store) -> WorkspacePortals:
    return WorkspacePortals(store, LOADED)


@pytest.fixture
async def others(url: str) -> AsyncIterator[WorkspacePortals]:
    """As in another process: another store, with nothing cached."""
    async with Store.open(url) as store:
        yield WorkspacePortals(store, LOADED)


async def rows(store: Store) -> list[Any]:
    return [tuple(row) for row in await store.fetch("SELECT * FROM fairpost.portal_overrides ORDER BY 1, 2, 3")]


# ── precedence ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_workspace_has_its_own_words_and_the_others_have_those_of_the_files(ours: WorkspacePortals) -> None:
    saved = await ours.put_override("shop", "hub", "tfa", OWN, by="ann")
    assert saved.is_new
    said = await ours.portal_email("shop", "hub", "tfa", CODE)
    assert said.subject == "482913, says the shop"
    assert "Shop code: 482913" in (said.text or "")
    assert "From the shop" in (said.html or "")
    built_in = LOADED.render("hub", "tfa", CODE)
    assert await ours.portal_email("bakery", "hub", "tfa", CODE) == built_in
    assert await ours.portal_email("shop", "hub", "forgot_password", {"reset_url": "https://a.example/x"})
    assert (await ours.portal_email("shop", "org", "tfa", CODE)) == LOADED.render("org", "tfa", CODE)


async def test_the_layout_stays_the_portals_and_its_styles_are_put_into_the_tags(ours: WorkspacePortals) -> None:
    await ours.put_override("shop", "hub", "tfa", OWN)
    page = (await ours.portal_email("shop", "hub", "tfa", CODE)).html or ""
    built_in = LOADED.render("hub", "tfa", CODE).html or ""
    footer = LOADED.get("hub", "tfa").portal.values["footer"]
    assert footer in page
    assert footer in built_in
    assert "<style" not in page
    assert "class=" not in page
    assert '<p style="' in page


async def test_urgency_fields_and_expiry_are_those_of_the_files(ours: WorkspacePortals) -> None:
    await ours.put_override("shop", "hub", "tfa", OWN)
    template = await ours.template("shop", "hub", "tfa")
    of_files = LOADED.get("hub", "tfa")
    assert (template.is_urgent, template.expires_after) == (of_files.is_urgent, of_files.expires_after)
    assert template.fields == of_files.fields
    assert template.where == "workspace shop"
    with pytest.raises(Unrenderable, match="code"):
        await ours.portal_email("shop", "hub", "tfa", {})
    with pytest.raises(Unrenderable, match="kode"):
        await ours.portal_email("shop", "hub", "tfa", CODE | {"kode": "1"})


async def test_without_a_preheader_that_of_the_files_is_used(ours: WorkspacePortals) -> None:
    await ours.put_override("shop", "hub", "tfa", replace(OWN, preheader=None))
    of_files = tomllib.loads((BUILT_IN / "hub" / "tfa" / "meta.toml").read_text())["preheader"]
    assert of_files.partition(" {{")[0] in ((await ours.portal_email("shop", "hub", "tfa", CODE)).html or "")
    assert (await ours.words("shop", "hub", "tfa")).preheader is None


async def test_a_workspaces_content_overrides_the_operators_which_overrides_ours(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "templates" / "hub" / "tfa"
    shutil.copytree(BUILT_IN / "hub" / "tfa", folder)
    (folder / "subject.txt").write_text("The operator's {{ code }}\n")
    operators = WorkspacePortals(store, portals_at(tmp_path))
    assert (await operators.portal_email("shop", "hub", "tfa", CODE)).subject == "The operator's 482913"
    await operators.put_override("shop", "hub", "tfa", OWN)
    assert (await operators.portal_email("shop", "hub", "tfa", CODE)).subject == "482913, says the shop"
    assert (await operators.portal_email("bakery", "hub", "tfa", CODE)).subject == "The operator's 482913"
    await operators.remove_override("shop", "hub", "tfa")
    assert (await operators.portal_email("shop", "hub", "tfa", CODE)).subject == "The operator's 482913"


async def test_they_are_listed_with_who_wrote_them_and_when(ours: WorkspacePortals, store: Store) -> None:
    await ours.put_override("shop", "hub", "welcome", LOADED.get("hub", "welcome").words)
    await ours.put_override("shop", "hub", "tfa", OWN, by="ann")
    await ours.put_override("bakery", "org", "tfa", LOADED.get("org", "tfa").words)
    found = await ours.overrides("shop")
    assert [(each.stored.portal, each.stored.type, each.stored.changed_by) for each in found] == [
        ("hub", "tfa", "ann"),
        ("hub", "welcome", None),
    ]
    assert [each.problem for each in found] == [None, None]
    now = await store.value("SELECT clock_timestamp()")
    assert all(each.stored.changed_at <= now for each in found)


async def test_the_built_in_words_are_fit_to_be_a_workspaces(ours: WorkspacePortals) -> None:
    for template in LOADED.list():
        key = template.portal.key, template.type
        assert (await ours.put_override("shop", *key, template.words)).warnings == ()
        assert await ours.portal_email("shop", *key, template.sample) == LOADED.preview(*key)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_change_is_seen_at_once_by_other_processes(ours: WorkspacePortals, others: WorkspacePortals) -> None:
    async def said() -> str:
        return (await others.portal_email("shop", "hub", "tfa", CODE)).subject

    built_in = await said()
    await ours.put_override("shop", "hub", "tfa", OWN)
    assert await said() == "482913, says the shop"
    saved = await ours.put_override("shop", "hub", "tfa", replace(OWN, subject="Now {{ code }}"))
    assert not saved.is_new
    assert await said() == "Now 482913"
    assert await ours.remove_override("shop", "hub", "tfa")
    assert await said() == built_in
    await ours.put_override("shop", "hub", "tfa", OWN)
    assert await said() == "482913, says the shop", "a portal removed and written again has a new revision"


async def test_compiled_templates_are_cached_until_they_change(
    ours: WorkspacePortals, others: WorkspacePortals, store: Store
) -> None:
    await others.put_override("shop", "hub", "tfa", OWN)
    first = await ours.template("shop", "hub", "tfa")
    assert await ours.template("shop", "hub", "tfa") is first
    found = await portal_overrides.newest(store, "shop", "hub", "tfa")
    assert found is not None
    assert found.words is not None
    again = await portal_overrides.newest(store, "shop", "hub", "tfa", known=found.revision)
    assert again == portal_overrides.Newest(revision=found.revision, words=None), (
        "cached content is not transferred again"
    )
    await others.put_override("shop", "hub", "tfa", OWN)
    assert await ours.template("shop", "hub", "tfa") is not first


async def test_the_cache_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    ours = WorkspacePortals(store, LOADED, kept=kept)
    monkeypatch.setattr("fairpost.portals.workspace.KEPT_MAX", 3)
    for number in range(5):
        await ours.put_override(f"shop{number}", "hub", "tfa", OWN)
        await ours.portal_email(f"shop{number}", "hub", "tfa", CODE)
    assert len(kept) == 3
    long = replace(OWN, html="<p>{{ code }}" + "x" * 50_000 + "</p>")
    monkeypatch.setattr("fairpost.portals.workspace.KEPT_CHARS_MAX", 60_000)
    for workspace in ("a", "b"):
        await ours.put_override(workspace, "hub", "tfa", long)
        assert "482913" in (await ours.portal_email(workspace, "hub", "tfa", CODE)).subject
    assert len(kept) == 1
    assert kept.chars <= 60_000 < KEPT_CHARS_MAX
    await ours.remove_override("b", "hub", "tfa")
    await ours.portal_email("b", "hub", "tfa", CODE)
    assert (len(kept), kept.chars) == (0, 0)


async def test_words_that_the_files_do_not_bear_any_more_are_passed_over_and_told(
    ours: WorkspacePortals, store: Store, tmp_path: Path
) -> None:
    """A code must be sent, whatever the operator has changed since."""
    await ours.put_override("shop", "hub", "tfa", OWN)
    folder = tmp_path / "templates" / "hub" / "tfa"
    shutil.copytree(BUILT_IN / "hub" / "tfa", folder)
    for name in ("meta.toml", "text.txt", "html.html"):
        file = folder / name
        file.write_text(file.read_text().replace("place", "spot"))
    changed = WorkspacePortals(store, portals_at(tmp_path))
    for _ in range(2):
        assert (await changed.portal_email("shop", "hub", "tfa", CODE)).subject == LOADED.render(
            "hub", "tfa", CODE
        ).subject
    (override,) = await changed.overrides("shop")
    assert "place" in str(override.problem)


async def test_one_whose_type_is_gone_is_listed_and_can_be_removed(store: Store, tmp_path: Path) -> None:
    shutil.copytree(BUILT_IN / "hub" / "tfa", tmp_path / "templates" / "hub" / "newsletter")
    before = WorkspacePortals(store, portals_at(tmp_path))
    await before.put_override("shop", "hub", "newsletter", OWN)
    after = WorkspacePortals(store, LOADED)
    (override,) = await after.overrides("shop")
    assert "newsletter" in str(override.problem)
    with pytest.raises(NotFound):
        await after.portal_email("shop", "hub", "newsletter", CODE)
    assert await after.remove_override("shop", "hub", "newsletter")
    assert await after.overrides("shop") == []


# ── rejected content ──────────────────────────────────────────────────────────────────────────────────────

Place = tuple[int, int]  # line and column; 0 means the part as a whole

BROKEN: list[tuple[str, str, Place, str]] = [
    ("html", "<p>{{ code }}</p>\n<p>never closed", (2, 1), "<p>"),
    ("html", "<p>{{ code }}</p>\n\n <html></html>", (3, 2), "<html>"),
    ("html", "\n\n<html></html>", (3, 1), "<html>"),
    ("html", "<script>alert(1)</script>", (1, 1), "<script>"),
    ("html", "<style>p { }</style>", (1, 1), "<style>"),
    ("html", '<p onclick="x">{{ code }}</p>', (1, 3), "onclick"),
    ("html", '<a href="{{ code }}">x</a>', (1, 10), "href"),
    ("html", '<a href="javascript:x">x</a>', (1, 10), "href"),
    ("text", "Your code\nis {{ kode }}", (2, 7), "first_name, valid_for"),
    ("text", "Hello {{ first_name }}", (1, 10), "{{ first_name or "),
    ("text", "a\n{{ (place or 'a') | int }}", (2, 21), "\"(place or 'a') | int\""),
    ("text", "{{ code", (1, 1), '"{{"'),
    ("text", "a\0b", (1, 2), "U+0000"),
    ("text", "a\ud800", (1, 2), ""),
    ("subject", "one\ntwo", (1, 1), ""),
    ("subject", "  ", (1, 1), ""),
    ("subject", "\ufdd0content\ufdd0", (1, 1), "U+FDD0"),
    ("preheader", "one\ntwo", (1, 1), ""),
    ("preheader", "see {{ kode }}", (1, 8), "kode"),
    ("html", "x" * (WORDS_BYTES_MAX + 1), (0, 0), "102,400"),
]

# Every known way to break out of a template in this family of languages.
HOSTILE: list[tuple[str, int | None, str]] = [  # the column where it is found, and what the message names
    ("{{ ''.__class__ }}", 6, '"."'),
    ("{{ code.__class__.__mro__ }}", 4, "code.__class__.__mro__"),
    ("{{ portal.__class__ }}", 4, "portal.__class__"),
    ("{{ portal.name.__class__ }}", None, "portal.name.__class__"),
    ("{{ portal.links.__len__ }}", None, "portal.links.__len__"),
    ("{{ portal['name'] }}", 10, '"["'),
    ("{{ portal.name.upper() }}", 21, '"("'),
    ("{{ code | attr('__class__') }}", 11, '"attr"'),
    ("{{ code | safe }}", 11, '"safe"'),
    ("{{ code | map(attribute='x') }}", None, '"="'),
    ("{{ self }}", 4, '"self"'),
    ("{{ super() }}", 4, '"super"'),
    ("{{ debug() }}", 9, '"("'),
    ("{{ namespace }}", 4, "namespace"),
    ("{{ config }}{{ request }}{{ environ }}", 4, "config"),
    ("{{ portal }}", 4, "portal"),
    ("{{ portal.colours }}", None, ""),
    ("{% include '/etc/passwd' %}", 1, '"include"'),
    ("{% include 'html' %}", 1, '"include"'),
    ("{% import 'subject' as s %}", 1, '"import"'),
    ("{% from 'text' import x %}", 1, '"from"'),
    ("{% extends 'html' %}", 1, '"extends"'),
    ("{% set x = 1 %}", 1, '"set"'),
    ("{% do x %}", 1, '"do"'),
    ("{% raw %}{{ x }}{% endraw %}", 1, '"raw"'),
    ("{% autoescape false %}{% endautoescape %}", 1, '"autoescape"'),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", 1, '"macro"'),
    ("{% for i in range(1000000000) %}x{% endfor %}", 18, '"("'),
    ("{% for i in portal.links recursive %}{{ loop(i) }}{% endfor %}", None, '"recursive"'),
    ("{% for i in portal.links %}" * 17 + "x" + "{% endfor %}" * 17, None, "16"),
    ("{{ 'a' * 1000000000 }}", 8, '"*"'),
    ("{{ 9 ** 9 }}", 6, '"*"'),
    ("{{ 'a' ~ 'b' }}", 8, '"~"'),
    ("{{ 'a' + 'b' }}", 8, '"+"'),
    ("{{ 'a' % 9 }}", 1, '"{{"'),
    ("{{ 'aa' | replace('a', 'aaaa') }}", 11, '"replace"'),
    ("{{ 'a' | indent(999999999) }}", 10, '"indent"'),
    ("{{ '%999999999d' | format(1) }}", None, '"format"'),
    ("{{ 'a' | center(999999999) }}", None, '"center"'),
    ("{{ [1, 2] }}", 4, '"["'),
    ("{{ {'a': 1} }}", None, '"{{"'),
    ("{{ " + "(" * 99 + "1" + ")" * 99 + " }}", None, "100"),
    ("{{ 'a'" + " | urlencode" * 60 + " }}", None, "100"),
    ("{# " + "x" * 99, 1, ""),
    ("{% endif %}", 1, '"endif"'),
    ("{% if code %}", 1, '"if"'),
]


ENDLESS = [
    "{% for i in portal.links %}" * 16 + "x" + "{% endfor %}" * 16,
    "{% for i in portal.links %}" * 9 + "x" * 50_000 + "{% endfor %}" * 9,
    "{% for i in portal.links %}" * 9 + "{{ '" + "x" * 50_000 + "' }}" + "{% endfor %}" * 9,
    "{% for i in portal.links %}" * 9 + "{{ code }}" * 5_000 + "{% endfor %}" * 9,
    "{{ code }}" * 9_999 + "{{ 1 }}{{ 1 }}",
]


async def refusal(ours: WorkspacePortals, part: str, words: str) -> BrokenTemplates:
    with pytest.raises(BrokenTemplates) as broken:
        await ours.put_override("shop", "hub", "tfa", replace(OWN, **{part: words}))
    return broken.value


def found_at(broken: BrokenTemplates, part: str) -> dict[Place, str]:
    return {(each.line, each.column): each.message for each in broken.problems if each.file == part}


async def test_a_broken_template_is_refused_with_its_position_and_nothing_is_changed(
    ours: WorkspacePortals, store: Store
) -> None:
    await ours.put_override("shop", "hub", "tfa", OWN)
    before = await rows(store)
    wrong = []
    for part, words, place, fact in BROKEN:
        found = found_at(await refusal(ours, part, words), part)
        if place not in found or fact not in found[place]:
            wrong.append((part, words[:40], found))
    assert wrong == []
    assert await rows(store) == before


@pytest.mark.parametrize("part", ["subject", "text", "html"])
async def test_no_words_get_out_of_their_place(ours: WorkspacePortals, store: Store, part: str) -> None:
    started_s = time.process_time()
    wrong = []
    for words, column, fact in HOSTILE:
        found = found_at(await refusal(ours, part, words), part)
        if not any(fact in message for place, message in found.items() if column in (None, place[1])):
            wrong.append((words[:40], found))
    assert wrong == []
    assert time.process_time() - started_s < SOON_S_MAX
    assert await rows(store) == []


@pytest.mark.parametrize("part", ["subject", "text", "html"])
async def test_no_words_run_forever_or_fill_the_memory(ours: WorkspacePortals, store: Store, part: str) -> None:
    started_s = time.process_time()
    for number, words in enumerate(ENDLESS if part == "text" else ENDLESS[:3]):
        assert found_at(await refusal(ours, part, words), part), number
    assert time.process_time() - started_s < SOON_S_MAX
    assert await rows(store) == []


async def test_python_attributes_of_a_value_are_hidden_from_templates(ours: WorkspacePortals) -> None:
    for path in ("portal.name.__class__", "portal.links.__len__", "portal.links.0.items", "portal.links.pop"):
        await ours.put_override("shop", "hub", "tfa", replace(OWN, subject=f'{{{{ {path} or "nothing" }}}}'))
        assert (await ours.portal_email("shop", "hub", "tfa", CODE)).subject == "nothing", path


PIECES = [
    "<", "<!--", "<p>", "</p>", "<p ", "<b></b>", "{", "{{", "{#", "{##}", "&", "{% if code %}<b></b>{% endif %}",
    '<a href="https://example.com/{{ code | urlencode }}">x</a>', "{{ zz }}<b>", '<p style="color: red"></p>',
]  # fmt: skip


@pytest.mark.thorough
async def test_no_words_take_long_to_check(ours: WorkspacePortals) -> None:
    bytes_ = min(WORDS_BYTES_MAX, times(WORDS_BYTES_MAX // 4))
    for piece in PIECES:
        started_s = time.process_time()
        try:
            await ours.put_override("shop", "hub", "tfa", replace(OWN, html=piece * (bytes_ // len(piece))))
            await ours.portal_email("shop", "hub", "tfa", CODE)
        except (BrokenTemplates, Unrenderable):
            pass
        assert time.process_time() - started_s < SOON_S_MAX * bytes_ / WORDS_BYTES_MAX, piece


async def test_output_that_grows_with_a_value_is_limited_when_rendered(ours: WorkspacePortals) -> None:
    """It worked with the samples."""
    endless = "{% for i in portal.links %}" * 9 + "x" + "{% endfor %}" * 9
    words = replace(OWN, text="{% if place == 'Atlantis' %}" + endless + "{% endif %}{{ code }}")
    await ours.put_override("shop", "hub", "tfa", words)
    assert (await ours.portal_email("shop", "hub", "tfa", CODE)).text
    with pytest.raises(Unrenderable):
        await ours.portal_email("shop", "hub", "tfa", CODE | {"place": "Atlantis"})


async def test_fields_stay_text_in_a_workspaces_html(ours: WorkspacePortals) -> None:
    await ours.put_override("shop", "hub", "tfa", replace(OWN, html='<p title="{{ place or 1 }}">{{ place or 1 }}</p>'))
    said = await ours.portal_email("shop", "hub", "tfa", CODE | {"place": '"><script>{{ code }}</script>'})
    assert "<script" not in (said.html or "")
    assert "{{ code }}" in (said.html or "")


def unprinted(saved: Saved) -> set[str]:
    """Returns the fields that its warnings name."""
    return {word for each in saved.warnings if each.file == "hub/tfa" for word in each.message.split()}


@pytest.mark.parametrize("part", ["subject", "text", "html", "preheader"])
async def test_a_field_that_nothing_prints_is_reported(ours: WorkspacePortals, part: str) -> None:
    words = Words(subject="Hi", text="Hi", html="<p>Hi</p>", preheader="Hi")
    saved = await ours.put_override("shop", "hub", "tfa", words)
    assert unprinted(saved) >= {"code", "first_name"}
    printed = "<p>{{ code }}</p>" if part == "html" else "{{ code }}"
    saved = await ours.put_override("shop", "hub", "tfa", replace(words, **{part: printed}))
    assert "code" not in unprinted(saved)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = [
    "..", "../hub", "hub/..", "/etc/passwd", "/hub", "./hub", "hub/tfa", "hub\0", "\0", "", " hub", "hub ", "hub\n", "HUB",
    "hυb", "ｈｕｂ", "hub\u200b", "h\u00ad", "%2e%2e", "..\\hub", "C:\\hub", "__class__", "hub'; --", "*", "h" * 10_000, "\ud800",
]  # fmt: skip


async def test_only_names_of_the_files_are_known(ours: WorkspacePortals, store: Store) -> None:
    for portal, mail_type in (pair for name in NAMES for pair in ((name, "tfa"), ("hub", name), (name, name))):
        for call in (
            ours.put_override("shop", portal, mail_type, OWN),
            ours.remove_override("shop", portal, mail_type),
            ours.portal_email("shop", portal, mail_type, CODE),
        ):
            with pytest.raises(NotFound) as unknown:
                await call
            assert len(str(unknown.value)) < 500
    assert await rows(store) == []


@settings(max_examples=200)
@given(name=st.text())
async def test_no_other_name_is_ever_taken(ours: WorkspacePortals, name: str) -> None:
    if name != "hub":
        with pytest.raises(NotFound):
            await ours.put_override("shop", name, "tfa", OWN)
        with pytest.raises(NotFound):
            await ours.remove_override("shop", name, "tfa")


async def test_the_database_takes_no_other_names_either(store: Store) -> None:
    words = {"subject": "a", "preheader": None, "text": "a", "html": "a", "by": None}
    for name in ("../hub", "Hub", "h" * 65, ""):
        with pytest.raises(Exception, match="check constraint"):
            await portal_overrides.put_row(store, "shop", name, "tfa", **words)  # type: ignore[arg-type]


# ── enqueueing ────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_is_queued_in_the_workspaces_words(ours: WorkspacePortals, store: Store) -> None:
    await ours.put_override("shop", "hub", "tfa", OWN)
    await ours.send("shop", "hub", "tfa", CODE, to="ann@example.com")
    row = await store.row(
        """SELECT q.class::text, q.expires_at - q.created_at AS life, q.workspace, l.type
           FROM fairpost.queue q JOIN fairpost.labels l ON l.email_id = q.id"""
    )
    assert (row["class"], row["workspace"], row["type"]) == ("urgent", "shop", "hub_tfa")
    assert abs(row["life"].total_seconds() - 600) < 5
    assert await store.value("SELECT subject FROM fairpost.contents") == "482913, says the shop"
    with pytest.raises(FairpostError, match="nonsense"):
        await ours.send("shop", "hub", "tfa", CODE, to="nonsense")
