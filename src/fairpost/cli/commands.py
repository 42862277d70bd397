"""Every command by group: where it is, and its line in the help.

Its file is imported when it is asked for, so that each starts as quickly as if it were the only one.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

GROUPS = {
    "Start": {
        "up": ("up:up", "Start everything on this machine, with a demonstration."),
        "status": ("status:status", "Show what is going on, and why mail is not going out."),
        "doctor": ("doctor:doctor", "Check the installation, and say what to fix."),
        "settings": ("settings:settings", "List every setting, its value and its source."),
    },
    "Send": {
        "email": ("email:app", "Send, list, find, show, retry, cancel and resolve e-mails."),
        "template": ("template:app", "Write, check, preview and remove templates."),
        "portal": ("portal:app", "Your product's own e-mails, such as welcome and sign-in code."),
        "suppress": ("suppress:app", "Keep addresses that must not get mail."),
        "explain": ("explain:explain", "Explain a server's reply, and what Fairpost does about it."),
    },
    "Campaigns": {
        "campaign": ("campaign:app", "Write, launch, pause and watch campaigns."),
        "sequence": ("sequence:app", "Put templates in order: a first e-mail and its follow-ups."),
        "prospects": ("prospects:app", "Import, list, pause and remove the people you write to."),
        "schedule": ("schedule:app", "Set when a workspace sends its campaigns, and how much a day."),
        "forecast": ("forecast:forecast", "Forecast when a campaign will be done."),
    },
    "Accounts": {
        "account": ("account:app", "Add, change, verify, pause, resume and remove sender accounts."),
        "secrets": ("secrets:app", "Change the key that encrypts account passwords."),
    },
    "Workspaces": {
        "workspace": ("workspace:app", "Add, list, show, suspend and readmit workspaces."),
        "user": ("user:app", "Register users, see who is throttled and why."),
        "member": ("member:app", "Invite people to a workspace, and set what they may do."),
        "key": ("key:app", "Add, list and revoke API keys."),
        "domain": ("domain:app", "Add, check, grant, list and remove sending domains."),
        "privacy": ("privacy:app", "Export or erase what is stored about a person."),
        "hold": ("hold:hold", "Hold the mail of a workspace, domain, user or stream."),
        "release": ("hold:release", "End a hold."),
    },
    "Operate": {
        "work": ("work:work", "Run the engine: send what is waiting."),
        "api": ("api:api", "Serve the HTTP API and the pages."),
        "pause": ("pause:pause", "Stop all sending before the next e-mail."),
        "resume": ("pause:resume", "End a pause."),
        "fairness": ("fairness:fairness", "Show who is waiting, who was served, and how evenly."),
        "metrics": ("metrics:metrics", "Print or serve metrics for Prometheus."),
        "audit": ("audit:audit", "Show who changed what, newest first."),
        "admin": ("admin:app", "Invite and remove the people who run the service."),
        "db": ("db:app", "Start, stop, migrate and inspect the database."),
        "region": ("region:app", "List regions, and place workspaces in them."),
    },
    "Develop": {
        "inbox": ("inbox:app", "A mail server for development that keeps every mail."),
        "emulate": ("emulate:app", "Run emulated providers on this machine."),
        "simulate": ("simulate:app", "Simulate days of sending in minutes. No mail leaves."),
        "bench": ("bench:app", "Measure the speed of this machine."),
    },
}
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}

# Until the next version, the words of the one before lead to their successors.
RENAMED = {
    ("person",): ("privacy",),
    ("unsuppress",): ("suppress", "remove"),
    ("campaign", "course"): ("campaign", "progress"),
    ("campaign", "who"): ("campaign", "recipients"),
    ("user", "lift"): ("user", "unthrottle"),
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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _renamed(args))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in group.items()])


def _renamed(args: list[str]) -> list[str]:
    for old, new in RENAMED.items():
        if tuple(args[: len(old)]) == old:
            typer.echo(f"note: `fairpost {' '.join(old)}` is now `fairpost {' '.join(new)}`", err=True)
            return [*new, *args[len(old) :]]
    return args
