"""Receives a single message that a mail server passes to a program."""

from collections.abc import Sequence

from fairpost.maintenance.returns import TakenIn, take_in
from fairpost.model.campaign import ReplyStops
from fairpost.store.store import Store
from fairpost.system import clock


async def take_one(store: Store, raw: bytes, *, recipients: Sequence[str], reply_stops: ReplyStops) -> TakenIn:
    return await take_in(store, raw, now=clock.now(), recipients=recipients, reply_stops=reply_stops)
