"""The live topic `email`: one e-mail."""

from fairpost.api.live import Look
from fairpost.api.routes.emails import email_now
from fairpost.api.shapes.emails import EmailNow
from fairpost.api.topics.watching import Watcher, told
from fairpost.model.errors import NotFound


def email_look(watcher: Watcher) -> Look:
    """A look at one e-mail of the workspace, by ID. If there is no such e-mail, the state is null."""
    caller = watcher.caller
    id_ = caller.email_id(watcher.asked.name or "") if caller is not None else None

    async def look() -> EmailNow | None:
        if caller is None or id_ is None:
            return None
        try:
            return await email_now(caller, id_)
        except NotFound:
            return None

    return told(EmailNow | None, look)
