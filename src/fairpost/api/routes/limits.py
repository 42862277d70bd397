"""The limits that an account can have, for whoever asks people for them."""

from fastapi import APIRouter

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, failures
from fairpost.api.limits import LimitField, limit_fields

router = APIRouter(prefix="/v1/limits", tags=["accounts"])


@router.get("", summary="Limits that an account can have, and what each asks for", responses=failures())
async def listed(_: Reads) -> Answer[list[LimitField]]:
    return Answer(data=limit_fields())
