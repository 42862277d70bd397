"""`fairpost`, with one more line in its registry. Processes that it starts run this module, too, and so have the line."""

from fairpost.cli import main
from fairpost.transports.registry import KINDS

KINDS["pigeon"] = "tests.transports.pigeon.kind"

if __name__ == "__main__":
    main()
