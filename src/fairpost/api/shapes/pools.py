"""Pools that a workspace can send through."""

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
            description="Allowed senders: addresses, domains, `proven` (domains that the workspace has verified), `account` (the account's own address, if the e-mail has no From).",
        ),
    ]


class Pools(ResponseModel):
    """The pools that a workspace may use.

    `own` lists the workspace's pools. `lent` lists the operator's pools that the workspace may use. `loans` contains
    the allowed senders of each lent pool.
    """

    own: list[Pool]
    lent: list[str]
    loans: list[LoanOut]
