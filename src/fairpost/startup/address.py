"""The URL of this installation for browsers: FAIRPOST_PUBLIC_URL or, if it is not set, the URL of a running `fairpost
up`.
"""

import fcntl
from contextlib import suppress
from pathlib import Path

from fairpost.settings import SETTINGS, Settings

UP_LOCK = "up.lock"  # locked by `fairpost up`; contains its process ID and its URL
_DEFAULT = {each.name: each.default for each in SETTINGS}["public_url"]


def is_url_chosen(settings: Settings) -> bool:
    return bool(settings.public_url != _DEFAULT)


def reachable_url(settings: Settings) -> str:
    return settings.public_url if is_url_chosen(settings) else _url_of_up(settings.home) or settings.public_url


def _url_of_up(home: Path) -> str | None:
    with suppress(OSError), (home / UP_LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # `fairpost up` is running
            return next(iter(file.read().split()[1:]), None)
    return None
