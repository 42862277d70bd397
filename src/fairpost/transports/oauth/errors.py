"""The reasons why no token is available. Either the token server refused to grant a token and manual action is needed,
or the server did not answer and a retry may work.
"""

from fairpost.model.errors import FairpostError


class Refused(FairpostError):
    """The token server refused to grant a token and would refuse again.

    `reason` is the server's code, such as invalid_grant. `advice` tells an administrator what to do.
    """

    def __init__(self, reason: str, what: str, advice: str) -> None:
        super().__init__(f"{what} {advice}")
        self.message = what
        self.reason = reason
        self.what = what
        self.advice = advice


class Unreachable(FairpostError):
    """The token server is unreachable or too slow, or it sends invalid answers. A retry may work."""
