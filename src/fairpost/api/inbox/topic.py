"""The live topic `inbox`, which shows the latest e-mails."""

from fairpost.api.inbox.shapes import InboxShown, MailGlimpse
from fairpost.api.live import Look
from fairpost.api.pages import page_of, sealed
from fairpost.api.topics.watching import Watcher, told
from fairpost.dev.inbox import mails

INBOX_MAILS = 50


def inbox_look(watcher: Watcher) -> Look:
    async def look() -> InboxShown:
        store = await watcher.service.own_store()
        found = await mails.glimpses(store, INBOX_MAILS + 1)
        ids = await store.public_ids()
        page = page_of(
            found, INBOX_MAILS, shown=MailGlimpse.model_validate, place=lambda mail: sealed(mail.id, ids)
        ).data
        count = await mails.count_mails(store, mails.KEEP_MAILS + 1)
        return InboxShown(items=page.items, next=page.next, newest=found[0].id if found else None, count=count)

    return told(InboxShown, look)
