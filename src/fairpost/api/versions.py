"""The version of an account: sent as `ETag` and checked with `If-Match`. Without an `If-Match` header, the last change
wins.
"""

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
        description="The `ETag` of the version that you read. If the object has changed since then, the response is 412. If omitted, the version is not checked.",
    ),
]
WITH_TAG: dict[str, Any] = {
    "headers": {"ETag": {"description": "The version, for If-Match.", "schema": {"type": "string"}}}
}


def tag_of(account: Account, ids: PublicIds) -> str:
    """Returns a tag that differs after each change, and also for a new account with the same name. The tag is a hash,
    so clients cannot find out how many accounts there are, even by trying numbers."""
    name = f"{ids.public(Kind.ACCOUNT, account.id)} {account.revision}"
    return f'"{hashlib.sha256(name.encode()).hexdigest()[:24]}"'


def revision_to_change(account: Account, if_match: str | None, ids: PublicIds) -> int | None:
    """Returns the revision that the change requires, or None if there is no `If-Match` header.

    Raises ApiError if the account has changed.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    if tag_of(account, ids) not in [tag.strip() for tag in if_match.split(",")]:
        raise changed_meanwhile()
    return account.revision


def changed_meanwhile() -> ApiError:
    return ApiError(
        "changed_meanwhile", "The object has changed since the version in If-Match. Nothing was changed. Load it again."
    )
