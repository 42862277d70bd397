"""docs/settings.md and the table of settings say the same."""

import re
from pathlib import Path

from fairpost.settings import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ROW = re.compile(r"^\| `(FAIRPOST_\w+)` \| (.*?) ?\| (.*?) \| (.*?) \|$", re.MULTILINE)
ALIAS = re.compile(r"^\| `(\w+)` \| `(FAIRPOST_\w+)` \| (.*?) \|$", re.MULTILINE)


def test_the_page_has_every_setting_with_its_default_rule_and_help() -> None:
    written = [
        (name, default.strip("`") or None, rule, help_) for name, default, rule, help_ in ROW.findall(PAGE.read_text())
    ]
    assert written == [(s.variable, s.default, s.rule, s.help) for s in SETTINGS]


def test_the_page_has_every_other_name_with_its_rule() -> None:
    aliases = [(s.alias.variable, s.variable, s.alias.rule) for s in SETTINGS if s.alias]
    assert ALIAS.findall(PAGE.read_text()) == aliases
