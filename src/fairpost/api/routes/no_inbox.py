"""Returns an error for every path of the development inbox if the inbox is not installed."""

from fairpost.api.access import Admin
from fairpost.api.routing import Router
from fairpost.extras import Extra, require

router = Router(prefix="/v1/inbox", include_in_schema=False)


@router.get("{rest:path}")
@router.delete("{rest:path}")
async def absent(_: Admin) -> None:
    require(Extra.LOCAL, "The development inbox")
