"""Export and erase personal data in a workspace."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Query
from starlette.responses import StreamingResponse

from fairpost.actions import privacy as actions
from fairpost.api.access import LONG, Caller, Manages
from fairpost.api.acting import act
from fairpost.api.answers import AddressPath, Answer, failures
from fairpost.api.errors import invalid
from fairpost.api.routing import Router
from fairpost.api.shapes.privacy import Erased, PersonData
from fairpost.store import privacy as persons

TAG = {"name": "persons", "description": "Export or erase everything about a person."}
router = Router(prefix="/v1/persons", tags=["persons"])


@router.get(
    "/{address}",
    dependencies=LONG,
    summary="Export everything the workspace stores about a person",
    response_class=StreamingResponse,
    responses={
        200: {"model": Answer[PersonData], "description": "The response is streamed, because it may be long."},
        **failures(),
    },
)
async def export_person(address: AddressPath, caller: Manages) -> StreamingResponse:
    parsed = await caller.store.parse_address(address)
    if parsed is None:
        raise invalid("address", "must be an e-mail address")
    return StreamingResponse(_written(caller, parsed), media_type="application/json")


@router.delete(
    "/{address}",
    dependencies=LONG,
    summary="Erase everything the workspace stores about a person",
    responses=failures(),
)
async def erase_person(
    address: AddressPath,
    caller: Manages,
    keep_sendable: Annotated[bool, Query(description="Whether the person can receive e-mails again.")] = False,
) -> Answer[Erased]:
    asked = actions.Erase(address=address, workspace=caller.workspace, keep_sendable=keep_sendable)
    done = await act(caller, actions.erase, asked, store=caller.owner)
    return Answer(
        data=Erased(
            prospects=done.prospects,
            suppressions=done.suppressions,
            cancelled=done.cancelled,
            taken_out=done.taken_out,
            emails=done.emails,
            events=done.events,
            in_hand=[caller.ids.email(id_) for id_ in done.in_hand],
        )
    )


async def _written(caller: Caller, address: str) -> AsyncIterator[str]:
    """Yields the export as JSON, in pieces, while the data is read from the database."""
    yield '{"success": true, "data": {'
    async for text in persons.as_json(persons.export(caller.owner, address, workspace=caller.workspace)):
        yield text
    yield "}}"
