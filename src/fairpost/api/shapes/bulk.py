"""The result of a bulk request, line by line."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Id, ResponseModel


class LineError(ResponseModel):
    code: str
    field: str
    message: str


class LineResult(ResponseModel):
    """The result for one line: `id` and `new` if it was accepted, `error` if it was rejected."""

    id: Id | None = None
    new: bool | None = None
    error: LineError | None = None


class BulkResult(ResponseModel):
    accepted: int
    duplicates: Annotated[
        int, Field(description="Number of accepted e-mails whose idempotency key had been used before.")
    ]
    rejected: int
    results: list[LineResult]
