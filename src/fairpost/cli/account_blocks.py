"""Workspaces blocked from using an account, for `fairpost account show` and `fairpost account unblock`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act
from fairpost.cli.output import print_table, when
from fairpost.model.errors import NotFound
from fairpost.model.fault import fault_code, write_fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fairpost.model.fault import Block


def blocks_facts(blocks: "Sequence[Block]") -> list[dict[str, Any]]:
    """Return blocks as JSON. `reason` is a code; `figures` are the sender's own figures."""
    return [
        {
            "workspace": block.workspace,
            "since": block.since,
            "until": block.until,
            "reason": fault_code(block.fault),
            "figures": write_fault(block.fault),
        }
        for block in blocks
    ]


def print_blocks(blocks: "Sequence[Block]", now: "datetime") -> None:
    from fairpost.policy.blame import reason_of
    from fairpost.reasons.rendering import brief

    if blocks:
        typer.echo()
        rows = [
            (b.workspace, when(b.since, now), when(b.until, now) or "unblocked", brief(reason_of(b.fault)))
            for b in blocks
        ]
        print_table(("workspace", "blocked since", "until", "because"), rows, title="Blocked from using this account")


def unblock(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Account name.")],
    workspace: Annotated[str | None, typer.Option(help="Unblock this workspace.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Unblock all workspaces.")] = False,
) -> None:
    """Let a blocked workspace use an account again.

    The workspace's earlier bounces and refusals no longer count.

    \b
    Example: fairpost account unblock sales --workspace acme
    """
    from fairpost.actions import accounts as actions

    if (workspace is None) != all_:
        raise typer.BadParameter("specify either --workspace or --all")
    ended = act(actions.unblock, actions.Unblock(name=name, workspace=workspace))
    if not ended:
        who = f"Workspace {workspace} is not blocked" if workspace else "No workspace is blocked"
        raise NotFound(f"{who} from using account {name}. See: fairpost account show {name}")
    for each in ended:
        typer.echo(f"unblocked {each} on {name}")
