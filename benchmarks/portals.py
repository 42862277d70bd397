"""Measures loading and rendering the built-in product e-mails, compared in the same run with the template engine alone
and with Jinja2.

Reports CPU time, which a busy machine affects less. Needs only the package; Jinja2 is included if it is installed.
`--json` prints only the figures.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import minijinja

from fairpost.portals.folder import BUILT_IN
from fairpost.portals.loading import load_portals
from fairpost.portals.template import PortalTemplate

ROUNDS = 7
ROUND_S = 0.1


def main() -> None:
    portals = load_portals(BUILT_IN)
    templates = portals.list()
    samples = [template.sample for template in templates]
    keys = [(template.portal.key, template.type, sample) for template, sample in zip(templates, samples, strict=True)]
    each = {
        f"{template.portal.key}/{template.type}": partial(portals.render, *key)
        for template, key in zip(templates, keys, strict=True)
    }
    single = medians_us({name: [call] for name, call in each.items()})
    slowest = max(single, key=lambda name: single[name])
    figures = medians_us(
        {
            "render_us": list(each.values()),
            "minijinja_alone_us": [by_minijinja(template) for template in templates],
            **by_jinja2(templates),
        }
    )
    figures |= {
        "slowest_us": single[slowest],
        "load_all_ms": medians_us({"load": [lambda: load_portals(BUILT_IN)]})["load"] / 1e3,
    }
    if "--json" in sys.argv:
        print(json.dumps(figures | {"templates": len(templates), "slowest": slowest}))
        return
    pages = [len(portals.preview(*key[:2]).html or "") for key in keys]
    print(f"{len(templates)} templates, {min(pages):,} to {max(pages):,} characters of html; the mean of all of them")
    for name, figure in figures.items():
        unit = "ms" if name.endswith("_ms") else "µs"
        print(f"{name[:-3].replace('_', ' '):24}{figure:9.1f} {unit}{f'   {slowest}' if name == 'slowest_us' else ''}")
    if "jinja2_us" not in figures:
        print("jinja2 is not installed: not compared")


def sources_of(template: PortalTemplate) -> dict[str, str]:
    return template.compiled._sources


def by_minijinja(template: PortalTemplate) -> Callable[[], object]:
    """Returns a function that renders without kinds, limits or checks for missing fields: the lower bound."""
    engine = minijinja.Environment(templates=sources_of(template), auto_escape_callback=lambda part: part == "html")
    values: dict[str, Any] = {**template.sample, **template.constants}
    return lambda: [engine.render_template(part, **values) for part in ("subject", "text", "html")]


def by_jinja2(templates: tuple[PortalTemplate, ...]) -> dict[str, list[Callable[[], object]]]:
    try:
        from jinja2 import DictLoader, StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return {}

    def rendering(template: PortalTemplate) -> Callable[[], object]:
        engine = ImmutableSandboxedEnvironment(
            loader=DictLoader(sources_of(template)), undefined=StrictUndefined, autoescape=lambda part: part == "html"
        )
        parts = [engine.get_template(part) for part in ("subject", "text", "html")]
        values: dict[str, Any] = {**template.sample, **template.constants}
        return lambda: [part.render(values) for part in parts]

    return {"jinja2_us": [rendering(template) for template in templates]}


def medians_us(subjects: dict[str, list[Callable[[], object]]]) -> dict[str, float]:
    """Returns the median times. The functions run in turns, so that a busy moment of the machine affects all of them."""
    seen: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, calls in subjects.items():
            seen[name].append(mean_us(calls))
    return {name: round(sorted(times)[ROUNDS // 2], 2) for name, times in seen.items()}


def mean_us(calls: list[Callable[[], object]]) -> float:
    done = 0
    started_s = process_time()
    while (taken_s := process_time() - started_s) < ROUND_S:
        for call in calls:
            call()
        done += len(calls)
    return taken_s / done * 1e6


if __name__ == "__main__":
    main()
