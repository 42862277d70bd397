"""The development inbox, which is for admins only because it contains mail from all workspaces.

No part of an e-mail is ever served as a page from our origin. HTML is returned as a string in JSON, and files are
served as downloads.
"""

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request, Response

from fairpost.api.access import Admin, SignedIn
from fairpost.api.acting import act_as_admin
from fairpost.api.answers import Answer, Page, Removed, Text, as_dict, failures
from fairpost.api.errors import invalid, not_found
from fairpost.api.inbox.shapes import FileOut, FilePath, MailItem, MailOut, MailPath, RemovedMails
from fairpost.api.pages import BIGGEST, Cursor, Limit, number_at, page_of, sealed
from fairpost.api.pictures import PICTURE_TYPES, with_pictures
from fairpost.api.routing import Router
from fairpost.api.service import Service, TheService
from fairpost.dev.inbox import mails
from fairpost.dev.inbox.deleting import DeleteMails
from fairpost.dev.inbox.deleting import delete as delete_mails
from fairpost.dev.inbox.filenames import safe_names
from fairpost.dev.inbox.mails import Mail, MailId
from fairpost.quality.check import check
from fairpost.quality.reading import Reading, read

TAG = {"name": "inbox", "description": "The development inbox, for operators."}
router = Router(prefix="/v1/inbox", tags=["inbox"])

SHOWN_CHARS_MAX = 5_000_000  # applies to the text and to the HTML separately
ANY_TYPE = "application/octet-stream"
SANDBOX = "sandbox; default-src 'none'"


def _content(*types: str) -> dict[int | str, dict[str, Any]]:
    """Documents responses that are not JSON."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(types, schema), "description": "The original bytes of the message."}}


@router.get("", summary="List messages, newest first", responses=failures())
async def list_inbox_mails(
    _: Admin,
    service: TheService,
    q: Annotated[
        Text,
        Query(
            max_length=500,
            description="Only messages that contain all of these words in the subject, addresses or text.",
        ),
    ] = "",
    to: Annotated[Text | None, Query(max_length=500, description="Only messages to this address.")] = None,
    after: Annotated[int | None, Query(ge=0, le=BIGGEST, description="Only messages newer than this one.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[MailItem]]:
    words = q.split()
    if len(words) > mails.WORDS_MAX:
        raise invalid("q", f"can have at most {mails.WORDS_MAX} words")
    store = await service.own_store()
    ids = await store.public_ids()
    before = number_at(cursor, ids)
    found = await mails.list_mails(
        store,
        words=words,
        to=to,
        before=None if before is None else MailId(before),
        after=None if after is None else MailId(after),
        most=limit + 1,
    )
    return page_of(found, limit, shown=_item, place=lambda mail: sealed(mail.id, ids))


@router.get("/{mail_id}", summary="Get a message and its checks", responses=failures("not_found"))
async def get_inbox_mail(mail_id: MailPath, _: Admin, service: TheService) -> Answer[MailOut]:
    mail, raw = await mails.open_mail(await service.own_store(), MailId(mail_id))
    # Runs in a thread, because checking a large e-mail takes seconds.
    return Answer(data=await asyncio.to_thread(_whole, mail, raw))


@router.get(
    "/{mail_id}/source",
    summary="Get the exact source of a message",
    response_class=Response,
    responses={**_content("text/plain", "message/rfc822"), **failures("not_found")},
)
async def get_inbox_source(
    mail_id: MailPath,
    _: Admin,
    service: TheService,
    download: Annotated[bool, Query(description="Download the source as a file.")] = False,
) -> Response:
    _mail, raw = await mails.open_mail(await service.own_store(), MailId(mail_id))
    if download:
        return _file(raw, f"mail-{mail_id}.eml", "message/rfc822")
    return _file(raw, f"mail-{mail_id}.txt", "text/plain; charset=utf-8", disposition="inline")


@router.get(
    "/{mail_id}/attachments/{index}",
    summary="Download an attachment",
    response_class=Response,
    responses={**_content(ANY_TYPE, *sorted(PICTURE_TYPES)), **failures("not_found")},
)
async def get_inbox_attachment(mail_id: MailPath, index: FilePath, _: Admin, service: TheService) -> Response:
    _mail, raw = await mails.open_mail(await service.own_store(), MailId(mail_id))
    files = (await asyncio.to_thread(read, raw)).attachments
    if index >= len(files):
        raise not_found("attachment", index, where=f" in message {mail_id}")
    content_type = files[index].content_type if files[index].content_type in PICTURE_TYPES else ANY_TYPE
    return _file(files[index].data, safe_names([file.filename for file in files])[index], content_type)


@router.delete("/{mail_id}", summary="Delete a message", responses=failures("not_found"))
async def delete_inbox_mail(mail_id: MailPath, admin: Admin, service: TheService, request: Request) -> Answer[Removed]:
    await _deleted(service, admin, request, [MailId(mail_id)])
    return Answer(data=Removed())


@router.delete("", summary="Delete all messages", responses=failures())
async def delete_inbox_mails(
    admin: Admin,
    service: TheService,
    request: Request,
    everything: Annotated[bool, Query(alias="all", description="Must be `true`, to prevent accidental deletion.")],
) -> Answer[RemovedMails]:
    if not everything:
        raise invalid("all", "must be true")
    return Answer(data=RemovedMails(removed=await _deleted(service, admin, request, None)))


async def _deleted(service: Service, admin: SignedIn, request: Request, ids: list[MailId] | None) -> int:
    """Deletes messages. The audit entry goes to the home database, where admins look for it."""
    home = None if service.settings.regions is None else service.home
    asked = DeleteMails(ids=ids, home=home)
    return (await act_as_admin(admin, request, await service.own_store(), delete_mails, asked)).count


def _item(mail: Mail) -> MailItem:
    return MailItem.model_validate({**as_dict(mail), "attachments": len(mail.attachments)})


def _whole(mail: Mail, raw: bytes) -> MailOut:
    reading = read(raw)
    checked = check(raw, reading)
    html = None if reading.html is None else with_pictures(reading.html[:SHOWN_CHARS_MAX], reading.attachments)
    return MailOut.model_validate(
        {
            **as_dict(mail),
            "headers": [{"name": name, "value": value} for name, value in reading.headers],
            "text": None if reading.text is None else reading.text[:SHOWN_CHARS_MAX],
            "html": html,
            "is_cut": reading.is_cut or max(len(reading.text or ""), len(reading.html or "")) > SHOWN_CHARS_MAX,
            "attachments": _files(reading),
            "checks": checked.findings,
            "links": checked.links,
        }
    )


def _files(reading: Reading) -> list[FileOut]:
    names = safe_names([file.filename for file in reading.attachments])
    return [
        FileOut(
            index=index,
            filename=name,
            content_type=file.content_type,
            bytes=len(file.data),
            inline_id=file.inline_id,
        )
        for index, (name, file) in enumerate(zip(names, reading.attachments, strict=True))
    ]


def _file(content: bytes, filename: str, content_type: str, *, disposition: str = "attachment") -> Response:
    """Serves a file in such a way that nothing in it runs, whatever type a browser assumes. `filename` must be safe."""
    plain = "".join(c if c.isascii() and c not in '"\\%' else "_" for c in filename)
    headers = {
        "Content-Disposition": f"{disposition}; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}",
        "Content-Security-Policy": SANDBOX,
        "Content-Type": content_type,
    }
    return Response(content, headers=headers)
