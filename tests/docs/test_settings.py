"""docs/settings.md matches the table of settings."""

import re
from pathlib import Path

from fairpost.settings import FILE_VARIABLE, SETTINGS, read_settings, read_settings_file

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ROW = re.compile(r"^\| `(FAIRPOST_\w+)` \| (.*?) ?\| (.*?) \| (.*?) \|$", re.MULTILINE)
ALIAS = re.compile(r"^\| `(\w+)` \| `(FAIRPOST_\w+)` \| (.*?) \|$", re.MULTILINE)


def test_the_page_has_every_setting_with_its_default_rule_and_help() -> None:
    written = [
        (name, default.strip("`") or None, rule, help_) for name, default, rule, help_ in ROW.findall(PAGE.read_text())
    ]
    assert written == [(s.variable, s.default, s.kind.rule, s.help) for s in SETTINGS]


def test_the_page_has_every_other_name_with_its_rule() -> None:
    aliases = [(name, s.variable, kind.rule) for s in SETTINGS for name, kind in s.also.items()]
    assert ALIAS.findall(PAGE.read_text()) == aliases


def test_the_file_on_the_page_is_one_that_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "fairpost.toml").write_text(example)
    environ = {FILE_VARIABLE: str(tmp_path / "fairpost.toml")}
    assert len(read_settings_file(environ).texts) == 5
    assert read_settings(environ).operators == ("ann@example.com", "ben@example.com")
    assert f"`{FILE_VARIABLE}`" in PAGE.read_text()
