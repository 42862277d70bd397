"""What is watched of one e-mail."""

import asyncpg

from fairpost.api.live import Look
from fairpost.api.pages import BIGGEST
from fairpost.api.routes.emails import EmailNow, email_now
from fairpost.api.topics.watching import Watcher, told
from fairpost.model.errors import NotFound

NOT_OWN = "FP004"  # as require_own says it


def email_look(watcher: Watcher) -> Look:
    """Of the workspace's own, by its id; null: there is none such."""
    caller, name = watcher.caller, watcher.asked.name or ""
    is_id = name.isascii() and name.isdigit() and len(name) < 20 and 0 < int(name) <= BIGGEST

    async def look() -> EmailNow | None:
        if caller is None or not is_id:
            return None
        try:
            return await email_now(caller, int(name))
        except NotFound:
            return None
        except asyncpg.PostgresError as error:
            if error.sqlstate != NOT_OWN:
                raise
            return None

    return told(EmailNow | None, look)
