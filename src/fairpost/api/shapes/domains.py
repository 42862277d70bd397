"""Domains of a workspace, with the DNS record that verifies each domain."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from fairpost.api.answers import Moment, RequestModel, ResponseModel, Text
from fairpost.model.dkim import Algorithm, KeyState
from fairpost.policy.dkim_records import Published
from fairpost.policy.domain_health import Grade

SelectorPath = Annotated[Text, Path(max_length=63, description="The key's selector.")]
DomainPath = Annotated[Text, Path(max_length=260, description="The domain. Internationalized names are accepted.")]


class RecordOut(ResponseModel):
    name: str
    type: str = "TXT"
    value: str


class DomainOut(ResponseModel):
    domain: str
    is_proven: bool
    proven_at: Moment | None
    checked_at: Moment | None
    record: Annotated[RecordOut, Field(description="The record to publish in the DNS.")]


class KeyOut(ResponseModel):
    selector: str
    algorithm: Algorithm
    state: Annotated[
        KeyState,
        Field(
            description="`pending` until a check has found the key's record, `active` while the key is used for signing, and `retired` afterwards."
        ),
    ]
    record: Annotated[
        RecordOut, Field(description="The record to publish in the DNS. Keep a retired key's record for a week.")
    ]
    created_at: Moment
    active_at: Moment | None
    retired_at: Moment | None


class KeyIn(RequestModel):
    algorithm: Annotated[
        Algorithm, Field(description="Use `ed25519` only in addition to `rsa`, because few receivers verify it yet.")
    ] = Algorithm.RSA


class CheckedKey(KeyOut):
    published: Annotated[
        Published,
        Field(
            description="Whether the record is in the DNS: `there`, `other` (a different record), `missing` or `unknown`."
        ),
    ]


class FindingOut(ResponseModel):
    what: Annotated[str, Field(description="`spf`, `dkim`, `dmarc`, `mx`, `ptr` or `tls`.")]
    grade: Grade
    code: str
    message: str
    record: Annotated[RecordOut | None, Field(description="The record to publish instead.")]


class DomainWithHealth(DomainOut):
    health: Annotated[
        Grade | None,
        Field(description="The worst grade among the findings of the most recent check. Null before the first check."),
    ]
    findings: Annotated[list[FindingOut], Field(description="The findings of the most recent check.")]


class Checked(DomainOut):
    health: Annotated[Grade, Field(description="The worst grade among the findings.")]
    findings: list[FindingOut]
    keys: list[CheckedKey]
    found: Annotated[str, Field(description="`proven`, `not_found` or `dns_error`.")]
    words: str
