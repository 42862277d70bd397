"""Conversations with people who replied."""

from typing import Annotated

from fastapi import Query, Response, status

from fairpost.actions import conversations as actions
from fairpost.api.access import Caller, Reads, Sends
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, Text, as_dict, failures
from fairpost.api.errors import not_found
from fairpost.api.intake import CODES, Refused
from fairpost.api.names import own_account
from fairpost.api.pages import Cursor, Limit, number_at, page_of, sealed
from fairpost.api.rendering import words_of
from fairpost.api.routes.emails import KNOWN_BEFORE
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.conversations import (
    AnswerIn,
    ConversationIdPath,
    ConversationLine,
    ConversationOut,
    LabelsIn,
    MessageOut,
)
from fairpost.api.shapes.emails import Accepted, IdempotencyKey
from fairpost.model.conversation import Conversation, Message
from fairpost.model.ids import ConversationId
from fairpost.model.public_ids import Kind
from fairpost.observe.conversations import messages_of
from fairpost.store import conversations as stored

TAG = {"name": "conversations", "description": "Replies from people, with one conversation per person."}
router = Router(prefix="/v1/conversations", tags=["conversations"])


@router.get("", summary="List conversations, most recent reply first", responses=failures())
async def list_conversations(
    caller: Reads,
    label: Annotated[Text | None, Query(max_length=50, description="Only conversations with this label.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Answer[Page[ConversationLine]]:
    before = number_at(cursor, caller.ids)
    found = await stored.listed(
        caller.store,
        workspace=caller.workspace,
        label=label,
        before=None if before is None else ConversationId(before),
        most=limit + 1,
    )
    return page_of(found, limit, shown=lambda each: _line(each, caller), place=lambda each: sealed(each.id, caller.ids))


@router.get("/{conversation_id}", summary="Get a conversation with its messages", responses=failures("not_found"))
async def get_conversation(conversation_id: ConversationIdPath, caller: Reads) -> Answer[ConversationOut]:
    """What was sent to the person and what came back, in order."""
    named = _named(caller, conversation_id)
    found = await stored.by_id(caller.store, named.id, workspace=caller.workspace)
    if found is None:
        raise not_found("conversation", conversation_id)
    messages = await messages_of(caller.store, found, rendered=words_of)
    shown = [_message(each, caller) for each in messages]
    return Answer(data=ConversationOut.model_validate({**_facts(found, caller), "messages": shown}))


@router.put("/{conversation_id}/labels", summary="Set a conversation's labels", responses=failures("not_found"))
async def label_conversation(
    conversation_id: ConversationIdPath, given: LabelsIn, caller: Sends
) -> Answer[ConversationLine]:
    request = actions.LabelConversation(named=_named(caller, conversation_id), labels=tuple(given.labels))
    return Answer(data=_line(await act(caller, actions.label, request), caller))


@router.post(
    "/{conversation_id}/answer",
    status_code=status.HTTP_201_CREATED,
    summary="Answer a person",
    description="The answer is sent in the same thread, from the account that sent the earlier e-mails to the person.",
    responses={
        **KNOWN_BEFORE,
        **failures("not_found", "conflict", "forbidden", "quota_reached", "idempotency_key_reused"),
    },
)
async def answer_person(
    conversation_id: ConversationIdPath,
    given: AnswerIn,
    caller: Sends,
    service: TheService,
    response: Response,
    key: IdempotencyKey = None,
) -> Answer[Accepted]:
    settings = service.settings
    request = actions.AnswerPerson(
        named=_named(caller, conversation_id),
        text=given.text,
        html=given.html,
        key=key,
        user=caller.user,
        caps=actions.Caps(
            daily_max=settings.user_daily_max or None,
            waiting_max=settings.user_waiting_max or None,
            workspace_max=settings.daily_max_of_workspace or None,
        ),
    )
    done = await act(caller, actions.answer, request, store=caller.owner)
    if isinstance(done, actions.NotAccepted):
        code = CODES.get(done.code or "", "invalid")
        raise Refused(done.field, done.message, code, done.until).as_error()
    if not done.new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=Accepted(id=caller.ids.email(done.id), new=done.new))


def _named(caller: Caller, conversation_id: str) -> actions.Named:
    number = caller.ids.private(Kind.CONVERSATION, conversation_id)
    return actions.Named(id=ConversationId(number or 0), workspace=caller.workspace, public_id=conversation_id)


def _facts(found: Conversation, caller: Caller) -> dict[str, object]:
    return {**as_dict(found), "id": caller.ids.public(Kind.CONVERSATION, found.id)}


def _line(found: Conversation, caller: Caller) -> ConversationLine:
    return ConversationLine.model_validate(_facts(found, caller))


def _message(each: Message, caller: Caller) -> MessageOut:
    facts = as_dict(each)
    facts["from"] = facts.pop("from_")
    more = {"email_id": caller.ids.email(each.email_id), "account": own_account(each.account, caller)}
    return MessageOut.model_validate({**facts, **more})
