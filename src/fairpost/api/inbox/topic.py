"""What is watched of the development inbox: the newest mails, as lines of a list."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import Moment, Number, Page, ResponseModel
from fairpost.api.live import Look
from fairpost.api.pages import page_of, sealed
from fairpost.api.topics.watching import Watcher, told
from fairpost.dev.inbox import mails

INBOX_MAILS = 50


class MailGlimpse(ResponseModel):
    id: Number
    received_at: Moment
    from_header: Annotated[str, Field(serialization_alias="from")]
    subject: str
    recipients: list[str]  # the first few
    recipients_count: int
    size: int
    attachments: int


class InboxShown(Page[MailGlimpse]):
    """The newest; `next` is the cursor for those before them. `count` ends at one more than the inbox usually keeps."""

    newest: Number | None
    count: int


def inbox_look(watcher: Watcher) -> Look:
    async def look() -> InboxShown:
        store = await watcher.service.inbox_store()
        found = await mails.glimpses(store, INBOX_MAILS + 1)
        ids = await store.public_ids()
        page = page_of(
            found, INBOX_MAILS, shown=MailGlimpse.model_validate, place=lambda mail: sealed(mail.id, ids)
        ).data
        count = await mails.count_mails(store, mails.KEEP_MAILS + 1)
        return InboxShown(items=page.items, next=page.next, newest=found[0].id if found else None, count=count)

    return told(InboxShown, look)
