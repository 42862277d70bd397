"""The only error that is raised when a message is composed."""

from fairpost.model.errors import FairpostError


class Uncomposable(FairpostError, ValueError):
    """The e-mail cannot be composed into a valid message. A retry would give the same result. The error names the
    cause."""
