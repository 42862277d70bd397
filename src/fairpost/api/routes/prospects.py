"""Paths for prospects and their lists."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import Annotated, BinaryIO, Literal, cast

from fastapi import Query, Request
from pydantic import Field

from fairpost.actions import prospects as actions
from fairpost.api.access import LONG, Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import (
    AddressPath,
    Answer,
    Page,
    Removed,
    as_dict,
    failures,
)
from fairpost.api.errors import ApiError, invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, number_at, page_of, sealed
from fairpost.api.routing import Router
from fairpost.api.shapes.prospects import ImportedOut, ListName, ListOut, ProspectChange, ProspectIn, ProspectOut
from fairpost.model.errors import NotFound
from fairpost.model.prospect import BadProspectLine, Prospect, ProspectLine
from fairpost.model.public_ids import Kind
from fairpost.prospects.csv_reader import UnreadableFile, read_prospects
from fairpost.prospects.json_reader import LIST_MAX, read_json_lines, read_json_list, text_of, wrong_fields
from fairpost.store import prospects as stored
from fairpost.store.store import Store

TAG = {"name": "prospects", "description": "Campaign recipients, organized in lists."}
router = Router(prefix="/v1", tags=["prospects"])

MEMORY_BYTES_MAX = 1_048_576  # an imported list that is larger than this is kept in a file
LINES_AT_ONCE = 2_000  # number of lines that a thread reads before other requests get their turn


CSV, LINES, LIST = "text/csv", "application/x-ndjson", "application/json"


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/lists", summary="List the prospect lists by name", responses=failures())
async def list_prospect_lists(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[ListOut]]:
    found = await stored.lists(caller.store, caller.workspace, after=name_at(cursor) or "", most=limit + 1)
    return page_of(found, limit, shown=_list, place=lambda each: each[0])


@router.get(
    "/lists/{name}/prospects",
    summary="List the prospects on a list, in the order they were added",
    responses=failures("not_found"),
)
async def list_prospects(
    name: ListName, caller: Reads, limit: Limit = 50, cursor: Cursor = None
) -> Answer[Page[ProspectOut]]:
    after = number_at(cursor, caller.ids) or 0
    async with caller.store.together() as one:
        found = await stored.members(one, workspace=caller.workspace, list_name=name, after=after, most=limit + 1)
    if found is None:
        raise not_found("list", name)
    return page_of(
        found, limit, shown=lambda each: _prospect(each, caller), place=lambda each: sealed(each.id, caller.ids)
    )


@router.post(
    "/lists/{name}/prospects",
    dependencies=LONG,
    summary="Import prospects into a list: either all of them or none",
    description="The list is created if it does not exist. Existing prospects keep their fields; fields in the import are added or replace existing values.",
    responses=failures(),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                CSV: {
                    "schema": {
                        "type": "string",
                        "description": "The first line contains the column names. One column contains the e-mail address. `timezone` and `id` are special, and every other column is a field for templates.",
                    }
                },
                LINES: {"schema": {"type": "string", "description": "One JSON object per line."}},
                LIST: {
                    "schema": {
                        "type": "array",
                        "maxItems": LIST_MAX,
                        "items": ProspectIn.model_json_schema(mode="validation"),
                    }
                },
            },
        }
    },
)
async def import_prospects(
    name: ListName,
    request: Request,
    caller: Manages,
    skip_bad: Annotated[
        bool, Query(description="Whether to skip invalid lines instead of rejecting the whole file.")
    ] = False,
    column: Annotated[
        list[Annotated[str, Field(max_length=300, pattern=r"^[^\x00=]+=[^\x00]*$")]] | None,
        Query(max_length=100, description="`NAME=FIELD` maps a CSV column to a field; `NAME=` skips the column."),
    ] = None,
    encoding: Annotated[
        Literal["utf-8", "utf-16", "cp1250", "cp1251", "cp1252", "iso-8859-1", "iso-8859-15"] | None,
        Query(description="The CSV file's encoding. [default: detected]"),
    ] = None,
    delimiter: Annotated[
        Literal[",", ";", "\t", "|"] | None, Query(description="The CSV file's delimiter. [default: detected]")
    ] = None,
) -> Answer[ImportedOut]:
    kind = _kind(request)
    with SpooledTemporaryFile(max_size=MEMORY_BYTES_MAX) as spool:
        async for chunk in request.stream():
            spool.write(chunk)
        spool.seek(0)
        file = cast("BinaryIO", spool)
        try:
            lines = await asyncio.to_thread(_reader, kind, file, _mapping(column), encoding, delimiter)
            asked = actions.ImportProspects(
                workspace=caller.workspace, list_name=name, lines=_by_the_way(lines), skip_bad=skip_bad
            )
            imported = await act(caller, actions.import_, asked)
        except UnreadableFile as error:
            raise invalid("", str(error)) from None
    return Answer(data=ImportedOut.model_validate(imported))


@router.delete(
    "/lists/{name}",
    summary="Remove a list; its prospects are kept",
    description="Rejected while an unfinished campaign uses the list.",
    responses=failures("not_found", "conflict"),
)
async def delete_prospect_list(name: ListName, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove_list, actions.RemoveList(workspace=caller.workspace, name=name))
    return Answer(data=Removed())


def _list(found: tuple[str, int, datetime]) -> ListOut:
    name, prospects, created_at = found
    return ListOut(name=name, prospects=prospects, created_at=created_at)


def _kind(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (CSV, LINES, LIST):
        raise ApiError("unsupported_media_type", f"Send the list as {CSV}, {LINES} or {LIST}.")
    return kind


def _mapping(columns: list[str] | None) -> dict[str, str]:
    pairs = (each.rpartition("=") for each in columns or ())
    return {name: field for name, _, field in pairs}


def _reader(
    kind: str, file: BinaryIO, mapping: Mapping[str, str], encoding: str | None, delimiter: str | None
) -> Iterator[ProspectLine | BadProspectLine]:
    match kind:
        case "text/csv":
            return read_prospects(file, mapping=mapping, encoding=encoding, delimiter=delimiter)
        case "application/x-ndjson":
            return read_json_lines(file)
        case _:
            return read_json_list(file)


async def _by_the_way(
    lines: Iterator[ProspectLine | BadProspectLine],
) -> AsyncIterator[ProspectLine | BadProspectLine]:
    """Reads a long list in parts, so that other requests can run in between."""
    while some := await asyncio.to_thread(lambda: list(islice(lines, LINES_AT_ONCE))):
        for each in some:
            yield each


# ── prospects ─────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/prospects/{address:path}", summary="Get a prospect", responses=failures("not_found"))
async def get_prospect(address: AddressPath, caller: Reads) -> Answer[ProspectOut]:
    return Answer(data=_prospect(await prospect_at(caller.store, caller, address), caller))


@router.patch(
    "/prospects/{address:path}",
    summary="Change, pause or resume a prospect",
    responses=failures("not_found", "conflict"),
)
async def update_prospect(address: AddressPath, given: ProspectChange, caller: Manages) -> Answer[ProspectOut]:
    if wrong := wrong_fields(given.fields):
        raise invalid("fields", wrong)
    asked = actions.ChangeProspect(
        workspace=caller.workspace,
        address=address,
        is_paused=given.is_paused if "is_paused" in given.model_fields_set else None,
        fields={name: None if value is None else text_of(value) for name, value in given.fields.items()},
        columns={name: getattr(given, name) or None for name in given.model_fields_set & {"timezone", "external_id"}},
    )
    return Answer(data=_prospect(await act(caller, actions.change, asked), caller))


@router.delete(
    "/prospects/{address:path}",
    summary="Remove a prospect from all lists",
    description="Waiting e-mails to this prospect are cancelled. Sent e-mails stay in the history. An import can add the address again. To stop all e-mails to it, suppress the address.",
    responses=failures("not_found"),
)
async def delete_prospect(address: AddressPath, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove, actions.NamedProspect(workspace=caller.workspace, address=address))
    return Answer(data=Removed())


async def prospect_at(store: Store, caller: Caller, address: str) -> Prospect:
    try:
        return await stored.known_by(store, caller.workspace, address)
    except NotFound:
        raise not_found("prospect", address) from None


def _prospect(prospect: Prospect, caller: Caller) -> ProspectOut:
    return ProspectOut.model_validate({**as_dict(prospect), "id": caller.ids.public(Kind.PROSPECT, prospect.id)})
