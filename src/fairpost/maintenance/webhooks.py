"""Deliver webhooks. Runs in every engine's orchestrator process.

An engine leases an endpoint, posts its events in turns, and commits the outcomes of each turn. Endpoints are served in
parallel, so a slow or dead endpoint occupies only its own slot. Each workspace has a few slots. Failing endpoints use
separate slots, so healthy endpoints never wait for them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.maintenance.notices import notice_of_disabled_webhook
from fairpost.model.auth import Role
from fairpost.model.errors import Refusal, VaultError
from fairpost.model.event import EventPage
from fairpost.model.public_ids import Kind
from fairpost.model.reason import Log, Reason
from fairpost.model.transport import SealedSecret
from fairpost.model.webhook import Due, Webhook
from fairpost.smtp.guard import NetworkGuard
from fairpost.store import auth, events, webhooks
from fairpost.store.store import Store
from fairpost.store.trouble import is_trouble
from fairpost.system import clock
from fairpost.system.failpoints import failpoint
from fairpost.webhooks.deliver import AT_ONCE, Booking, Turn, as_dict, book, deliver, unsignable
from fairpost.webhooks.post import Endpoint, Tls, system_tls
from fairpost.webhooks.signing import key_of

if TYPE_CHECKING:
    from fairpost.model.public_ids import PublicIds

LOOK_S = 0.25
LEASE_S = 60.0
RUN_S_MAX = 10.0  # after this long, other endpoints get a turn if all slots are taken
PLACES = 128
FAILING_MAX = 16  # number of slots for failing endpoints
EACH_MAX = 4  # slots per workspace
PAGE = 500
PENDING_MAX = 1000  # while an endpoint has more pending events than this, no new events are read for it
FULL_PAUSE = timedelta(seconds=5)
LOG_KEPT = timedelta(days=7)
SWEEP_EVERY_S = 600.0
ENDPOINTS_KEPT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Options. `open_secret` is the vault's function for opening a secret. Notices about the operator's endpoints go to
    the addresses in `operators`.
    """

    engine: str
    open_secret: Callable[[SealedSecret], str]
    guard: NetworkGuard
    operators: tuple[str, ...] = ()
    pool: str = "default"
    public_url: str = ""
    tls: Tls = field(default=system_tls)


class WebhookWatch:
    def __init__(self, store: Store, options: WebhookOptions, log: Log) -> None:
        self._store, self._options, self._log = store, options, log
        self._running: dict[int, tuple[Webhook, asyncio.Task[None]]] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._ids: PublicIds | None = None
        self._swept_s = float("-inf")

    async def run(self) -> None:
        complain = partial(failed, "webhooks", log=self._log)
        try:
            await keep_stepping(self.step, every_s=LOOK_S, complain=complain)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Abort all requests. The events in these requests are posted again after the lease ends."""
        running = [task for _, task in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for endpoint in self._endpoints.values():
            endpoint.close()
        await asyncio.sleep(0)  # connections close in the next iteration of the event loop

    async def step(self) -> bool:
        """Start deliveries that are due. Return True if there is more to do immediately."""
        await webhooks.wake(self._store)
        taken = await self._take()
        for hook in taken:
            task = asyncio.create_task(self._serve(hook))
            self._running[hook.id] = (hook, task)
            task.add_done_callback(partial(self._ended, hook.id))
        await self._tell()
        await self._sweep()
        return len(self._running) < PLACES and len(taken) > 0

    async def settle(self) -> None:
        """Wait until all endpoints in progress are done. For tests and benchmarks only."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])
            await asyncio.sleep(0)

    async def _take(self) -> list[Webhook]:
        busy = Counter(hook.workspace or "" for hook, _ in self._running.values())
        failing = sum(hook.failing_since is not None for hook, _ in self._running.values())
        free = PLACES - len(self._running)
        if free <= 0:
            return []
        return await webhooks.take(
            self._store,
            self._options.engine,
            most=free,
            failing_max=max(0, FAILING_MAX - failing),
            each_max=EACH_MAX,
            full=[name for name, count in busy.items() if count >= EACH_MAX],
            running=list(self._running),
            lease_s=LEASE_S,
        )

    def _ended(self, webhook_id: int, task: "asyncio.Task[None]") -> None:
        self._running.pop(webhook_id, None)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Exception) and not is_trouble(error):  # the endpoint is tried again when its lease expires
            failed(f"webhook {webhook_id}", error, self._log)

    # ── one endpoint ──

    async def _serve(self, hook: Webhook) -> None:
        """Serve an endpoint turn after turn, until it fails or has no events left, or until other endpoints are
        waiting.

        The first turn is short, so that many hanging endpoints use little memory.
        """
        failpoint("after_lease")
        until_s = clock.steady() + RUN_S_MAX
        current = await self._turn(hook, most=min(AT_ONCE, PAGE), is_last=False)
        while current is not None:
            current = await self._turn(current, most=PAGE, is_last=clock.steady() >= until_s)

    async def _turn(self, hook: Webhook, *, most: int, is_last: bool) -> Webhook | None:
        """Take one turn of at most `most` events. Return the endpoint to continue with, or None."""
        now = await self._store.now()
        try:
            secrets = await webhooks.secrets_of(self._store, hook.id, now=now)
            keys = [key_of(self._options.open_secret(each.as_sealed)) for each in secrets]
        except (VaultError, ValueError):
            keys = []
        if not keys:
            await self._book(hook, unsignable(hook, now=now))
            return None
        due, behind, dropped, cursor, is_end = await self._read(hook, most)
        turn = (
            await deliver(self._endpoint(hook), keys, due, await self._public_ids())
            if due
            else Turn(tried=(), untried=())
        )
        booking = book(hook, turn, cursor=cursor, is_end=is_end, now=await self._store.now(), behind=behind)
        goes_on = not is_last and not booking.is_disabled and booking.next_at is None
        goes_on = goes_on and (not is_end or hook.failing_since is not None)
        if not is_end and not due and cursor == hook.cursor:  # too many events are pending, and none is due
            goes_on = False
            booking = replace(booking, next_at=now + FULL_PAUSE)
        booking = replace(booking, done=(*booking.done, *dropped), kept_s=LEASE_S if goes_on else None)
        failpoint("before_booking")
        now_is = await self._book(hook, booking)
        failpoint("after_booking")
        return now_is if goes_on and now_is is not None and now_is.paused_at is None else None

    async def _read(
        self, hook: Webhook, most: int
    ) -> tuple[list[Due], list[tuple[Due, datetime]], list[tuple[int, int]], str, bool]:
        """Return the events to try, the new events that must wait for pending events in their lanes, the positions of
        dropped events, the new cursor, and whether the cursor has reached the end. A failing endpoint is tried with
        only one event, if possible an event that has not failed yet, because an endpoint that works may still refuse a
        particular event.
        """
        is_probe = hook.failing_since is not None
        most = 1 if is_probe else most
        due, dropped = await webhooks.pending(self._store, hook, most=most, is_all=is_probe)
        if is_probe and due and not due[0].attempts:
            return due, [], dropped, hook.cursor, False
        lanes = await webhooks.pending_lanes(self._store, hook)
        room = min(most, PENDING_MAX - sum(count for count, _ in lanes.values()))
        if room <= 0:
            return due, [], dropped, hook.cursor, False
        page = await self._page(hook, room)
        wanted = [Due(event=each) for each in page.events if hook.wants(each)]
        behind = [(each, lanes[each.lane][1]) for each in wanted if each.lane in lanes]
        new = [each for each in wanted if each.lane not in lanes]
        due = new if is_probe and new else [*due, *new]
        return due, behind, dropped, page.cursor or hook.cursor, page.is_end

    async def _page(self, hook: Webhook, most: int) -> EventPage:
        kinds = hook.kinds or None
        try:
            return await events.events_after(self._store, hook.cursor, most=most, workspace=hook.workspace, kinds=kinds)
        except Refusal as refusal:
            self._log(Reason("webhook.skipped", webhook=await self._name(hook), url=hook.url, why=refusal.reason))
            return await events.events_after(self._store, None, most=most, workspace=hook.workspace, kinds=kinds)

    async def _book(self, hook: Webhook, booking: Booking) -> Webhook | None:
        now_is = await webhooks.book(self._store, hook, as_dict(booking))
        if now_is is not None and now_is.disabled_at is not None:
            self._log(Reason("webhook.disabled", webhook=await self._name(hook), url=hook.url, why=booking.why))
        return now_is

    async def _public_ids(self) -> "PublicIds":
        if self._ids is None:
            self._ids = await self._store.public_ids()
        return self._ids

    async def _name(self, hook: Webhook) -> str:
        return (await self._public_ids()).public(Kind.WEBHOOK, hook.id)

    def _endpoint(self, hook: Webhook) -> Endpoint:
        known = self._endpoints.pop(hook.id, None)
        if known is None or known.url != hook.url:
            if known is not None:
                known.close()
            known = Endpoint(hook.url, self._options.guard, is_operators=hook.workspace is None, tls=self._options.tls)
        self._endpoints[hook.id] = known  # by time of last use, most recent last
        return known

    # ── beside ──

    async def _tell(self) -> None:
        """Queue an e-mail to the endpoint's managers in the same transaction that records the notice."""
        for hook in await webhooks.untold(self._store):
            addresses, name = await self._owners(hook), await self._name(hook)
            async with self._store.together() as one:
                if await webhooks.told(one, hook):
                    mails = [
                        notice_of_disabled_webhook(
                            hook, name, to, pool=self._options.pool, public_url=self._options.public_url
                        )
                        for to in addresses
                    ]
                    await one.enqueue_many(mails)

    async def _owners(self, hook: Webhook) -> tuple[str, ...]:
        if hook.workspace is None:
            return self._options.operators
        members = await auth.listed(self._store, hook.workspace)
        return tuple(each.address for each in members if each.role is Role.MANAGER and each.disabled_at is None)

    async def _sweep(self) -> None:
        for webhook_id in list(self._endpoints)[: max(0, len(self._endpoints) - ENDPOINTS_KEPT)]:
            self._endpoints.pop(webhook_id).close()
        if clock.steady() < self._swept_s + SWEEP_EVERY_S:
            return
        self._swept_s = clock.steady()
        for webhook_id in [each for each, endpoint in self._endpoints.items() if endpoint.is_idle]:
            if webhook_id not in self._running:
                self._endpoints.pop(webhook_id).close()
        await webhooks.drop_log(self._store, before=await self._store.now() - LOG_KEPT)
