"""What a topic is made of: who watches, what is asked of it, and a look that is told as JSON."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
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
    """What can be asked of topics. Those that are asked the same share a look, whatever their screens."""

    model_config = ConfigDict(frozen=True)

    workspace: Annotated[
        Text | None, Field(max_length=100, description="For admins: the workspace. Omitted: the whole installation.")
    ] = None
    region: Annotated[
        Text | None, Field(max_length=100, description="For admins: the region. [default: the first]")
    ] = None
    name: Annotated[Text | None, Field(max_length=200, description="The name or id, for topics about one thing.")] = (
        None
    )
    having: Annotated[
        Text | None,
        Field(max_length=100, description="For accounts: only those with this text in name, address or pool."),
    ] = None
    situation: Annotated[Situation | None, Field(description="For accounts: only those in this situation.")] = None
    screen: Annotated[Screen, Field(description="The screen to draw charts for.")] = Screen.WIDE

    def only(self, names: Collection[str]) -> "Asked":
        return Asked(**self.model_dump(include=set(names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """`caller` None: one who runs the service looks at all of it. `store` sees everything: a look says itself of whom it is."""

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
    """`look` makes one, for all who watch the same. `takes`: what can be asked of it, of the fields of Asked; `is_for_admins`: alone, whatever
    workspace they have chosen."""

    look: Callable[[Watcher], Look]
    takes: Collection[str] = ()
    every_s: float = EVERY_S
    is_for_admins: bool = False


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once: a look is begun for each thing that somebody watches."""
    return TypeAdapter(kind)


def told(kind: Any, look: Callable[[], Awaitable[Any]]) -> Look:
    """The same on every screen."""
    adapter = _adapter(kind)

    async def seen() -> State:
        told = adapter.dump_json(await look(), by_alias=True)
        return lambda screen: told

    return seen


def drawn(kind: Any, look: Callable[[], Awaitable[Callable[[Screen], Any]]]) -> Look:
    """With charts: what was seen, on a screen."""
    adapter = _adapter(kind)

    async def seen() -> State:
        shown = await look()
        return lambda screen: adapter.dump_json(shown(screen), by_alias=True)

    return seen
