"""Load e-mails that are ready to send, with their content, attachments, conversation and public ID.

This module only reads.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairpost.model.campaign import Gap
from fairpost.model.dkim import Algorithm, SealedKey
from fairpost.model.email import Attachment, Bulk, Content, Earlier, Mailbox, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.public_ids import Kind, PublicIds
from fairpost.model.sender import Tier
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.unsubscribe import UnsubscribeLinks, base_of
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.store.database import Database
from fairpost.system import clock

if TYPE_CHECKING:
    import asyncpg

    from fairpost.store.connections import Statements

CONTENTS_WITH_FILES_KEPT = 4  # up to 25 MiB each
WORKSPACES_KEPT = 256
SIGNING_KEPT_S = 30.0  # maximum time before a new key is used for signing


class OutgoingStore(Database):
    def __init__(self, pool: "Statements | asyncpg.Connection") -> None:
        super().__init__(pool)
        self._files: OrderedDict[int, tuple[Attachment, ...]] = OrderedDict()
        self._public_ids: PublicIds | None = None
        self.links: UnsubscribeLinks | None = None  # None if campaign mail has no unsubscribe links
        self._signing: OrderedDict[str, tuple[float, tuple[SealedKey, ...]]] = (
            OrderedDict()
        )  # by workspace, with their expiry

    async def public_ids(self) -> PublicIds:
        """Return the converter between e-mail IDs and public IDs.

        The key is read only once, because it never changes. Only the database owner may read it.
        """
        if self._public_ids is None:
            row = await self.row("SELECT k.key, k.since FROM fairpost.public_ids k")
            self._public_ids = PublicIds(row["key"], EmailId(row["since"]))
        return self._public_ids

    async def load(self, ids: Sequence[EmailId]) -> list[Outgoing]:
        """Return the e-mails with their content, in the order requested. E-mails that no longer exist are omitted."""
        public_ids = await self.public_ids()
        rows = await self.fetch("SELECT * FROM fairpost.load($1)", list(ids))
        with_files = {row["content_id"] for row in rows if row["has_attachments"]}
        attachments = {content_id: await self._attachments(content_id) for content_id in with_files}
        signing = {name: await self._signing_keys(name) for name in {row["workspace"] for row in rows}}
        return [
            _outgoing(
                row,
                attachments.get(row["content_id"], ()),
                await self._earlier(row["follows"], row["account_id"]) if row["follows"] else None,
                public_ids,
                signing[row["workspace"]],
                self._bulk(row, public_ids),
            )
            for row in rows
        ]

    def _bulk(self, row: Any, public_ids: PublicIds) -> Bulk | None:
        if row["campaign"] is None:
            return None
        url = None
        if self.links is not None and row["prospect_id"] is not None:
            url = self.links.url(row["workspace"], public_ids.public(Kind.PROSPECT, row["prospect_id"]))
        return Bulk(campaign=row["campaign"], unsubscribe_url=url, is_one_to_one=not row["has_footer"])

    async def link_back(self, public_url: str, region: str) -> None:
        """Add unsubscribe links to campaign mail loaded from now on, if the links can be served."""
        base = base_of(public_url)
        if base is not None:
            key = (await self.public_ids()).key
            self.links = UnsubscribeLinks(base=base, region=region, database_key=key)

    async def _signing_keys(self, workspace: str) -> tuple[SealedKey, ...]:
        """Return the active signing keys. The result is cached, because most workspaces have none.

        The service itself has no domains. Its own e-mails are signed with the keys for the domains of the operator's
        accounts, regardless of which workspace owns the keys.
        """
        now_s = clock.monotonic()
        known = self._signing.get(workspace)
        if known is not None and known[0] > now_s:
            return known[1]
        rows = await self.fetch(
            """SELECT k.id, k.domain, k.selector, k.algorithm, k.secret FROM fairpost.dkim_keys k
               WHERE k.active_at IS NOT NULL AND k.retired_at IS NULL AND (k.workspace = $1 OR $2 AND EXISTS (
                   SELECT FROM fairpost.accounts a
                   WHERE a.workspace IS NULL AND right('.' || lower(split_part(a.address, '@', 2)), length(k.domain) + 1) = '.' || k.domain))
               ORDER BY k.id""",
            *(workspace, workspace == SERVICE_WORKSPACE),
        )
        keys = tuple(
            SealedKey(
                id=row["id"],
                domain=row["domain"],
                selector=row["selector"],
                algorithm=Algorithm(row["algorithm"]),
                sealed=row["secret"],
            )
            for row in rows
        )
        while len(self._signing) >= WORKSPACES_KEPT:
            self._signing.popitem(last=False)
        self._signing[workspace] = (now_s + SIGNING_KEPT_S, keys)
        return keys

    async def _earlier(self, email_id: int, account_id: int | None) -> Earlier | None:
        """Return the previous e-mail in the same conversation, or None if it was not sent."""
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
        """Return the attachments of stored content.

        The most recent ones are cached, because attachments never change and the e-mails of a campaign share them.
        """
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


def _mapping(stored: str | None) -> dict[str, Any]:
    return json.loads(stored) if stored and stored != "{}" else {}


def _outgoing(
    row: Any,
    attachments: tuple[Attachment, ...],
    follows: Earlier | None,
    public_ids: PublicIds,
    signing: tuple[SealedKey, ...],
    bulk: Bulk | None,
) -> Outgoing:
    return Outgoing(
        bulk=bulk,
        signing=signing,
        id=EmailId(row["id"]),
        public_id=(public_id := public_ids.in_headers(EmailId(row["id"]))),
        return_token=public_ids.sealed(public_id) if public_id else public_ids.return_token(EmailId(row["id"])),
        workspace=row["workspace"],
        email_class=EmailClass(row["class"]),
        on_doubt=DoubtPolicy(row["on_doubt"]),
        attempts=row["attempts"],
        attempts_max=row["attempts_max"],
        sender=_mailbox(row["sender"]),
        sender_name=_name_alone(row["sender"]),
        recipients=tuple(Recipient(**recipient) for recipient in json.loads(row["recipients"])),
        envelope=tuple(row["addresses"]),
        fields=_mapping(row["fields"]),
        content=Content(
            id=row["content_id"],
            subject=row["subject"],
            text=row["text_body"],
            html=row["html_body"],
            reply_to=_mailbox(row["reply_to"]),
            headers=_mapping(row["headers"]),
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
    given = json.loads(text) if text else {}
    return Mailbox(**given) if "address" in given else None


def _name_alone(sender: str | None) -> str | None:
    given = json.loads(sender) if sender else {}
    return None if "address" in given else given.get("name")
