"""`fairpost hold` and `release`: nothing of a name goes out, for a while. Costs the same with a million waiting."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.arguments import moment, span
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, NotFound

if TYPE_CHECKING:
    from fairpost.postgres.store import Level, Store

Workspace = Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace.")]
Domain = Annotated[str | None, typer.Option(metavar="NAME", help="Only this sending domain.")]
User = Annotated[str | None, typer.Option(metavar="NAME", help="Only this user.")]
Stream = Annotated[str | None, typer.Option(metavar="NAME", help="Only this stream, of every user.")]


def hold(
    workspace: Workspace,
    reason: Annotated[str, typer.Option(help="Why: shown by `fairpost status`.")],
    domain: Domain = None,
    user: User = None,
    stream: Stream = None,
    length: Annotated[
        timedelta | None, typer.Option("--for", parser=span, metavar="SPAN", help="How long: 30s, 15m, 1h, 2d.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Until when: 2030-01-31T09:00:00Z.")
    ] = None,
) -> None:
    """Hold a workspace, or one name in it.

    Nothing of it goes out until then, or until released. What is being sent already is not called back.

    \b
    Example: fairpost hold acme --user ann --for 1h --reason "too many bounces"
    """
    if length is not None and until is not None:
        raise typer.BadParameter("give --for or --until, not both")
    level, key = _name(domain, user, stream)

    async def work(store: "Store") -> datetime | None:
        now = await store.value("SELECT clock_timestamp()")
        end: datetime | None = now + length if length else until
        if end is not None and end <= now:
            raise FairpostError(f"--until must lie in the future, got {end.isoformat()}")
        await store.hold(workspace, level, key, until=end, reason=reason)
        return end

    end = with_store(work)
    typer.echo(f"held {_in_words(workspace, level, key)} until {f'{end:%Y-%m-%d %H:%M:%S %Z}' if end else 'released'}")


def release(workspace: Workspace, domain: Domain = None, user: User = None, stream: Stream = None) -> None:
    """End a hold: what waited behind it may go out.

    \b
    Example: fairpost release acme --user ann
    """
    level, key = _name(domain, user, stream)
    if not with_store(lambda store: store.release(workspace, level, key)):
        raise NotFound(f"There is no hold on {_in_words(workspace, level, key)}. See: fairpost status")
    typer.echo(f"released {_in_words(workspace, level, key)}")


def _name(domain: str | None, user: str | None, stream: str | None) -> "tuple[Level, str]":
    given: list[tuple[Level, str]] = []
    if domain is not None:
        given.append(("domain", domain.lower()))
    if user is not None:
        given.append(("user", user))
    if stream is not None:
        given.append(("stream", stream))
    if len(given) > 1:
        raise typer.BadParameter("give one of --domain, --user and --stream")
    return given[0] if given else ("workspace", "")


def _in_words(workspace: str, level: "Level", key: str) -> str:
    return f"workspace {workspace}" if level == "workspace" else f"{level} {key!r} of workspace {workspace}"
