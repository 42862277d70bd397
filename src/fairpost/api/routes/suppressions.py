"""Addresses that the workspace writes to no more. What the operator suppressed for everybody is not here."""

from typing import Annotated

from fastapi import APIRouter, Query, Response, status
from pydantic import Field

from fairpost.api.access import Manages, Reads
from fairpost.api.answers import AddressPath, Answer, Given, Model, Moment, Page, Removed, Text, failures
from fairpost.api.errors import ApiError, invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.model.suppression import Entry, Imported, Stops, SuppressionKind
from fairpost.postgres import suppressions as stored
from fairpost.postgres.store import Store
from fairpost.postgres.suppressions import BadList
from fairpost.system import clock

TAG = {"name": "suppressions", "description": "Addresses that get no mail any more."}
router = APIRouter(prefix="/api/suppressions", tags=["suppressions"])

AT_ONCE_MAX = 10_000

Kind = Annotated[
    SuppressionKind,
    Field(
        description="Of two about one address the weightier stays; complaint is the weightiest. "
        "`unsubscribe` stops bulk mail; every other kind stops urgent mail as well."
    ),
]
Reason = Annotated[Text, Field(min_length=1, max_length=500, description="Why, for whoever asks later.")]


class SuppressionIn(Given):
    kind: Kind = SuppressionKind.MANUAL
    reason: Reason


class ManyIn(Given):
    addresses: Annotated[list[Annotated[Text, Field(max_length=500)]], Field(min_length=1, max_length=AT_ONCE_MAX)]
    kind: Kind = SuppressionKind.MANUAL
    reason: Reason


class SuppressionOut(Model):
    address: Annotated[str, Field(description="As it is compared.")]
    kind: SuppressionKind
    reason: str
    created_at: Moment
    stops: Annotated[Stops, Field(description="`bulk`: urgent mail goes out to it all the same.")]


class BadAddress(Model):
    """`place`: among those given, from 0."""

    place: int
    why: str


class ManyOut(Model):
    """What became of the addresses: each is counted once. `bad_addresses` are the first 100 of the bad ones."""

    added: int
    known: int
    duplicates: int
    bad: int
    bad_addresses: list[BadAddress]


@router.get("", summary="By the alphabet", responses=failures())
async def listed(
    caller: Reads,
    kind: Annotated[SuppressionKind | None, Query(description="Only these.")] = None,
    search: Annotated[
        Text | None, Query(min_length=1, max_length=200, description="A part of the address or the reason.")
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
    summary="Suppress many",
    description="All, or none where one of them is no address; with `skip_bad` all but those.",
    responses=failures(),
)
async def put_many(
    given: ManyIn,
    caller: Manages,
    skip_bad: Annotated[bool, Query(description="Leave out what is no address.")] = False,
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
    try:
        async with caller.store.together() as one, one.connection() as conn:
            imported = await stored.import_list(conn, entries, skip_bad=skip_bad, now=clock.stated())
            await caller.audit(
                one, "suppression.add", f"{imported.added:,} addresses", kind=given.kind, reason=given.reason
            )
    except BadList as error:
        raise _refusal(error.imported) from None
    return Answer(
        data=ManyOut(
            added=imported.added,
            known=imported.known,
            duplicates=imported.duplicates,
            bad=imported.bad,
            bad_addresses=[BadAddress(place=each.line, why=each.why) for each in imported.bad_lines],
        )
    )


@router.get("/{address:path}", summary="Why, and since when", responses=failures("not_found"))
async def shown(address: AddressPath, caller: Reads) -> Answer[SuppressionOut]:
    return Answer(data=await _known(caller.store, address))


@router.put(
    "/{address:path}",
    summary="Suppress one",
    description="E-mails already queued for it are not sent either.",
    status_code=status.HTTP_201_CREATED,
    responses={
        200: {"model": Answer[SuppressionOut], "description": "It was on the list; the weightier kind stays."},
        **failures(),
    },
)
async def put(
    address: AddressPath, given: SuppressionIn, caller: Manages, response: Response
) -> Answer[SuppressionOut]:
    async with caller.store.together() as one:
        checked = await one.parse_address(address)
        if checked is None:
            raise invalid("address", "must be an e-mail address")
        is_new = await one.value(
            "SELECT fairpost.suppress($1, $2, $3, $4, $5)",
            *(caller.workspace, checked, given.reason, clock.stated(), given.kind),
        )
        await caller.audit(
            one, "suppression.add", f"address {checked}", kind=given.kind, reason=given.reason, is_new=is_new
        )
        found = await _known(one, checked)
    if not is_new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=found)


@router.delete("/{address:path}", summary="Write to it again", responses=failures("not_found"))
async def remove(address: AddressPath, caller: Manages) -> Answer[Removed]:
    async with caller.store.together() as one:
        if not await one.value("SELECT fairpost.unsuppress($1, $2)", caller.workspace, address):
            raise not_found("suppression of", address)
        await caller.audit(one, "suppression.remove", f"address {address}")
    return Answer(data=Removed())


async def _known(store: Store, address: str) -> SuppressionOut:
    found, _ = await stored.known_of(store, address)
    if not found:
        raise not_found("suppression of", address)
    return SuppressionOut.model_validate(found[0])


def _refusal(imported: Imported) -> ApiError:
    return ApiError(
        "invalid",
        f"{imported.bad:,} of the addresses are none, and nothing was changed.",
        details=[{"field": f"addresses.{each.line}", "message": each.why} for each in imported.bad_lines],
    )
