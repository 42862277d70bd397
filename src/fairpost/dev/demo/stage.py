"""The demo's workspaces, pools and accounts, which are reused on every start and cleared at the end."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fairpost.model.account import Limits, WarmUp
from fairpost.model.campaign import IS_OVER, CampaignState
from fairpost.model.errors import FairpostError
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan
from fairpost.store import campaigns, workspaces
from fairpost.store.store import Store
from fairpost.transports.registry import write_transport
from fairpost.transports.smtp.settings import SmtpSettings

FLOOD, SHOP, CLUB, ANN = "demo-flood", "demo-shop", "demo-club", "demo-ann"
WORKSPACES = (FLOOD, SHOP, CLUB, ANN)

POOL = "demo"
HOURLY_POOL = "demo-hourly"
WARMING_POOL = "demo-warming"
CAMPAIGN_POOL = "demo-campaigns"
POOLS = (POOL, HOURLY_POOL, WARMING_POOL, CAMPAIGN_POOL)

ENDED = "the demonstration ended"
BY = "fairpost up"
CLEARED_MAX = 1000  # campaign e-mails cancelled per commit
BOUNCE_PERCENT_MAX = 25.0  # high, because some of the demo's e-mails are meant to bounce


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An account's role in the demo."""

    display_name: str = "The demonstration"
    pool: str = POOL
    limits: Limits = field(default_factory=Limits)
    paused_because: str | None = None


BURST: Mapping[str, Part] = {
    "demo-quick": Part(limits=Limits(delay_ms=20, bounce_percent_max=BOUNCE_PERCENT_MAX)),
    "demo-steady": Part(limits=Limits(delay_ms=60, bounce_percent_max=BOUNCE_PERCENT_MAX)),
    "demo-slow": Part(limits=Limits(delay_ms=200, bounce_percent_max=BOUNCE_PERCENT_MAX)),
}
BACKGROUND: Mapping[str, Part] = {
    "demo-hourly": Part(
        display_name="Twelve an hour",
        pool=HOURLY_POOL,
        limits=Limits(delay_ms=500, hourly_max=12, bounce_percent_max=BOUNCE_PERCENT_MAX),
    ),
    "demo-warming": Part(
        display_name="New here",
        pool=WARMING_POOL,
        limits=Limits(
            delay_ms=1000, daily_max=400, warm_up=WarmUp(start=25, step=15), bounce_percent_max=BOUNCE_PERCENT_MAX
        ),
    ),
    "demo-campaign": Part(
        display_name="Nora of the Corner Shop",
        pool=CAMPAIGN_POOL,
        limits=Limits(delay_ms=200, bounce_percent_max=BOUNCE_PERCENT_MAX),
    ),
    "demo-paused": Part(display_name="On leave", paused_because="Kim is on leave until Monday"),
}
PARTS: Mapping[str, Part] = {**BURST, **BACKGROUND}
ROUTES = (*POOLS, *(f"@{name}" for name in PARTS))


async def put_accounts(store: Store, cast: Collection[str], server: SmtpSettings) -> None:
    """Resets the accounts to their roles. Existing accounts that are not in `cast` are also switched to this server,
    because the inbox may now use a different port.
    """
    known = {account.name: account for account in await store.accounts() if account.name in PARTS}
    for name, part in PARTS.items():
        if name in known and known[name].pool != part.pool:
            raise FairpostError(f"Account {name} does not belong to the demonstration. Run: fairpost up --no-demo")
    for name, part in PARTS.items():
        if name in cast and name not in known:
            await store.add_account(
                name,
                address=f"{name}@demo.invalid",
                display_name=part.display_name,
                pool=part.pool,
                limits=part.limits,
                transport=server,
            )
            if part.paused_because is not None:
                await store.change_account(name, _status(part))
        elif name in known:
            settings = {**asdict(part.limits), "display_name": part.display_name, "transport": write_transport(server)}
            await store.change_account(name, {**settings, **_status(part)})


def _status(part: Part) -> dict[str, Any]:
    if part.paused_because is not None:
        return {"status": "paused", "status_reason": Reason("account.paused_by_hand", note=part.paused_because)}
    return {"status": "active"}


async def put_workspaces(store: Store) -> None:
    """Registers the workspaces so that users can select them. Sending works even without registration."""
    for name in WORKSPACES:
        loans = [Loan(pool, (PROVEN, ACCOUNT)) for pool in POOLS]
        if not await workspaces.add_workspace(store, name, loans=loans):
            known = await workspaces.workspace_named(store, name)
            if lacking := [loan for loan in loans if loan.pool not in known.pools]:
                await workspaces.set_loans(store, name, [*known.loans, *lacking])


async def cancel_waiting(store: Store, routes: Collection[str]) -> None:
    await store.fetch(
        """SELECT fairpost.cancel(q.id, $3) FROM fairpost.queue q
           WHERE q.workspace = ANY ($1) AND q.route = ANY ($2) AND q.state IN ('waiting', 'claimed')""",
        *(list(WORKSPACES), list(routes), ENDED),
    )


async def clear(store: Store) -> None:
    """Cancels all demo e-mails that are waiting to be sent, and resolves those in doubt. Drafts are kept.

    If one of a campaign's e-mails is being sent, the campaign keeps its hold until that e-mail is finished. Call this
    again when no engine is running.
    """
    for workspace in WORKSPACES:
        for campaign in await campaigns.campaigns(store, workspace):
            if campaign.route in ROUTES and campaign.state is not CampaignState.DRAFT:
                if campaign.state not in IS_OVER:
                    await campaigns.cancel(store, campaign, reason=ENDED, by=BY)
                while not await campaigns.clear(store, campaign.id, most=CLEARED_MAX):
                    pass
    await cancel_waiting(store, ROUTES)
    for row in await store.fetch(_IN_DOUBT, list(WORKSPACES), list(ROUTES)):
        await store.resolve(EmailId(row["id"]), "failed", by=BY)


_IN_DOUBT = """
    SELECT q.id FROM fairpost.queue q
    WHERE q.workspace = ANY ($1) AND q.route = ANY ($2) AND q.state = 'in_doubt'"""
