"""What an account has met since something of it last passed: remembered with it, whichever worker drives it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairpost.model.ids import EmailId


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """`throttle_count`, `unreachable`: rests in a row for that reason. `refused`: the e-mails in a row that were answered `answer`.
    `last`: the e-mail with which the account met its last trouble. `put_off`: how often each was, while others passed."""

    throttle_count: int = 0
    unreachable: int = 0
    answer: str | None = None
    refused: tuple[EmailId, ...] = ()
    last: EmailId | None = None
    is_barred: bool = False  # the operator does not let it go to its server
    has_passed: bool = True  # something, since the last trouble
    put_off: Mapping[EmailId, int] = field(default_factory=dict)


NO_TROUBLES = Troubles()
