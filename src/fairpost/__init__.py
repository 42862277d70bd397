"""Fairpost: every e-mail is a row in PostgreSQL, let out fairly, sent once, and accounted for.

What an application needs to enqueue e-mails, and nothing else: importing this loads no database driver.
"""

from fairpost.accept.enqueue import (
    Attachment,
    Email,
    Enqueued,
    Rejected,
    enqueue,
    enqueue_many,
)
from fairpost.model.errors import FairpostError, InvalidEmail

__version__ = "0.1.0"

__all__ = [
    "Attachment",
    "Email",
    "Enqueued",
    "FairpostError",
    "InvalidEmail",
    "Rejected",
    "__version__",
    "enqueue",
    "enqueue_many",
]
