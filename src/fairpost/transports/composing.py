"""Helpers for transports that compose messages: a cache of encoded content, and an e-mail's sender."""

from collections import OrderedDict

from fairpost.compose.message import Prepared, prepare
from fairpost.model.account import Account
from fairpost.model.email import Content, Mailbox, Outgoing

PREPARED_BYTES_MAX = 64 * 1024 * 1024


def sender_of(account: Account, email: Outgoing) -> Mailbox:
    return email.sender or Mailbox(address=account.address, name=email.sender_name or account.display_name)


class PreparedContents:
    """Caches the encoded form of the most recently used contents. Content never changes, and many e-mails may share the
    same content.
    """

    def __init__(self, *, bytes_max: int = PREPARED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._by_id: OrderedDict[int, Prepared] = OrderedDict()

    def of(self, content: Content) -> Prepared:
        if content.id is None:
            return prepare(content)
        found = self._by_id.get(content.id)
        if found is not None:
            self._by_id.move_to_end(content.id)
            return found
        made = self._by_id[content.id] = prepare(content)
        self._bytes += made.size
        while self._bytes > self._bytes_max and len(self._by_id) > 1:
            _, oldest = self._by_id.popitem(last=False)
            self._bytes -= oldest.size
        return made
