"""Prints all figures: what `make bench` runs. One at a time: `fairpost bench compose|render|smtp|send|pickup|memory|enqueue|api|pages|dashboard|claim|fairness --json`."""

from fairpost.cli.bench import (
    api,
    claim,
    compose,
    dashboard,
    enqueue,
    fairness,
    memory,
    pages,
    pickup,
    render,
    send,
    smtp,
)

if __name__ == "__main__":
    compose()
    render()
    smtp()
    send()
    pickup()
    memory()
    enqueue()
    api()
    pages()
    dashboard()
    claim()
    fairness()
