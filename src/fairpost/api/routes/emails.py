"""E-mails: send, read, cancel, retry and resolve them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import asyncpg
from fastapi import Query, Response, status

from fairpost.actions import emails as actions
from fairpost.api.access import Caller, Reads, Sends
from fairpost.api.acting import act, refused
from fairpost.api.answers import (
    Answer,
    Page,
    ReasonIn,
    Text,
    When,
    as_dict,
    failures,
)
from fairpost.api.conditions import known_reason, told_reason, without_its_name
from fairpost.api.conditions import shown as shown_condition
from fairpost.api.errors import invalid
from fairpost.api.intake import Refused, followed, submit
from fairpost.api.names import as_known, full_name, own_account
from fairpost.api.pages import Cursor, Limit, cursor_of, number_at, page_of, sealed
from fairpost.api.pictures import PICTURE_TYPES, PICTURES_BYTES_MAX, with_pictures
from fairpost.api.rendering import Subjects, filled, filled_subjects
from fairpost.api.routing import Router
from fairpost.api.service import Service, TheService
from fairpost.api.shapes.emails import (
    Accepted,
    Attempt,
    Doubt,
    EmailIdPath,
    EmailIn,
    EmailItem,
    EmailLife,
    EmailLine,
    EmailMoved,
    EmailNow,
    EmailOut,
    FoundEmails,
    IdempotencyKey,
    InStates,
    Known,
    LifeMoment,
    Obstacle,
    Resolution,
    ToAddress,
)
from fairpost.model.email_fields import tags_of
from fairpost.model.errors import NotFound
from fairpost.model.ids import EmailId
from fairpost.model.outside import campaign_key_outside, is_like_campaigns, key_inside
from fairpost.model.reason import Reason
from fairpost.model.states import OUTBOX_WORDS, sequence_word
from fairpost.observe import emails as looking
from fairpost.observe import search as searching
from fairpost.observe.emails import ListedEmail, ShownEmail
from fairpost.observe.life import life_of
from fairpost.observe.search import Matches, Understood, Wanted
from fairpost.store.email_rows import planned_by_campaigns
from fairpost.templates.rendering import Rendered

TAG = {"name": "emails", "description": "Send and find e-mails, one or many at a time."}
router = Router(prefix="/v1/emails", tags=["emails"])

NOT_OWN = "FP004"  # the SQLSTATE that require_own raises


KNOWN_BEFORE: dict[int | str, dict[str, Any]] = {
    200: {"model": Answer[Accepted], "description": "The idempotency key was used before; this is the original e-mail."}
}


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Send an e-mail",
    responses={**KNOWN_BEFORE, **failures("quota_reached", "idempotency_key_reused")},
)
async def send_email(
    email: EmailIn, caller: Sends, service: TheService, response: Response, key: IdempotencyKey = None
) -> Answer[Accepted]:
    if key is not None and email.idempotency_key not in (None, key):
        raise invalid("idempotency_key", "differs from the Idempotency-Key header")
    written = email.model_dump(by_alias=True, exclude_none=True, mode="json")
    if key is not None:
        written["idempotency_key"] = key
    if email.follows is not None:
        written["follows"] = followed(caller, email.follows)
    return await hand_in(caller, service, written, response)


async def hand_in(
    caller: Caller, service: Service, email: dict[str, Any], response: Response, *, request: Any = None
) -> Answer[Accepted]:
    """Submits one e-mail. If the e-mail was built from another request, pass that request as `request`.

    Raises ApiError if the database rejects it.
    """
    (result,) = await submit(caller, service, [email], requests=None if request is None else [request])
    if isinstance(result, Refused):
        raise result.as_error()
    if not result.new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=Accepted(id=caller.ids.email(result.id), new=result.new))


@router.get("", summary="List e-mails, newest first", responses=failures())
async def list_emails(
    caller: Reads,
    state: InStates = None,
    to: ToAddress = None,
    key: Annotated[Known, Query(description="Only e-mails with this idempotency key.")] = None,
    campaign: Annotated[Known, Query(description="Only e-mails from the campaign with this name.")] = None,
    user: Known = None,
    stream: Known = None,
    account: Annotated[
        Known, Query(description="Only e-mails that were last assigned to this account of the workspace.")
    ] = None,
    type: Annotated[Known, Query(description="Only e-mails of this type, for example `hub_forgot_password`.")] = None,  # noqa: A002
    tag: Annotated[
        list[Text] | None,
        Query(max_length=20, description="Only e-mails with this tag, written `name=value`. Repeatable."),
    ] = None,
    since: Annotated[When | None, Query(description="Only e-mails accepted at this time or later.")] = None,
    until: Annotated[When | None, Query(description="Only e-mails accepted before this time.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[EmailLine]]:
    """Lists only e-mails that match all filters. Each request reads at most a few thousand e-mails, so a page can have
    fewer than `limit` results, or none, even if `next` is set.
    """
    before = number_at(cursor, caller.ids)
    wanted = Wanted(
        to=to,
        key=None if key is None else key_inside(key, caller.ids),
        campaign=campaign,
        user=user,
        stream=stream,
        account=None if account is None else full_name(account, caller),
        type=type,
        tags=_tags(tag or ()),
        since=since,
        until=until,
    )
    found = await searching.search_emails(
        caller.store,
        wanted,
        workspace=caller.workspace,
        states=state,
        before=None if before is None else EmailId(before),
        most=limit + 1,
    )
    if key is not None:
        found = replace(found, emails=await _not_guessed(found.emails, key, caller))
    return Answer(data=Page(**await _page(found, limit, caller)))


def _tags(given: Sequence[str]) -> dict[str, str]:
    """Parses tags. Raises ApiError."""
    try:
        return tags_of(given)
    except ValueError as error:
        raise invalid("tag", str(error)) from None


@router.get("/find", summary="Find e-mails by ID, address, idempotency key or campaign name", responses=failures())
async def find_emails(
    caller: Reads,
    q: Annotated[
        Text,
        Query(
            min_length=1,
            max_length=500,
            description="An ID, address, idempotency key or campaign name. Each of these interpretations is tried, in this order.",
        ),
    ],
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[FoundEmails]:
    before = number_at(cursor, caller.ids)
    matches = await searching.find_emails(
        caller.store,
        key_inside(q, caller.ids),
        id_=caller.email_id(q.strip()),
        workspace=caller.workspace,
        home=caller.workspace,
        before=None if before is None else EmailId(before),
        most=limit + 1,
    )
    if matches.understood is Understood.KEY:
        emails = await _not_guessed(matches.emails, q.strip(), caller)
        matches = replace(matches, emails=emails, understood=Understood.KEY if emails else Understood.NOTHING)
    return Answer(data=FoundEmails(**await _page(matches, limit, caller), understood=matches.understood))


async def _not_guessed(emails: list[ListedEmail], key: str, caller: Caller) -> list[ListedEmail]:
    """Drops campaign e-mails that were found by the numbers in their internal keys. The keys that callers see contain
    public IDs instead, because the internal numbers would reveal how many e-mails there are.
    """
    if caller.is_operator or not is_like_campaigns(key):
        return emails
    planned = await planned_by_campaigns(caller.store, [each.id for each in emails])
    return [each for each in emails if each.id not in planned]


@router.get("/{email_id}", summary="Get an e-mail", responses=failures("not_found"))
async def get_email(
    email_id: EmailIdPath,
    caller: Reads,
    pictures: Annotated[bool, Query(description="Embed inline images in the HTML, up to 2 MiB.")] = False,
) -> Answer[EmailOut]:
    email = await _find(caller, email_id, with_log=False)
    said = await asyncio.to_thread(filled, email) if email.has_places else None
    if pictures and email.html is not None and any(file.inline_id for file in email.attachments):
        email, said = await _with_pictures(caller, email, said)
    key = await _key_outside(caller, email)
    return Answer(data=EmailOut.model_validate({**_facts(email, caller), "idempotency_key": key, "filled": said}))


async def _key_outside(caller: Caller, email: ShownEmail) -> str | None:
    key = email.idempotency_key
    if key is None or not is_like_campaigns(key) or not await planned_by_campaigns(caller.store, [email.id]):
        return key
    return campaign_key_outside(key, caller.ids)


async def _with_pictures(
    caller: Caller, email: ShownEmail, said: Rendered | None
) -> tuple[ShownEmail, Rendered | None]:
    files = await looking.pictures_of(caller.store, email.id, types=PICTURE_TYPES, bytes_max=PICTURES_BYTES_MAX)
    if said is not None and said.html is not None:
        return email, replace(said, html=await asyncio.to_thread(with_pictures, said.html, files))
    return replace(email, html=await asyncio.to_thread(with_pictures, email.html or "", files)), said


@router.get(
    "/{email_id}/attempts",
    summary="List an e-mail's attempts, with the server's replies",
    responses=failures("not_found"),
)
async def list_email_attempts(email_id: EmailIdPath, caller: Reads) -> Answer[list[Attempt]]:
    email = await _find(caller, email_id)
    return Answer(
        data=[
            Attempt.model_validate({**as_dict(each), "account": own_account(each.account, caller)})
            for each in email.log
        ]
    )


@router.get("/{email_id}/life", summary="Get an e-mail's history", responses=failures("not_found"))
async def get_email_life(email_id: EmailIdPath, caller: Reads) -> Answer[EmailLife]:
    return Answer(data=await _life(caller, await _find(caller, email_id)))


async def email_now(caller: Caller, email_id: EmailId) -> EmailNow:
    """Returns the current values of everything in an e-mail that can change. Raises NotFound."""
    email = await _own_email(caller, email_id)
    return EmailNow(email=EmailItem.model_validate(_facts(email, caller)), life=await _life(caller, email))


async def _life(caller: Caller, email: ShownEmail) -> EmailLife:
    told = await life_of(
        caller.store,
        email,
        ids=caller.ids,
        called=lambda account: as_known(account, caller),
        told=lambda condition: shown_condition(condition, caller).text,
        known=lambda reason: known_reason(reason, caller),
    )
    return EmailLife(
        id=caller.ids.email(email.id),
        state=email.state,
        moments=[LifeMoment.model_validate(_own(each, caller)) for each in told.moments],
        stands_in_the_way=[Obstacle.model_validate(_own(each, caller)) for each in told.stands_in_the_way],
        doubt=Doubt.model_validate(_own(told.doubt, caller)) if told.doubt else None,
    )


@router.post(
    "/{email_id}/cancel",
    summary="Cancel an e-mail before it is sent",
    responses=failures("not_found", "conflict"),
)
async def cancel_email(email_id: EmailIdPath, caller: Sends, why: ReasonIn | None = None) -> Answer[EmailMoved]:
    request = actions.CancelEmail(id=_meant(caller, email_id), reason=why.reason if why else None)
    return _moved(caller, await act(caller, actions.cancel, request))


@router.post(
    "/{email_id}/retry", summary="Retry a failed or bounced e-mail", responses=failures("not_found", "conflict")
)
async def retry_email(email_id: EmailIdPath, caller: Sends) -> Answer[EmailMoved]:
    return _moved(caller, await act(caller, actions.retry, actions.RetryEmail(id=_meant(caller, email_id))))


@router.post("/{email_id}/resolve", summary="Resolve an e-mail in doubt", responses=failures("not_found", "conflict"))
async def resolve_email(email_id: EmailIdPath, resolution: Resolution, caller: Sends) -> Answer[EmailMoved]:
    request = actions.ResolveEmail(id=_meant(caller, email_id), decision=resolution.decision)
    return _moved(caller, await act(caller, actions.resolve, request))


def _moved(caller: Caller, moved: actions.EmailMoved) -> Answer[EmailMoved]:
    return Answer(data=EmailMoved(id=caller.ids.email(moved.id), state=moved.state, changed=moved.changed))


def _meant(caller: Caller, email_id: str) -> EmailId:
    id_ = caller.email_id(email_id)
    if id_ is None:
        raise refused(Reason("email.unknown", id=email_id))
    return id_


async def _find(caller: Caller, email_id: str, *, with_log: bool = True) -> ShownEmail:
    """Finds an e-mail. Invalid IDs, unknown IDs and other workspaces' IDs all get the same error."""
    id_ = caller.email_id(email_id)
    try:
        if id_ is not None:
            return await _own_email(caller, id_, with_log=with_log)
    except NotFound:
        pass
    raise refused(Reason("email.unknown", id=email_id))


async def _own_email(caller: Caller, id_: EmailId, *, with_log: bool = True) -> ShownEmail:
    """Returns an e-mail of the caller's workspace. Raises NotFound."""
    try:
        return await looking.show_email(caller.store, id_, with_log=with_log)
    except asyncpg.PostgresError as error:
        if error.sqlstate != NOT_OWN:
            raise
        raise NotFound("This e-mail does not exist in this workspace.") from None


async def _page(found: Matches, limit: int, caller: Caller) -> dict[str, Any]:
    subjects = await filled_subjects(caller.store, found.emails[:limit])
    page = page_of(
        found.emails,
        limit,
        shown=lambda each: _line(each, subjects, caller),
        place=lambda each: sealed(each.id, caller.ids),
    ).data
    looked_to = None if found.looked_to is None else cursor_of(sealed(found.looked_to, caller.ids))
    following = page.next or looked_to
    return {"items": page.items, "next": following}


def _own(told: Any, caller: Caller) -> dict[str, Any]:
    """Returns the log entry without the names and replies of shared accounts."""
    facts = as_dict(told)
    hidden = {"account": lambda name: own_account(name, caller), "words": without_its_name}
    return {name: hidden[name](value) if name in hidden else value for name, value in facts.items()}


def _line(email: ListedEmail, subjects: Subjects, caller: Caller) -> EmailLine:
    return EmailLine.model_validate({**_facts(email, caller), "filled_subject": subjects.get(email.id)})


def _facts(email: ListedEmail | ShownEmail, caller: Caller) -> dict[str, Any]:
    return {
        **as_dict(email),
        "id": caller.ids.email(email.id),
        "status": OUTBOX_WORDS[email.state],
        "sequence_status": sequence_word(email.state, email.attempts),
        "account": own_account(email.account, caller),
        **told_reason(email.reason, caller),
    }
