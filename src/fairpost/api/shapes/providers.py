"""Providers and the limits that accounts begin with."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel
from fairpost.api.limits import LimitsOut
from fairpost.model.transport import Security


class ProviderServer(ResponseModel):
    host: str
    port: int
    security: Security


class Provider(ResponseModel):
    name: str
    title: str
    domains: Annotated[
        list[str],
        Field(description="An address there is known by its domain. `hotmail.*` is `hotmail` under any country."),
    ]
    smtp: Annotated[
        ProviderServer | None, Field(description="That takes mail from its mailboxes; null: nobody can say.")
    ]
    limits: LimitsOut
