"""Every command: where it is, and its line in the help.

Its file is imported when it is asked for, so that each starts as quickly as if it were the only one.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "up": ("up:up", "Start everything, show it at work, and keep it running until Ctrl-C."),
    "work": ("work:work", "Send what waits, through all accounts, until Ctrl-C or SIGTERM."),
    "api": ("api:api", "Serve the HTTP API until Ctrl-C or SIGTERM."),
    "status": ("status:status", "Show the queue, the accounts, and why nothing is sending."),
    "fairness": ("fairness:fairness", "Show who waits, who was served, and how evenly."),
    "metrics": ("metrics:metrics", "Print figures for Prometheus, or serve them."),
    "doctor": ("doctor:doctor", "Check what usually goes wrong, and say what to type."),
    "settings": ("settings:settings", "List every setting, its value and where that comes from."),
    "explain": ("explain:explain", "Say what a server's reply means, and what the engine does about it."),
    "pause": ("pause:pause", "Stop all sending before the next e-mail."),
    "resume": ("pause:resume", "End a pause: what waited may go out."),
    "hold": ("hold:hold", "Hold a workspace, or one name in it."),
    "release": ("hold:release", "End a hold: what waited behind it may go out."),
    "audit": ("audit:audit", "Show who changed what, the newest first."),
    "forecast": ("forecast:forecast", "Say when a campaign will be done, and what would help."),
    "unsuppress": ("suppress:unsuppress", "Take an address off the suppression list."),
    "email": ("email:app", "Send, list, find, show, retry, cancel and resolve e-mails."),
    "account": ("account:app", "Add, change, verify, pause, resume and remove sender accounts."),
    "secrets": ("secrets:app", "Change the key that seals the accounts' passwords."),
    "workspace": ("workspace:app", "Add, list, show, suspend and readmit workspaces."),
    "key": ("key:app", "Add, list and revoke keys of the HTTP API."),
    "domain": ("domain:app", "Add, check, grant, list and remove domains of workspaces."),
    "user": ("user:app", "Register users, see who is throttled and why, throttle and lift by hand."),
    "admin": ("admin:app", "Invite the people who run the service, let them in, keep them out."),
    "member": ("member:app", "Invite the people who sign in to a workspace, and say what they may do."),
    "campaign": ("campaign:app", "Write, launch, pause and watch campaigns; see who got what, and retry the rest."),
    "template": ("template:app", "Write, check, preview and remove what e-mails say."),
    "sequence": ("sequence:app", "Put templates in a row: a first e-mail, and those that follow it."),
    "schedule": ("schedule:app", "Say when a workspace sends its campaigns, and how much a day."),
    "prospects": ("prospects:app", "Import, list, pause and remove the people you write to."),
    "person": ("person:app", "Hand out or erase what is stored about one person."),
    "portal": (
        "portal:app",
        "The product's own e-mails (welcome, sign-in code …): list, preview, check, send, and a workspace's own words for them.",
    ),
    "suppress": ("suppress:app", "Never write to an address again."),
    "inbox": ("inbox:app", "A mail server for development: keeps every mail, sends none on."),
    "emulate": ("emulate:app", "Services that mail goes out through, played on this machine."),
    "db": ("db:app", "Start, stop, migrate and look at the database."),
    "region": ("region:app", "See the regions, and place workspaces in them."),
    "bench": ("bench:app", "Measure this machine. What needs a database makes one of its own and drops it."),
    "simulate": ("simulate:app", "Let days pass in minutes, beside what is real. No mail leaves."),
}


@cache
def command(name: str) -> Any:
    """As the parser has it; the commands of a group come with it."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"fairpost.cli.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    return typer.main.get_group(alone).commands[name]


class WhenAsked(Mapping[str, Any]):
    """Each command by its name, imported when somebody asks for it."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": WhenAsked()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        lines = {name: TyperCommand(name, help=line) for name, (_, line) in COMMANDS.items()}
        TyperGroup(commands={**lines}).format_commands(ctx, formatter)
