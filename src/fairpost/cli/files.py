"""Files that commands read and write. `-` is standard input or output. A file is written completely or not at all."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from fairpost.cli.output import note, plain
from fairpost.cli.progress import progress
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import asyncpg

T = TypeVar("T")

STANDARD = "-"  # standard input or output, instead of a file
BAD_LINES_SHOWN = 20
TOLD_EVERY = 1_000  # lines between progress updates
TEXT_BYTES_MAX = 4_194_304  # the maximum length of a template, at four bytes per character


class BadLine(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def why(self) -> str: ...


def with_connection(work: "Callable[[asyncpg.Connection], Awaitable[T]]") -> T:
    """Run `work`, which may be one long transaction, over a connection of its own."""
    import asyncio

    from fairpost.startup.parts import connect, prepare_database

    async def run() -> T:
        async with connect(await prepare_database(read_settings())) as conn:
            return await work(conn)

    return asyncio.run(run())


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    if file == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - closed below; only errors of opening it are handled here
    except OSError as error:
        raise FairpostError(f"{file} cannot be read: {error.strerror}.") from error
    with source:
        yield source


def read_text(file: str) -> str:
    """Read UTF-8 and convert line endings to line feeds."""
    with opened(file) as source:
        data = source.read(TEXT_BYTES_MAX + 1)
    called = "standard input" if file == STANDARD else file
    if len(data) > TEXT_BYTES_MAX:
        raise FairpostError(f"{called} is too large. The maximum is {TEXT_BYTES_MAX:,} bytes.")
    if b"\0" in data:
        raise FairpostError(f"{called} is not a UTF-8 text file (it may be UTF-16). Save the file as UTF-8.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FairpostError(f"{called} is not UTF-8: see line {line}. Save the file as UTF-8.") from error


def watched(lines: Iterable[T], source: BinaryIO) -> Iterator[T]:
    """Show progress: in bytes for a file, in lines for a pipe."""
    size = _size(source)
    with progress("reading", size) as reach:
        for number, line in enumerate(lines):
            if number % TOLD_EVERY == 0:
                reach(source.tell() if size else number)
            yield line


def _size(source: BinaryIO) -> int | None:
    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:  # there is no file descriptor, for example in tests
        return None


@contextmanager
def created(file: str, force: bool) -> Iterator[BinaryIO]:
    """Write under a temporary name and rename the file when it is complete."""
    if file == STANDARD:
        yield sys.stdout.buffer
        return
    path = Path(file)
    if path.exists() and not force:
        raise FairpostError(f"{file} already exists. To overwrite the file, add --force.")
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as out:
            yield out
        unfinished.replace(path)
    except ConnectionError:
        raise  # a database error
    except OSError as error:
        raise FairpostError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def tell_bad_lines(bad: int, first: "Sequence[BadLine]") -> None:
    for each in first[:BAD_LINES_SHOWN]:
        note(plain(f"line {each.line}: {each.why}"))
    if bad > BAD_LINES_SHOWN:
        note(f"… and {bad - BAD_LINES_SHOWN:,} more")
