"""The fields of delivery reports (RFC 3464), whether they appear in their own part or as lines of text. Real reports
omit blank lines, repeat fields, give the part the wrong type, or put the fields into the notice. Groups are therefore
found by their fields. A new group begins after a blank line, or with a recipient field that the current group already
has.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from fairpost.returns.addresses import address_of
from fairpost.returns.mail import Mail, storable

GROUPS_MAX = 100
LINES_MAX = 5_000

_NAMES = (
    "final-recipient|original-recipient|x-actual-recipient|action|status|diagnostic-code|x-diagnostic-code|remote-mta"
    "|reporting-mta|original-envelope-id|x-display-name|x-supplementary-info|last-attempt-date|will-retry-until"
    "|arrival-date|final-log-id|received-from-mta|dsn-gateway|x-[a-z0-9-]{1,40}"
)
_FIELD = re.compile(rf"[ \t*|]{{0,4}}({_NAMES})[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\x\{([0-9a-f]{1,6})\}", re.IGNORECASE)  # RFC 6533, section 3
_NAMES_ADDRESS = frozenset({"final-recipient", "original-recipient"})


@dataclass(frozen=True, slots=True)
class Group:
    """The report on one recipient."""

    fields: dict[str, str]

    @property
    def addresses(self) -> list[str]:
        """The original address, followed by the addresses to which it was rewritten in transit."""
        values = (self.fields.get(name, "") for name in ("original-recipient", "final-recipient", "x-actual-recipient"))
        return list(dict.fromkeys(address for value in values if (address := _address(value))))

    def of(self, address: str) -> "Group":
        """Returns a copy of the group for an address that was found elsewhere."""
        return Group(self.fields | {"final-recipient": address})

    @property
    def action(self) -> str:
        match = re.match(r"\w+", self.fields.get("action", ""))
        return match[0].lower() if match else ""

    @property
    def status(self) -> str:
        return self.fields.get("status", "")

    @property
    def diagnostic(self) -> str:
        """The diagnostic without the prefix for its type: smtp, x-postfix, X-Notes, …"""
        value = self.fields.get("diagnostic-code") or self.fields.get("x-supplementary-info", "")
        return re.sub(r"^[\w-]{1,40};\s*", "", value)


def _address(value: str) -> str:
    _, semicolon, rest = value.partition(";")
    value = _ESCAPED.sub(_unescaped, rest if semicolon else value).strip().strip("<>").strip()
    if "@" in value and " " not in value:
        return value.strip(";\"'") if value.count("@") == 1 else value
    return address_of(value) or (value if re.fullmatch(r"[\w.+-]{1,64}", value) else "")


def _unescaped(match: "re.Match[str]") -> str:
    number = int(match[1], 16)
    return storable(chr(number)) if number <= sys.maxunicode else ""


def groups_in(mail: Mail) -> list[Group]:
    """Returns the groups in a report, one for each recipient."""
    parts = mail.of_kind("message/delivery-status", "message/global-delivery-status")
    return _grouped([part.text() for part in parts])


def groups_in_text(mail: Mail) -> list[Group]:
    """Returns groups found in text, for reports whose part has another type or no type.

    Any mail can contain such lines, so check first whether it is a report.
    """
    return _grouped([part.text() for part in mail.parts if part.kind.startswith("text/")])


def _grouped(texts: list[str]) -> list[Group]:
    groups: list[dict[str, str]] = []
    for chunk in (chunk for text in texts for chunk in _chunks(text)):
        if _has_address(chunk):
            groups.append(chunk)
        elif groups:  # these fields belong to the previous recipient, despite a superfluous blank line
            groups[-1].update({name: value for name, value in chunk.items() if name not in groups[-1]})
    return [Group(group) for group in groups[:GROUPS_MAX]]


def _chunks(text: str) -> Iterator[dict[str, str]]:
    chunk: dict[str, str] = {}
    for name, value in _fields(text):
        if chunk and (not name or (name in _NAMES_ADDRESS and name in chunk)):
            yield chunk
            chunk = {}
        if name:
            chunk.setdefault(name, value)
    if chunk:
        yield chunk


def _has_address(group: dict[str, str]) -> bool:
    return any(name in group for name in _NAMES_ADDRESS)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yields names and values. Folded lines are joined, and a blank line yields an empty name."""
    name, value = "", ""
    for line in text.split("\n", LINES_MAX)[:LINES_MAX]:
        if line[:1] in (" ", "\t") and name and not _FIELD.match(line) and line.strip():
            value = f"{value} {line.strip()}"
            continue
        if name:
            yield name, value[:4_000]
            name = ""
        if match := _FIELD.match(line):
            name, value = match[1].lower(), match[2].strip()
        elif not line.strip():
            yield "", ""
    if name:
        yield name, value[:4_000]
