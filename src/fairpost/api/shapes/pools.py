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
            description="What may stand in From: addresses, domains, `proven` (what the workspace has shown to be its own), `account` (left out, the account's own address).",
        ),
    ]


class Pools(ResponseModel):
    """`own` are the workspace's; `lent` are the names of the operator's that it may use beside them, and `loans` say in whose name."""

    own: list[Pool]
    lent: list[str]
    loans: list[LoanOut]
