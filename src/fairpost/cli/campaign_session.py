"""Helpers for the campaign commands."""

from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fairpost.cli.session import with_store
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fairpost.model.campaign import Campaign
    from fairpost.store.store import Store

T = TypeVar("T")

Name = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Campaign name.")]
Workspace = Annotated[str | None, typer.Option(help="Workspace. [default: FAIRPOST_WORKSPACE]")]


def with_campaign(name: str, workspace: str | None, work: "Callable[[Store, Campaign], Awaitable[T]]") -> T:
    where = workspace or read_settings().workspace

    async def run(store: "Store") -> T:
        from fairpost.store.campaigns import campaign_named

        return await work(store, await campaign_named(store, where, name))

    return with_store(run)


def count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def tell_next(*commands: str) -> None:
    for command in commands:
        typer.echo(f"next: {command}")
