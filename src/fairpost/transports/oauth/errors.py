"""Why there is no token: it was refused and someone must act, or there was no answer and a retry may work."""

from fairpost.model.errors import FairpostError


class Refused(FairpostError):
    """The token was refused, and asking again would give the same answer.

    `reason` is the server's code, such as invalid_grant. `advice` is what an administrator can do about it.
    """

    def __init__(self, reason: str, what: str, advice: str) -> None:
        super().__init__(what, then=advice)
        self.reason = reason
        self.what = what
        self.advice = advice


class Unreachable(FairpostError):
    """The token server is unreachable, too slow, or sends invalid answers. A retry may work."""
