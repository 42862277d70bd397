"""Addresses that a workspace has suppressed. Addresses that the operator suppressed are not included."""

from typing import Annotated

from fastapi import Query, Response, status

from fairpost.actions import suppressions as actions
from fairpost.api.access import Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import AddressPath, Answer, Page, Removed, Text, failures
from fairpost.api.errors import not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.routing import Router
from fairpost.api.shapes.suppressions import BadAddress, ManyIn, ManyOut, SuppressionIn, SuppressionOut
from fairpost.model.suppression import Entry, SuppressionKind
from fairpost.store import suppressions as stored

TAG = {"name": "suppressions", "description": "Addresses that receive no e-mails."}
router = Router(prefix="/v1/suppressions", tags=["suppressions"])


@router.get("", summary="List suppressed addresses in alphabetical order", responses=failures())
async def list_suppressions(
    caller: Reads,
    kind: Annotated[SuppressionKind | None, Query(description="Only entries of this kind.")] = None,
    search: Annotated[
        Text | None,
        Query(min_length=1, max_length=200, description="Only entries whose address or reason contains this text."),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[SuppressionOut]]:
    found = await stored.listed(
        caller.store,
        workspace=caller.workspace,
        kind=kind,
        search=search,
        after=name_at(cursor) or "",
        most=limit + 1,
    )
    return page_of(found, limit, shown=SuppressionOut.model_validate, place=lambda each: each.address)


@router.post(
    "",
    summary="Suppress many addresses",
    description="If any address is invalid, none are added. With `skip_bad`, invalid addresses are skipped instead.",
    responses=failures(),
)
async def suppress_addresses(
    given: ManyIn,
    caller: Manages,
    skip_bad: Annotated[bool, Query(description="Whether to skip invalid addresses.")] = False,
) -> Answer[ManyOut]:
    entries = [
        Entry(
            line=line,
            address=address,
            kind=given.kind,
            reason=given.reason,
            created_at=None,
            workspace=caller.workspace,
        )
        for line, address in enumerate(given.addresses)
    ]
    asked = actions.ImportSuppressions(lines=entries, kind=given.kind, reason=given.reason, skip_bad=skip_bad)
    imported = await act(caller, actions.import_, asked, fields={"line": "addresses[{line}]"})
    return Answer(
        data=ManyOut(
            added=imported.added,
            known=imported.known,
            duplicates=imported.duplicates,
            bad=imported.bad,
            bad_addresses=[BadAddress(place=each.line, why=each.why) for each in imported.bad_lines],
        )
    )


@router.get("/{address:path}", summary="Get the reason and date of a suppression", responses=failures("not_found"))
async def get_suppression(address: AddressPath, caller: Reads) -> Answer[SuppressionOut]:
    found, _ = await stored.known_of(caller.store, address)
    if not found:
        raise not_found("suppression of", address)
    return Answer(data=SuppressionOut.model_validate(found[0]))


@router.put(
    "/{address:path}",
    summary="Suppress an address",
    description="Queued e-mails to this address will not be sent.",
    status_code=status.HTTP_201_CREATED,
    responses={
        200: {
            "model": Answer[SuppressionOut],
            "description": "The address was already suppressed. The stronger of the two kinds is kept.",
        },
        **failures(),
    },
)
async def suppress_address(
    address: AddressPath, given: SuppressionIn, caller: Manages, response: Response
) -> Answer[SuppressionOut]:
    asked = actions.Suppress(workspace=caller.workspace, address=address, reason=given.reason, kind=given.kind)
    done = await act(caller, actions.add, asked)
    if not done.is_new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=SuppressionOut.model_validate(done.suppression))


@router.delete(
    "/{address:path}", summary="Remove an address from the suppression list", responses=failures("not_found")
)
async def delete_suppression(address: AddressPath, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove, actions.RemoveSuppression(workspace=caller.workspace, address=address))
    return Answer(data=Removed())
