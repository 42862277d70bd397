"""`fairpost`, with one more line in its registry. Processes that it starts also run this module, and so have the line.

With `each`, it reads commands from its input as lists of words, runs them, and prints the exit code and output of each
as JSON.
"""

import json
import sys

from fairpost.cli import app, main
from fairpost.transports.registry import KINDS

KINDS["pigeon"] = "tests.transports.pigeon.kind"


def run_each() -> None:
    from typer.testing import CliRunner

    done = [CliRunner().invoke(app, words) for words in json.load(sys.stdin)]
    json.dump([(each.exit_code, each.output) for each in done], sys.stdout)


if __name__ == "__main__":
    run_each() if sys.argv[1:] == ["each"] else main()
