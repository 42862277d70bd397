"""Deletes messages. Deletion is the only change that users can make in the development inbox."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairpost.actions.acting import Actor, action
from fairpost.dev.inbox.mails import MailId, delete_mails
from fairpost.model.errors import Refusal
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMails:
    """A request to delete these messages, or all messages if `ids` is None.

    `home` is the database with the admins' audit log, if that is not the inbox's database.
    """

    ids: Sequence[MailId] | None
    home: Store | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    count: int
    missing: tuple[MailId, ...]


@action("inbox.delete")
async def delete(actor: Actor, request: DeleteMails, store: Store) -> Deleted:
    """Deletes messages. If the audit log is in a different database, the audit entry is written before the deletion is
    committed, so no entry can be missing.
    """
    gone = await delete_mails(store, request.ids)
    missing = tuple(id_ for id_ in request.ids or () if id_ not in gone)
    if missing and not gone:
        raise Refusal("inbox.unknown_mail", mail=", ".join(map(str, missing)))
    if gone:
        subject = "the inbox" if request.ids is None else f"mail {', '.join(map(str, sorted(gone)))}"
        await actor.record(request.home or store, "inbox.delete", subject, workspace=None, mails=len(gone))
    return Deleted(count=len(gone), missing=missing)
