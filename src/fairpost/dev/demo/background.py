"""The demo's background: a long period of light traffic that fills every page of the dashboard within the first few
minutes. The background consists of a running campaign, a draft, and a trickle of single e-mails of every kind, some of
which fail. The background also has an account at its hourly limit, an account that is warming up, a paused account, a
held sender, and an e-mail in doubt that must be resolved manually.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from fairpost.dev.demo import stage
from fairpost.dev.demo.campaign import put_campaigns
from fairpost.dev.demo.letters import Letter, Letters, held_back, in_doubt
from fairpost.dev.demo.stage import CLUB, HOURLY_POOL, POOL, SHOP, WARMING_POOL, WORKSPACES
from fairpost.model.sender import SenderId
from fairpost.portals.folder import BUILT_IN
from fairpost.portals.loading import load_portals
from fairpost.store.senders import set_sender
from fairpost.store.store import Store
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock
from fairpost.system.chance import Dice
from fairpost.transports.smtp.settings import SmtpSettings

LASTS_S = 30 * 60
PAUSE_S = (0.7, 2.0)  # the pause between two e-mails of the trickle
DETOURS = {7: HOURLY_POOL, 15: WARMING_POOL}  # every 7th or 15th e-mail is sent through this pool
DETOUR_WAITING_MAX = 8  # when this many are waiting, no more e-mails are added to the pool
HOURLY_AT_FIRST = 20  # more than the account's hourly limit
HELD_BACK = 12
HELD_USER = "max"
HELD_BECAUSE = "three readers complained about the offers"
PLANS = {(SHOP, "till"): "team", (CLUB, "editors"): "team", (CLUB, "intern"): "free", (CLUB, HELD_USER): "free"}


class Background:
    def __init__(self, store: Store, server: SmtpSettings, *, dice: Dice) -> None:
        self._store = store
        self._server = server
        self._dice = dice
        self._letters: Letters | None = None
        self._number = 0

    async def run(self, over: asyncio.Event) -> None:
        """Runs until `over` is set or the time is up. Database errors and outages do not stop the background."""
        until_s = clock.monotonic() + LASTS_S
        while not over.is_set() and clock.monotonic() < until_s:
            with suppress(*DRIVER_ERRORS):
                await self.step()
            shortest, longest = PAUSE_S
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), shortest + (longest - shortest) * self._dice())

    async def begin(self) -> None:
        """Sets everything up after the burst. Existing parts are kept, but any that were changed are reset."""
        self._letters = Letters(await asyncio.to_thread(load_portals, BUILT_IN), self._dice)
        await stage.put_accounts(self._store, stage.PARTS, self._server)
        for (workspace, user), plan in PLANS.items():
            await set_sender(self._store, SenderId(workspace=workspace, name=user), plan=plan, since=None)
        await self._store.hold(CLUB, "user", HELD_USER, reason=HELD_BECAUSE)
        await self._enqueue([held_back(n) for n in range(await self._unfinished(HELD_USER), HELD_BACK)])
        if not await self._unfinished(in_doubt()["stream"]):
            await self._enqueue([in_doubt()])
        lacking = HOURLY_AT_FIRST - await self._unfinished(HOURLY_POOL)
        await self._enqueue([self._next_letter() for _ in range(lacking)], pool=HOURLY_POOL)
        await put_campaigns(self._store, now=await self._store.now())

    async def step(self) -> None:
        """Sends one more e-mail."""
        letter = self._next_letter()
        await self._enqueue([letter], pool=await self._pool())

    def _next_letter(self) -> Letter:
        assert self._letters is not None, "begin comes first"
        letter = self._letters.letter(self._number, now=clock.now())
        self._number += 1
        return letter

    async def _pool(self) -> str:
        for every, pool in DETOURS.items():
            if self._number % every == 0 and await self._unfinished(pool) < DETOUR_WAITING_MAX:
                return pool
        return POOL

    async def _unfinished(self, name: str) -> int:
        """Returns the number of queued demo e-mails for this user, stream or pool."""
        sql = """SELECT count(*) FROM fairpost.queue q
                 WHERE q.workspace = ANY ($1) AND $2 IN (q.user_name, q.stream, q.route)"""
        return int(await self._store.value(sql, list(WORKSPACES), name))

    async def _enqueue(self, letters: Sequence[Letter], *, pool: str = POOL) -> None:
        await self._store.enqueue_many([{**letter, "pool": pool} for letter in letters])


async def clear(store: Store) -> None:
    """Cancels the demo's waiting e-mails and releases its hold."""
    await stage.clear(store)
    await store.release(CLUB, "user", HELD_USER)
