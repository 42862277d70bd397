"""`fairpost events`: events in the form that programs read."""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import email_id, moment
from fairpost.cli.output import AsJson
from fairpost.cli.session import with_store
from fairpost.model.event import Event, EventKind

if TYPE_CHECKING:
    from fairpost.model.ids import EmailId
    from fairpost.model.public_ids import PublicIds
    from fairpost.store.store import Store

POLL_S = 1.0
SEARCHED = 10_000  # number of recent events to search for those of a type or workspace


def events(
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Only events after this cursor.")] = None,
    since: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Only events after this time.")
    ] = None,
    types: Annotated[
        list[EventKind] | None,
        typer.Option("--type", metavar="TYPE", help="Only events of this type. Repeatable."),
    ] = None,
    email: Annotated[
        str | None, typer.Option(parser=email_id, metavar="ID", help="Only events for this e-mail.")
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="Only events in this workspace.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events until Ctrl-C.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of events.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show events in the order they happened.

    Shows the newest events or, with --after or --since, the events that follow, in commit order. Each line ends with
    the event's cursor. To continue after an event without skipping any, use its cursor with --after. With --json, each
    line contains one event, as in GET /v1/events. Engines make events readable within a second and delete them after
    the number of days set in FAIRPOST_EVENTS_DAYS.

    \b
    Example: fairpost events --follow
             fairpost events --type email.failed --limit 100
             fairpost events --email em_d6kshwcgane53
             fairpost events --after 17.4211 --json
    """
    asked = _Asked(
        after=after, since=since, types=types, email=email, workspace=workspace, limit=limit, as_json=as_json
    )
    with_store(asked.follow if follow else asked.show)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    after: str | None
    since: datetime | None
    types: list[EventKind] | None
    email: str | None
    workspace: str | None
    limit: int
    as_json: bool

    async def show(self, store: "Store") -> None:
        ids = await store.public_ids()
        is_tail = self.after is None and self.since is None
        shown: deque[Event] = deque(maxlen=self.limit)
        n = 0
        async for event in self._found(store, ids):
            n += 1
            if is_tail:
                shown.append(event)
            else:
                self._print(event, ids)
            if not is_tail and n == self.limit:
                break
        for event in shown:
            self._print(event, ids)
        if n == 0 and not self.as_json:
            typer.echo("No events.")

    async def follow(self, store: "Store") -> None:
        import asyncio

        from fairpost.store.events import events_after, events_end, events_since

        ids = await store.public_ids()
        cursor = self.after or (await events_since(store, self.since) if self.since else await events_end(store))
        wanted = self._wanted(ids)
        while True:
            page = await events_after(store, cursor, workspace=self.workspace, kinds=self.types)
            for event in page:
                if wanted in (None, event.email_id):
                    self._print(event, ids)
            cursor = page.cursor or cursor
            await asyncio.sleep(POLL_S if page.is_end else 0)

    def _wanted(self, ids: "PublicIds") -> "EmailId | None":
        return None if self.email is None else ids.email_id(self.email, or_number=True)

    async def _found(self, store: "Store", ids: "PublicIds") -> AsyncIterator[Event]:
        from fairpost.store.events import all_events, events_of_email, events_since, events_tail

        if wanted := self._wanted(ids):
            for event in await events_of_email(store, wanted):
                if self.types is None or event.kind in self.types:
                    yield event
            return
        is_searched = self.types is not None or self.workspace is not None
        tail = max(self.limit, SEARCHED) if is_searched else self.limit
        start = await events_since(store, self.since) if self.since else self.after or await events_tail(store, tail)
        async for event in all_events(store, start, workspace=self.workspace, kinds=self.types):
            yield event

    def _print(self, event: Event, ids: "PublicIds") -> None:
        import json

        from fairpost.model.outside import as_told

        if self.as_json:
            told = {**as_told(event, ids, to_operator=True), "cursor": event.cursor or None}
            typer.echo(json.dumps(told, ensure_ascii=False))
        else:
            typer.echo(_line(event))


def _line(event: Event) -> str:
    about = event.address or ", ".join(event.recipients) or event.subject or event.account or event.campaign
    why = f"({event.reason})" if event.reason else None
    place = f"[{event.cursor}]" if event.cursor else None
    head = f"{event.at:%Y-%m-%d %H:%M:%S}  {event.kind:<22}"
    return "  ".join(filter(None, (head, about, why, place)))
