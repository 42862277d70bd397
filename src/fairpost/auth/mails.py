"""Sends e-mails to people who sign in, from the templates in the `admin` and `hub` portals.

These e-mails are queued like any other e-mail.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from fairpost.model.auth import Offered, Person
from fairpost.model.durations import say_roughly
from fairpost.model.errors import FairpostError
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.portals.loading import Portals

if TYPE_CHECKING:
    from fairpost.store.store import Store

NAME_CHARS_MAX = 80
ADMIN_PORTAL = "admin"  # for the operator's own e-mails, which no workspace sends

Page = Literal["setup", "invitation", "reset", "enter"]


def link(public_url: str, page: Page, token: str, *, region: str = "") -> str:
    """Returns a link to a page, with a token. If there are several regions, `region` is the one whose database stores
    the token.
    """
    return f"{public_url.rstrip('/')}/{page}?{urlencode({'token': f'{region}.{token}' if region else token})}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceMail:
    """Sends Fairpost's own e-mails."""

    portals: Portals
    pool: str
    public_url: str
    region: str = ""  # the recipients' region, if there are several regions

    def link(self, page: Page, token: str) -> str:
        return link(self.public_url, page, token, region=self.region)

    async def send_code(
        self, store: "Store", person: Person, code: str, *, client: str, now: datetime, expires_at: datetime
    ) -> None:
        """Sends a sign-in code. The e-mail expires together with its code."""
        fields = {"code": code, "requested_at": f"{now.astimezone(UTC):%d %B %Y, %H:%M} UTC", "place": client}
        await self._queue(store, person, "tfa", fields, now=now, expires_at=expires_at)

    async def send_invitation(self, store: "Store", offered: Offered, *, inviter: str, now: datetime) -> None:
        fields = {
            "inviter": inviter[:NAME_CHARS_MAX],
            "role": str(offered.person.role),
            "accept_url": self.link("invitation", offered.token),
            "valid_for": _in_words(offered.expires_at, now),
        }
        await self._queue(store, offered.person, "invite", fields, now=now, expires_at=offered.expires_at)

    async def send_reset(self, store: "Store", offered: Offered, *, now: datetime) -> None:
        fields = {
            "reset_url": self.link("reset", offered.token),
            "valid_for": _in_words(offered.expires_at, now),
        }
        await self._queue(store, offered.person, "forgot_password", fields, now=now, expires_at=offered.expires_at)

    async def _queue(
        self,
        store: "Store",
        person: Person,
        mail_type: str,
        fields: Mapping[str, str],
        *,
        now: datetime,
        expires_at: datetime,
    ) -> None:
        template = self.portals.get(ADMIN_PORTAL if person.workspace is None else "hub", mail_type)
        given = {"first_name": person.name.partition(" ")[0], **fields}
        said = template.render({name: given[name] for name in template.fields.keys() & given.keys()})
        email: dict[str, Any] = {
            **template.envelope,
            "workspace": SERVICE_WORKSPACE,
            "to": person.address,
            "subject": said.subject,
            "text": said.text,
            "html": said.html,
            "pool": self.pool,
            "on_doubt": "resend",  # receiving the e-mail twice does no harm, but without it, a person cannot sign in
            "expires_at": expires_at.isoformat(),
        }
        (row,) = await store.enqueue_many([email], now=now)
        if row["error"] is not None:
            raise FairpostError(f"The e-mail to {person.address} was rejected: {json.loads(row['error'])['message']}")


def _in_words(until: datetime, now: datetime) -> str:
    return say_roughly((until - now).total_seconds())
