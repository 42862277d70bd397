"""Describes account limits for forms."""

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, failures
from fairpost.api.limits import LimitField, limit_fields
from fairpost.api.routing import Router

router = Router(prefix="/v1/limits", tags=["accounts"])


@router.get("", summary="List the limits that an account can have, with their bounds", responses=failures())
async def list_limits(_: Reads) -> Answer[list[LimitField]]:
    return Answer(data=limit_fields())
