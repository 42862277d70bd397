"""Choose the user that the embedded server runs as, and the copy of the programs that it uses.

PostgreSQL refuses to run as root, and initdb refuses users without a name. For such users, both run in a user namespace
if the kernel allows it. unrooted.py switches to that user.
"""

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from fairpost.model.errors import EmbeddedServerError
from fairpost.store.binaries import Binaries

PROBE_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of the server's files, and the command prefix that runs programs as that user."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()

    def can_run(self, *command: str | Path) -> bool:
        try:
            done = subprocess.run(
                [*self.prefix, *command], capture_output=True, cwd="/", timeout=PROBE_S_MAX, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


def choose_identity(folder: Path, data_dir: Path) -> Identity:
    """Return the identity for a server whose data is, or will be, in `data_dir` inside `folder`."""
    me, found = os.getuid(), _stat(data_dir) or _stat(folder)
    if found and me not in (0, found.st_uid):
        raise EmbeddedServerError(
            f"{folder} belongs to {_name_of(found.st_uid)}, but you are {_name_of(me)}. "
            "Run as that user, or set FAIRPOST_HOME to a directory of your own."
        )
    if me != 0:
        return _plain_user()
    if found and found.st_uid != 0:
        return as_user(found.st_uid, found.st_gid)
    return _namespaced() if namespaces_work() else _unprivileged()


def reachable_binaries(binaries: Binaries, identity: Identity, *, folder: Path) -> Binaries:
    """Return these programs, or a copy in the folder if that user cannot access the originals."""
    if not identity.prefix or identity.can_run(binaries.postgres, "--version"):
        return binaries
    package = binaries.directory.parent.parent
    programs = folder / f"programs-{binaries.version}"
    copy = replace(binaries, directory=programs / package.name / "pginstall" / "bin")
    if binaries.bundled and not programs.is_dir():
        _copy_package(package, programs)
    if not identity.can_run(copy.initdb, "--version"):
        raise EmbeddedServerError(
            f"{_name_of(identity.uid)} cannot run {binaries.postgres}. Install PostgreSQL where every user "
            "can reach it, run Fairpost as a user other than root, or set FAIRPOST_DATABASE_URL."
        )
    return copy


def require_access(directory: Path, identity: Identity) -> None:
    """Raise an error if that user cannot reach its own directory through the parent directories."""
    if identity.prefix and not identity.can_run("/bin/sh", "-c", 'cd "$0" && test -w .', directory):
        raise EmbeddedServerError(
            f"PostgreSQL cannot run as root, and {_name_of(identity.uid)} cannot enter {directory}. Set "
            "FAIRPOST_HOME to a directory that this user can enter (for example /var/lib/fairpost), run Fairpost as a user other than root, or set FAIRPOST_DATABASE_URL to a server that you already run."
        )


@lru_cache
def namespaces_work() -> bool:
    return sys.platform == "linux" and _namespaced().can_run("/bin/sh", "-c", ":")


def _plain_user() -> Identity:
    me = Identity(uid=os.getuid(), gid=os.getgid())
    nameless = _name_of(me.uid).isdigit()
    return _namespaced() if nameless and namespaces_work() else me


def _namespaced() -> Identity:
    return Identity(uid=os.getuid(), gid=os.getgid(), prefix=_unrooted("namespace"))


def _unprivileged() -> Identity:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedServerError(
            "PostgreSQL cannot run as root, user namespaces are not available here, and there is no user `nobody`. "
            "Run Fairpost as a user other than root, or set FAIRPOST_DATABASE_URL."
        ) from None
    return as_user(entry.pw_uid, entry.pw_gid)


def as_user(uid: int, gid: int) -> Identity:
    return Identity(uid=uid, gid=gid, prefix=_unrooted(f"{uid}:{gid}"))


def _unrooted(identity: str) -> tuple[str, ...]:
    # Run by path and in isolated mode, so that it starts quickly and imports none of our modules.
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("unrooted.py")), identity)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, PermissionError):  # missing or in a directory that we cannot enter
        return None


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _copy_package(package: Path, target: Path) -> None:
    """Copy the package completely or not at all.

    If copying is interrupted, the incomplete copy keeps its temporary name, and copying starts over next time.
    """
    unfinished = target.with_name(f"{target.name}.incomplete")
    shutil.rmtree(unfinished, ignore_errors=True)
    # Linux wheels keep their libraries next to the package, and the programs look for them there.
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.is_dir():
            unneeded = shutil.ignore_patterns("include", "__pycache__")
            shutil.copytree(source, unfinished / source.name, symlinks=True, ignore=unneeded)
    unfinished.rename(target)
