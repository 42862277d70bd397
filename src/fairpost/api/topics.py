"""What can be watched live, by name. Each makes a look: asked again and again, for all who watch the same.

The state of a topic is for everybody who may see its workspace, or for all who run the service: nothing of one person is in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import asyncpg
from pydantic import Field, TypeAdapter

from fairpost.api.access import Caller
from fairpost.api.account_looks import AccountLook, AccountsLook, OneShown
from fairpost.api.answers import Id, Model, Moment, Page, facts_of
from fairpost.api.campaign_looks import CampaignLines, CampaignLook, CampaignSeen, CampaignsLook
from fairpost.api.drawings import hours_chart, pace_chart, waiting_chart
from fairpost.api.fairness_look import FairnessLook, FairnessShown
from fairpost.api.live import Look
from fairpost.api.names import SHARED, own_account, own_words
from fairpost.api.pages import BIGGEST, page_of
from fairpost.api.routes.emails import EmailNow, email_now
from fairpost.api.service import Service
from fairpost.inbox import mails
from fairpost.model.account import Account
from fairpost.model.errors import NotFound
from fairpost.observe.accounts import Accounts, Situation
from fairpost.observe.now import Now, NowWatch
from fairpost.postgres.store import Store

INBOX_MAILS = 50
NOT_OWN = "FP004"  # as require_own says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """`caller` None: one who runs the service looks at all of it. `store` sees everything: a look says itself of whom it is."""

    service: Service
    caller: Caller | None
    region: str
    store: Store
    name: str | None  # which one, of a topic that has many
    having: str | None = None  # of a list: those with this in their names,
    situation: Situation | None = None  # and in this situation

    @property
    def workspace(self) -> str | None:
        return self.caller.workspace if self.caller is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """As SVG."""

    pace: str
    waiting: str
    hours: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NowShown(Now):
    """With its history drawn, instead of told."""

    charts: Charts


def _now(watcher: Watcher) -> Look:
    caller = watcher.caller
    if caller is None:
        watch = NowWatch(watcher.store)
    else:
        workspace = caller
        watch = NowWatch(
            watcher.store,
            workspace.workspace,
            called=lambda account: _as_known(account, workspace),
            told=lambda words: own_words(words, workspace),
        )

    async def look() -> NowShown:
        now = await watch.look()
        return NowShown(**{**facts_of(now), "history": (), "hours": ()}, charts=_charts(now))

    return _told(NowShown, look)


def _charts(now: Now) -> Charts:
    return Charts(
        pace=pace_chart(now.history, now.now),
        waiting=waiting_chart(now.history, now.now),
        hours=hours_chart(now.hours, now.now),
    )


def _as_known(account: Account, caller: Caller) -> Account:
    """The operator's have no name here; its own keep the whole of theirs, by which mail is pinned to them."""
    if own_account(account.name, caller) is not None:
        return account
    return replace(account, name=SHARED, status_reason=None)


class MailGlimpse(Model):
    id: Id
    received_at: Moment
    from_header: Annotated[str, Field(serialization_alias="from")]
    subject: str
    recipients: list[str]  # the first few
    recipients_count: int
    size: int
    attachments: int


class InboxShown(Page[MailGlimpse]):
    """The newest; `next` is the cursor for those before them. `count` ends at one more than the inbox usually keeps."""

    newest: Id | None
    count: int


def _inbox(watcher: Watcher) -> Look:
    async def look() -> InboxShown:
        store = await watcher.service.inbox_store()
        found = await mails.glimpses(store, INBOX_MAILS + 1)
        page = page_of(found, INBOX_MAILS, shown=MailGlimpse.model_validate, place=lambda mail: mail.id).data
        count = await mails.count_mails(store, mails.KEEP_MAILS + 1)
        return InboxShown(items=page.items, next=page.next, newest=found[0].id if found else None, count=count)

    return _told(InboxShown, look)


def _email(watcher: Watcher) -> Look:
    """Of the workspace's own, by its id; null: there is none such."""
    caller, name = watcher.caller, watcher.name or ""
    is_id = name.isascii() and name.isdigit() and 0 < int(name[:20]) <= BIGGEST

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

    return _told(EmailNow | None, look)


def _told(kind: Any, look: Callable[[], Any]) -> Look:
    told = TypeAdapter[Any](kind)

    async def state() -> bytes:
        return told.dump_json(await look(), by_alias=True)

    return state


def _accounts(watcher: Watcher) -> Look:
    return _told(Accounts, AccountsLook(watcher.store, watcher.caller, watcher.having, watcher.situation))


def _account(watcher: Watcher) -> Look:
    return _told(OneShown, AccountLook(watcher.store, watcher.caller, watcher.name or ""))


def _campaigns(watcher: Watcher) -> Look:
    return _told(CampaignLines, CampaignsLook(watcher.store, watcher.caller))


def _campaign(watcher: Watcher) -> Look:
    """Names are those of a workspace: without one there is none of any name."""
    if watcher.caller is None or watcher.name is None:
        return _told(CampaignSeen, _no_campaign)
    return _told(CampaignSeen, CampaignLook(watcher.store, watcher.caller, watcher.name))


async def _no_campaign() -> CampaignSeen:
    return CampaignSeen(campaign=None)


def _fairness(watcher: Watcher) -> Look:
    return _told(FairnessShown, FairnessLook(watcher.store, watcher.workspace))


TOPICS: Mapping[str, Callable[[Watcher], Look]] = {
    "now": _now,
    "accounts": _accounts,
    "account": _account,
    "campaigns": _campaigns,
    "campaign": _campaign,
    "email": _email,
    "fairness": _fairness,
    "inbox": _inbox,
}
FOR_ADMINS = frozenset({"inbox"})  # whatever workspace they have chosen
SEARCHED = frozenset({"accounts"})
SLOW_S: Mapping[str, float] = {"fairness": 5.0}  # those that are looked at less often
