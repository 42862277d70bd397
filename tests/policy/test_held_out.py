"""What the rules make of replies they were not written for.

replies_held_out.csv was set aside, by a hash of the text, before the rules saw it: nobody looks a row up there to write a
rule. Whoever has looked moves the row to replies.csv and puts a fresh one in its place.
"""

import csv
from pathlib import Path

FOLDER = Path(__file__).parent


def read_table(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SEEN = read_table("replies.csv") + read_table("replies_seen.csv")
HELD_OUT = read_table("replies_held_out.csv")


def said(row: dict[str, str]) -> tuple[str, str, str, str]:
    return row["channel"], row["phase"], row["code"], row["text"]


def test_a_third_of_all_replies_is_held_out_and_none_of_them_is_seen() -> None:
    assert len(SEEN) + len(HELD_OUT) >= 700
    assert len(HELD_OUT) * 3 >= len(SEEN) + len(HELD_OUT)
    assert not {said(row) for row in SEEN} & {said(row) for row in HELD_OUT}


def test_every_held_out_reply_names_its_source() -> None:
    assert all(row["source"] for row in HELD_OUT)
