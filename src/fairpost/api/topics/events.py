"""The live topic `events`: the newest events since the first watcher connected, and a cursor for later ones."""

from collections import deque

from fairpost.api.answers import ResponseModel
from fairpost.api.live import Look
from fairpost.api.routes.events import cursor_outside
from fairpost.api.shapes.events import Event
from fairpost.api.topics.watching import Watcher, told
from fairpost.model.errors import Refusal
from fairpost.model.outside import as_told
from fairpost.store.events import PAGE_MAX, events_after, events_end

SHOWN_MAX = 50


class LiveEvents(ResponseModel):
    """The newest events, oldest first. To read all events since an earlier state, pass its cursor to `GET /v1/events?after=`. The cursor is null if the topic covers all workspaces."""

    items: list[Event]
    cursor: str | None


def events_look(watcher: Watcher) -> Look:
    return told(LiveEvents, _EventsLook(watcher))


class _EventsLook:
    """A look that reads the events since the previous one."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._cursor: str | None = None
        self._shown: str | None = None  # the cursor after the newest event of this workspace
        self._newest: deque[Event] = deque(maxlen=SHOWN_MAX)

    async def __call__(self) -> LiveEvents:
        store, caller = self._watcher.store, self._watcher.caller
        if self._cursor is None:
            self._cursor = self._shown = await events_end(store)
        else:
            await self._read_on()
        cursor = None if caller is None else cursor_outside(self._shown, caller.ids)
        return LiveEvents(items=list(self._newest), cursor=cursor)

    async def _read_on(self) -> None:
        store, caller = self._watcher.store, self._watcher.caller
        ids = await store.public_ids()
        is_end = False
        while not is_end:
            try:
                page = await events_after(store, self._cursor, workspace=self._watcher.workspace)
            except Refusal:  # the last look was so long ago that later events have already been deleted
                self._cursor = await events_end(store)
                return
            told = (as_told(event, ids, to_operator=caller is None) for event in page)
            self._newest.extend(Event.model_validate(each) for each in told)
            self._cursor = page.cursor
            self._shown = page.cursor if page.events else self._shown
            is_end = len(page) < PAGE_MAX
