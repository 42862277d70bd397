"""The parts of a topic: its watcher, its parameters, and its look rendered as JSON."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fairpost.api.access import Caller
from fairpost.api.answers import Text
from fairpost.api.live import EVERY_S, Look, Screen, State
from fairpost.api.service import Service
from fairpost.observe.accounts import Situation
from fairpost.store.store import Store


class Asked(BaseModel):
    """Parameters of topics. Watchers with the same parameters share a look, even if their screens differ."""

    model_config = ConfigDict(frozen=True)

    workspace: Annotated[
        Text | None,
        Field(
            max_length=100,
            description="For admins, the workspace. If omitted, the topic covers the whole installation.",
        ),
    ] = None
    region: Annotated[
        Text | None, Field(max_length=100, description="For admins, the region. [default: the first]")
    ] = None
    name: Annotated[Text | None, Field(max_length=200, description="For topics about one object, its name or ID.")] = (
        None
    )
    having: Annotated[
        Text | None,
        Field(
            max_length=100,
            description="For the accounts topic, only accounts whose name, address or pool contains this text.",
        ),
    ] = None
    situation: Annotated[
        Situation | None, Field(description="For the accounts topic, only accounts in this situation.")
    ] = None
    screen: Annotated[Screen, Field(description="The screen size to draw charts for.")] = Screen.WIDE

    def only(self, names: Collection[str]) -> "Asked":
        return Asked(**self.model_dump(include=set(names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """The watcher of a topic.

    `caller` is None for admins who watch everything. `store` reads all workspaces, so each look filters by workspace.
    """

    service: Service
    caller: Caller | None
    region: str
    store: Store
    asked: Asked

    @property
    def workspace(self) -> str | None:
        return self.caller.workspace if self.caller is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A topic. `look` creates the query that all its watchers share.

    `takes` lists the parameters that the topic accepts. If `is_for_admins` is set, only admins may watch the topic,
    whichever workspace they have chosen.
    """

    look: Callable[[Watcher], Look]
    takes: Collection[str] = ()
    every_s: float = EVERY_S
    is_for_admins: bool = False


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns a cached adapter, because a look is started for each watched topic."""
    return TypeAdapter(kind)


def told(kind: Any, look: Callable[[], Awaitable[Any]]) -> Look:
    """Returns a look that has the same state for every screen size."""
    adapter = _adapter(kind)

    async def seen() -> State:
        told = adapter.dump_json(await look(), by_alias=True)
        return lambda screen: told

    return seen


def shared(value: Any, base: Any) -> dict[str, Any]:
    """Returns the fields that a value has in common with its base class."""
    return {field.name: getattr(value, field.name) for field in fields(base)}


def drawn(kind: Any, look: Callable[[], Awaitable[Callable[[Screen], Any]]]) -> Look:
    """Returns a look with charts, whose state is rendered for each screen size."""
    adapter = _adapter(kind)

    async def seen() -> State:
        shown = await look()
        return lambda screen: adapter.dump_json(shown(screen), by_alias=True)

    return seen
