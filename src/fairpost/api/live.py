"""Live topics. As long as a topic has watchers, one query serves all of them.

The database is queried once, no matter how many pages are open. Charts are drawn once for each screen size in use. A
slow watcher gets the newest state and skips the states in between. A topic's query is called a look. Slow looks run
less often, so they take up at most a tenth of the time. Even so, every change appears within five seconds."""

import asyncio
import json
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from weakref import WeakValueDictionary

from fairpost.api.errors import ApiError
from fairpost.model.errors import FairpostError
from fairpost.model.reason import Log, Reason
from fairpost.store.trouble import DRIVER_ERRORS
from fairpost.system import clock

EVERY_S = 1.0
COST_MAX = 0.1  # at most this share of the time is spent on looks
REST_S_MAX = 4.0  # maximum pause between two looks, however long they take, so changes appear within five seconds
BEAT_S = 15.0  # heartbeat that keeps proxies from closing the connection
OF_ONE_MAX = 250  # maximum number of streams per workspace, or for all admins together
OF_ALL_MAX = 700  # maximum number of streams per process, although admins always get one
LOOKS_OF_ONE_MAX = 3  # concurrent looks per workspace, however many topics are watched
REVOKED_EVERY_S = 3.0
LINGER_S = 300.0  # how long a topic is kept after its last watcher has left
LINGERING_MAX = 200  # maximum number of kept topics without watchers

OPERATORS = "*"  # the owner of all admin streams; no workspace has this name
STILL_HERE = b": still here\n\n"


class Screen(StrEnum):
    """The screen size that charts are drawn for."""

    WIDE = "wide"
    MEDIUM = "medium"  # a tablet or a small window
    NARROW = "narrow"  # a phone


State = Callable[[Screen], bytes]  # renders the state for a screen
Look = Callable[[], Awaitable[State]]
Credential = bytes | str  # a session token hash or a key ID
Failure = (FairpostError, *DRIVER_ERRORS)


class Topic:
    def __init__(self, look: Look, *, every_s: float, log: Log) -> None:
        self._look = look
        self._every_s = every_s
        self._faults = Faults(log)
        self._news = asyncio.Condition()
        self._state: State | None = None
        self._events: dict[Screen, bytes] = {}  # the rendered state, for each screen size in use
        self._version = 0
        self._task: asyncio.Task[None] | None = None
        self._screens: Counter[Screen] = Counter()
        self.left_s = clock.monotonic()  # when the last watcher left

    @property
    def watchers(self) -> int:
        return self._screens.total()

    @asynccontextmanager
    async def watched(self, screen: Screen = Screen.WIDE) -> AsyncIterator[None]:
        self._screens[screen] += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._screens -= Counter([screen])
            self.left_s = clock.monotonic()
            if self.watchers == 0 and self._task is not None:
                self._task.cancel()
                self._task = None
                self._state, self._events, self._version = (
                    None,
                    {},
                    0,
                )  # the next watcher must get a fresh state

    async def events(self, ended: asyncio.Event, screen: Screen = Screen.WIDE) -> AsyncIterator[bytes]:
        """Yields the current state, then each new state, until `ended` is set. After setting `ended`, call `wake`."""
        seen = 0
        while not ended.is_set():
            await self._news_after(seen, ended)
            is_new, seen = self._version != seen, self._version
            yield self._event(screen) if is_new else STILL_HERE
        yield _event("over", b"{}")

    async def _news_after(self, seen: int, ended: asyncio.Event) -> None:
        async with self._news:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._news.wait_for(lambda: self._version != seen or ended.is_set())

    async def wake(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _run(self) -> None:
        while self._task is asyncio.current_task():  # a look may ignore the cancellation
            began_s = clock.monotonic()
            state = await self._seen()
            took_s = clock.monotonic() - began_s
            events = {screen: self._told(state, screen) for screen in self._screens}
            if any(event != self._events.get(screen) for screen, event in events.items()):
                async with self._news:
                    self._state, self._events, self._version = state, events, self._version + 1
                    self._news.notify_all()
            await asyncio.sleep(max(self._every_s - took_s, min(REST_S_MAX, took_s / COST_MAX)))

    async def _seen(self) -> State:
        try:
            return await self._look()
        except Exception as error:  # otherwise the topic would silently stop
            failed = error

        def state(screen: Screen) -> bytes:
            raise failed

        return state

    def _event(self, screen: Screen) -> bytes:
        if screen not in self._events:  # the first watcher with this screen size
            assert self._state is not None
            self._events[screen] = self._told(self._state, screen)
        return self._events[screen]

    def _told(self, state: State, screen: Screen) -> bytes:
        try:
            return _event("state", state(screen))
        except Failure:
            return _trouble("The database is not responding. This page may be out of date.")
        except Exception as error:
            self._faults.note(error)
            return _trouble("An internal error occurred and was logged. This page may be out of date.")


class Live:
    """The topics of this process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._topics: dict[Hashable, Topic] = {}
        self._streams: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @property
    def topics(self) -> tuple[Hashable, ...]:
        """The keys of all topics, watched or not."""
        return tuple(self._topics)

    def require_room(self, of: str) -> None:
        is_full = of != OPERATORS and self._streams.total() >= OF_ALL_MAX
        if is_full or self._streams[of] >= OF_ONE_MAX:
            words = "Too many live pages are open. Close some of them."
            raise ApiError("rate_limited", words, headers={"Retry-After": "30"})

    @asynccontextmanager
    async def watching(
        self,
        key: Hashable,
        look: Callable[[], Look],
        *,
        of: str,
        screen: Screen = Screen.WIDE,
        every_s: float = EVERY_S,
        lingers: bool = True,
    ) -> AsyncIterator[Topic]:
        """Watches a topic. If the topic is new, `look` creates its look.

        `of` is the workspace whose limit the stream counts towards, or OPERATORS. With `lingers`, the topic is kept for
        a while after its last watcher has left. Use `lingers` only for topics that are few in number."""
        self._forget()
        topic = self._topics.get(key)
        if topic is None:
            topic = self._topics[key] = Topic(self._in_turn(look(), of), every_s=every_s, log=self._log)
        self._streams[of] += 1
        try:
            async with topic.watched(screen):
                yield topic
        finally:
            self._streams -= Counter([of])  # subtraction drops owners whose count is 0
            if topic.watchers == 0 and not lingers:
                self._topics.pop(key, None)

    def _in_turn(self, look: Look, of: str) -> Look:
        """Runs only a few looks per workspace at once, so the database has time for other workspaces."""
        if of == OPERATORS:
            return look
        turns = self._turns.setdefault(of, asyncio.Semaphore(LOOKS_OF_ONE_MAX))

        async def one() -> State:
            async with turns:
                return await look()

        return one

    def _forget(self) -> None:
        unwatched = {key: topic.left_s for key, topic in self._topics.items() if topic.watchers == 0}
        longest_first = sorted(unwatched, key=unwatched.__getitem__)
        old_s = clock.monotonic() - LINGER_S
        for place, key in enumerate(longest_first):
            if unwatched[key] < old_s or place < len(longest_first) - LINGERING_MAX:
                del self._topics[key]


class StreamRevoker:
    """Ends the streams of revoked sessions and keys, with one query per database every few seconds."""

    def __init__(
        self, still_open: Callable[[str, Collection[Credential]], Awaitable[Collection[Credential]]], *, log: Log
    ) -> None:
        self._still_open = still_open
        self._faults = Faults(log)
        self._open: dict[tuple[str, Credential], set[_Stream]] = {}
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watching(self, region: str, by: Credential, topic: Topic) -> AsyncIterator[asyncio.Event]:
        """Yields an event that is set once the session or key is revoked."""
        stream = _Stream(topic)
        streams = self._open.setdefault((region, by), set())
        streams.add(stream)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield stream.ended
        finally:
            streams.discard(stream)
            if not streams:
                self._open.pop((region, by), None)
            if not self._open and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while self._task is asyncio.current_task():
            await asyncio.sleep(REVOKED_EVERY_S)
            for region in {region for region, _ in self._open}:
                await self._try_to_revoke(region)

    async def _try_to_revoke(self, region: str) -> None:
        """Ends revoked streams. If the database does not respond, the next round tries again."""
        try:
            await self._revoke(region)
        except Failure:
            pass
        except Exception as error:
            self._faults.note(error)

    async def _revoke(self, region: str) -> None:
        asked = [by for of, by in self._open if of == region]
        known = set(await self._still_open(region, asked))
        for gone in set(asked) - known:
            for stream in list(self._open.get((region, gone), ())):
                stream.ended.set()
                await stream.topic.wake()


class _Stream:
    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.ended = asyncio.Event()


class Faults:
    """Logs unexpected errors, but not the same error every second."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last = ""

    def note(self, error: Exception) -> None:
        told = "".join(traceback.format_exception(error)).rstrip()
        if told != self._last:
            self._log(Reason("live.failed", error=told))
        self._last = told


def _trouble(message: str) -> bytes:
    return _event("trouble", json.dumps({"message": message}).encode())


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
