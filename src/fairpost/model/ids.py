"""Ids are types: an account's number is no e-mail's."""

from typing import NewType

EmailId = NewType("EmailId", int)
AccountId = NewType("AccountId", int)
Epoch = NewType("Epoch", int)
PersonId = NewType("PersonId", int)
