"""Pools that a workspace sends from."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel
from fairpost.model.account import AccountStatus


class PoolAccount(ResponseModel):
    name: str
    status: AccountStatus


class Pool(ResponseModel):
    name: str
    accounts: list[PoolAccount]


class LoanOut(ResponseModel):
    pool: str
    senders: Annotated[
        list[str],
        Field(
            serialization_alias="from",
            description="Allowed senders: addresses, domains, `proven` (domains that the workspace has verified), `account` (no From: the account's own address).",
        ),
    ]


class Pools(ResponseModel):
    """The pools that a workspace may use.

    `own` are the workspace's pools. `lent` are pools of the operator that it may use, and `loans` have their allowed
    senders.
    """

    own: list[Pool]
    lent: list[str]
    loans: list[LoanOut]
