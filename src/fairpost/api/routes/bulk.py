"""Bulk sending. A request has one JSON object per line; the lines are read as a stream and enqueued in one commit."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from fastapi import Request

from fairpost.api.access import LONG, Caller, Sends
from fairpost.api.answers import Answer, failures
from fairpost.api.errors import ApiError
from fairpost.api.intake import Refused, Taken, followed, submit_json
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.bulk import BulkResult, LineError, LineResult
from fairpost.api.shapes.emails import IdempotencyKey

router = Router(prefix="/v1/emails", tags=["emails"])

TYPES = ("application/x-ndjson", "application/jsonl", "application/ndjson")
LINES_MAX = 100_000
CHUNK_LINES = 1_000
CHUNK_BYTES = 8_000_000
IN_MEMORY_BYTES = 1_048_576  # the rest of the body is kept on disk
KEY_CHARS_MAX = 480  # a key plus the appended line number has at most 500 characters


@router.post(
    "/bulk",
    dependencies=LONG,
    summary="Send many e-mails, one JSON object per line",
    responses=failures("unsupported_media_type"),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "One e-mail per line, in the format of POST /v1/emails.",
            "content": {
                TYPES[0]: {
                    "schema": {"type": "string"},
                    "example": '{"to": "ann@example.com", "subject": "Hello", "text": "Hi"}\n',
                }
            },
        }
    },
)
async def send_emails(
    request: Request, caller: Sends, service: TheService, key: IdempotencyKey = None
) -> Answer[BulkResult]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in TYPES:
        raise ApiError("unsupported_media_type", f"Send {TYPES[0]}, with one e-mail per line.")
    if key is not None and len(key) > KEY_CHARS_MAX:
        raise ApiError(
            "bad_request",
            f"The Idempotency-Key can have at most {KEY_CHARS_MAX} characters, because the line number is appended to it.",
        )
    results: list[Taken | Refused] = []
    with SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as body:
        lines = 0
        async for piece in request.stream():
            body.write(piece)
            lines += piece.count(b"\n")
            if lines > LINES_MAX:
                raise ApiError(
                    "too_large",
                    f"Too many lines. The limit is {LINES_MAX:,} per request.",
                    details={"lines_max": LINES_MAX},
                )
        is_one_chunk = lines <= CHUNK_LINES and body.tell() <= CHUNK_BYTES
        users = set() if is_one_chunk else await _users(body) | {caller.user}
        if users and service.settings.daily_max_of_workspace:
            users.add("")  # the workspace itself, which is locked like a user
        body.seek(0)
        async with caller.owner.together() as one:
            if users:
                await one.lock_users(caller.workspace, users)
            for chunk in _chunks(_lines(body, key, partial(followed, caller))):
                sayable = [line for line in chunk if isinstance(line, str)]
                taken = (
                    iter(await submit_json(caller, service, f"[{','.join(sayable)}]", store=one))
                    if sayable
                    else iter(())
                )
                results += [next(taken) if isinstance(line, str) else line for line in chunk]
    return Answer(data=await asyncio.to_thread(_told, results, caller))  # 100,000 IDs take a second


async def _users(body: IO[bytes]) -> set[str]:
    """Returns all users that the e-mails belong to, so that the users can be locked at the start. Locking users chunk
    by chunk could cause a deadlock.
    """
    users: set[str] = set()
    body.seek(0)
    for number, line in enumerate(body, 1):
        with suppress(ValueError, RecursionError, AttributeError):
            user = json.loads(line).get("user")
            if isinstance(user, str) and "\0" not in user and user.encode():
                users.add(user)
        if number % CHUNK_LINES == 0:
            await asyncio.sleep(0)  # give other requests a turn
    return users


def _lines(body: IO[bytes], key: str | None, known: Callable[[Any], str]) -> Iterator[str | Refused]:
    """Yields each line as JSON, or a refusal if the line is invalid. Skips empty lines."""
    for number, line in enumerate(body, 1):
        if line.strip():
            yield checked_line(line, None if key is None else f"{key}:{number}", known)


def checked_line(line: bytes, key: str | None, known: Callable[[Any], str]) -> str | Refused:
    """Checks a line and returns it as JSON that PostgreSQL can read.

    Adds the idempotency key `key` if the line has none. `known` converts a public ID to an internal one.
    """
    try:
        text = line.decode()
        email = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if not isinstance(email, dict):
            return Refused("", "must be an object with the fields of an e-mail")
        if key is not None and email.get("idempotency_key") is None:
            email["idempotency_key"] = key
            text = json.dumps(email, ensure_ascii=False)
        if email.get("follows") is not None:
            email["follows"] = known(email["follows"])
            text = json.dumps(email, ensure_ascii=False)
        if "\\u" in text:
            text = json.dumps(email, ensure_ascii=False)
            text.encode()
            if "\\u0000" in text:
                return Refused("", "must not contain NUL characters")
    except UnicodeEncodeError:
        return Refused("", "must not contain lone surrogates")
    except (ValueError, RecursionError):
        return Refused("", "is not valid JSON")
    return text


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is out of range")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not valid JSON")


def _chunks(lines: Iterator[str | Refused]) -> Iterator[list[str | Refused]]:
    while chunk := list(islice(lines, 1)):
        size = len(chunk[0]) if isinstance(chunk[0], str) else 0
        for line in lines:
            chunk.append(line)
            size += len(line) if isinstance(line, str) else 0
            if len(chunk) == CHUNK_LINES or size > CHUNK_BYTES:
                break
        yield chunk


def _told(results: list[Taken | Refused], caller: Caller) -> BulkResult:
    taken = [result for result in results if isinstance(result, Taken)]
    return BulkResult(
        accepted=len(taken),
        duplicates=sum(not result.new for result in taken),
        rejected=len(results) - len(taken),
        results=[_line_result(result, caller) for result in results],
    )


def _line_result(result: Taken | Refused, caller: Caller) -> LineResult:
    if isinstance(result, Taken):
        return LineResult(id=caller.ids.email(result.id), new=result.new)
    return LineResult(error=LineError(code=result.code, field=result.field, message=result.message))
