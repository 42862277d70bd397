"""Unpacks the mail servers and the browser for the tests into a folder, without installing anything.

    python tests/peers/fetch.py [DIR]

Skips peers that the system already has. For a peer that is not available, it prints one line, and its tests are
skipped. Only this file knows where the files of a peer are; servers.py configures and runs peers. It uses only the
standard library, because it runs before there is a .venv/.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SYSTEM = Path("/")
DEFAULT_HOME = Path(__file__).resolve().parents[2] / ".peers"
STAMP = ".complete"
TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "dpkg-query", "ldd")
APT_S_MAX = 180
LIBRARY_ROUNDS_MAX = 5  # levels of library dependencies: Debian's mail servers need two
NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/locale")


@dataclass(frozen=True, kw_only=True)
class Peer:
    package: str  # or several, separated by spaces
    programs: tuple[tuple[str, ...], ...]
    """Each must be there, under one of its names."""


PEERS: Mapping[str, Peer] = {
    "postfix": Peer(
        package="postfix",
        programs=(
            ("usr/sbin/smtp-sink", "usr/bin/smtp-sink"),
            ("usr/sbin/postconf",),
            ("usr/lib/postfix/sbin/master", "usr/libexec/postfix/master", "usr/lib/postfix/bin/master"),
        ),
    ),
    "exim": Peer(package="exim4-daemon-light", programs=(("usr/sbin/exim4", "usr/sbin/exim", "usr/bin/exim"),)),
    "opensmtpd": Peer(
        package="opensmtpd",
        programs=(("usr/sbin/smtpd",), ("usr/libexec/opensmtpd/encrypt", "usr/lib/opensmtpd/encrypt")),
    ),
    "chromium": Peer(
        package="chromium-headless-shell chromium-common",
        programs=(
            (
                "usr/lib/chromium/chromium-headless-shell",  # without windows: a page costs a third of the CPU
                *("usr/lib/chromium/chromium", "usr/lib/chromium-browser/chromium-browser", "opt/google/chrome/chrome"),
            ),
        ),
    ),
    "dovecot": Peer(
        package="dovecot-core dovecot-imapd",
        programs=(("usr/sbin/dovecot",), ("usr/bin/doveconf",), ("usr/lib/dovecot/imap",)),
    ),
    "courier": Peer(
        package="courier-imap courier-base courier-authlib libcourier-unicode4 libgamin0 libpcre3",
        programs=(("usr/bin/imapd",), ("usr/sbin/couriertcpd",)),
    ),
    "opendkim": Peer(package="opendkim", programs=(("usr/sbin/opendkim",),)),
    "mail-dkim": Peer(
        package="libmail-dkim-perl libcrypt-openssl-rsa-perl libcrypt-openssl-bignum-perl libmailtools-perl libnet-dns-perl libtimedate-perl",
        programs=(("usr/share/perl5/Mail/DKIM/Verifier.pm",),),
    ),
    "opendmarc": Peer(package="opendmarc", programs=(("usr/sbin/opendmarc",),)),
    "rspamd": Peer(package="rspamd", programs=(("usr/bin/rspamd",),)),
    "spamassassin": Peer(
        package="spamassassin libhtml-parser-perl libsocket6-perl libsys-hostname-long-perl libnet-dns-perl libnetaddr-ip-perl libhttp-date-perl "
        "libmail-dkim-perl libio-string-perl libcrypt-openssl-rsa-perl libcrypt-openssl-bignum-perl libmailtools-perl libtimedate-perl libmail-spf-perl liberror-perl "
        "libhttp-message-perl liburi-perl libencode-locale-perl libio-html-perl liblwp-mediatypes-perl libhtml-tagset-perl libclone-perl",
        programs=(("usr/bin/spamassassin",),),
    ),
    "pgbouncer": Peer(package="pgbouncer", programs=(("usr/sbin/pgbouncer", "usr/bin/pgbouncer"),)),
}


@dataclass(frozen=True)
class Software:
    """One peer's files: below `/` if the system has it, otherwise below the folder it was unpacked to."""

    root: Path
    programs: tuple[str, ...]

    @property
    def is_system(self) -> bool:
        return self.root == SYSTEM

    def program(self, name: str) -> str:
        """Returns the path of the program with that name, below the root."""
        return next(path for path in self.programs if Path(path).name == name)

    def library_folders(self) -> tuple[str, ...]:
        """Returns the folders of unpacked shared libraries below the root. The system finds its own without help."""
        if self.is_system:
            return ()
        return tuple(sorted({str(path.parent.relative_to(self.root)) for path in _shared_libraries(self.root)}))

    def environment(self) -> dict[str, str]:
        folders = ":".join(str(self.root / folder) for folder in self.library_folders())
        return {"LD_LIBRARY_PATH": folders} if folders else {}


class PeerMissing(Exception):
    """This peer cannot run here. The message is the reason for skipping."""


class FetchError(Exception):
    """The peer is not available here. The message says why in one line."""


def peers_home() -> Path:
    given = os.environ.get("FAIRPOST_PEERS")
    return Path(given).resolve() if given else DEFAULT_HOME


def find(name: str, *, home: Path | None = None) -> Software | None:
    unpacked = (home or peers_home()) / name
    return _software_in(SYSTEM, name) or (_software_in(unpacked, name) if (unpacked / STAMP).exists() else None)


def require(name: str) -> Software:
    found = find(name)
    if found is None:
        raise PeerMissing(f"{name} is neither installed nor unpacked; try: python tests/peers/fetch.py")
    return found


def _software_in(root: Path, name: str) -> Software | None:
    found = [next((path for path in names if (root / path).is_file()), None) for names in PEERS[name].programs]
    there = tuple(path for path in found if path)
    return Software(root, there) if len(there) == len(found) else None


def fetch(name: str, home: Path, apt: "Apt") -> None:
    """Unpacks next to the final location and renames, so that a partly unpacked peer is never found."""
    for tool in TOOLS:
        if not shutil.which(tool):
            raise FetchError(f"there is no {tool} here; install {PEERS[name].package} by other means")
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=home) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        _unpack(PEERS[name].package, tree, apt)
        _slim(tree)
        if _software_in(tree, name) is None:
            raise FetchError(f"the package {PEERS[name].package} holds other files than expected")
        (tree / STAMP).touch()
        shutil.rmtree(home / name, ignore_errors=True)
        tree.rename(home / name)


def _unpack(package: str, tree: Path, apt: "Apt") -> None:
    unpacked = package.split()
    apt.unpack(unpacked, tree)
    for _ in range(LIBRARY_ROUNDS_MAX):
        if not (missing := _missing_libraries(tree)):
            return
        wanted = [name for name in apt.libraries_of(unpacked) if name not in unpacked and not _is_installed(name)]
        if not wanted:
            break
        apt.unpack(wanted, tree)
        unpacked += wanted
    raise FetchError(f"no package has the libraries it needs: {', '.join(sorted(missing))}")


def _slim(tree: Path) -> None:
    """Removes what tests do not read, and set-user-id bits, so that nothing here can be used to become root."""
    for folder in NOT_NEEDED:
        shutil.rmtree(tree / folder, ignore_errors=True)
    for path in tree.rglob("*"):
        if not path.is_symlink() and path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o777)


class Apt:
    """Downloads with the system's package lists or, if those are empty or outdated, with fresh ones."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._has_own_lists = False
        self._why_no_lists: FetchError | None = None
        self._options = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"]
        if os.geteuid() == 0:
            self._options += ["-o", "APT::Sandbox::User=root"]  # otherwise, apt's own user cannot write to our folder

    def unpack(self, packages: Iterable[str], tree: Path) -> None:
        for archive in self._download(list(packages)):
            _run(["dpkg-deb", "-x", str(archive), str(tree)])
            archive.unlink()

    def libraries_of(self, packages: Iterable[str]) -> list[str]:
        output = _run(["apt-cache", *self._options, "depends", "--important", *packages])
        return sorted({line.split("Depends: ")[1].strip() for line in output.splitlines() if "Depends: lib" in line})

    def _download(self, packages: list[str]) -> list[Path]:
        try:
            self._get("download", *packages)
        except FetchError:
            self._make_own_lists()
            self._get("download", *packages)
        return list(self._scratch.glob("*.deb"))

    def _make_own_lists(self) -> None:
        """Updates once: offline, further tries would each wait for nothing."""
        if self._why_no_lists:
            raise self._why_no_lists
        if self._has_own_lists:
            return
        for folder in ("lists/partial", "cache/archives/partial"):
            (self._scratch / folder).mkdir(parents=True, exist_ok=True)
        own = ["-o", f"Dir::State::lists={self._scratch}/lists", "-o", f"Dir::Cache={self._scratch}/cache"]
        try:
            self._get("update", *own, "-o", "APT::Update::Error-Mode=any")
        except FetchError as error:
            self._why_no_lists = error
            raise
        self._options += own
        self._has_own_lists = True

    def _get(self, *arguments: str) -> None:
        _run(["apt-get", "-q", *self._options, *arguments], cwd=self._scratch)


def _is_installed(package: str) -> bool:
    asked = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", package]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.startswith("ii")


def _missing_libraries(tree: Path) -> set[str]:
    folders = {str(path.parent) for path in _shared_libraries(tree)}
    environment = os.environ | {"LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(sorted(folders))}
    programs = [str(path) for path in tree.rglob("*") if path.is_file() and not path.is_symlink() and _is_elf(path)]
    asked = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False, env=environment)
    return {line.split()[0] for line in asked.stdout.splitlines() if line.endswith("=> not found")}


def _shared_libraries(root: Path) -> Iterator[Path]:
    return (path for place in ("usr/lib", "lib") for path in root.glob(f"{place}/**/*.so*") if path.is_file())


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _run(command: list[str], *, cwd: Path | None = None) -> str:
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=APT_S_MAX
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{command[0]} did not finish in {APT_S_MAX} s") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
        said = next((line for line in lines if line.startswith("E: ")), lines[-1])
        raise FetchError(f"{command[0]} said: {said}")
    return done.stdout


def main(arguments: list[str]) -> int:
    home = Path(arguments[0]).resolve() if arguments else peers_home()
    with tempfile.TemporaryDirectory(prefix="fp-fetch-") as scratch:
        apt = Apt(Path(scratch))
        for name in PEERS:
            sys.stdout.write(f"{name}: {_outcome(name, home, apt)}\n")
            sys.stdout.flush()
    return 0


def _outcome(name: str, home: Path, apt: Apt) -> str:
    try:
        if find(name, home=home) is None:
            fetch(name, home, apt)
    except (FetchError, OSError) as error:
        return f"missing, its tests will skip: {error}"
    found = find(name, home=home)
    assert found is not None
    return "installed on this system" if found.is_system else f"ready in {found.root}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
