"""What must be reported if a server misbehaves: one row for each step and misdeed, printed in docs/smtp.md.

Written by hand, from one rule: before the final dot has left, the server cannot have the message; after it, only an
answer tells. Each row applies with and without pipelining.
"""

from dataclasses import dataclass

from tests.smtp.scripted_server import CUT, DRIP, FLOOD, GARBAGE, HALF, STALL, TWICE, Misdeed, Says

LATER = Says("451 4.3.0 later")
NEVER = Says("550 5.7.1 never")
GOING = Says("421 4.3.2 going away")
FINE = Says("250 2.0.0 fine")
GO_ON = Says("354 go on")
EAGER = Says("354 go on\r\n250 2.0.0 taken")

UNTOUCHED = "untouched"
BEFORE = "before the dot"
DOUBT = "in doubt"
SENT = "sent"
REST_SENT = "sent to the other recipient"
REPLIED_LATER = "451: later"
REPLIED_NEVER = "550: refused"
REPLIED_GOING = "421: later"


@dataclass(frozen=True)
class Row:
    step: str
    misdeed: Misdeed
    one: str | None  # the report with one recipient; None if the step does not exist
    two: str  # the report with two

    def __str__(self) -> str:
        return f"{self.step}, {in_words(self.misdeed)}"


def in_words(misdeed: Misdeed) -> str:
    if isinstance(misdeed, Says):
        return "answers " + " and ".join(line[:3] for line in misdeed.text.split("\r\n"))
    return misdeed


def rows(step: str, outcomes: dict[Misdeed, str], *, needs_two: bool = False) -> list[Row]:
    return [Row(step, misdeed, None if needs_two else outcome, outcome) for misdeed, outcome in outcomes.items()]


SILENCES = (CUT, HALF, STALL, DRIP, GARBAGE, FLOOD)


def silences(outcome: str) -> dict[Misdeed, str]:
    return dict.fromkeys(SILENCES, outcome)


REFUSALS: dict[Misdeed, str] = {LATER: REPLIED_LATER, NEVER: REPLIED_NEVER, GOING: REPLIED_GOING}
NO_START: dict[Misdeed, str] = {**silences(UNTOUCHED), **dict.fromkeys((LATER, NEVER, GOING, GO_ON), UNTOUCHED)}

TABLE: list[Row] = [
    *rows("greeting", {**NO_START, FINE: UNTOUCHED, TWICE: UNTOUCHED}),
    *rows("hello", {**NO_START, TWICE: UNTOUCHED}),
    *rows("starttls", {**NO_START, FINE: UNTOUCHED, TWICE: UNTOUCHED}),
    *rows("tls", dict.fromkeys((CUT, STALL, GARBAGE, FLOOD, FINE), UNTOUCHED)),
    *rows("auth", {**NO_START, FINE: UNTOUCHED, TWICE: UNTOUCHED}),
    *rows("mail", {**silences(BEFORE), **REFUSALS, GO_ON: BEFORE, TWICE: BEFORE}),
    *rows("first rcpt", {**silences(BEFORE), GOING: REPLIED_GOING, GO_ON: BEFORE, TWICE: BEFORE}),
    Row("first rcpt", LATER, REPLIED_LATER, REST_SENT),
    Row("first rcpt", NEVER, REPLIED_NEVER, REST_SENT),
    *rows("last rcpt", {**silences(BEFORE), GOING: REPLIED_GOING, GO_ON: BEFORE, TWICE: BEFORE}, needs_two=True),
    *rows("last rcpt", {LATER: REST_SENT, NEVER: REST_SENT}, needs_two=True),
    *rows("data", {**silences(BEFORE), **REFUSALS, FINE: BEFORE, TWICE: BEFORE, EAGER: BEFORE}),
    *rows("body", {**dict.fromkeys((CUT, STALL, GARBAGE, FLOOD), BEFORE), **REFUSALS, FINE: BEFORE, GO_ON: BEFORE}),
    *rows("dot", {**silences(DOUBT), **REFUSALS, GO_ON: DOUBT, TWICE: SENT}),
]


def as_markdown() -> str:
    """Returns the table in short form: misdeeds with the same outcome share a line."""
    lines = ["| Step | The server | One recipient | Two recipients |", "|---|---|---|---|"]
    folded: dict[tuple[str, str | None, str], list[str]] = {}
    for row in TABLE:
        folded.setdefault((row.step, row.one, row.two), []).append(in_words(row.misdeed))
    for (step, one, two), misdeeds in folded.items():
        lines.append(f"| {step} | {', '.join(misdeeds)} | {one or '–'} | {two} |")
    return "\n".join(lines) + "\n"
