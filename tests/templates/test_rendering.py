"""Templates: what authors may write, the effect of recipients' fields, and what neither can do."""

import html
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import minijinja
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.errors import FairpostError
from fairpost.templates.reader import CHARS_MAX, TEMPLATE_CHARS_MAX, TemplateError
from fairpost.templates.rendering import (
    VALUE_CHARS_MAX,
    Compiled,
    MissingFields,
    Template,
    Unrenderable,
    compile_template,
    missing_of,
)
from fairpost.templates.samples import sample_of
from tests.facts import missing
from tests.thorough import times

SOON_S_MAX = (
    60  # of this process, for work that takes a second or two; without its limit, it takes much longer or never ends
)


def compiled(source: str) -> Compiled:
    return compile_template(Template(subject="Hello", text=source))


def text(source: str, /, **fields: Any) -> str | None:
    return compiled(source).render(fields).text


def markup(source: str, /, **fields: Any) -> str | None:
    return compile_template(Template(subject="Hello", html=source)).render(fields).html


def subject(source: str, /, **fields: Any) -> str:
    return compile_template(Template(subject=source)).render(fields).subject


def refusal(source: str) -> str:
    with pytest.raises(TemplateError) as refused:
        compiled(source)
    return str(refused.value)


# ── results ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "fields", "result"),
    [
        ("Hello {{ first_name }}!", {"first_name": "Ada"}, "Hello Ada!"),
        ('Hello {{ first_name or "there" }}!', {"first_name": "Ada"}, "Hello Ada!"),
        ('Hello {{ first_name or "there" }}!', {}, "Hello there!"),
        ('Hello {{ first_name | default("there") }}!', {}, "Hello there!"),
        ('Hello {{ first_name | d("there") }}!', {"first_name": None}, "Hello there!"),
        ('Hello {{ first_name | default("there") }}!', {"first_name": " \t"}, "Hello there!"),
        ('{{ unread | default("no") }} or {{ unread or "no" }}', {"unread": 0}, "0 or no"),
        ('{{ nickname or first_name or "there" }}', {"first_name": "Ada"}, "Ada"),
        ('{{ first_name | upper or "there" }}', {}, "there"),
        ('{{ (nickname or "ada") | title }}', {}, "Ada"),
        ("{% if company %}at {{ company }}{% endif %}.", {}, "."),
        ("{% if company and not city %}at {{ company }}{% endif %}.", {"company": "X"}, "at X."),
        ('{% if plan == "pro" %}a{% elif plan %}b{% else %}c{% endif %}', {"plan": "free"}, "b"),
        ('{{ "Mr" if sex == "m" else "Ms" }}', {}, "Ms"),
        ("{{ company if company else 'you' }}", {}, "you"),
        ("{% if seats | int > 10 %}many{% else %}few{% endif %}", {"seats": "9"}, "few"),
        ("{% for p in products %}{{ loop.index }} {{ p.name }}\n{% endfor %}", {"products": [{"name": "A"}]}, "1 A\n"),
        ("{% for tag in tags %}{{ tag }};{% endfor %}", {"tags": ["a", "", None, "b"]}, "a;b;"),
        ("{% for tag in tags %}x{% else %}none{% endfor %}", {"tags": []}, "none"),
        ("{{ tags | join }}, {{ tags | join('/') }}", {"tags": ["a", 2]}, "a, 2, a/2"),
        ("{{ order.total }} {{ lines.0.name }}", {"order": {"total": 5}, "lines": [{"name": "x"}]}, "5 x"),
        ("?q={{ company | urlencode }}", {"company": "A&B/ü"}, "?q=A%26B%2F%C3%BC"),
        ("{# for us #}{{- prénom -}} \r\n", {"prénom": "Zoé"}, "Zoé"),
        ("{{ 'नाम' }}{{ नाम }}\r\n", {"नाम": "x"}, "नामx\r\n"),
        ("}} %} { {", {}, "}} %} { {"),
    ],
)
def test_it_renders(source: str, fields: dict[str, Any], result: str) -> None:
    assert text(source, **fields) == result


def test_all_parts_are_rendered_and_only_html_is_escaped() -> None:
    template = Template(subject="For {{ name }}", text="To {{ name }}", html="<b>{{ name }}</b>")
    rendered = compile_template(template).render({"name": "<A & B/C>"})
    assert (rendered.subject, rendered.text) == ("For <A & B/C>", "To <A & B/C>")
    assert rendered.html == "<b>&lt;A &amp; B/C&gt;</b>"


def test_a_missing_part_stays_away() -> None:
    rendered = compile_template(Template(subject="{{ a }}")).render({"a": 1})
    assert (rendered.text, rendered.html) == (None, None)


@pytest.mark.parametrize(
    ("source", "required", "optional"),
    [
        ("{{ a }} {{ b or 1 }} {{ c | default(d) }}", {"a", "d"}, {"b", "c"}),
        ("{{ a or 1 }} {{ a }}", {"a"}, set()),
        ("{{ a or b }}", {"b"}, {"a"}),
        ("{% if a %}{{ a }}{% else %}{{ b }}{% endif %}", {"b"}, {"a"}),
        ("{% if a %}{% else %}{{ a }}{% endif %}", {"a"}, set()),
        ("{% if a or b %}{{ a }}{% endif %}", {"a"}, {"b"}),
        ("{% if not (a and b and c) %}{{ b }}{% endif %}", {"b"}, {"a", "c"}),
        ("{% if order %}{{ order.total }}{% endif %}", set(), {"order", "order.total"}),
        ("{% if a.b == 'x' %}{% endif %}{{ c.d | upper or 1 }}", {"a.b", "c.d"}, set()),
        ("{% for p in ps %}{{ p.name }}{{ a }}{% endfor %}", {"ps", "a"}, set()),
        ("{% if a | int > 3 %}{% endif %}", {"a"}, set()),
        ("plain", set(), set()),
    ],
)
def test_it_knows_its_fields(source: str, required: set[str], optional: set[str]) -> None:
    template = compiled(source)
    assert (set(template.required), set(template.optional)) == (required, optional)
    assert template.fields == required | optional


def test_it_says_what_is_missing() -> None:
    template = compile_template(Template(subject="{{ b }} {{ c or 1 }}", text="{{ a }}", html="{{ order.total }}"))
    fields = {"a": "", "b": "\n", "order": {"total": None}}
    assert missing_of(template, fields) == ("a", "b", "order.total")
    with pytest.raises(MissingFields, match=r"a, b, order\.total") as refused:
        template.render(fields)
    assert refused.value.names == ("a", "b", "order.total")


@pytest.mark.parametrize(
    "expression",
    [
        "p.x",
        "p.x | upper",
        "p.x | urlencode",
        "p.x | join",
        "p.x | length",
        "p.x | default(p.y)",
        "p.x or p.y",
        "p.x == 'a'",
    ],
)
def test_a_missing_field_of_a_list_entry_is_never_printed_as_nothing(expression: str) -> None:
    with pytest.raises(Unrenderable):
        text(f"{{% for p in ps %}}{{{{ {expression} }}}}{{% endfor %}}", ps=[{"z": 1}])


def test_a_preview_needs_no_recipient() -> None:
    template = compile_template(
        Template(
            subject='{{ first_name }} of {{ company or "your company" }}',
            text="{% for p in products %}{{ p.name }}: {{ p.price | float }}{% endfor %}{{ order.total }}{{ country }}",
        )
    )
    sample = sample_of(template)
    assert sample["first_name"] == "Ada"
    assert sample["country"] == "United Kingdom"
    assert template.render(sample).subject == "Ada of Example Ltd"


def test_the_same_words_are_compiled_once() -> None:
    assert compile_template(Template(subject="a {{ b }}")) is compile_template(Template(subject="a {{ b }}"))


def test_threads_share_a_template() -> None:
    template = compiled("{% for n in ns %}{{ n }},{% endfor %}{{ who }}")
    fields = [{"who": f"w{n}", "ns": [n] * 50} for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda some: template.render(some).text, fields))
    assert texts == [f"{n}," * 50 + f"w{n}" for n in range(200)]


# ── authors' mistakes ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("Hello {{ name", ("text, line 1", '"{{"')),
        ("Hello {{ name! And more", ("text, line 1", '"{{"')),
        ("Hello {{ name and {{ other }}", ("text, line 1", '"{{"')),
        ("a\nb {{ name %}", ("text, line 2", '"{{"', '"}}"')),
        ('{{ name or "there }}', (' " ',)),
        ("{{ name or “there” }}", ("typographic",)),
        ("{{ first name }}", ('"name"',)),
        ("{{ name\xa0}}", ("typographic",)),
        ("{{ a.² }}", ('"a.²"',)),
        ("{{ a." + "9" * 5_000 + " }}", ("9",)),
        ("{{ 2nd_name }}", ('"2"',)),
        ("{{ }}", ('"}}"',)),
        ("{# a", ('"{#"',)),
        ("{% if a %}b", ('"if"', "{% endif %}")),
        ("{% endif %}", ('"endif"',)),
        ("{% if a %}{% for b in c %}{% endif %}", ('"endif"',)),
        ("{% if a %}{% else %}{% else %}{% endif %}", ("text, line 1",)),
        ("{% if seats > 10 %}{% endif %}", ('"| int"',)),
        ("{% if seats == 10 %}{% endif %}", ('"| int"',)),
        ("{{ a | shout }}", ('"shout"', "capitalize")),
        ("{{ a | default }}", ('"default"', " 0 ")),
        ("{{ a if b }}", ('"else"',)),
        ("{{ loop.index }}", ('"loop.index"',)),
    ],
)
def test_mistakes_are_explained(source: str, facts: tuple[str, ...]) -> None:
    assert missing(refusal(source), *facts) == []


def test_a_mistake_has_its_place() -> None:
    with pytest.raises(TemplateError) as refused:
        compile_template(Template(subject="fine", html="é\n  {{ a b }}"))
    assert (refused.value.part, refused.value.line, refused.value.column) == ("html", 2, 8)


@pytest.mark.parametrize(
    "source",
    [
        '{% include "x" %}', '{% import "x" as y %}', '{% extends "x" %}', "{% macro m() %}{% endmacro %}", "{% raw %}",
        "{% set x = 1 %}", "{% autoescape false %}", "{% block b %}{% endblock %}", "{% do x() %}", "{% call m() %}",
        "{{ range(9) }}", "{{ x.pop() }}", "{{ x['a'] }}", "{{ [x, x] }}", "{{ 'a' * 9 }}", "{{ a ~ a }}", "{{ a + a }}",
        "{{ x | safe }}", "{{ x | attr('y') }}", "{{ x | format(1) }}", "{{ x is defined }}", "{{ none }}", "{{ self }}",
        "{{ x.__class__() }}", "{{ debug() }}", "{{ {'a': 1} }}", "{% for x in y recursive %}{% endfor %}",
    ],
)  # fmt: skip
def test_unneeded_constructs_are_not_part_of_the_language(source: str) -> None:
    refusal(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ a" + " or a" * 100_000 + " }}",
        "{{ " + "(" * 100_000 + "a" + ")" * 100_000 + " }}",
        "{{ a" + " | upper" * 100_000 + " }}",
        "{% if a %}" * 50_000 + "{% endif %}" * 50_000,
        "{% if a %}" + "{% elif a %}" * 50_000 + "{% endif %}",
        "{{" * 100_000,
        "x" * (TEMPLATE_CHARS_MAX + 1),
        "half \ud83d a smile",
    ],
    ids=["or", "brackets", "filters", "ifs", "elifs", "braces", "long", "surrogate"],
)
def test_monstrous_templates_are_refused_at_once(source: str) -> None:
    started_s = time.process_time()
    refusal(source)
    assert time.process_time() - started_s < SOON_S_MAX


# ── the effect of recipients' fields ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", ["{{ secret }}", "{% for a in b %}", "{# x #}", "{{ 7 * 7 }}", "}}", "{%"])
def test_braces_in_a_field_stay_text(value: str) -> None:
    assert text("{{ a }}", a=value, secret="s") == value
    assert html.unescape(markup("{{ a }}", a=value, secret="s") or "") == value


@pytest.mark.parametrize("value", ['"><script>', "' onload='", "</td>", "&amp;", "<!--"])
def test_markup_in_a_field_stays_text(value: str) -> None:
    escaped = markup("{{ a }}", a=value) or ""
    assert not re.search("[<>\"']", escaped)
    assert html.unescape(escaped) == value


@pytest.mark.parametrize(
    "source", ["{{ a | upper }}", "{{ a | join }}", "{{ a or 1 }}", "{{ a | default(1) }}", "{{ l | join }}"]
)
def test_nothing_in_the_language_undoes_the_escaping(source: str) -> None:
    assert "<" not in (markup(source, a="<B>", l=["<B>"]) or "")


def test_text_that_calls_itself_safe_html_is_refused() -> None:
    class Safe(str):
        def __html__(self) -> str:
            return self

    with pytest.raises(Unrenderable):
        markup("{{ a }}", a=Safe("<b>"))
    with pytest.raises(Unrenderable):
        markup("{{ a.b }}", a={"b": minijinja.safe("<b>")})


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\u2028", "\x85", "\x00", "\x0b", "\r\n\r\n"])
def test_a_field_cannot_end_the_subject(end: str) -> None:
    assert subject("Hi {{ a }}", a=f"x{end}Bcc: eve@example.com{end}") == "Hi x Bcc: eve@example.com"


def test_a_subject_of_several_lines_becomes_one() -> None:
    assert subject("{% if a %}\nHi {{ a }}\n{% endif %}\n", a="Ada") == "Hi Ada"
    assert subject("Plain\n") == "Plain"


@pytest.mark.parametrize(
    "path", ["__class__", "a.__class__", "o.__class__", "o._values", "o.items", "l.append", "l.__len__"]
)
def test_python_is_out_of_reach(path: str) -> None:
    assert text(f"{{{{ {path} or 'nothing' }}}}", a="x", o={"b": "c"}, l=["d"]) == "nothing"


@pytest.mark.parametrize("name", ["items", "keys", "values", "get", "pop", "copy", "update", "range", "debug", "dict"])
def test_a_field_may_be_called_what_python_calls_something(name: str) -> None:
    assert text(f"{{{{ {name} or 'no' }}}} {{{{ other }}}}", other=1) == "no 1"
    assert text(f"{{{{ {name} | default('no') }}}} {{{{ other }}}}", other=1) == "no 1"
    assert text(f"{{{{ {name} }}}}", **{name: "yes"}) == "yes"


class Strange:
    def __str__(self) -> str:
        raise AssertionError("nobody asks")


@pytest.mark.parametrize(
    "value", [Strange(), Strange, b"x", {1, 2}, (1, 2), 1j, float("nan"), float("inf"), 10**30, {"a": Strange()}]
)
def test_only_json_is_let_in(value: object) -> None:
    with pytest.raises(Unrenderable, match=r"\ba\b"):
        text("{{ a }}", a=value)


def test_a_field_that_is_not_used_does_no_harm() -> None:
    assert text("{{ a }}", a=1, b=Strange()) == "1"


@pytest.mark.parametrize("source", ["{{ a }}", "{{ a | upper }}", "{{ a.b | join }}", "{{ a or 1 }}"])
def test_a_list_is_never_printed_whole(source: str) -> None:
    with pytest.raises(Unrenderable, match=r"\ba\b"):
        text(source, a={"b": [["x"]]})


def test_the_letters_of_a_text_are_no_list() -> None:
    with pytest.raises(Unrenderable, match=r"\ba\b"):
        text("{% for b in a %}{{ b }}{% endfor %}", a="xyz")


def test_half_a_character_becomes_a_question_mark() -> None:
    assert text("{{ a }} {{ b.c }}", a="x\ud83dé", b={"c": "\udfff<"}) == "x?é ?<"


def test_a_list_within_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Unrenderable):
        text("{% for b in a %}x{% endfor %}", a=endless)


LOOP, END = "{% for n in ns %}", "{% endfor %}"


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("{{ a }}", {"a": "x" * 10_000_000}),
        ("{{ a }}" * 100, {"a": "<" * VALUE_CHARS_MAX}),
        ("{{ a.b }}" * 20_000, {"a": {"b": "x" * 10_000}}),
        (LOOP * 8 + "x" + END * 8, {"ns": list(range(1_000))}),
        (LOOP + "y" * 500_000 + END, {"ns": list(range(100_000))}),
        (LOOP * 2 + "{{ a }}" + END * 2, {"ns": list(range(1_000)), "a": "<" * 19_000}),
        (LOOP * 2 + "{% if a" + " | upper | lower" * 20 + " == 'x' %}{% endif %}" + END * 2, {"ns": [1] * 999, "a": "ß" * 19_000}),
        ("{{ ns | join(a) }}", {"ns": list(range(10_000)), "a": "x" * VALUE_CHARS_MAX}),
        ("{% for n in ns %}{% endfor %}", {"ns": [1] * 2_000_000}),
        ("{{ a.b }}", {"a": {f"k{n}": "x" * 1_000 for n in range(10_000)} | {"b": 1}}),
    ],
    ids=["field", "prints", "many-prints", "nested", "literal", "printed", "filters", "join", "list", "object"],
)  # fmt: skip
def test_endless_rendering_is_stopped(source: str, fields: dict[str, Any]) -> None:
    template = compile_template(Template(subject="s", html=source))
    started_s = time.process_time()
    with pytest.raises(Unrenderable):
        template.render(fields)
    assert time.process_time() - started_s < SOON_S_MAX


def test_a_part_that_grows_too_long_is_refused() -> None:
    with pytest.raises(Unrenderable, match=r"subject .*1,000"):
        subject("{{ a }}", a="x" * (CHARS_MAX["subject"] + 1))
    with pytest.raises(TemplateError, match=r"subject .*1,000"):
        subject("x" * (CHARS_MAX["subject"] + 1))


# ── for all templates and all fields ──────────────────────────────────────────────────────────────────────

NAMES = ["a", "b", "c", "items", "o.p", "o.q"]
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="⟦⟧"))
literals = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{⟦⟧"))
values = st.one_of(anything, st.none(), st.integers(-9, 9), st.booleans(), st.sampled_from(["", " ", "{{ a }}", "<b>"]))
objects = st.dictionaries(st.sampled_from("pq"), values)
recipients = st.fixed_dictionaries({}, optional={"a": values, "b": values, "c": values, "items": values, "o": objects})
names = st.sampled_from(NAMES)
prints = st.one_of(
    names.map(lambda name: f"⟦{{{{ {name} }}}}⟧"),
    names.map(lambda name: f'⟦{{{{ {name} or "-" }}}}⟧'),
    names.map(lambda name: f"⟦{{{{ {name} | default('-') }}}}⟧"),
    st.tuples(names, names).map(lambda two: f"⟦{{{{ {two[0]} or {two[1]} }}}}⟧"),
)
straight = st.lists(st.one_of(literals, prints), max_size=6).map("".join)
branching = st.recursive(
    straight,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(names, inner, inner).map(lambda t: f"{{% if {t[0]} %}}{t[1]}{{% else %}}{t[2]}{{% endif %}}"),
        st.tuples(names, inner).map(lambda t: f"{{% if not {t[0]} and b == 'x' %}}{t[1]}{{% endif %}}"),
        inner.map(lambda body: f"{{% for entry in rows %}}{{{{ entry.n }}}}{body}{{% endfor %}}"),
    ),
    max_leaves=5,
)


@given(literals)
def test_without_braces_nothing_changes(words: str) -> None:
    rendered = compile_template(Template(subject="s", text=words, html=words)).render({})
    assert (rendered.text, rendered.html) == (words, words)


@given(before=literals, value=anything.filter(str.strip), after=literals)
def test_a_field_is_printed_as_it_is(before: str, value: str, after: str) -> None:
    assert text(before + "{{ a }}" + after, a=value) == before + value + after
    assert html.unescape(markup("{{ a }}", a=value) or "") == html.unescape(html.escape(value))
    shown = subject("{{ a }}", a=value)
    assert shown == shown.strip()
    assert len(shown.splitlines()) <= 1


@settings(max_examples=times(60))
@given(straight, recipients)
def test_missing_fields_are_known_without_rendering(source: str, fields: dict[str, Any]) -> None:
    template = compiled(source)
    if lacking := missing_of(template, fields):
        with pytest.raises(MissingFields) as error:
            template.render(fields)
        assert error.value.names == lacking
    else:
        template.render(fields)


@settings(max_examples=times(60))
@given(branching, recipients)
def test_a_complete_recipient_sees_no_gaps(source: str, fields: dict[str, Any]) -> None:
    template = compiled(source)
    some = {**fields, "rows": [{"n": 1}, {"n": "x"}]}
    if not missing_of(template, some):
        assert "⟦⟧" not in (template.render(some).text or "")


@given(branching, recipients)
def test_the_order_of_fields_does_not_matter(source: str, fields: dict[str, Any]) -> None:
    def outcome(some: dict[str, Any]) -> object:
        try:
            return compiled(source).render(some)
        except FairpostError as error:
            return str(error)

    assert outcome(fields) == outcome(dict(reversed(fields.items())))


@settings(max_examples=times(60))
@given(branching)
def test_the_engine_finds_the_same_fields(source: str) -> None:
    found = minijinja.Environment().undeclared_variables_in_str(source)
    assert {path.partition(".")[0] for path in compiled(source).fields} == found


@given(branching)
def test_every_template_has_a_preview(source: str) -> None:
    template = compiled(source)
    assert not missing_of(template, sample_of(template))
    assert template.render(sample_of(template)).text is not None


TOKENS = "{{ }} {% %} {# #} if elif else endif for endfor in not and or is a b.c loop.index 'x' \" ( ) | default int join , == < 7 -7 1.5 . - + ~ é \n"


@settings(max_examples=times(150))
@given(st.lists(st.sampled_from(TOKENS.split(" ")), max_size=25).map(" ".join))
def test_any_words_are_rendered_or_refused(source: str) -> None:
    with suppress(TemplateError, Unrenderable):
        template = compiled(source)
        template.render(sample_of(template))


def test_a_field_deep_in_others_is_refused_before_it_is_compiled() -> None:
    """The engine recurses as deeply, and its process crashes if that is very deep."""
    assert text("{{ a.b.c.d.e.f.g.h.i }}", a={"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": "deep"}}}}}}}}) == "deep"
    assert " 8 " in refusal("{{ a" + ".a" * 9 + " }}")
    assert " 8 " in refusal("{{ a" + ".a" * 400_000 + " }}")


def test_a_preview_costs_what_the_template_is_long() -> None:
    began_s = time.process_time()
    assert len(sample_of(compiled("".join(f"{{{{ a{n} }}}}" for n in range(20_000))))) == 20_000
    template = compiled("{{ a" + ".19" * 8 + " }}")  # twenty to the power of eight
    with pytest.raises(Unrenderable):
        template.render(sample_of(template))
    assert time.process_time() - began_s < SOON_S_MAX
