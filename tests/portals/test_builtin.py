"""The built-in e-mails: what each of them must contain, and that no field can break them."""

import html
import re
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from html.parser import HTMLParser
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.errors import NotFound
from fairpost.portals.folder import BUILT_IN
from fairpost.portals.loading import built_in_portals
from fairpost.portals.template import PortalTemplate
from fairpost.templates.rendering import MissingFields, Rendered, Unrenderable
from tests.facts import missing

PORTALS = ("admin", "agency", "hub", "org")
TYPES = ("email_verification", "forgot_password", "invite", "password_changed", "tfa", "welcome")
EXPIRY = {
    "tfa": timedelta(minutes=10), "forgot_password": timedelta(hours=1), "email_verification": timedelta(hours=24),
    "invite": timedelta(days=7), "password_changed": None, "welcome": None,
}  # fmt: skip
IN_WORDS = {
    "tfa": "10 minutes", "forgot_password": "1 hour", "email_verification": "24 hours", "invite": "7 days",
}  # fmt: skip

LOADED = built_in_portals()
ALL = LOADED.list()
every = pytest.mark.parametrize("template", ALL, ids=lambda template: f"{template.portal.key}-{template.type}")


class Structure(HTMLParser):
    """The standard library's own parser, as a second opinion on what markup.py accepted."""

    VOID = frozenset({"br", "hr", "img", "meta"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.events: list[tuple[str, ...]] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.events.append(("start", tag, *(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.events.append(("end", tag))
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.events.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.events.append(("doctype", decl))

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def parts(rendered: Rendered) -> tuple[str, str]:
    assert rendered.text is not None
    assert rendered.html is not None
    return rendered.text, rendered.html


def fewest(template: PortalTemplate) -> dict[str, Any]:
    return {name: field.sample for name, field in template.fields.items() if field.is_required}


# ── content ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_portal_has_every_type() -> None:
    assert [(each.portal.key, each.type) for each in ALL] == [(portal, kind) for portal in PORTALS for kind in TYPES]


def test_only_the_example_links_are_to_be_replaced() -> None:
    assert {missing(warning.message, "links", "portal.toml") == [] for warning in LOADED.warnings} == {True}
    assert not [warning for warning in LOADED.warnings if "admin" in warning.file], "codes are sent before any set-up"


@every
def test_a_preview_shows_all_of_it(template: PortalTemplate) -> None:
    rendered = LOADED.preview(template.portal.key, template.type)
    text, page = parts(rendered)
    assert 5 <= len(rendered.subject) <= 78
    assert "\n" not in rendered.subject
    read = Structure(page)
    for name, field in template.fields.items():
        for line in str(field.sample).splitlines():
            assert line in text, name
            assert line in read.text, name
    assert "{" not in rendered.subject + text + page
    assert "}" not in rendered.subject + text + page


@every
def test_the_html_is_made_for_mail_programs(template: PortalTemplate) -> None:
    _, page = parts(template.render(template.sample))
    read = Structure(page)
    tags = {event[1] for event in read.events if event[0] == "start"}
    assert page.startswith("<!DOCTYPE html>")
    assert not tags & {"style", "script", "link", "form", "iframe", "svg", "button"}
    assert not re.search(r"url\(|@import|class=|javascript:", page)
    assert {"title", "table", "h1"} <= tags
    assert len(page.encode()) < 20_000
    assert all(
        "style" in event for event in read.events if event[:2] in (("start", "p"), ("start", "h1"), ("start", "a"))
    )
    assert all("role" in event for event in read.events if event[:2] == ("start", "table"))
    assert 'name="color-scheme"' in page


@every
def test_it_has_a_preheader_of_its_own(template: PortalTemplate) -> None:
    rendered = template.render(template.sample)
    shown = re.search(r'<body[^>]*>\s*<div style="[^"]*">(.*?)</div>', rendered.html or "")
    assert shown
    assert 30 <= len(html.unescape(shown[1])) <= 110
    assert shown[1] != rendered.subject


@every
def test_a_link_is_a_button_and_stands_below_it_in_plain(template: PortalTemplate) -> None:
    text, page = parts(template.render(template.sample))
    read = Structure(page)
    urls = [str(field.sample) for field in template.fields.values() if field.kind == "url"]
    assert len(urls) == (0 if template.type == "tfa" else 1)
    for url in urls:
        assert read.links.count(url) == 2
        assert f"\n{url}\n" in text
        assert url in read.text


@every
def test_it_reads_well_with_all_fields_and_with_the_fewest(template: PortalTemplate) -> None:
    for fields in (template.sample, fewest(template)):
        rendered = template.render(fields)
        text, page = parts(rendered)
        words = re.sub(r"\s+", " ", Structure(page).text)
        for said in (rendered.subject, text.replace("    ", ""), words):
            assert not re.search(r"None|undefined| [,.!?:]|,,|\(\)|[^\n:] ,", said), said
        assert "\n\n\n" not in text
        assert re.search(r":\s*\n\s*\n\s*\n", text) is None
        assert text.endswith("\n")
        assert not text.endswith("\n\n")


@pytest.mark.parametrize("portal", PORTALS)
def test_a_code_is_in_both_parts_and_in_the_subject_only_where_screens_are_not_shared(portal: str) -> None:
    rendered = LOADED.render(portal, "tfa", {"code": "012345"})
    text, page = parts(rendered)
    assert re.search(r"^ +012345$", text, re.MULTILINE)
    assert "012345" in Structure(page).text
    assert ("012345" in rendered.subject) == (portal in ("hub", "agency"))
    shown = re.search(r'<body[^>]*>\s*<div style="[^"]*">(.*?)</div>', page)
    assert shown
    assert "012345" not in shown[1]


@every
def test_it_expires_when_it_says_so(template: PortalTemplate) -> None:
    assert template.expires_after == EXPIRY[template.type]
    if template.type in IN_WORDS:
        assert template.fields["valid_for"].sample == IN_WORDS[template.type]
        text, page = parts(template.render(fewest(template)))
        assert IN_WORDS[template.type] in text
        assert IN_WORDS[template.type] in page
        assert "2 fortnights" in parts(template.render(fewest(template) | {"valid_for": "2 fortnights"}))[0]


@every
def test_mail_that_people_wait_for_is_urgent(template: PortalTemplate) -> None:
    assert template.is_urgent == (template.type not in ("welcome", "invite"))


@pytest.mark.parametrize("kind", TYPES)
def test_nothing_is_shared_between_portals(kind: str) -> None:
    of_this = [each for each in ALL if each.type == kind]
    for part in ("subject", "text", "html"):
        said = {getattr(each.render(each.sample), part) for each in of_this}
        assert len(said) == len(PORTALS)
    written = {
        portal: "".join(
            path.read_text("utf-8") for path in sorted((BUILT_IN / portal / kind).iterdir()) if path.suffix != ".toml"
        )
        for portal in PORTALS
    }
    for one, other in combinations(PORTALS, 2):
        assert not sentences(written[one]) & sentences(written[other])


def sentences(words: str) -> set[str]:
    return set(re.findall(r"[A-Z][^.!?<>\n{}]{20,}[.!?]", words))


def test_every_portal_has_its_own_brand() -> None:
    portals = {each.portal.key: each.portal for each in ALL}
    for pick in ("name", "sender_name", "tone"):
        assert len({getattr(portal, pick) for portal in portals.values()}) == len(PORTALS)
    assert len({portal.values["footer"] for portal in portals.values()}) == len(PORTALS)
    assert len({portal.values["colours"]["accent"] for portal in portals.values()}) == len(PORTALS)
    for name in ("layout.html", "layout.txt"):
        assert len({(BUILT_IN / portal / name).read_text("utf-8") for portal in PORTALS}) == len(PORTALS)
    for portal in portals.values():
        text, page = parts(LOADED.preview(portal.key, "welcome"))
        assert portal.values["footer"] in text
        assert portal.values["footer"] in Structure(page).text
        assert portal.values["colours"]["accent"] in page


# ── lookups ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["../hub", "", "HUB", "hub/welcome", "nobody"])
def test_missing_templates_are_reported(name: str) -> None:
    with pytest.raises(NotFound, match="admin, agency, hub, org"):
        LOADED.render(name, "welcome", {})
    with pytest.raises(NotFound, match=r"hub .*email_verification, forgot_password"):
        LOADED.preview("hub", name)


def test_a_field_that_is_missing_or_unknown_is_reported() -> None:
    with pytest.raises(MissingFields) as incomplete:
        LOADED.render("hub", "invite", {"inviter": " ", "first_name": None})
    assert incomplete.value.names == ("inviter", "accept_url")
    with pytest.raises(Unrenderable, match=r"hub/tfa .*cod, portal.*first_name"):
        LOADED.render("hub", "tfa", {"code": "123456", "cod": "1", "portal": {"name": "Evil"}})


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JAVASCRIPT://example.com/%0aalert(1)", "data:text/html,x", "//example.com", "/reset", "reset",
        "https://", "https:///path", "https://good.example@evil.example/", "https://exa mple.com", "https://example.com/\nX: y",
        "https://example.com/\u202e", 'https://example.com/"onclick', "https://example.com/<b>", "https://example.com\\@evil",
        "ftp://example.com", " https://example.com", "https://example.com/\x00", "https://[::1", "http:example.com",
    ],
)  # fmt: skip
def test_only_links_to_the_web_are_let_in(url: str) -> None:
    with pytest.raises(Unrenderable, match=r"reset_url .*https"):
        LOADED.render("hub", "forgot_password", {"reset_url": url})


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "http://localhost:8080/x?a=b&c=d#e", "https://[2001:db8::1]:443/", "https://münchen.example/ü?q=日本",
        "HTTPS://EXAMPLE.COM/it's", "https://a-b_c.example./?t=%3D==",
    ],
)  # fmt: skip
def test_real_links_arrive_as_they_are(url: str) -> None:
    text, page = parts(LOADED.render("hub", "forgot_password", {"reset_url": url}))
    assert f"\n{url}\n" in text
    assert Structure(page).links.count(url) == 2


@pytest.mark.parametrize("code", ["12345", "1234567", "12345a", "١٢٣٤٥٦", "12 456", "123456\n"])
def test_a_code_is_six_digits(code: str) -> None:
    with pytest.raises(Unrenderable, match="code") as error:
        LOADED.render("admin", "tfa", {"code": code})
    assert code not in str(error.value), "a secret must not be logged"


def test_a_code_is_no_number() -> None:
    with pytest.raises(Unrenderable, match=r"\bcode .*\bint\b"):
        LOADED.render("admin", "tfa", {"code": 123456})


@pytest.mark.parametrize("value", [5, True, b"Ada", ["Ada"], {"a": 1}, object()])
def test_a_name_is_text(value: object) -> None:
    with pytest.raises(Unrenderable, match="first_name"):
        LOADED.render("hub", "tfa", {"code": "123456", "first_name": value})


def test_too_long_is_refused() -> None:
    with pytest.raises(Unrenderable, match=r"first_name .*\b81\b.*\b80\b"):
        LOADED.render("hub", "tfa", {"code": "123456", "first_name": "x" * 81})


def test_a_name_cannot_write_lines_of_its_own_or_turn_others_round() -> None:
    name = "Ada\r\n\r\nYour account is closed. Call 555\u202e!"
    rendered = LOADED.render("hub", "tfa", {"code": "123456", "first_name": name})
    assert "Ada Your account is closed. Call 555!" in (rendered.text or "")
    assert "\nYour account is closed" not in (rendered.text or "")


def test_a_message_keeps_its_lines() -> None:
    fields = {"inviter": "Grace", "accept_url": "https://example.com/", "message": "One\r\nTwo\x0bThree"}
    text, page = parts(LOADED.render("hub", "invite", fields))
    assert "\n\nOne\nTwo Three\n\n" in text
    assert "white-space: pre-line" in page


# ── for all fields ────────────────────────────────────────────────────────────────────────────────────────

nasty = st.sampled_from(
    ['"><script>alert(1)</script>', "' onload='x", "</td></tr></table>", "<!--", "-->", "]]>", "&lt;", "{{ code }}", "{% if %}",
     "{#", "\r\nBcc: eve@example.com", "\n\n.\n", "\u2028", "\x00", "\ufdd0content\ufdd0", "\ufdd1", "\ud800", "<?php", "=?utf-8?q?x?="]
)  # fmt: skip
strings = st.one_of(st.text(max_size=40), st.lists(st.one_of(nasty, st.text(max_size=5)), max_size=4).map("".join))


def reference(template: PortalTemplate, given_names: frozenset[str]) -> list[tuple[str, ...]]:
    page = template.render({name: template.fields[name].sample for name in given_names}).html
    return Structure(page or "").events


@given(st.data())
def test_no_string_in_any_field_changes_the_structure_or_adds_a_header(data: st.DataObject) -> None:
    template = data.draw(st.sampled_from(ALL))
    free = [name for name, field in template.fields.items() if field.kind in ("text", "lines")]
    drawn = {name: data.draw(strings, label=name)[: template.fields[name].chars_max] for name in free}
    fields = fewest(template) | {
        name: value for name, value in drawn.items() if value.strip() or name not in fewest(template)
    }
    filled = frozenset(name for name, value in fields.items() if cleaned(value).strip())
    if lacking := fewest(template).keys() - filled:
        with pytest.raises(MissingFields) as error:
            template.render(fields)
        assert set(error.value.names) == lacking
        return
    rendered = template.render(fields)
    _, page = parts(rendered)
    read = Structure(page)
    assert read.events == reference(template, filled)
    for name in filled & set(free):
        assert one_line(cleaned(fields[name])) in one_line(read.text), name
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", rendered.subject)
    message = EmailMessage(policy=SMTP)
    message["Subject"] = rendered.subject
    message["To"] = "ada@example.com"
    headers = message.as_bytes().partition(b"\r\n\r\n")[0]
    assert re.findall(rb"(?m)^([A-Za-z-]+):", headers) == [b"Subject", b"To"]


def cleaned(value: object) -> str:
    text = re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", str(value))
    return re.sub("[\u202a-\u202e\u2066-\u2069]", "", text).replace("\ud800", "?")


def one_line(text: str) -> str:
    return " ".join(text.split())


@given(st.data())
def test_any_value_in_any_field_renders_or_is_refused(data: st.DataObject) -> None:
    template = data.draw(st.sampled_from(ALL))
    anything = st.one_of(
        strings, st.none(), st.integers(), st.floats(), st.lists(strings, max_size=2), st.binary(max_size=4)
    )
    fields = {name: data.draw(st.one_of(anything, st.just(field.sample))) for name, field in template.fields.items()}
    try:
        rendered = template.render(fields)
    except Unrenderable:
        return
    Structure(rendered.html or "")


@given(strings)
def test_a_link_that_is_let_in_is_one_link(url: str) -> None:
    try:
        rendered = LOADED.render("hub", "forgot_password", {"reset_url": f"https://example.com/{url}"})
    except Unrenderable:
        return
    assert Structure(rendered.html or "").links.count(f"https://example.com/{url}".replace("\ud800", "?")) == 2
