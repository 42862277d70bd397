"""An account's failures since its last success, stored with the account so that any worker can use them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairpost.model.ids import EmailId


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """The failures of an account.

    `throttle_count` and `unreachable` count consecutive pauses taken because the account was throttled or its server
    was unreachable, respectively. `refused` lists consecutive e-mails that got the reply `answer`. `last` is the e-mail
    affected by the account's most recent problem. `put_off` counts how often each e-mail was deferred while others were
    accepted.
    """

    throttle_count: int = 0
    unreachable: int = 0
    answer: str | None = None
    refused: tuple[EmailId, ...] = ()
    last: EmailId | None = None
    is_barred: bool = False  # the operator forbids the account's server
    has_passed: bool = True  # whether an e-mail has been accepted since the last problem
    put_off: Mapping[EmailId, int] = field(default_factory=dict)


NO_TROUBLES = Troubles()
