"""The command line: one file per command group, listed in commands.py. This module prints errors.

Large modules are imported only when a command runs, so `fairpost --help` is fast.
"""

import io
import os
import sys
from typing import Annotated, Any

import typer

from fairpost import __version__
from fairpost.cli.commands import Commands
from fairpost.cli.output import error_line
from fairpost.model.errors import FairpostError, Refusal

INTERRUPTED = 130  # 128 + SIGINT, as in shells


class Program(Commands):
    def invoke(self, ctx: Any) -> Any:
        _warn_of_misspelt_settings()
        try:
            return super().invoke(ctx)
        except Refusal as error:
            from fairpost.cli.acting import in_words

            error_line(in_words(error.reason))
            raise typer.Exit(1) from error
        except FairpostError as error:
            error_line(_in_full(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            known = _in_plain_words(error)
            if known is None:
                raise
            error_line(str(known))
            raise typer.Exit(1) from error


def _warn_of_misspelt_settings() -> None:
    if any(name.startswith("FAIRPOST_") for name in os.environ):
        from fairpost.settings import misspelt_variables

        for name, meant in misspelt_variables().items():
            typer.echo(f"note: {name} is not a setting. Did you mean {meant}?", err=True)


def _in_full(error: FairpostError) -> str:
    if error.next_step is None:
        return str(error)
    from fairpost.reasons.rendering import error_in_words

    return error_in_words(error)


def _in_plain_words(error: Exception) -> FairpostError | None:
    """Convert a database driver's error into a user-facing one. Return None if the error is a bug."""
    if "asyncpg" not in sys.modules:
        return None
    from fairpost.store.trouble import trouble_of

    trouble = None if isinstance(error, OSError) else trouble_of(error)
    return trouble.as_error() if trouble else None


app = typer.Typer(
    name="fairpost",
    cls=Program,
    help="Send e-mail from a PostgreSQL queue: fairly, once, and on record.",
    epilog="New here? Run: fairpost up",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help displays quickly and can be searched and copied
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


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the terminal may not support all characters in the output
    app()
