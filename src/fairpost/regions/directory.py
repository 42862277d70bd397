"""The regions and their database URLs. This module does not connect to the databases.

Regions are configured as `eu=postgresql://…,us=postgresql://…`, or as a table `[regions]` in a TOML file.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fairpost.model.errors import NotFound

MAIN = "main"  # the name of the only region if no regions are set
HOME = "home"  # the database that stores the directory of regions and the admins; no region may have this name
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
REGIONS_MAX = 100

_SCHEMES = ("postgresql://", "postgres://")
# A comma may also separate the hosts of one URL, or be part of a password.
_BETWEEN = re.compile(r",\s*(?=[^,=/@]*=postgres(?:ql)?://)")


@dataclass(frozen=True, slots=True)
class Region:
    name: str
    url: str = field(repr=False)  # includes the password

    @property
    def place(self) -> str:
        """The host and database, for display, without the password or anything else that might contain a password."""
        try:
            parts = urlsplit(re.sub("//.*@", "//", self.url))  # up to the last @, as a password may contain @ and /
            options = dict(parse_qsl(parts.query))
            host = parts.netloc or options.get("host", "localhost")
            database = parts.path.strip("/") or options.get("dbname") or options.get("database") or ""
        except ValueError:
            return "a malformed URL"
        return f"{host}/{database}"


class Directory:
    """The regions, in the order in which they are configured."""

    def __init__(self, regions: Iterable[Region]) -> None:
        self._regions = {region.name: region for region in regions}

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions.values())

    def __len__(self) -> int:
        return len(self._regions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Directory) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Directory({', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._regions)

    def region(self, name: str) -> Region:
        if name not in self._regions:
            raise NotFound(
                f"There is no region {name!r}. Known regions: {', '.join(self.names)}. Use one of them, or add the "
                "new region to FAIRPOST_REGIONS"
            )
        return self._regions[name]

    def url(self, name: str) -> str:
        return self.region(name).url


def parse_regions(text: str) -> Directory | None:
    """Parses `eu=postgresql://…,us=postgresql://…`. Returns None if the text has a different form."""
    parts = [part.partition("=") for part in _BETWEEN.split(text.strip())]
    return _directory([(name.strip(), url.strip()) for name, _, url in parts])


def regions_of_table(table: Mapping[str, Any]) -> Directory | None:
    """Reads the regions from a TOML table. Returns None if the table has no valid regions."""
    regions = table.get("regions")
    return _directory(list(regions.items())) if isinstance(regions, Mapping) else None


def hidden(text: str) -> str:
    """Returns the setting as shown in error messages, with the names if they are valid, and with only the host and
    database of each URL.
    """
    if not set("=@") & set(text):
        return text  # the text is the path of a file
    found = parse_regions(text)
    return ",".join(f"{r.name}={r.place}" for r in found) if found else f"{len(text)} characters, which are not shown"


def _directory(pairs: list[tuple[str, Any]]) -> Directory | None:
    names = [name for name, _ in pairs]
    are_names = all(NAME.fullmatch(name) and name != HOME for name in names) and len(set(names)) == len(names)
    are_urls = all(isinstance(url, str) and url.startswith(_SCHEMES) for _, url in pairs)
    have_their_own = len({url for _, url in pairs if isinstance(url, str)}) == len(pairs)
    if not (are_names and are_urls and have_their_own and 0 < len(pairs) <= REGIONS_MAX):
        return None
    return Directory(Region(name, url) for name, url in pairs)
