"""Clean environments with exactly the packages of one extra, created without a registry.

The packages are linked from the environment that runs the tests, which has all of them. pip then installs the wheel,
and checks whether its requirements are met.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROCESS_S_MAX = 150  # only guards against waiting forever


@dataclass(frozen=True)
class Environment:
    """`settings` are the variables of every process in it; none are inherited."""

    folder: Path
    settings: Mapping[str, str]

    def start(self, *command: str, **settings: str) -> subprocess.Popen[str]:
        """Returns a program of this environment, with its arguments."""
        return subprocess.Popen(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **self.settings, **settings},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, code: int = 0, **settings: str) -> str:
        """Returns stdout followed by stderr of a program that ends with this code and without a traceback."""
        process = self.start(*command, **settings)
        out, err = process.communicate(timeout=PROCESS_S_MAX)
        assert process.returncode == code, out + err
        assert "Traceback" not in out + err
        return out + err


def build_wheel(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        check=True,
        cwd=ROOT,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, wheel: Path, extra: str | None = None) -> Environment:
    venv.create(folder, with_pip=False, symlinks=True)
    if extra:
        link_packages(f"fairpost[{extra}]", site_of(folder))
    what = f"fairpost[{extra}]" if extra else "fairpost"
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    # Compiling all of it would take longer than all the tests; imported modules are compiled when needed.
    options = ("--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", *options, f"{what} @ {wheel.as_uri()}"], check=True)
    return Environment(folder, {"HOME": str(folder), "FAIRPOST_HOME": str(folder / "home")})


def site_of(folder: Path) -> Path:
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def link_packages(requirement: str, folder: Path) -> None:
    """Returns the requirement's dependencies, recursively, without Fairpost itself."""
    for found in _required(Requirement(requirement), set()):
        for file in found.files or ():
            if ".." not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(Path(str(found.locate_file(file))), target)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _required(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[Distribution]:
    found, name = distribution(requirement.name), canonicalize_name(requirement.name)
    for extra in ("", *requirement.extras):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if not extra and name != "fairpost":
            yield found
        for each in map(Requirement, found.requires or ()):
            if each.marker.evaluate({"extra": extra}) if each.marker else not extra:
                yield from _required(each, seen)
