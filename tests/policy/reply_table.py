"""The labelled replies: real replies of servers (with changed addresses), and the meaning of each."""

import csv
from pathlib import Path

from fairpost.model.report import Channel, Reply, Step
from fairpost.policy.replies import NO_CODE, Meaning, meaning

Row = dict[str, str]
Label = tuple[str, str, str, str]  # class, scope, retry, suppress


def _table(name: str) -> list[Row]:
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SEEN = _table("replies.csv")
HELD_OUT = _table("replies_held_out.csv")


def read(row: Row) -> Meaning:
    return meaning(
        Reply(int(row["code"] or NO_CODE), row["text"].replace("\\n", "\n")),
        phase=Step(row["phase"]) if row["phase"] else None,
        channel=Channel(row["channel"]),
        enhanced=row["enhanced"] or None,
    )


def label(row: Row) -> Label:
    return row["class"], row["scope"], row["retry"], row["suppress"]


def verdict_on(row: Row) -> Label:
    found = read(row)
    yes = {True: "yes", False: "no"}
    return found.class_.value, found.scope.value, yes[found.retry], yes[found.suppress_recipient]
