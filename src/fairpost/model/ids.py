"""Typed IDs, so that an account ID cannot be used as an e-mail ID."""

from typing import NewType

EmailId = NewType("EmailId", int)
AccountId = NewType("AccountId", int)
Epoch = NewType("Epoch", int)
PersonId = NewType("PersonId", int)
ConversationId = NewType("ConversationId", int)
