"""Fairpost sends e-mail from a PostgreSQL queue: fairly, once, and on record.

This package contains only the functions that an application needs to enqueue e-mails and query their status. Importing
it loads no database driver.
"""

from fairpost.accept.enqueue import (
    Attachment,
    Email,
    Enqueued,
    Rejected,
    enqueue,
    enqueue_many,
)
from fairpost.accept.events import events
from fairpost.accept.status import EmailStatus, find, status
from fairpost.model.errors import CursorExpired, FairpostError, InvalidEmail
from fairpost.model.event import Event, EventPage

__version__ = "0.1.0"

__all__ = [
    "Attachment",
    "CursorExpired",
    "Email",
    "EmailStatus",
    "Enqueued",
    "Event",
    "EventPage",
    "FairpostError",
    "InvalidEmail",
    "Rejected",
    "__version__",
    "enqueue",
    "enqueue_many",
    "events",
    "find",
    "status",
]
