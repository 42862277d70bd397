"""E-mails by what is known of them; and by one word, of which nobody said what it is."""

import json
from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

from fairpost.model.ids import EmailId
from fairpost.model.states import SequenceWord, State, wanted_states
from fairpost.observe.emails import ListedEmail, list_emails, listed_by_ids
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is known of an e-mail; None: it may be anything. Key, campaign, user and stream are a workspace's own."""

    to: str | None = None  # an address, among all that it is for
    key: str | None = None
    campaign: str | None = None
    user: str | None = None
    stream: str | None = None
    account: str | None = None  # that has it, or had it last
    since: datetime | None = None  # accepted at this moment or later
    until: datetime | None = None  # accepted before

    @property
    def is_of_one_workspace(self) -> bool:
        return any(each is not None for each in (self.key, self.campaign, self.user, self.stream))

    def as_json(self) -> str:
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps({name: value for name, value in known.items() if value is not None}, default=str)


ANY = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """`looked_to`: it stopped here before it had found as many as were asked for, and older ones may follow."""

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
    """The newest first. Looks at two thousand e-mails at most, however few of them are wanted."""
    if wanted == ANY:
        return Matches(
            emails=await list_emails(store, workspace=workspace, states=states, before=before, most=most, now=now)
        )
    found = await store.row(
        "SELECT * FROM fairpost.search_emails($1, $2, $3, $4, $5, $6)",
        *(workspace, wanted.as_json(), wanted_states(states) if states else None, before, most, now),
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
    """As an id, an address, a key or a campaign, in this order: the first that there is. `id_`: what it is as an id, if it can be one. `home`:
    whose keys and campaigns are meant where no workspace is given."""
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
    if await store.value(
        "SELECT EXISTS (SELECT FROM fairpost.campaigns WHERE workspace = $1 AND name = $2)", own, text
    ):
        return _found(await by(Wanted(campaign=text), own), Understood.CAMPAIGN)
    return Found(emails=[], understood=Understood.ADDRESS if "@" in text else Understood.NOTHING)


def _found(matches: Matches, understood: Understood) -> Found:
    return Found(emails=matches.emails, looked_to=matches.looked_to, understood=understood)
