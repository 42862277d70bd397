"""Providers and the default limits of their accounts."""

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
        Field(
            description="The domains of the provider's addresses. `hotmail.*` means `hotmail` under any country's domain."
        ),
    ]
    smtp: Annotated[
        ProviderServer | None,
        Field(description="The server that the provider's mailboxes send through. Null if unknown."),
    ]
    limits: LimitsOut
