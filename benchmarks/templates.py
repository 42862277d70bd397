"""Measures rendering a template for one recipient, compared with `str.format_map` and Jinja2 in the same run.

Reports CPU time, which a busy machine affects less. Needs only the package; Jinja2 is included if it is installed.
`--json` prints only the figures.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

from fairpost.dev.bench.render import FIELDS, HTML, TEMPLATE, TEXT, by_format_map, formats_of
from fairpost.templates.rendering import Template, compile_template, missing_of

ROUNDS = 7
ROUND_S = 0.3


def with_fallbacks(source: str) -> str:
    return source.replace("first_name }}", 'first_name or "there" }}').replace(
        "city }}", 'city | default("our house") }}'
    )


def main() -> None:
    compiled = compile_template(TEMPLATE)
    fallbacks = compile_template(
        Template(subject=TEMPLATE.subject, text=with_fallbacks(TEXT), html=with_fallbacks(HTML))
    )
    figures = medians_us(
        {
            "render_us": lambda n: compiled.render(FIELDS[n]),
            "render_with_fallbacks_us": lambda n: fallbacks.render(FIELDS[n]),
            "cached_compile_and_render_us": lambda n: compile_template(TEMPLATE).render(FIELDS[n]),
            "missing_of_us": lambda n: missing_of(compiled, FIELDS[n]),
            "compile_us": lambda n: compile_template.__wrapped__(TEMPLATE),
            "format_map_us": partial(by_format_map, formats_of(TEMPLATE)),
            **by_jinja2(),
        }
    )
    sizes = {"text_chars": len(TEXT), "html_chars": len(HTML), "fields": len(FIELDS[0])}
    if "--json" in sys.argv:
        print(json.dumps(sizes | figures))
        return
    print(f"subject, {len(TEXT):,} characters of text and {len(HTML):,} of html, {len(FIELDS[0])} fields in 12 places")
    for name, figure in figures.items():
        print(f"{name.removesuffix('_us').replace('_', ' '):32}{figure:9.1f} µs {1e6 / figure:12,.0f}/s")
    if "jinja2_us" not in figures:
        print("jinja2 is not installed: not compared")


def by_jinja2() -> dict[str, Callable[[int], object]]:
    try:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return {}
    plain = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    escaping = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=True)
    parts = [plain.from_string(TEMPLATE.subject), plain.from_string(TEXT), escaping.from_string(HTML)]
    return {"jinja2_us": lambda n: [part.render(FIELDS[n]) for part in parts]}


def medians_us(subjects: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """Returns the median times. The functions run in turns, so that a busy moment of the machine affects all of them."""
    seen: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            seen[name].append(mean_us(subject))
    return {name: round(sorted(times)[ROUNDS // 2], 2) for name, times in seen.items()}


def mean_us(subject: Callable[[int], Any]) -> float:
    done = 0
    started_s = process_time()
    while (taken_s := process_time() - started_s) < ROUND_S:
        for n in range(len(FIELDS)):
            subject(n)
        done += len(FIELDS)
    return taken_s / done * 1e6


if __name__ == "__main__":
    main()
