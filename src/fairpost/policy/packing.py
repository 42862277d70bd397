"""Decide which accounts share a worker process. Accounts that share a process also share its claims, commits and
crashes.

Accounts without a pause between e-mails (relays) share a process, because commits are their main cost. Accounts of
different workspaces never share a process, unless they are the operator's own. Every mailbox with a pause gets its own
process, as long as there are only a few such mailboxes.
"""

from dataclasses import dataclass

from fairpost.model.account import Account

RELAYS_MIN, RELAYS_MAX = 16, 64  # accounts per process, on a machine with many cores and on one with few
RELAYS_TIMES_CORES = 128
MAILBOXES_MAX = 50  # mailboxes per process, once there are too many to give each its own process
MAILBOXES_ALONE_MAX = 64
SHARED_MAX = max(RELAYS_MAX, MAILBOXES_MAX)


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of process. Up to `room` accounts of one `kind` may share a process."""

    kind: str
    room: int

    @property
    def is_shared(self) -> bool:
        return self.room > 1


ALONE = Place("alone", 1)


def place_of(account: Account, *, per_process: int | None, is_suspect: bool, may_be_alone: bool, cores: int) -> Place:
    """Return the kind of process to run an account in. `per_process` is set by the operator.

    `is_suspect` means that the account's shared process has died. The account then runs alone, which shows whether it
    is to blame. `may_be_alone` means that there are few enough mailboxes to give every mailbox its own process.
    """
    if is_suspect:
        return ALONE
    if per_process is not None:
        return Place("any", per_process)
    if account.limits.delay_ms == 0 and not account.limits.gap_max_ms:
        return Place(f"relays of {account.workspace or 'the operator'}", relays_per_process(cores))
    return ALONE if may_be_alone else Place("mailboxes", MAILBOXES_MAX)


def relays_per_process(cores: int) -> int:
    """Return how many relays share a process.

    The more accounts share a commit, the less it costs per account, but a process uses only one core. On two cores, 64
    accounts send faster in one process than in four, because the database would have to serve four processes one by
    one.
    """
    return max(RELAYS_MIN, min(RELAYS_MAX, RELAYS_TIMES_CORES // cores))
