"""The command line: one file per group of commands. Here they are hung up, and errors become one red line.

Nothing heavy is imported before a command runs: `fairpost --help` must answer at once.
"""

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fairpost import __version__
from fairpost.cli import (
    account,
    account_share,
    admin,
    api,
    audit,
    bench,
    campaign,
    db,
    doctor,
    domain,
    email,
    emulate,
    explain,
    fairness,
    forecast,
    hold,
    inbox,
    key,
    member,
    metrics,
    pause,
    person,
    portal,
    prospects,
    region,
    schedule,
    secrets,
    sequence,
    settings,
    simulate,
    status,
    suppress,
    template,
    up,
    user,
    work,
    workspace,
)
from fairpost.cli.output import error_line
from fairpost.model.errors import FairpostError

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FairpostError as error:
            error_line(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="fairpost",
    cls=Commands,
    help="Fairpost: every e-mail is a row in PostgreSQL, let out fairly, sent once, and accounted for.",
    epilog="New here? Type: fairpost up",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is quick, and can be searched and copied
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairpost {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


app.command("up")(up.up)
app.command("work")(work.work)
app.command("api")(api.api)
app.command("status")(status.status)
app.command("fairness")(fairness.fairness)
app.command("metrics")(metrics.metrics)
app.command("doctor")(doctor.doctor)
app.command("settings")(settings.settings)
app.command("explain")(explain.explain)
app.add_typer(email.app, name="email")
account.app.command("share")(account_share.share)
app.add_typer(account.app, name="account")
app.add_typer(secrets.app, name="secrets")
app.command("pause")(pause.pause)
app.command("resume")(pause.resume)
app.command("hold")(hold.hold)
app.command("release")(hold.release)
app.add_typer(workspace.app, name="workspace")
app.add_typer(key.app, name="key")
app.add_typer(domain.app, name="domain")
app.command("audit")(audit.audit)
app.add_typer(user.app, name="user")
app.add_typer(admin.app, name="admin")
app.add_typer(member.app, name="member")
app.add_typer(campaign.app, name="campaign")
app.add_typer(template.app, name="template")
app.add_typer(sequence.app, name="sequence")
app.add_typer(schedule.app, name="schedule")
app.command("forecast")(forecast.forecast)
app.add_typer(prospects.app, name="prospects")
app.add_typer(person.app, name="person")
app.add_typer(portal.app, name="portal")
app.add_typer(suppress.app, name="suppress")
app.command("unsuppress")(suppress.unsuppress)
app.add_typer(inbox.app, name="inbox")
app.add_typer(emulate.app, name="emulate")
app.add_typer(db.app, name="db")
app.add_typer(region.app, name="region")
app.add_typer(bench.app, name="bench")
app.add_typer(simulate.app, name="simulate")


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a subject may have letters that the terminal has not
    app()
