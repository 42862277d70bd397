"""Every command by group, with the command's location in the code and its one-line help.

A command's file is imported only when the command is used, so each command starts quickly.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from fairpost.cli.old_forms import renewed

GROUPS = {
    "Start": {
        "up": ("up:up", "Start Fairpost locally, with a demonstration."),
        "status": ("status:status", "Show the state, and why mail is not being sent."),
        "doctor": ("doctor:doctor", "Check the installation and suggest fixes."),
        "settings": ("settings:settings", "List settings with their values and sources."),
    },
    "Send": {
        "email": ("email:app", "Send, list, find, retry, cancel and resolve e-mails."),
        "conversation": ("conversation:app", "Read, label and answer replies."),
        "template": ("template:app", "Write, check, preview and remove templates."),
        "portal": ("portal:app", "Edit product e-mails, such as the welcome e-mail."),
        "suppress": ("suppress:app", "List, add and remove addresses that receive no mail."),
        "explain": ("explain:explain", "Explain how Fairpost handles a server's reply."),
    },
    "Campaigns": {
        "campaign": ("campaign:app", "Create, launch, pause and watch campaigns."),
        "sequence": ("sequence:app", "Create sequences: a first e-mail and its follow-ups."),
        "prospects": ("prospects:app", "Import, list, pause and remove recipients."),
        "schedule": ("schedule:app", "Set a workspace's sending window and daily quota."),
        "forecast": ("forecast:forecast", "Forecast when a campaign will finish."),
    },
    "Accounts": {
        "account": ("account:app", "Add, change, verify and pause sender accounts."),
        "secrets": ("secrets:app", "Change the key that encrypts account passwords."),
    },
    "Workspaces": {
        "workspace": ("workspace:app", "Add, list, show, suspend and readmit workspaces."),
        "user": ("user:app", "Register users and see which are throttled and why."),
        "member": ("member:app", "Invite people to a workspace and set their roles."),
        "key": ("key:app", "Add, list and revoke API keys."),
        "domain": ("domain:app", "Add, check and remove sending domains and DKIM keys."),
        "webhook": ("webhook:app", "Post signed events to your endpoints."),
        "privacy": ("privacy:app", "Export or erase a person's data."),
        "hold": ("hold:hold", "Hold mail from a workspace, domain, user or stream."),
        "release": ("hold:release", "End a hold."),
    },
    "Operate": {
        "work": ("work:work", "Run the engine, which sends queued e-mails."),
        "api": ("api:api", "Serve the HTTP API and the web pages."),
        "receive": ("receive:receive", "Receive bounces, complaints and replies."),
        "pause": ("pause:pause", "Pause sending for one or all workspaces."),
        "resume": ("pause:resume", "End a pause."),
        "fairness": ("fairness:fairness", "Show how evenly senders are served."),
        "metrics": ("metrics:metrics", "Print or serve metrics for Prometheus."),
        "events": ("events:events", "Show events in the order they happened."),
        "audit": ("audit:audit", "List changes and who made them, newest first."),
        "admin": ("admin:app", "Invite and manage the people who run the service."),
        "db": ("db:app", "Start, stop, migrate and inspect the database."),
        "region": ("region:app", "List regions and assign workspaces to them."),
    },
    "Develop": {
        "inbox": ("inbox:app", "Run a development mail server that keeps all mail."),
        "emulate": ("emulate:app", "Run emulated providers on this machine."),
        "simulate": ("simulate:app", "Simulate days of sending in minutes."),
        "bench": ("bench:app", "Measure Fairpost's speed on this machine."),
    },
}
NUMBERS = {"<int>", "<int range>", "<float>", "<float range>"}
PYTHON_TYPES = NUMBERS | {"<str>", "<path>", "<list[str]>", "<list[int]>"}
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}


@cache
def command(name: str) -> Any:
    """Return the parser's command, with its subcommands."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"fairpost.cli.{module}"), attribute)
    alone = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    built = typer.main.get_group(alone).commands[name]
    _name_values(built)
    return built


def _name_values(found: Any) -> None:
    """Show values in the help by their meaning (`--limit N`, `--label LABEL`) instead of their Python type."""
    for child in getattr(found, "commands", {}).values():
        _name_values(child)
    context = typer.Context(found)
    for param in found.params:
        shown = param.display_type(context) or ""
        if shown in PYTHON_TYPES:
            if param.metavar is None:
                param.metavar = "N" if shown in NUMBERS else param.opts[-1].rpartition("-")[2].upper()
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None  # the option's name already describes the value


class WhenAsked(Mapping[str, Any]):
    """Commands by name, imported on first use."""

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

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if "--show-completion" in param.opts:  # hidden so that the help fits on one screen
                param.hidden = True
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, renewed(args, command))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        name_width, group_width = max(map(len, COMMANDS)), max(map(len, GROUPS))
        with formatter.section("Commands"):
            for title, group in GROUPS.items():
                for place, (name, (_, line)) in enumerate(group.items()):
                    head = "" if place else title
                    formatter.write(f"  {head:<{group_width}}  {name:<{name_width}}  {line}\n")
