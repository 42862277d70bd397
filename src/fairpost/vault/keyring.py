"""Finds the available keys in the environment and in files, and chooses the current one.

    home/secret.key       the key, unless the environment gives one
    home/secret.key.new   the next key, during a rotation
    home/secret.key.old   the previous key, for backups made with it

Files are read on demand, so a rotation by another process takes effect immediately.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairpost.model.errors import VaultError
from fairpost.vault.files import create_key_file, keep_as, move, read_key_file
from fairpost.vault.keys import Key


class Keyring:
    """The available keys. `given` and `given_old` come from the environment and take precedence over files."""

    def __init__(self, home: Path, *, given: Key | None = None, given_old: Key | None = None) -> None:
        self._given = given
        self._given_old = given_old
        self._home = home
        self.file = home / "secret.key"
        self.file_new = home / "secret.key.new"
        self.file_old = home / "secret.key.old"

    @property
    def is_given(self) -> bool:
        return self._given is not None

    @property
    def is_rotating(self) -> bool:
        return not self.is_given and self.file_new.exists()

    def current(self) -> Key | None:
        return self._given or read_key_file(self.file)

    def make_current(self) -> Key:
        """Return the current key, creating one if there is none."""
        return self._given or create_key_file(self.file)

    def find(self, key_id: str) -> Key | None:
        return next((key for key in self.at_hand() if key.id == key_id), None)

    def at_hand(self) -> Iterator[Key]:
        yield from (key for key in (self._given, self._given_old) if key)
        for path in (self.file, self.file_new, self.file_old):
            key = read_key_file(path)
            if key is not None:
                yield key

    @contextmanager
    def rotating(self) -> Iterator[None]:
        """Allow only one rotation at a time per home. The lock is released when the process ends, for whatever reason.

        A key from the environment needs no lock, because no file is moved.
        """
        if self.is_given:
            yield
            return
        file = self._lock_file()
        try:
            _lock(file, self._home)
            yield
        finally:
            os.close(file)

    def _lock_file(self) -> int:
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._home / "secret.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise VaultError(
                f"The key cannot be stored in {self._home}: {error.strerror}. Set FAIRPOST_HOME to a writable directory."
            ) from None

    def next_key(self) -> Key:
        """Return the key to seal with from now on: the key from the environment, or a new key, which is saved before it
        is used.
        """
        return self._given or create_key_file(self.file_new)

    def promote(self) -> None:
        """Make the next key current. Call this function once nothing in the database needs the old key anymore. If the
        process is killed at any point, this function can be called again.
        """
        if not self.is_rotating:
            return
        if self.file.exists():
            keep_as(self.file, self.file_old)
        move(self.file_new, self.file)


def _lock(file: int, home: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise VaultError(f"Another process is rotating the key in {home}. Wait until it is finished.") from None
