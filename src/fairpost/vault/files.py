"""A key in its own file. The file is created once, completely or not at all, and is readable only by its owner."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from fairpost.model.errors import VaultError
from fairpost.vault.keys import Key, new_key, read_key, write_key

FILE_BYTES_MAX = 1_000  # a key is 44 characters long


def read_key_file(path: Path) -> Key | None:
    """Read the key. Return None if the file does not exist."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise VaultError(
            f"The key in {path} cannot be read: {error.strerror}. It must be a regular file owned by this user."
        ) from None
    try:
        _require_private(path, os.fstat(file))
        text = os.read(file, FILE_BYTES_MAX)
    finally:
        os.close(file)
    key = read_key(text.decode("ascii", "replace"))
    if key is None:
        raise VaultError(f"{path} is not a key: it must be 32 bytes as base64 or hex. Restore the correct file.")
    return key


def create_key_file(path: Path) -> Key:
    """Return the key in the file, creating one if there is none. Concurrent callers all get the same key."""
    found = read_key_file(path)
    if found is not None:
        return found
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(path, write_key(new_key()))
    except OSError as error:
        raise VaultError(
            f"The key cannot be created in {path}: {error.strerror}. Set FAIRPOST_HOME to a writable directory."
        ) from None
    made = read_key_file(path)
    assert made is not None
    return made


def keep_as(path: Path, other: Path) -> None:
    """Give the file a second name, replacing any file that already has that name. The first name stays valid
    throughout.
    """
    spare = _spare(path)
    os.link(path, spare)
    os.replace(spare, other)
    spare.unlink(missing_ok=True)  # renaming a file to another of its own names does nothing
    _sync(path.parent)


def move(path: Path, to: Path) -> None:
    os.replace(path, to)
    _sync(path.parent)


def _put(path: Path, text: str) -> None:
    """Write to a temporary file and then link it so that no process sees an incomplete key and no other key is
    replaced.
    """
    spare = _spare(path)
    file = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w") as opened:
            _hand_to_owner(file, path.parent)
            os.fchmod(file, 0o600)  # regardless of the umask
            opened.write(f"{text}\n")
            opened.flush()
            os.fsync(file)
        with suppress(FileExistsError):
            os.link(spare, path)
    finally:
        spare.unlink()
    _sync(path.parent)


def _spare(path: Path) -> Path:
    return path.with_name(f".{path.name}.{token_hex(8)}")


def _hand_to_owner(file: int, folder: Path) -> None:
    """Give the file to the folder's owner. If root creates the file in a user's folder, that user must be able to
    access it.
    """
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(file, owner.st_uid, owner.st_gid)


def _require_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise VaultError(f"The key in {path} cannot be read: it is not a regular file.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise VaultError(f"Other users can read the key in {path}. To correct this, run: chmod 600 {path}")


def _sync(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
