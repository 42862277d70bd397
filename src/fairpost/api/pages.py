"""Pagination. A cursor marks where the previous page ended.

Numbers in cursors are encrypted, because they would otherwise reveal counts for the whole installation.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from fairpost.api.answers import Answer, Page
from fairpost.api.errors import ApiError
from fairpost.model.public_ids import Kind, PublicIds

T = TypeVar("T")
Shown = TypeVar("Shown")

PAGE_MAX = 200
BIGGEST = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Maximum number of results.")]
Cursor = Annotated[
    str | None, Query(max_length=400, description="The previous page's `next`. Omit it for the first page.")
]


def page_of(
    found: Sequence[T], limit: int, *, shown: Callable[[T], Shown], place: Callable[[T], str]
) -> Answer[Page[Shown]]:
    """Builds a page. If another page follows, `found` contains one more item than `limit`."""
    items = found[:limit]
    following = cursor_of(place(items[-1])) if len(found) > limit else None
    return Answer(data=Page(items=[shown(each) for each in items], next=following))


def cursor_of(place: str) -> str:
    return urlsafe_b64encode(f"s{place}".encode()).decode().rstrip("=")


def sealed(number: int, ids: PublicIds) -> str:
    """Returns a number, encrypted for use in a cursor."""
    return ids.public(Kind.CURSOR, number)


def number_at(cursor: str | None, ids: PublicIds) -> int | None:
    place = name_at(cursor)
    if place is None:
        return None
    number = ids.private(Kind.CURSOR, place)
    if number is None:
        raise bad_cursor()
    return number


def name_at(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (NotBase64, ValueError):
        raise bad_cursor() from None
    if not text.startswith("s") or "\0" in text:
        raise bad_cursor()
    return text[1:]


def bad_cursor() -> ApiError:
    return ApiError(
        "bad_request",
        "Invalid cursor. Use the previous page's `next`, or omit the cursor for the first page.",
    )
