"""The only error that composing a message can raise."""

from fairpost.model.errors import FairpostError


class Uncomposable(FairpostError, ValueError):
    """The e-mail cannot be composed into a valid message. A retry would give the same result. The error names the
    cause."""
