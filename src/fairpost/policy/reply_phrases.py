"""Patterns made of phrases, for the tables of `reply_rules`.

Bars separate phrases, and * stands for some other words. Every phrase begins at the start of a word. A phrase that ends
with ! must also end at the end of a word. Phrases are matched against the text without its addresses and links. A row
of `beside` instead requires two things near each other, in either order: the subject and what is said about it.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

from fairpost.policy.reply_findings import Finding


@dataclass(frozen=True)
class Phrases:
    expression: str
    finding: Finding
    only: str = ""  # "4" or "5": the row applies only to replies of this class

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern.

        The pattern is compiled on first use, because compiling all patterns takes a tenth of a second and most
        processes read no replies.
        """
        return re.compile(self.expression)


def fold(text: str) -> str:
    """Convert to lower case without accents, like the phrases: "Boîte" becomes "boite"."""
    folded = text.upper().casefold()
    if folded.isascii():
        return folded
    return "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))


_GAP = r".{0,40}?"  # bounded so that matching is always fast
_CLOSE = r"[^a-z0-9]{1,3}(?:[a-z]{1,16}[^a-z0-9]{1,3}){0,3}?"  # some short words: "mailbox HAS BEEN disabled"


def _options(phrases: tuple[str, ...]) -> str:
    each = (fold(phrase) for line in phrases for phrase in line.split(" | "))
    return "|".join(_option(phrase) for phrase in each)


def _option(phrase: str) -> str:
    end = r"(?![a-z0-9])" if phrase.endswith("!") else ""
    return _GAP.join(map(re.escape, phrase.removesuffix("!").split("*"))) + end


def row(finding: Finding, *phrases: str, only: str = "") -> Phrases:
    return Phrases(rf"(?<![a-z0-9])(?:{_options(phrases)})", finding, only)


def beside(
    finding: Finding, whom: tuple[str, ...], what: tuple[str, ...], *, is_close: bool = False, only: str = ""
) -> Phrases:
    """Return phrases that match two things near each other. With `is_close`, which is meant for a `what` with many
    uses, only a few words may separate them.
    """
    one, other = (rf"(?<![a-z0-9])(?:{_options(each)})" for each in (whom, what))
    gap = rf"[a-z]{{0,2}}(?:{_CLOSE}|[^a-z0-9]{{0,2}})" if is_close else _GAP
    return Phrases(f"{one}{gap}{other}|{other}{gap}{one}", finding, only)
