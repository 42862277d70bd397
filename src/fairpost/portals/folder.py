"""Reads folders of templates: {portal}/{portal.toml, layout.html, layout.txt} and {portal}/{type}/{four files}.

Finds the files and decides which folder wins if several contain the same file. Reads nothing that is outside the
folder, is not a regular file, is too big, or is not text. Reports all problems, each with its position. Other modules
interpret the content."""

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from fairpost.model.errors import FairpostError

BUILT_IN = Path(__file__).parent / "builtin"
OF_PORTAL = ("portal.toml", "layout.html", "layout.txt")
OF_TYPE = ("meta.toml", "subject.txt", "text.txt", "html.html")
FILE_BYTES_MAX = 262_144  # more than enough, because mail programs truncate HTML at 102 KB
ENTRIES_MAX = 200  # per folder
PROBLEMS_SHOWN = 50
PROBLEMS_MAX = 100  # per file

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
NAME_RULE = "a name can have up to 64 characters (a-z, 0-9 and _), starting with a letter"
# Some of these characters are used as marks in markup.py and layout.py.
UNTYPED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem and its position. `line` and `column` start at 1. Line 0 means the file as a whole."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        place = f", line {self.line}, column {self.column}" if self.line else ""
        return f"{self.file}{place}: {self.message}"


class BrokenTemplates(FairpostError):
    """Raised for folders or custom content that cannot be used until all `problems` are fixed."""

    def __init__(self, problems: Sequence[Problem], said: str = "The templates are not valid:") -> None:
        self.problems = tuple(sorted(set(problems)))
        shown = [str(problem) for problem in self.problems[:PROBLEMS_SHOWN]]
        more = len(self.problems) - len(shown)
        super().__init__("\n".join([said, *shown, *([f"… and {more} more"] if more else [])]))


@dataclass(frozen=True, slots=True)
class Source:
    file: str
    text: str

    def problem(self, at: int, message: str) -> Problem:
        line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        return Problem(self.file, line, column, message)

    def as_a_whole(self, message: str) -> Problem:
        return Problem(self.file, 0, 0, message)

    def untyped(self) -> Problem | None:
        """Returns a problem for the first control character or noncharacter, because some of these mark slots."""
        found = UNTYPED.search(self.text)
        return (
            self.problem(found.start(), f"the character U+{ord(found[0]):04X} is not allowed in text: delete it")
            if found
            else None
        )


@dataclass(frozen=True, slots=True)
class PortalFiles:
    shared: dict[str, Source] = field(default_factory=dict)
    types: dict[str, dict[str, Source]] = field(default_factory=dict)


def read_folders(folders: Sequence[Path], problems: list[Problem]) -> dict[str, PortalFiles]:
    """Reads the folders. All four files of a type come from the last folder that contains the type.

    Each of the portal's own files comes from the last folder that contains the file.
    """
    portals: dict[str, PortalFiles] = {}
    for folder in folders:
        for name, files in _Folder(folder, problems).portals().items():
            portal = portals.setdefault(name, PortalFiles())
            portal.shared.update(files.shared)
            portal.types.update(files.types)
    return portals


class _Folder:
    def __init__(self, root: Path, problems: list[Problem]) -> None:
        self.root, self.problems = root, problems

    def portals(self) -> dict[str, PortalFiles]:
        try:
            self.real_root = self.root.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            self._refuse(self.root, f"the folder cannot be read: {_reason(error)}")
            return {}
        if not self.real_root.is_dir():
            self._refuse(self.root, "this is not a folder")
            return {}
        # Other files next to the portals are allowed, such as a README. A dangling link is a problem, because it was
        # probably meant to be a portal.
        paths = [path for path in self._entries(self.root) if path.is_dir() or path.is_symlink()]
        return {path.name: self._portal(path) for path in paths if self._is_named(path)}

    def _portal(self, folder: Path) -> PortalFiles:
        files = PortalFiles()
        for path in self._entries(folder):
            if path.name in OF_PORTAL:
                if source := self._read(path):
                    files.shared[path.name] = source
            elif not path.is_dir():
                self._refuse(
                    path, f"this is not a portal file: a portal has {', '.join(OF_PORTAL)}, and a folder for each type"
                )
            elif self._is_named(path):
                files.types[path.name] = self._type(path)
        return files

    def _type(self, folder: Path) -> dict[str, Source]:
        paths = {path.name: path for path in self._entries(folder)}
        for name in OF_TYPE:
            if name not in paths:
                self._refuse(folder / name, f"the file is missing: a type has {', '.join(OF_TYPE)}, all in one folder")
        for name in paths.keys() - set(OF_TYPE):
            self._refuse(paths[name], f"this file does not belong to a type: a type has {', '.join(OF_TYPE)}")
        sources = {name: self._read(paths[name]) for name in OF_TYPE if name in paths}
        return {name: source for name, source in sources.items() if source}

    def _entries(self, folder: Path) -> list[Path]:
        """Returns the entries, without the files that editors or operating systems leave behind."""
        if not self._is_inside(folder):
            return []
        try:
            with os.scandir(folder) as found:
                names = sorted(entry.name for entry in islice(found, ENTRIES_MAX + 1))
        except OSError as error:
            self._refuse(folder, f"the folder cannot be read: {_reason(error)}")
            return []
        if len(names) > ENTRIES_MAX:
            self._refuse(folder, f"there are more than {ENTRIES_MAX} files and folders in it")
            return []
        return [folder / name for name in names if not name.startswith(".") and not name.endswith("~")]

    def _is_named(self, path: Path) -> bool:
        if NAME.fullmatch(path.name):
            return True
        self._refuse(path, NAME_RULE)
        return False

    def _is_inside(self, path: Path) -> bool:
        try:
            if path.resolve(strict=True).is_relative_to(self.real_root):
                return True
            self._refuse(path, f"this link points outside {self.root}: put the file itself here")
        except (OSError, RuntimeError) as error:
            self._refuse(path, f"it cannot be read: {_reason(error)}")
        return False

    def _read(self, path: Path) -> Source | None:
        if not self._is_inside(path):
            return None
        try:
            content = _content(path)
        except OSError as error:
            self._refuse(path, f"it cannot be read: {_reason(error)}")
            return None
        if len(content) > FILE_BYTES_MAX:
            self._refuse(path, f"it is larger than {FILE_BYTES_MAX:,} bytes")
            return None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = Source(str(path), content[: error.start].decode("utf-8-sig"))
            self.problems.append(before.problem(len(before.text), "this is not UTF-8: save the file as UTF-8"))
            return None
        source = Source(str(path), text.replace("\r\n", "\n").replace("\r", "\n"))
        if untyped := source.untyped():
            self.problems.append(untyped)
            return None
        return source

    def _refuse(self, path: Path, message: str) -> None:
        self.problems.append(Problem(str(path), 0, 0, message))


def _content(path: Path) -> bytes:
    """Reads a regular file. Uses O_NONBLOCK, because opening a pipe would wait for a writer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a file")
        return file.read(FILE_BYTES_MAX + 1)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
