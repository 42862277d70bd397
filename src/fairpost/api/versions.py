"""Which version of an account somebody has seen: told as `ETag`, and asked for with `If-Match`. Who sends none changes what is there, as ever."""

import hashlib
from typing import Annotated, Any

from fastapi import Header

from fairpost.api.errors import ApiError
from fairpost.model.account import Account
from fairpost.model.public_ids import Kind, PublicIds

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1_000,
        description="The `ETag` of the version you read. If it was changed since, the answer is 412. Omitted: not checked.",
    ),
]
WITH_TAG: dict[str, Any] = {
    "headers": {"ETag": {"description": "The version, for If-Match.", "schema": {"type": "string"}}}
}


def tag_of(account: Account, ids: PublicIds) -> str:
    """Another one after each change, and of another account of the same name. It says nothing of how many there are, to one who tries out numbers
    either."""
    name = f"{ids.public(Kind.ACCOUNT, account.id)} {account.revision}"
    return f'"{hashlib.sha256(name.encode()).hexdigest()[:24]}"'


def revision_to_change(account: Account, if_match: str | None, ids: PublicIds) -> int | None:
    """None: whichever it is. Raises ApiError where another one was seen."""
    if if_match is None or if_match.strip() == "*":
        return None
    if tag_of(account, ids) not in [tag.strip() for tag in if_match.split(",")]:
        raise changed_meanwhile()
    return account.revision


def changed_meanwhile() -> ApiError:
    return ApiError(
        "changed_meanwhile", "Somebody has changed it since you looked. Look again. Nothing was changed by this."
    )
