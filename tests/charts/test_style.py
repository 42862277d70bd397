"""The colours are readable in light and dark mode, and every class in use is documented."""

import re

import pytest

import fairpost.charts
from fairpost.charts import stylesheet

LIGHT, DARK = stylesheet().split("@media (prefers-color-scheme: dark)")
PROPERTY = re.compile(r"--(fc-[\w-]+): (#[0-9a-f]{3,6});")


def colours(css: str) -> dict[str, str]:
    return dict(PROPERTY.findall(css))


def rgb(colour: str) -> list[float]:
    """Returns linear light, by WCAG."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    return [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]


def luminance(linear: list[float]) -> float:
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(rgb(one)), luminance(rgb(other))))
    return (high + 0.05) / (low + 0.05)


def seen_without_green(colour: str) -> tuple[float, float]:
    """Returns lightness, and blue against yellow, which is what remains in deuteranopia (by Viénot, Brettel and
    Mollon)."""
    red, green, blue = rgb(colour)
    yellow = 0.29275 * red + 0.70725 * green
    bluish = -0.02234 * red + 0.02234 * green + blue
    return max(0.0, yellow) ** (1 / 3), max(0.0, bluish) ** (1 / 3)


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_can_be_told_from_the_paper(css: str) -> None:
    named = colours(css)
    paper = named["fc-paper"]
    assert contrast(named["fc-ink"], paper) >= 7
    assert contrast(named["fc-faint"], paper) >= 4.5
    for name, colour in named.items():
        if name.startswith("fc-colour-"):
            assert contrast(colour, paper) >= 3, name


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
def test_the_first_four_colours_and_good_and_bad_differ_for_eyes_without_green(css: str) -> None:
    named = colours(css)
    pairs = [(f"fc-colour-{one}", f"fc-colour-{other}") for one in range(1, 5) for other in range(one + 1, 5)]
    for one, other in [*pairs, ("fc-colour-good", "fc-colour-bad")]:
        a, b = seen_without_green(named[one]), seen_without_green(named[other])
        assert abs(a[0] - b[0]) + abs(a[1] - b[1]) > 0.1, (one, other)


def test_light_and_dark_have_the_same_colours() -> None:
    assert set(colours(LIGHT)) == set(colours(DARK))


def test_every_class_in_the_stylesheet_is_described() -> None:
    described = fairpost.charts.__doc__ or ""
    numbered = {f"fc-{n}" for n in range(1, 9)}
    for name in set(re.findall(r"\.(fc-[\w-]+)", stylesheet())) - numbered:
        assert f"`{name}`" in described, name
