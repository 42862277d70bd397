"""Every picture that the docs refer to exists, and every picture is referred to."""

import re
from pathlib import Path

from tests.browser import screenshots

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "screenshots"
BYTES_MAX = 4_000_000  # in total, because every clone contains them
PICTURE = re.compile(r"""(?:\]\(|src=")([^)"\s]+\.(?:png|webp|svg|jpe?g))[)"]""")


def _named() -> set[Path]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {
        (page.parent / name).resolve()
        for page in pages
        for name in PICTURE.findall(page.read_text("utf-8"))
        if ":" not in name
    }


def test_every_picture_that_is_named_is_there() -> None:
    assert sorted(path for path in _named() if not path.is_file()) == []


def test_every_picture_that_is_there_is_named_and_taken_by_the_command() -> None:
    there = set(FOLDER.resolve().iterdir())
    assert there - _named() == set()
    taken = {f"{shot.name}-{screen}.png" for shot in screenshots.SHOTS for screen in shot.screens}
    assert {path.name for path in there} == taken


def test_they_are_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert max(sizes) <= screenshots.BYTES_MAX
    assert sum(sizes) <= BYTES_MAX
