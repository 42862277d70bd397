"""The one thing that can go wrong when bytes are put together."""

from fairpost.model.errors import FairpostError


class Uncomposable(FairpostError, ValueError):
    """No valid message can be made of this e-mail. Trying again gives the same; the message names what is in the way."""
