"""Prints the figures of the core: what `make bench` runs. One at a time: `fairpost bench enqueue|claim --json`."""

from fairpost.cli.bench import claim, enqueue

if __name__ == "__main__":
    enqueue()
    claim()
