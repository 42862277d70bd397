"""Measures the classifier, next to flufl.bounce, on a labelled set of real mails: `python -m tests.returns.labelled
FOLDER`.

The set is not part of the project. FOLDER contains mails and a `labels.jsonl` with a line for each file: `file` and
`recipients`, each of which has `status`, `reason` and `hard`.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from pathlib import Path
from typing import Any, NamedTuple

from fairpost.returns.classify import classify

NOW = datetime(2026, 11, 18, tzinfo=UTC)
BESIDE = Path(__file__).parents[3] / "shared" / "data" / "bounces"
KINDS = {"feedback": "complaint", "vacation": "auto_reply"}
# "User unknown" in a report that does not name the step of the conversation: the label does not say whether the mailbox
# accepts mail.
NO_WORD_AGAINST = frozenset({"filtered"})


class Told(NamedTuple):
    kind: str
    recipients: list[tuple[bool, bool]]  # temporary, suppressed


def by_us(raw: bytes) -> Told:
    found = classify(raw, now=NOW)
    return Told(found.kind, [(each.retry, each.suppress_recipient) for each in found.recipients])


def by_flufl(raw: bytes) -> Told:
    from flufl.bounce import all_failures

    temporary, permanent = all_failures(message_from_bytes(raw))
    told = [(False, True)] * len(permanent) + [(True, False)] * len(temporary)
    return Told("report" if told else "other", told)


def labels(folder: Path) -> Iterator[dict[str, Any]]:
    with (folder / "labels.jsonl").open() as lines:
        yield from map(json.loads, lines)


def folder() -> Path | None:
    """Returns the folder that FAIRPOST_TEST_BOUNCES names, or the one beside the project, or None."""
    named = Path(os.environ.get("FAIRPOST_TEST_BOUNCES") or BESIDE)
    return named if (named / "labels.jsonl").is_file() else None


def counts(folder: Path, read: Callable[[bytes], Told]) -> Counter[str]:
    count: Counter[str] = Counter()
    for label in labels(folder):
        wanted: list[dict[str, Any]] = label["recipients"]
        told = read((folder / label["file"]).read_bytes())
        kind = KINDS.get(wanted[0]["reason"], "report")
        count[f"{kind}s"] += 1
        count[f"{kind}s right"] += told.kind == kind
        count["recipients"] += len(wanted)
        count["recipients found"] += min(len(wanted), len(told.recipients))
        if kind == "report":
            for number, each in enumerate(wanted):
                _count(count, each, told.recipients[number] if number < len(told.recipients) else None)
    return count


def _count(count: Counter[str], wanted: dict[str, Any], told: tuple[bool, bool] | None) -> None:
    if wanted["status"][:1] in ("4", "5"):
        count["temporary or permanent"] += 1
        count["temporary or permanent right"] += told is not None and told[0] == (wanted["status"][0] == "4")
    is_suppressed = told is not None and told[1]
    count["suppressed"] += is_suppressed
    if wanted["hard"]:
        count["hard"] += 1
        count["hard suppressed"] += is_suppressed
    else:
        count["not hard"] += 1
        count["not hard suppressed"] += is_suppressed
        count["suppressed against the label"] += is_suppressed and wanted["reason"] not in NO_WORD_AGAINST


SHARES = (
    ("recipients found", "recipients"),
    ("temporary or permanent right", "temporary or permanent"),
    ("hard suppressed", "hard"),
    ("suppressed against the label", "not hard"),
    ("suppressed against the label", "suppressed"),
    ("not hard suppressed", "not hard"),
    ("reports right", "reports"),
    ("complaints right", "complaints"),
    ("auto_replys right", "auto_replys"),
)


def main(folder: Path) -> None:
    columns = [counts(folder, by_us), counts(folder, by_flufl)]
    sys.stdout.write(f"{'':56}{'Fairpost':>16}{'flufl.bounce':>16}\n")
    for part, whole in SHARES:
        cells = (f"{each[part]}/{each[whole]} {100 * each[part] / max(1, each[whole]):5.1f}%" for each in columns)
        sys.stdout.write(f"{f'{part} (of {whole})':56}{''.join(f'{cell:>16}' for cell in cells)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
