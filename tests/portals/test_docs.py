"""docs/portal-templates.md names every portal, type, file, kind of field and limit."""

import re
from pathlib import Path
from textwrap import indent
from typing import Any

from fairpost.portals.building import WORDS_BYTES_MAX
from fairpost.portals.declared import COLOURS, FIELDS_MAX, KINDS, LINKS_MAX, PORTAL_KEYS
from fairpost.portals.folder import ENTRIES_MAX, FILE_BYTES_MAX, OF_PORTAL, OF_TYPE, PROBLEMS_MAX
from fairpost.portals.loading import PORTALS_MAX, built_in_portals
from fairpost.portals.workspace import KEPT_MAX
from fairpost.store.store import Store

PAGE = (Path(__file__).parents[2] / "docs" / "portal-templates.md").read_text("utf-8")
ALL = built_in_portals().list()


def rows(heading: str) -> list[list[str]]:
    section = re.split(r"^#+ ", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")
    ]


def test_every_portal_has_a_row() -> None:
    portals = {each.portal.key: each.portal for each in ALL}
    assert {row[0].strip("`"): row[1] for row in rows("Portals")} == {
        key: portal.name for key, portal in portals.items()
    }


def test_every_type_has_a_row_with_its_fields_and_when_it_expires() -> None:
    table = {row[0].strip("`"): row for row in rows("Types")}
    assert set(table) == {each.type for each in ALL}
    for template in ALL:
        _, _, urgent, expires, required, optional = table[template.type]
        assert urgent == ("yes" if template.is_urgent else "no")
        seconds = template.expires_after.total_seconds() if template.expires_after else 0
        units = {"m": 60, "h": 3_600, "d": 86_400}
        assert seconds == (int(expires[:-1]) * units[expires[-1]] if expires else 0)
        for name, field in template.fields.items():
            assert f"`{name}`" in required + optional
            assert field.is_required is False or f"`{name}`" in required


def test_every_file_key_and_kind_is_explained() -> None:
    for name in (*OF_PORTAL, *OF_TYPE):
        assert f"`{name}`" in PAGE
    for name in (*PORTAL_KEYS, *COLOURS, *KINDS):
        assert f"`{name}`" in PAGE, name
    assert {row[0].strip("`") for row in rows("Kinds of fields")} == set(KINDS)


def test_the_limits_are_those_of_the_code() -> None:
    limits = (FILE_BYTES_MAX, ENTRIES_MAX, PORTALS_MAX, FIELDS_MAX, LINKS_MAX, WORDS_BYTES_MAX, PROBLEMS_MAX, KEPT_MAX)
    for limit in limits:
        assert f"{limit:,}" in PAGE


def test_the_example_runs() -> None:
    example, _ = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert "482913" in str(names["rendered"])


async def test_the_example_with_a_workspaces_words_runs(store: Store, tmp_path: Path) -> None:
    _, example = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(f"async def run(store, home):\n{indent(example, '    ')}\n    return locals()", names)
    made = await names["run"](store, tmp_path)
    assert made["rendered"].subject == "482913 for the shop"
    assert made["email_id"]
