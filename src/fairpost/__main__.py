"""The command `fairpost`. This module checks that a command's packages are installed before it imports them."""

import sys
from collections.abc import Sequence

from fairpost import __version__
from fairpost.extras import Extra, how_to_install, is_installed

FOR_DEVELOPMENT = frozenset({"bench", "emulate", "inbox", "simulate", "up"})
HELP = f"""Fairpost sends e-mail from a PostgreSQL queue: fairly, once, and on record.

Only the part for applications is installed: import fairpost in your application.
To run the commands, install one of these:

  {how_to_install(Extra.SERVER)}  the engine, the HTTP API and its pages, and the commands
  {how_to_install(Extra.LOCAL)}   all of that, plus PostgreSQL, an inbox and a demonstration for development
"""
USAGE_ERROR = 2


def main() -> None:
    arguments = sys.argv[1:]
    if not is_installed(Extra.SERVER):
        sys.exit(_without_commands(arguments))
    if _is_for_development(arguments) and "--help" not in arguments and not is_installed(Extra.LOCAL):
        sys.exit(_not_installed(arguments))
    from fairpost.cli import main as run

    run()


def _without_commands(arguments: Sequence[str]) -> str | int:
    match arguments:
        case ["--version", *_]:
            sys.stdout.write(f"fairpost {__version__}\n")
            return 0
        case [] | ["--help", *_]:
            sys.stdout.write(HELP)
            return 0 if arguments else USAGE_ERROR
    return _not_installed(arguments)


def _not_installed(arguments: Sequence[str]) -> str:
    extra = Extra.LOCAL if _is_for_development(arguments) else Extra.SERVER
    return f"error: fairpost {arguments[0]} is not installed. Install it: {how_to_install(extra)}"


def _is_for_development(arguments: Sequence[str]) -> bool:
    return bool(arguments) and arguments[0] in FOR_DEVELOPMENT


if __name__ == "__main__":
    main()
