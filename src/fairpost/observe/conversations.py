"""A conversation for display: the e-mails sent to a person and the person's messages, in order."""

import asyncio
from collections.abc import Callable

from fairpost.model.conversation import Conversation, Message, ReplyMail
from fairpost.model.email import Mailbox
from fairpost.observe.emails import ShownEmail, show_email
from fairpost.observe.search import Wanted, search_emails
from fairpost.store import conversations
from fairpost.store.store import Store

EMAILS_MAX = 50

Rendered = tuple[str | None, str | None]  # (subject, text)


async def messages_of(
    store: Store, conversation: Conversation, *, rendered: Callable[[ShownEmail], Rendered]
) -> list[Message]:
    """Return the newest 50 e-mails to the person and the newest 200 messages from the person, both oldest first."""
    found = await search_emails(
        store, Wanted(to=conversation.address), workspace=conversation.workspace, most=EMAILS_MAX
    )
    emails = [await show_email(store, each.id, with_log=False) for each in found.emails]
    replies = await conversations.replies_of(store, conversation.id)
    words = await asyncio.to_thread(lambda: [rendered(each) for each in emails])
    both = [*map(_sent, emails, words), *map(_came, replies)]
    return sorted(both, key=lambda each: each.at)


def _sent(email: ShownEmail, words: Rendered) -> Message:
    subject, text = words
    return Message(
        kind="sent",
        at=email.finished_at or email.due_at or email.created_at,
        email_id=email.id,
        account=email.account,
        from_=_written(email.sender),
        to=tuple(each.address for each in email.recipients),
        subject=subject,
        text=text,
        state=email.state,
    )


def _came(reply: ReplyMail) -> Message:
    return Message(
        kind=reply.kind,
        at=reply.at,
        email_id=reply.email_id,
        account=reply.account,
        from_=_written(Mailbox(address=reply.from_address, name=reply.from_name or None)),
        to=reply.to_addresses,
        subject=reply.subject,
        text=reply.text,
        html=reply.html,
        is_cut=reply.is_cut,
    )


def _written(mailbox: Mailbox | None) -> str | None:
    if mailbox is None:
        return None
    return f"{mailbox.name} <{mailbox.address}>" if mailbox.name else mailbox.address
