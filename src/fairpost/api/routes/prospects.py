"""People to write to, and the lists they are on."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, Literal, cast

import asyncpg
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from fairpost.api.access import LONG, Caller, Manages, Reads
from fairpost.api.answers import (
    AddressPath,
    Answer,
    Given,
    Id,
    Model,
    Moment,
    Name,
    Page,
    Removed,
    Text,
    facts_of,
    failures,
)
from fairpost.api.errors import ApiError, invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, number_at, page_of, sealed
from fairpost.model.errors import NotFound
from fairpost.model.prospect import BadProspectLine, Prospect, ProspectLine
from fairpost.model.public_ids import Kind
from fairpost.postgres import prospects as stored
from fairpost.postgres.prospects import BadProspects, ListInUse, TooManyFields
from fairpost.postgres.store import Store
from fairpost.prospects.csv_reader import EXTERNAL_ID_CHARS_MAX, UnreadableFile, is_timezone, read_prospects
from fairpost.prospects.json_reader import LIST_MAX, read_json_lines, read_json_list, text_of, wrong_fields
from fairpost.system import clock

TAG = {"name": "prospects", "description": "People to write to, in lists."}
router = APIRouter(prefix="/api", tags=["prospects"])

MEMORY_BYTES_MAX = 1_048_576  # of a list that comes in; what is longer goes to a file
LINES_AT_ONCE = 2_000  # so long one thread reads while the others are served

ListName = Annotated[Name, Path(description="The list's name.")]
FieldValue = Annotated[Text, Field(max_length=100_000)] | int | float | bool | None

CSV, LINES, LIST = "text/csv", "application/x-ndjson", "application/json"


class ListOut(Model):
    name: str
    prospects: Annotated[int, Field(description="How many are on it.")]
    created_at: Moment


class ProspectOut(Model):
    id: Id
    address: str
    external_id: Annotated[str | None, Field(description="Your own id for this person.")]
    fields: dict[str, str]
    timezone: str | None
    is_paused: bool
    lists: list[str]
    created_at: Moment


class BadLineOut(Model):
    line: int
    text: str
    why: str


class ImportedOut(Model):
    """What became of the lines: each is counted once. `bad_lines` are the first 100 of the bad ones."""

    added: int
    changed: int
    same: Annotated[int, Field(description="Known already, with all that the line says.")]
    duplicates: Annotated[int, Field(description="Of an earlier line.")]
    bad: int
    bad_lines: list[BadLineOut]


class ProspectIn(Given):
    """One line, or one of the list."""

    address: Text
    id: Annotated[Text | int | None, Field(description="Your own id for this person.")] = None
    timezone: Annotated[Text | None, Field(description="Like Europe/Berlin.")] = None
    fields: dict[str, FieldValue] | None = None


class ProspectChange(Given):
    """What is left out stays."""

    is_paused: Annotated[bool, Field(description="Nothing goes to one who is paused; it waits.")] = False
    fields: Annotated[
        dict[str, FieldValue], Field(max_length=1_000, description="Beside those there are; null takes one away.")
    ] = Field(default_factory=dict)
    timezone: Annotated[Text | None, Field(max_length=100)] = None
    external_id: Annotated[Text | None, Field(max_length=EXTERNAL_ID_CHARS_MAX)] = None


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/lists", summary="The lists, by name", responses=failures())
async def lists(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[ListOut]]:
    found = await stored.lists(caller.store, caller.workspace, after=name_at(cursor) or "", most=limit + 1)
    return page_of(found, limit, shown=_list, place=lambda each: each[0])


@router.get(
    "/lists/{name}/prospects", summary="Who is on it, in the order in which they came", responses=failures("not_found")
)
async def members(name: ListName, caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[ProspectOut]]:
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
    summary="Take everybody into a list, or nobody",
    description="The list is made if there is none. Who is known already gets the fields of the line beside those he has.",
    responses=failures(),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                CSV: {
                    "schema": {
                        "type": "string",
                        "description": "The first line names the columns. One is the e-mail address; `timezone` and `id` have a "
                        "meaning; every other is a field for templates.",
                    }
                },
                LINES: {"schema": {"type": "string", "description": "An object on each line, as in the list."}},
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
async def upload(
    name: ListName,
    request: Request,
    caller: Manages,
    skip_bad: Annotated[bool, Query(description="Leave out bad lines instead of taking nothing.")] = False,
    column: Annotated[
        list[Annotated[str, Field(max_length=300, pattern=r"^[^\x00=]+=[^\x00]*$")]] | None,
        Query(max_length=100, description="NAME=FIELD: which field a column of CSV fills; NAME= leaves it out."),
    ] = None,
    encoding: Annotated[
        Literal["utf-8", "utf-16", "cp1250", "cp1251", "cp1252", "iso-8859-1", "iso-8859-15"] | None,
        Query(description="Of CSV, where it is not found out."),
    ] = None,
    delimiter: Annotated[Literal[",", ";", "\t", "|"] | None, Query(description="Of CSV, likewise.")] = None,
) -> Answer[ImportedOut]:
    kind = _kind(request)
    with SpooledTemporaryFile(max_size=MEMORY_BYTES_MAX) as spool:
        async for chunk in request.stream():
            spool.write(chunk)
        spool.seek(0)
        file = cast("BinaryIO", spool)
        try:
            lines = await asyncio.to_thread(_reader, kind, file, _mapping(column), encoding, delimiter)
            async with caller.store.together() as one, one.connection() as conn:
                imported = await stored.import_prospects(
                    conn,
                    _by_the_way(lines),
                    workspace=caller.workspace,
                    list_name=name,
                    skip_bad=skip_bad,
                    now=clock.stated(),
                )
                counts = {each: getattr(imported, each) for each in ("added", "changed", "same", "duplicates", "bad")}
                await caller.audit(one, "prospects.import", f"list {name}", **counts)
        except BadProspects as error:
            raise _refusal(error) from None
        except UnreadableFile as error:
            raise invalid("", str(error)) from None
    return Answer(data=ImportedOut.model_validate(imported))


@router.delete(
    "/lists/{name}",
    summary="Remove a list; who is on it stays known",
    description="Refused while a campaign that is not over needs it.",
    responses=failures("not_found", "conflict"),
)
async def remove_list(name: ListName, caller: Manages) -> Answer[Removed]:
    async with caller.store.together() as one:
        try:
            if not await stored.remove_list(one, caller.workspace, name):
                raise not_found("list", name)
        except ListInUse as error:
            raise ApiError("conflict", str(error), details={"campaigns": list(error.campaigns)}) from None
        await caller.audit(one, "list.remove", f"list {name}")
    return Answer(data=Removed())


def _list(found: tuple[str, int, datetime]) -> ListOut:
    name, prospects, created_at = found
    return ListOut(name=name, prospects=prospects, created_at=created_at)


def _kind(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (CSV, LINES, LIST):
        raise ApiError("unsupported_media_type", f"A list comes as {CSV}, {LINES} or {LIST}.")
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
    """Others are served while a long list is read."""
    while some := await asyncio.to_thread(lambda: list(islice(lines, LINES_AT_ONCE))):
        for each in some:
            yield each


def _refusal(error: BadProspects) -> ApiError:
    imported = error.imported
    first = imported.bad_lines[0]
    return ApiError(
        "invalid",
        f"{imported.bad:,} lines are bad, and nothing was changed. The first is line {first.line}: {first.why}.",
        details=[{"field": f"line {each.line}", "message": each.why, "text": each.text} for each in imported.bad_lines],
    )


# ── people ────────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/prospects/{address:path}", summary="What is known of one", responses=failures("not_found"))
async def shown(address: AddressPath, caller: Reads) -> Answer[ProspectOut]:
    return Answer(data=_prospect(await prospect_at(caller.store, caller, address), caller))


@router.patch(
    "/prospects/{address:path}", summary="Change, pause or resume one", responses=failures("not_found", "conflict")
)
async def change(address: AddressPath, given: ProspectChange, caller: Manages) -> Answer[ProspectOut]:
    columns = _columns(given)
    if wrong := wrong_fields(given.fields):
        raise invalid("fields", wrong)
    fields = {name: None if value is None else text_of(value) for name, value in given.fields.items()}
    known = await prospect_at(caller.store, caller, address)
    try:
        async with caller.store.together() as one:
            if fields or columns:
                await stored.change(one, known, fields=fields, **columns)
            if "is_paused" in given.model_fields_set:
                await stored.pause(one, known, is_paused=given.is_paused)
            await caller.audit(
                one, "prospect.change", f"prospect {known.address}", changed=sorted(given.model_fields_set)
            )
    except asyncpg.UniqueViolationError:
        raise ApiError("conflict", f"The id {given.external_id} belongs to another. Nothing was changed.") from None
    except TooManyFields as error:
        raise invalid("fields", str(error)) from None
    return Answer(data=_prospect(await prospect_at(caller.store, caller, address), caller))


@router.delete(
    "/prospects/{address:path}",
    summary="Remove one from all lists, for good",
    description="What waits for this person is cancelled; what was sent stays in history. A list may bring the address back: to write "
    "never again, suppress it.",
    responses=failures("not_found"),
)
async def remove(address: AddressPath, caller: Manages) -> Answer[Removed]:
    known = await prospect_at(caller.store, caller, address)
    async with caller.store.together() as one:
        await stored.remove(one, [known])
        await caller.audit(one, "prospect.remove", f"prospect {known.address}")
    return Answer(data=Removed())


def _columns(given: ProspectChange) -> dict[str, Any]:
    if given.timezone and not is_timezone(given.timezone):
        raise invalid("timezone", "must be a name like Europe/Berlin")
    if given.external_id and (":" in given.external_id or not given.external_id.isprintable()):
        raise invalid("external_id", 'must be on one line, without ":"')
    named = given.model_fields_set & {"timezone", "external_id"}
    return {name: getattr(given, name) or None for name in named}


async def prospect_at(store: Store, caller: Caller, address: str) -> Prospect:
    try:
        return await stored.known_by(store, caller.workspace, address)
    except NotFound:
        raise not_found("prospect", address) from None


def _prospect(prospect: Prospect, caller: Caller) -> ProspectOut:
    return ProspectOut.model_validate({**facts_of(prospect), "id": caller.ids.public(Kind.PROSPECT, prospect.id)})
