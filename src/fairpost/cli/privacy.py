"""`fairpost privacy`: export or erase a person's data."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.files import STANDARD, created
from fairpost.cli.output import AsJson, plain, print_json, print_pairs
from fairpost.cli.progress import progress
from fairpost.cli.session import with_store
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fairpost.model.retention import Erasure
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Export or erase a person's data.")

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="E-mail address. Case is ignored. An international domain can be in Unicode or Punycode.",
    ),
]
Workspace = Annotated[str | None, typer.Option(help="Workspace. [default: FAIRPOST_WORKSPACE]")]
AllWorkspaces = Annotated[
    bool, typer.Option("--all-workspaces", help="Include all workspaces, and data that belongs to no workspace.")
]


@app.command()
def erase(
    address: Address,
    workspace: Workspace = None,
    all_workspaces: AllWorkspaces = False,
    keep_sendable: Annotated[
        bool, typer.Option("--keep-sendable", help="Do not add the address to the suppression list.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be erased, without erasing anything.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    as_json: AsJson = False,
) -> None:
    """Permanently erase a person's data.

    E-mails queued for the person are cancelled. The suppression list keeps a hash of the address, so that no more mail
    is sent to it.

    \b
    Example: fairpost privacy erase ann@example.com --all-workspaces
    """
    from fairpost.actions import privacy
    from fairpost.store import privacy as persons

    where = _scope(workspace, all_workspaces)
    if not yes and not dry_run:
        typer.confirm(f"Permanently erase {plain(address)} in {_in_words(where)}?", abort=True, err=True)

    async def work(store: "Store") -> "Erasure":
        with progress("reading history", await persons.history_bytes(store)) as reach:
            if dry_run:
                return await persons.preview(store, address, workspace=where, reach=reach)
            request = privacy.Erase(address=address, workspace=where, keep_sendable=keep_sendable, progress=reach)
            return await act_on(store, privacy.erase, request, fields={"address": "ADDRESS"})

    done = with_store(work)
    if as_json:
        print_json({"dry_run": dry_run, **_for_programs(done)})
    else:
        _tell(done, dry_run)


def _for_programs(done: "Erasure") -> dict[str, object]:
    return {name: getattr(done, name) for name in done.__slots__ if name != "in_hand"} | {
        "in_hand": [str(id_) for id_ in done.in_hand]
    }


def _tell(done: "Erasure", dry_run: bool) -> None:
    typer.echo("would be erased:" if dry_run else "erased:")
    print_pairs(
        [
            ("e-mails in history", f"{done.emails:,}"),
            ("e-mails cancelled", f"{done.cancelled:,}"),
            ("e-mails with other recipients", f"{done.taken_out:,}"),
            ("prospects", f"{done.prospects:,}"),
            ("suppressions, replaced with hashes", f"{done.suppressions:,}"),
            ("events", f"{done.events:,}"),
            ("messages in the inbox", f"{done.inbox_mails:,}"),
        ]
    )
    if done.in_hand:
        ids = " ".join(map(str, done.in_hand))
        typer.echo(
            f"not erased because they are being sent or in doubt: {ids}\nRun the command again when they are finished."
        )


@app.command()
def export(
    address: Address,
    workspace: Workspace = None,
    all_workspaces: AllWorkspaces = False,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="JSON file to write, or `-` for standard output.")
    ] = STANDARD,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Export a person's data as JSON.

    Exports prospects, lists, e-mails with their content and attempts, suppressions and events. Omits other recipients.

    \b
    Example: fairpost privacy export ann@example.com --all-workspaces --output ann.json
    """
    from fairpost.store import privacy as persons

    where = _scope(workspace, all_workspaces)

    async def work(store: "Store") -> int:
        checked, pieces = await persons.parsed(store, address), 0
        total = await persons.history_bytes(store)
        with created(output, force) as out, progress("reading history", total) as reach:

            async def counted() -> "AsyncIterator[tuple[str, dict[str, Any]]]":
                nonlocal pieces
                async for each in persons.export(store, checked, workspace=where, reach=reach):
                    pieces += 1
                    yield each

            out.write(f'{{\n"address": {json.dumps(checked, ensure_ascii=False)},\n'.encode())
            async for text in persons.as_json(counted()):
                out.write(text.encode())
            out.write(b"\n}\n")
        return pieces

    pieces = with_store(work)
    if output != STANDARD:
        typer.echo(f"wrote {pieces:,} records to {output}")


def _scope(workspace: str | None, all_workspaces: bool) -> str | None:
    if all_workspaces and workspace is not None:
        raise typer.BadParameter("specify either --workspace or --all-workspaces")
    return None if all_workspaces else workspace or read_settings().workspace


def _in_words(workspace: str | None) -> str:
    return "all workspaces" if workspace is None else f"workspace {workspace}"
