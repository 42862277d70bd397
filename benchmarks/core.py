"""Prints all figures: what `make bench` runs. One at a time: `fairpost bench enqueue|claim|compose|smtp --json`."""

from fairpost.cli.bench import claim, compose, enqueue, smtp

if __name__ == "__main__":
    compose()
    smtp()
    enqueue()
    claim()
