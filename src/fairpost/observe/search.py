"""Finds e-mails by their properties, or by a term that may match any of several properties."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from fairpost.model.ids import EmailId
from fairpost.model.states import SequenceWord, State, wanted_states
from fairpost.observe.emails import ListedEmail, list_emails, listed_by_ids
from fairpost.store import campaigns, email_rows
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Search criteria; None matches anything. Keys, campaigns, users, streams, types and tags are unique only within a
    workspace.
    """

    to: str | None = None  # one of the e-mail's recipients
    key: str | None = None
    campaign: str | None = None
    user: str | None = None
    stream: str | None = None
    account: str | None = None  # the account that has the e-mail, or had it last
    type: str | None = None
    tags: Mapping[str, str] | None = None  # all tags must match
    since: datetime | None = None  # accepted at or after this time
    until: datetime | None = None  # accepted before this time

    @property
    def is_of_one_workspace(self) -> bool:
        return not self._given().keys().isdisjoint(("key", "campaign", "user", "stream", "type", "tags"))

    @property
    def is_anything(self) -> bool:
        """Whether all e-mails match, in which case a page of results needs no search."""
        return not self._given()

    def as_json(self) -> str:
        return json.dumps(self._given(), default=str)

    def _given(self) -> dict[str, Any]:
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in known.items() if value not in (None, {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The e-mails found. If the search stopped before it had a full page, `looked_to` is the ID at which it stopped,
    and older e-mails may also match.
    """

    emails: list[ListedEmail]
    looked_to: EmailId | None = None


class Understood(StrEnum):
    ID = "id"
    ADDRESS = "address"
    KEY = "key"
    CAMPAIGN = "campaign"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Matches):
    understood: Understood


async def search_emails(
    store: Store,
    wanted: Wanted,
    *,
    workspace: str | None = None,
    states: Collection[State | SequenceWord] | None = None,
    before: EmailId | None = None,
    most: int = 50,
    now: datetime | None = None,
) -> Matches:
    """Returns matching e-mails, newest first. Reads at most two thousand e-mails, even if few of them match."""
    if wanted.is_anything:
        return Matches(
            emails=await list_emails(store, workspace=workspace, states=states, before=before, most=most, now=now)
        )
    found = await email_rows.search_emails(
        store,
        wanted.as_json(),
        workspace=workspace,
        states=wanted_states(states) if states else None,
        before=before,
        most=most,
        now=now,
    )
    return Matches(
        emails=await listed_by_ids(store, found["ids"], workspace=workspace, now=now), looked_to=found["looked_to"]
    )


async def find_emails(
    store: Store,
    text: str,
    *,
    id_: EmailId | None = None,
    workspace: str | None,
    home: str,
    before: EmailId | None = None,
    most: int = 50,
    now: datetime | None = None,
) -> Found:
    """Tries to interpret the text as an ID, an address, a key and a campaign, in this order, and uses the first kind
    that matches.

    `id_` is the text parsed as an ID, if that is possible. `home` is the workspace whose keys and campaigns are
    searched if no workspace is given.
    """
    text = text.strip()
    if id_ is not None:
        emails = await listed_by_ids(store, [id_], workspace=workspace, now=now)
        if emails:
            return Found(emails=emails, understood=Understood.ID)

    async def by(wanted: Wanted, whose: str | None) -> Matches:
        return await search_emails(store, wanted, workspace=whose, before=before, most=most, now=now)

    if "@" in text:
        matches = await by(Wanted(to=text), workspace)
        if matches.emails or matches.looked_to:
            return _found(matches, Understood.ADDRESS)
    own = workspace if workspace is not None else home
    matches = await by(Wanted(key=text), own)
    if matches.emails:
        return _found(matches, Understood.KEY)
    if await campaigns.exists(store, own, text):
        return _found(await by(Wanted(campaign=text), own), Understood.CAMPAIGN)
    return Found(emails=[], understood=Understood.ADDRESS if "@" in text else Understood.NOTHING)


def _found(matches: Matches, understood: Understood) -> Found:
    return Found(emails=matches.emails, looked_to=matches.looked_to, understood=understood)
