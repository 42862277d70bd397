"""Composes a message in the same way for all tests."""

from datetime import UTC, datetime

from fairpost.compose import compose, prepare
from fairpost.model.email import Content, Mailbox, Recipient
from fairpost.model.message import Message
from tests.compose.strategies import email_of

NOW = datetime(2030, 1, 31, 9, 0, tzinfo=UTC)
ANN = (Recipient(kind="to", address="ann@example.com"),)
SHOP = Mailbox(address="shop@example.org")


def message_of(content: Content, people: tuple[Recipient, ...] = ANN, sender: Mailbox = SHOP) -> Message:
    return compose(email_of(content, people), prepare(content), sender=sender, date=NOW)
