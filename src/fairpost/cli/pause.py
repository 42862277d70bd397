"""`fairpost pause` and `resume`, for all workspaces or one, in constant time regardless of queue length."""

from datetime import datetime
from typing import Annotated, Any

import typer

from fairpost.cli.acting import act
from fairpost.cli.arguments import moment
from fairpost.cli.output import AsJson, iso, jsonable, plain, print_json

All = Annotated[bool, typer.Option("--all", help="All workspaces.")]
Workspace = Annotated[str | None, typer.Option(metavar="NAME", help="Only this workspace.")]

EVERYTHING = "everything"


def pause(
    reason: Annotated[str, typer.Option(help="Reason, shown by `fairpost status`.")],
    everything: All = False,
    workspace: Workspace = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            parser=moment, metavar="TIME", help="Time at which the pause ends, for example 2030-01-31T09:00:00Z."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pause sending for one or all workspaces.

    Once this command returns, no engine on any machine will start another send. Any sends already in progress will
    finish.

    \b
    Example: fairpost pause --all --reason "wrong prices in the newsletter"
    """
    from fairpost.actions import senders

    name = _name(everything, workspace)
    done: dict[str, Any] = {"paused": name, "until": until and iso(until), "reason": reason}
    if workspace is not None:
        request = senders.PauseWorkspace(workspace=workspace, reason=reason, until=until)
        done["was_paused"] = act(senders.pause_workspace, request)
    else:
        now = act(senders.pause, senders.Pause(reason=reason, until=until))
        done |= {"was_paused": not now.changed, **jsonable(now.pause or {})}
    if as_json:
        print_json(done)
        return
    again = "already paused" if done["was_paused"] else "paused"
    typer.echo(f"{again}: {name}, until {done['until'] or 'resumed'} ({plain(done['reason'])})")
    typer.echo(f"next: {_command(workspace)}")


def resume(everything: All = False, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """End a pause.

    If the database has been restored from a backup, this command also confirms that sending may continue with the current data.

    \b
    Example: fairpost resume --all
    """
    from fairpost.actions import senders
    from fairpost.actions.acting import Done
    from fairpost.cli.acting import outcome_of

    name = _name(everything, workspace)
    if workspace is not None:
        outcome = outcome_of(senders.release, senders.Release(name=senders.Name(workspace=workspace)))
        done: dict[str, Any] = {"name": name, "resumed": isinstance(outcome, Done)}
    else:
        ended = act(senders.resume, senders.Resume())
        done = {"name": name, "resumed": ended.changed, "pause": ended.ended}
    if as_json:
        print_json(done)
    else:
        typer.echo(f"resumed: {name}" if done["resumed"] else f"was not paused: {name}")


def _name(everything: bool, workspace: str | None) -> str:
    if everything == (workspace is not None):
        raise typer.BadParameter("specify either --all or --workspace NAME")
    return EVERYTHING if workspace is None else f"workspace {workspace}"


def _command(workspace: str | None) -> str:
    import shlex

    return f"fairpost resume {'--all' if workspace is None else f'--workspace {shlex.quote(workspace)}'}"
