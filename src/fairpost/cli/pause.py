"""`fairpost pause` and `resume`: nothing more is begun, of anybody or of one workspace. Costs the same with a million waiting."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.arguments import moment
from fairpost.cli.output import AsJson, iso, plain, print_json
from fairpost.cli.session import who, with_store
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from fairpost.postgres.store import Store

All = Annotated[bool, typer.Option("--all", help="Everything, of everybody.")]
Workspace = Annotated[str | None, typer.Option(metavar="NAME", help="Only this workspace.")]

EVERYTHING = "everything"


def pause(
    reason: Annotated[str, typer.Option(help="Why: shown by `fairpost status`.")],
    everything: All = False,
    workspace: Workspace = None,
    until: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Until when: 2030-01-31T09:00:00Z.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Stop all sending before the next e-mail.

    When this command returns, no e-mail is begun any more, on any machine. What is being sent already is not called back.

    \b
    Example: fairpost pause --all --reason "wrong prices in the newsletter"
    """
    from fairpost.postgres import pauses

    name = _name(everything, workspace)

    async def work(store: "Store") -> dict[str, Any]:
        await _require_future(store, until)
        asked = {"paused": name, "until": until, "reason": reason}
        if workspace is not None:
            return {**asked, "was_paused": await store.value(_PAUSE_WORKSPACE, workspace, reason, until)}
        was_paused = await pauses.pause_everything(store, reason=reason, by=who(), until=until)
        return {**asked, "was_paused": was_paused, **(await pauses.pause_now(store) or {})}

    done = with_store(work)
    if as_json:
        print_json(done)
        return
    again = "already paused" if done["was_paused"] else "paused"
    typer.echo(f"{again}: {name}, until {iso(done['until']) if done['until'] else 'resumed'} ({plain(done['reason'])})")
    typer.echo(f"next: {_command(workspace)}")


def resume(everything: All = False, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """End a pause: what waited may go out.

    After a restore it also says that the database, as it is now, is the one to go on with.

    \b
    Example: fairpost resume --all
    """
    from fairpost.postgres import pauses

    name = _name(everything, workspace)

    async def work(store: "Store") -> dict[str, Any]:
        if workspace is not None:
            return {"name": name, "resumed": await store.release(workspace, "workspace")}
        ended = await pauses.resume_everything(store, by=who())
        return {"name": name, "resumed": ended is not None, "pause": ended}

    done = with_store(work)
    if as_json:
        print_json(done)
    else:
        typer.echo(f"resumed: {name}" if done["resumed"] else f"was not paused: {name}")


_PAUSE_WORKSPACE = "SELECT fairpost.pause_workspace($1, $2, coalesce($3, 'infinity'::timestamptz))"


def _name(everything: bool, workspace: str | None) -> str:
    if everything == (workspace is not None):
        raise typer.BadParameter("give --all, or --workspace NAME")
    return EVERYTHING if workspace is None else f"workspace {workspace}"


def _command(workspace: str | None) -> str:
    import shlex

    return f"fairpost resume {'--all' if workspace is None else f'--workspace {shlex.quote(workspace)}'}"


async def _require_future(store: "Store", until: datetime | None) -> None:
    if until is not None and until <= await store.value("SELECT clock_timestamp()"):
        raise FairpostError(f"--until must lie in the future, got {until.isoformat()}")
