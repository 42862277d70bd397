"""Sequences: the templates that a campaign sends one after another, and the delays between them."""

from collections.abc import Sequence

from fastapi import Response, status

from fairpost.actions import templates as actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, Removed, failures
from fairpost.api.errors import invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.routing import Router
from fairpost.api.shapes.sequences import Delayed, SequenceIn, SequenceName, SequenceOut, StepOut
from fairpost.campaigns.parsers import duration_s
from fairpost.model.campaign import Step
from fairpost.model.durations import write_duration
from fairpost.model.errors import NotFound
from fairpost.store import templates
from fairpost.store.templates import StoredSequence

TAG = {"name": "sequences", "description": "First e-mails and their follow-ups."}
router = Router(prefix="/v1/sequences", tags=["sequences"])


@router.get("", summary="List sequences by name", responses=failures())
async def list_sequences(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[SequenceOut]]:
    after = name_at(cursor) or ""
    found = await templates.sequences(caller.store, caller.workspace, after=after, most=limit + 1)
    return page_of(found, limit, shown=_out, place=lambda each: each.name)


@router.get("/{name}", summary="Get a sequence and its campaigns", responses=failures("not_found"))
async def get_sequence(name: SequenceName, caller: Reads) -> Answer[SequenceOut]:
    try:
        return Answer(data=_out(await templates.sequence_named(caller.store, caller.workspace, name)))
    except NotFound:
        raise not_found("sequence", name) from None


@router.put(
    "/{name}",
    summary="Create a sequence, or replace its steps",
    responses={
        201: {"model": Answer[SequenceOut], "description": "The sequence was created."},
        **failures("conflict"),
    },
)
async def put_sequence(
    name: SequenceName, sequence: SequenceIn, caller: Manages, response: Response
) -> Answer[SequenceOut]:
    delays = delays_s(sequence.steps)
    steps = [
        Step(template=step.template, delay_s=delay, own_subject=number > 0 and step.own_subject)
        for number, (step, delay) in enumerate(zip(sequence.steps, delays, strict=True))
    ]
    asked = actions.PutSequence(workspace=caller.workspace, name=name, steps=steps)
    done = await act(caller, actions.put_sequence, asked)
    response.status_code = status.HTTP_201_CREATED if done.is_new else status.HTTP_200_OK
    return Answer(data=_out(done.sequence))


@router.delete(
    "/{name}", summary="Delete a sequence that no campaign uses", responses=failures("not_found", "conflict")
)
async def delete_sequence(name: SequenceName, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove_sequence, actions.Named(workspace=caller.workspace, name=name))
    return Answer(data=Removed())


def delays_s(steps: Sequence[Delayed]) -> list[int]:
    """Returns each step's delay in seconds. Raises ApiError if a step after the first has no delay."""
    return [_delay_s(step, f"steps[{number}]", is_first=number == 0) for number, step in enumerate(steps)]


def _delay_s(step: Delayed, place: str, *, is_first: bool) -> int:
    if step.delay is not None and step.delay_s is not None:
        raise invalid(f"{place}.delay", "cannot be combined with delay_s")
    try:
        seconds = step.delay_s if step.delay is None else duration_s(step.delay)
    except ValueError as error:
        raise invalid(f"{place}.delay", str(error)) from None
    if is_first and seconds:
        raise invalid(f"{place}.delay", "must not be given for the first step")
    if not is_first and seconds is None:
        raise invalid(f"{place}.delay", 'is required. It is the delay after the previous step, for example "3d"')
    return seconds or 0


def _out(sequence: StoredSequence) -> SequenceOut:
    return SequenceOut(
        name=sequence.name,
        steps=steps_out(sequence.steps),
        created_at=sequence.created_at,
        campaigns=list(sequence.campaigns),
        is_launched=sequence.is_launched,
    )


def steps_out(steps: Sequence[Step]) -> list[StepOut]:
    return [
        StepOut(
            step=number,
            template=step.template,
            delay=write_duration(step.delay_s),
            delay_s=step.delay_s,
            own_subject=step.own_subject,
        )
        for number, step in enumerate(steps, 1)
    ]
