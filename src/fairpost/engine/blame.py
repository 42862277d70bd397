"""Writes down what an account did, and stops whoever is to blame for what came of it: see policy/blame.py."""

from datetime import datetime, timedelta

from fairpost.model.account import Account, Lease
from fairpost.policy.blame import blame, in_words
from fairpost.policy.ledger import Ledger
from fairpost.store.blocks import block
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint


async def book(store: Store, lease: Lease, account: Account, ledger: Ledger, *, now: datetime) -> bool:
    """True: the account itself was stopped."""
    sample = await store.book(lease, *ledger.take())
    failpoint("after_book")
    if sample is None:
        return False
    found = blame(sample, account.limits, now=now)
    cool_down_s = account.limits.cool_down_s
    until = now + timedelta(seconds=cool_down_s) if cool_down_s else None
    for each in found.accused:
        await block(store, lease, each.workspace, each.fault, until=until)
    if found.stop is not None:
        ends = until if found.stop.status == "paused" else None
        await store.set_status(lease, found.stop.status, reason=in_words(found.stop.fault), until=ends)
    return found.stop is not None
