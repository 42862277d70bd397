"""Reasons are codes from the catalogue, in Python and in SQL; front ends render their sentences and commands."""

import ast
import re
from collections.abc import Iterator

from fairpost.model.event import EventKind
from fairpost.reasons.catalogue import CATALOGUE
from fairpost.reasons.events import EVENTS
from tests.architecture.source import PACKAGE, trees

MAKES = re.compile(r"\b(?:Reason|Refusal|Unknown)\(")
SQL = PACKAGE / "store" / "sql"
CODE = re.compile(r"^[a-z_]+\.[a-z_]+$")
NOUNS = "account|email|campaign|prospect|hold|throttle|sender|schedule|everything|legacy"
COMMAND = re.compile(
    r"\bfairpost (account|admin|api|campaign|db|doctor|domain|email|fairness|hold|key|member|metrics|pause|portal|prospects"
    r"|region|release|resume|schedule|secrets|sequence|settings|status|suppress|template|up|user|work|workspace)\b"
)
# Rooms whose texts reach pages, responses and logs. The others make texts for the command line, for example its options.
BELOW = {
    *("campaigns", "compose", "engine", "imap", "model", "policy", "portals", "prospects"),
    *("providers", "quality", "returns", "smtp", "store", "templates", "vault", "webhooks"),
}
# About the database itself, for its operators.
OF_THE_DATABASE = {"model/rights.py", "store/trouble.py"}
WRITERS = "finish|archive|cancel_email|cancel_prospect|set_status|hold_campaign|fail_campaign|in_one"


def functions() -> Iterator[tuple[str, str]]:
    for path in sorted(SQL.rglob("*.sql")):
        if path.parent.name != "migrations":
            yield path.name, re.sub(r"--[^\n]*", "", path.read_text("utf-8"))


def test_every_reason_that_python_makes_is_in_the_catalogue() -> None:
    unknown = []
    for path, tree in trees().items():
        for node in ast.walk(tree) if MAKES.search(path.read_text("utf-8")) else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Reason", "Refusal", "Unknown"):
                match node.args:
                    case [ast.Constant(value=str(code)), *_] if code not in CATALOGUE and code not in EVENTS:
                        unknown.append(f"{path.name}: {code}")
    assert unknown == []


def test_every_reason_that_sql_writes_is_in_the_catalogue() -> None:
    found = [(name, code) for name, text in functions() for code in re.findall(rf"'((?:{NOUNS})\.[a-z_]+)'", text)]
    assert len(found) > 20
    assert [each for each in found if each[1] not in {*CATALOGUE, *EventKind}] == []


def test_sql_hands_codes_and_no_sentences_to_what_writes_reasons() -> None:
    calls = [
        (name, call) for name, text in functions() for call in re.findall(rf"fairpost\.(?:{WRITERS})\(([^;]*);", text)
    ]
    literals = [(name, text) for name, call in calls for text in re.findall(r"'([^']*)'", call) if " " in text]
    assert len(calls) > 15
    assert literals == []


def test_a_code_is_a_noun_and_what_happened() -> None:
    assert [code for code in CATALOGUE if not CODE.match(code)] == []


def test_below_the_edge_no_string_is_a_command() -> None:
    named = []
    for path, tree in trees().items():
        within = path.relative_to(PACKAGE)
        is_below = within.parts[0] in BELOW and str(within) not in OF_THE_DATABASE
        if not (is_below and COMMAND.search(path.read_text("utf-8"))):
            continue
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        named += [
            f"{within}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            if COMMAND.search(node.value)
        ]
    assert named == []
