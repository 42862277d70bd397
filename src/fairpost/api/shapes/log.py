"""Log entries in responses."""

from typing import Annotated, Any

from pydantic import Field

from fairpost.api.answers import Id, Moment, ResponseModel


class LogEntry(ResponseModel):
    id: Id
    at: Moment
    kind: Annotated[
        str, Field(description="For example `held`, `released`, `throttled`, `retried` or `account_paused`.")
    ]
    subject: str
    detail: dict[str, Any] | None
