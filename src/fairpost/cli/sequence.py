"""`fairpost sequence`: the templates that a campaign sends one after another, and the delays between them."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act
from fairpost.cli.names import Workspace, checked_name
from fairpost.cli.output import AsJson, iso, jsonable, plain, print_json, print_pairs, print_table
from fairpost.cli.session import with_store
from fairpost.model.campaign import Step
from fairpost.model.durations import write_duration
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.store.store import Store
    from fairpost.store.templates import StoredSequence, StoredTemplate

app = typer.Typer(no_args_is_help=True, help="Create sequences: a first e-mail and its follow-ups.")

STEPS_MAX = 100

Name = Annotated[str, typer.Argument(callback=checked_name, metavar="NAME", help="Sequence name, for example spring.")]

_STEP = re.compile(r"\s*(\S+)(?:\s+after\s+(\S.*?))?(\s+with\s+own\s+subject)?\s*", re.IGNORECASE | re.DOTALL)


@app.command("set")
def set_(
    name: Name,
    step: Annotated[
        list[str],
        typer.Option(
            metavar="STEP",
            help='Template for a step. From the second step on, add a delay, for example "reminder after 3d". Repeatable.',
        ),
    ],
    workspace: Workspace = "",
    as_json: AsJson = False,
) -> None:
    """Create a sequence or replace all its steps.

    Use --step once for each e-mail, in order. A delay, such as 3d, 12h, 30m or "1d 12h", starts when the previous step
    is sent to the recipient. A delay can be at most a year. Follow-ups use the subject of the first step, so they stay
    in its thread. With "last-call after 1w with own subject", a step keeps its template's subject, but Gmail then shows
    the e-mail outside the thread. If a step cannot be sent to a recipient, the recipient's remaining steps are not sent
    either. Once a campaign has been launched with a sequence, the sequence's steps cannot be changed.

    \b
    Example: fairpost sequence set spring --step welcome --step "reminder after 3d" --step "last-call after 1w"
    """
    from fairpost.actions.templates import PutSequence, put_sequence

    request = PutSequence(workspace=workspace, name=name, steps=_steps(step))
    done = act(put_sequence, request, fields={f"steps[{n}].template": "--step" for n in range(len(step))})
    stored, is_new = done.sequence, done.is_new
    if as_json:
        print_json({**_facts(stored), "is_new": is_new})
        return
    typer.echo(f"{'created' if is_new else 'changed'} sequence {name}: {_count(stored.steps)}")
    for number, each in enumerate(stored.steps, 1):
        typer.echo(f"  {number}. {each.template}{_delay_in_words(each, number)}")


@app.command("list")
def list_(workspace: Workspace = "", as_json: AsJson = False) -> None:
    """List a workspace's sequences and their templates.

    \b
    Example: fairpost sequence list
    """
    from fairpost.store.templates import sequences

    found = with_store(lambda store: sequences(store, workspace))
    if as_json:
        print_json(map(_facts, found))
    elif found:
        rows = ((s.name, len(s.steps), _in_a_row(s.steps), _campaigns_in_words(s), iso(s.created_at)) for s in found)
        print_table(("sequence", ">steps", "sends", "campaigns", "since"), rows)
    else:
        typer.echo("No sequences. Create one: fairpost sequence set NAME --step TEMPLATE")


@app.command()
def show(name: Name, workspace: Workspace = "", as_json: AsJson = False) -> None:
    """Show a sequence: steps, required fields and campaigns.

    \b
    Example: fairpost sequence show spring
    """
    from fairpost.store.templates import sequence_named, templates

    async def work(store: "Store") -> "tuple[StoredSequence, dict[str, StoredTemplate]]":
        stored = await sequence_named(store, workspace, name)
        return stored, {each.name: each for each in await templates(store, workspace)}

    stored, known = with_store(work)
    used = [known[template] for template in dict.fromkeys(step.template for step in stored.steps)]
    required, optional = _fields(used)
    if as_json:
        print_json({**_facts(stored), "required": required, "optional": optional})
        return
    print_pairs(
        [
            ("sequence", stored.name),
            ("since", iso(stored.created_at)),
            ("campaigns", _campaigns_in_words(stored) or "none yet"),
            ("steps", "fixed, because a campaign was launched with them" if stored.is_launched else None),
            ("required fields", ", ".join(required)),
            ("optional fields", ", ".join(optional)),
        ]
    )
    typer.echo("")
    print_table((">step", "template", "subject", "sent"), _rows(stored.steps, known))


@app.command()
def remove(name: Name, workspace: Workspace = "") -> None:
    """Remove a sequence that no campaign uses.

    The sequence's templates are kept.

    \b
    Example: fairpost sequence remove spring
    """
    from fairpost.actions.templates import Named, remove_sequence

    act(remove_sequence, Named(workspace=workspace, name=name))
    typer.echo(f"removed sequence {name}; its templates are kept")


# ── parse options ─────────────────────────────────────────────────────────────────────────────────────────


def _steps(given: list[str]) -> list[Step]:
    if len(given) > STEPS_MAX:
        raise FairpostError(f"A sequence can have at most {STEPS_MAX} steps, got {len(given)}. Nothing was changed.")
    steps, problems = [], []
    for number, text in enumerate(given, 1):
        try:
            steps.append(_step(text, is_first=number == 1))
        except ValueError as error:
            problems.append(f"step {number}: {error}")
    if problems:
        raise FairpostError(
            "\n".join([*problems, "Nothing was changed. For the step format, see: fairpost sequence set --help"])
        )
    return steps


def _step(text: str, *, is_first: bool) -> Step:
    from fairpost.campaigns import parsers, values

    found = _STEP.fullmatch(text)
    if not found:
        raise ValueError(f'must be a template and a delay, for example "reminder after 3d", got {parsers.shown(text)}')
    try:
        template = values.name(found[1])
    except ValueError as error:
        raise ValueError(f"the template {error}") from None
    if is_first and found[2]:
        raise ValueError(f'is sent when the campaign starts: omit "after {found[2]}"')
    if is_first:
        return Step(template=template)
    if not found[2]:
        raise ValueError(f'must have a delay after the previous step, for example "{template} after 3d"')
    try:
        return Step(template=template, delay_s=parsers.duration_s(found[2]), own_subject=found[3] is not None)
    except ValueError as error:
        raise ValueError(f"the delay {error}") from None


# ── render ────────────────────────────────────────────────────────────────────────────────────────────────


def _facts(stored: "StoredSequence") -> dict[str, Any]:
    steps = [
        {
            "step": number,
            "template": s.template,
            "delay_s": s.delay_s,
            "delay": write_duration(s.delay_s),
            "own_subject": s.own_subject,
        }
        for number, s in enumerate(stored.steps, 1)
    ]
    return {**jsonable(stored), "steps": steps}


def _fields(used: "list[StoredTemplate]") -> tuple[list[str], list[str]]:
    """Return the required and optional fields of all templates together."""
    from fairpost.campaigns.launching import ALWAYS_KNOWN, compiled

    all_of_them = [compiled(each) for each in used]
    required = {path for each in all_of_them for path in each.required}
    optional = {path for each in all_of_them for path in each.optional} - required
    return sorted(required - ALWAYS_KNOWN), sorted(optional - ALWAYS_KNOWN)


def _rows(steps: "Sequence[Step]", known: "dict[str, StoredTemplate]") -> list[tuple[object, ...]]:
    return [
        (number, step.template, _subject(steps, number, known), _when_in_words(step, number))
        for number, step in enumerate(steps, 1)
    ]


def _subject(steps: "Sequence[Step]", number: int, known: "dict[str, StoredTemplate]") -> str:
    """Return a step's subject. A follow-up uses the first step's subject, unless it has its own."""
    step = steps[number - 1] if steps[number - 1].own_subject else steps[0]
    return plain(known[step.template].subject)


def _when_in_words(step: Step, number: int) -> str:
    return "when the campaign starts" if number == 1 else f"{_delay(step)} after step {number - 1}"


def _delay_in_words(step: Step, number: int) -> str:
    return "" if number == 1 else f", {_delay(step)} after step {number - 1}"


def _in_a_row(steps: "Sequence[Step]") -> str:
    return " → ".join(step.template + (f" after {_delay(step)}" if n else "") for n, step in enumerate(steps))


def _delay(step: Step) -> str:
    return write_duration(step.delay_s)


def _campaigns_in_words(stored: "StoredSequence") -> str:
    return ", ".join(stored.campaigns) + (" (launched)" if stored.is_launched else "")


def _count(steps: "Sequence[Step]") -> str:
    return "1 step" if len(steps) == 1 else f"{len(steps)} steps"
