"""Measures how long rendering an e-mail takes.

Rendering a campaign e-mail is compared with str.format_map. A system e-mail with a workspace's content is compared with
one whose content comes from the files. Both measurements include the lookup that decides which content applies.
"""

from collections.abc import Awaitable, Callable, Sequence
from statistics import median

from fairpost.dev.bench.workload import Progress, bench_database
from fairpost.portals.folder import BUILT_IN
from fairpost.portals.loading import load_portals
from fairpost.portals.workspace import WorkspacePortals
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.templates.rendering import Template, compile_template

ROUNDS = 7
ROUND_S = 0.3
OWN, NONE = "with words of its own", "without"

PARAGRAPH = "It should be with you by Thursday. If not, reply to this e-mail and we will look into it at once. "
TEXT = f"Hello {{{{ first_name }}}},\n\nyour order {{{{ order_no }}}} for {{{{ company }}}} has left {{{{ city }}}}.\n\n{PARAGRAPH * 18}\n\n{{{{ link }}}}\n"
ROW = '<tr><td style="padding: 8px 16px; font-family: sans-serif; color: #333333">{}</td></tr>\n'
HTML = (
    ROW.format("Hello <b>{{ first_name }}</b>, your order {{ order_no }} for {{ company }} has left {{ city }}.")
    + ROW.format(PARAGRAPH) * 42
    + ROW.format('<a href="{{ link }}">See where it is</a>')
)
TEMPLATE = Template(subject="Order {{ order_no }} is on its way, {{ first_name }}", text=TEXT, html=HTML)
FIELDS = [
    {
        "first_name": f"Jürgen {n}",
        "order_no": str(4_700 + n),
        "company": "Müller & Söhne",
        "city": "Köln",
        "link": f"https://example.com/orders/{n}?from=mail",
    }
    for n in range(100)
]


async def bench_render(url: str, progress: Progress) -> dict[str, float]:
    progress("rendering a campaign e-mail")
    compiled, formats = compile_template(TEMPLATE), formats_of(TEMPLATE)
    figures = _medians_us(
        {
            "render_us": lambda n: compiled.render(FIELDS[n]),
            "format_map_us": lambda n: by_format_map(formats, n),
        }
    )
    async with bench_database(url) as own, Store.open(own, connections_max=1) as store:
        progress("rendering a product e-mail, with a workspace's content and with the files' content")
        portals = load_portals(BUILT_IN)
        desk = WorkspacePortals(store, portals)
        mails = [(each.portal.key, each.type, each.sample) for each in portals.list()]
        for portal, mail_type, _ in mails:
            await desk.put_override(OWN, portal, mail_type, portals.get(portal, mail_type).words)
        figures |= await _asked_us(
            {
                "portal_own_words_us": lambda n: desk.portal_email(OWN, *mails[n % len(mails)]),
                "portal_us": lambda n: desk.portal_email(NONE, *mails[n % len(mails)]),
                "select_us": lambda _: store.value("SELECT 1"),
            }
        )
    return figures


def formats_of(template: Template) -> list[str]:
    sources = (template.subject, template.text or "", template.html or "")
    return [source.replace("{{ ", "{").replace(" }}", "}") for source in sources]


def by_format_map(formats: Sequence[str], n: int) -> list[str]:
    """Renders without escaping or checks, as a lower bound."""
    return [source.format_map(FIELDS[n]) for source in formats]


def _medians_us(subjects: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Times the functions in turn so that momentary load on the machine affects all of them."""
    seen: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            done, started_s = 0, clock.monotonic()
            while (taken_s := clock.monotonic() - started_s) < ROUND_S:
                for n in range(len(FIELDS)):
                    subject(n)
                done += len(FIELDS)
            seen[name].append(taken_s / done * 1e6)
    return {name: median(times) for name, times in seen.items()}


async def _asked_us(subjects: dict[str, Callable[[int], Awaitable[object]]]) -> dict[str, float]:
    seen: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            done, started_s = 0, clock.monotonic()
            while (taken_s := clock.monotonic() - started_s) < ROUND_S:
                await subject(done)
                done += 1
            seen[name].append(taken_s / done * 1e6)
    return {name: median(times) for name, times in seen.items()}
