"""Why there is no token: it was refused, and somebody must act; or nobody answered, and it may work later."""

from fairpost.model.errors import FairpostError


class Refused(FairpostError):
    """Asking again gets the same answer. `reason` is the server's word, like invalid_grant; `advice` is what an
    administrator can do about it."""

    def __init__(self, reason: str, what: str, advice: str) -> None:
        super().__init__(what, then=advice)
        self.reason = reason
        self.what = what
        self.advice = advice


class Unreachable(FairpostError):
    """The token server cannot be reached, does not answer in time, or answers nonsense. It may work later."""
