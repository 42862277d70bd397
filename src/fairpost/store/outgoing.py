"""E-mails as they go out: with their content, attachments, conversation, and the id by which they are known outside.

Nothing is changed here.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.model.campaign import Gap
from fairpost.model.email import Attachment, Content, Earlier, Mailbox, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.public_ids import PublicIds
from fairpost.model.sender import Tier
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.store.database import Database

if TYPE_CHECKING:
    import asyncpg

    from fairpost.store.connections import Statements

CONTENTS_WITH_FILES_KEPT = 4  # of at most 25 MiB each


class OutgoingStore(Database):
    def __init__(self, pool: "Statements | asyncpg.Connection") -> None:
        super().__init__(pool)
        self._files: OrderedDict[int, tuple[Attachment, ...]] = OrderedDict()
        self._public_ids: PublicIds | None = None

    async def public_ids(self) -> PublicIds:
        """By what e-mails are known outside. Read once: the key never changes. Only the owner may."""
        if self._public_ids is None:
            row = await self.row("SELECT k.key, k.since FROM fairpost.public_ids k")
            self._public_ids = PublicIds(row["key"], EmailId(row["since"]))
        return self._public_ids

    async def load(self, ids: Sequence[EmailId]) -> list[Outgoing]:
        """The e-mails with their content, in the order asked for; those that are gone are left out."""
        public_ids = await self.public_ids()
        rows = await self.fetch("SELECT * FROM fairpost.load($1)", list(ids))
        with_files = {row["content_id"] for row in rows if row["has_attachments"]}
        attachments = {content_id: await self._attachments(content_id) for content_id in with_files}
        return [
            _outgoing(
                row,
                attachments.get(row["content_id"], ()),
                await self._earlier(row["follows"], row["account_id"]) if row["follows"] else None,
                public_ids,
            )
            for row in rows
        ]

    async def _earlier(self, email_id: int, account_id: int | None) -> Earlier | None:
        """What was sent before it in the same conversation; None when that was not sent."""
        rows = await self.fetch("SELECT * FROM fairpost.conversation($1)", email_id)
        if not rows:
            return None
        last = rows[0]
        return Earlier(
            message_id=last["message_id"],
            thread_id=last["thread_id"] if last["account_id"] == account_id else None,
            references=tuple(row["message_id"] for row in reversed(rows[1:])),
        )

    async def _attachments(self, content_id: int) -> tuple[Attachment, ...]:
        """The last ones read are kept: they never change, and e-mails of one campaign share them."""
        if content_id not in self._files:
            rows = await self.fetch(
                """SELECT a.filename, a.content_type, a.inline_id, a.data
                   FROM fairpost.attachments a WHERE a.content_id = $1 ORDER BY a.position""",
                content_id,
            )
            while len(self._files) >= CONTENTS_WITH_FILES_KEPT:
                self._files.popitem(last=False)
            self._files[content_id] = tuple(Attachment(**row) for row in rows)
        self._files.move_to_end(content_id)
        return self._files[content_id]


def _outgoing(
    row: Any, attachments: tuple[Attachment, ...], follows: Earlier | None, public_ids: PublicIds
) -> Outgoing:
    return Outgoing(
        id=EmailId(row["id"]),
        public_id=public_ids.in_headers(EmailId(row["id"])),
        workspace=row["workspace"],
        email_class=EmailClass(row["class"]),
        on_doubt=DoubtPolicy(row["on_doubt"]),
        attempts=row["attempts"],
        attempts_max=row["attempts_max"],
        sender=_mailbox(row["sender"]),
        recipients=tuple(Recipient(**recipient) for recipient in json.loads(row["recipients"])),
        envelope=tuple(row["addresses"]),
        fields=json.loads(row["fields"] or "{}"),
        content=Content(
            id=row["content_id"],
            subject=row["subject"],
            text=row["text_body"],
            html=row["html_body"],
            reply_to=_mailbox(row["reply_to"]),
            headers=json.loads(row["headers"] or "{}"),
            attachments=attachments,
            is_template=row["is_template"],
        ),
        account_id=row["account_id"],
        begun_at=row["begun_at"],
        evidence=json.loads(row["evidence"]) if row["evidence"] else None,
        follows=follows,
        user=row["user_name"],
        due_at=row["due_at"],
        tier=Tier(row["tier"]),
        is_fair=row["is_fair"],
        stream=row["stream"],
        gap=Gap(min_s=row["gap_min_s"], max_s=row["gap_max_s"]) if row["gap_max_s"] is not None else None,
    )


def _mailbox(text: str | None) -> Mailbox | None:
    return Mailbox(**json.loads(text)) if text else None
