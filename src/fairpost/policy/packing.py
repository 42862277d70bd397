"""Which accounts share a worker process. Those that share one share their claims and commits, and a crash of it.

Accounts without a pause between e-mails (relays) share one: that is where commits are the cost. Never those of different
workspaces, unless they are the operator's own. Mailboxes with a pause have a process each, for as long as there are few.
"""

from dataclasses import dataclass

from fairpost.model.account import Account

RELAYS_MAX = 16  # in one process
MAILBOXES_MAX = 50  # in one process, once there are too many for a process each
MAILBOXES_ALONE_MAX = 64
SHARED_MAX = max(RELAYS_MAX, MAILBOXES_MAX)


@dataclass(frozen=True, slots=True)
class Place:
    """Accounts of one `kind` may share a process, up to `room` of them."""

    kind: str
    room: int

    @property
    def is_shared(self) -> bool:
        return self.room > 1


ALONE = Place("alone", 1)


def place_of(account: Account, *, per_process: int | None, is_suspect: bool, may_be_alone: bool) -> Place:
    """`per_process`: what the operator says. `is_suspect`: a process that it shared has died, and only alone it shows whether it
    is to blame. `may_be_alone`: there are few enough mailboxes with a process each."""
    if is_suspect:
        return ALONE
    if per_process is not None:
        return Place("any", per_process)
    if account.limits.delay_ms == 0 and not account.limits.gap_max_ms:
        return Place(f"relays of {account.workspace or 'the operator'}", RELAYS_MAX)
    return ALONE if may_be_alone else Place("mailboxes", MAILBOXES_MAX)
