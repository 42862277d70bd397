"""`fairpost hold` and `release`: stop and resume a sender's mail, in constant time regardless of queue length."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act
from fairpost.cli.arguments import moment, span
from fairpost.cli.names import Workspace

if TYPE_CHECKING:
    from fairpost.actions.senders import Name
    from fairpost.model.sender import NodeLevel

Domain = Annotated[str | None, typer.Option(metavar="NAME", help="Only this sending domain.")]
User = Annotated[str | None, typer.Option(metavar="NAME", help="Only this user.")]
Stream = Annotated[str | None, typer.Option(metavar="NAME", help="Only this stream, for all users.")]


def hold(
    reason: Annotated[str, typer.Option(help="Reason, shown by `fairpost status`.")],
    domain: Domain = None,
    user: User = None,
    stream: Stream = None,
    length: Annotated[
        timedelta | None, typer.Option("--for", parser=span, metavar="SPAN", help="Duration: 30s, 15m, 1h, 2d.")
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            parser=moment, metavar="TIME", help="Time at which the hold ends, for example 2030-01-31T09:00:00Z."
        ),
    ] = None,
    workspace: Workspace = "",
) -> None:
    """Hold mail from a workspace, domain, user or stream.

    The mail stays in the queue until the hold ends or is released. Any sends already in progress will finish.

    \b
    Example: fairpost hold --workspace acme --user ann --for 1h --reason "too many bounces"
    """
    if length is not None and until is not None:
        raise typer.BadParameter("specify either --for or --until")
    from fairpost.actions.senders import Hold
    from fairpost.actions.senders import hold as held

    name = _name(workspace, domain, user, stream)
    end = act(held, Hold(name=name, reason=reason, length=length, until=until))
    typer.echo(f"held {_in_words(name)} until {f'{end:%Y-%m-%d %H:%M:%S %Z}' if end else 'released'}")


def release(domain: Domain = None, user: User = None, stream: Stream = None, workspace: Workspace = "") -> None:
    """End a hold.

    \b
    Example: fairpost release --workspace acme --user ann
    """
    from fairpost.actions.senders import Release
    from fairpost.actions.senders import release as released

    name = _name(workspace, domain, user, stream)
    act(released, Release(name=name))
    typer.echo(f"released {_in_words(name)}")


def _name(workspace: str, domain: str | None, user: str | None, stream: str | None) -> "Name":
    from fairpost.actions.senders import Name

    given: list[tuple[NodeLevel, str]] = []
    if domain is not None:
        given.append(("domain", domain.lower()))
    if user is not None:
        given.append(("user", user))
    if stream is not None:
        given.append(("stream", stream))
    if len(given) > 1:
        raise typer.BadParameter("specify only one of --domain, --user and --stream")
    level, key = given[0] if given else ("workspace", "")
    return Name(workspace=workspace, level=level, key=key)


def _in_words(name: "Name") -> str:
    if name.level == "workspace":
        return f"workspace {name.workspace}"
    return f"{name.level} {name.key!r} in workspace {name.workspace}"
