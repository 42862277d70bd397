"""The demo's campaigns: one that runs for about twenty minutes, and a draft that is ready to launch.

The demo's campaigns are created and launched like any other campaign. If the latest campaign with a given name has
ended, a number is appended to the name of the next one.
"""

import re
from datetime import datetime

from fairpost.campaigns import launching
from fairpost.campaigns.applying import apply
from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.dev.demo.readers import PEOPLE, reader
from fairpost.dev.demo.stage import CAMPAIGN_POOL, SHOP
from fairpost.model.campaign import IS_OVER, Campaign, CampaignState, Gap
from fairpost.model.prospect import ProspectLine
from fairpost.store import campaigns
from fairpost.store.prospects import import_prospects
from fairpost.store.store import Store
from fairpost.templates.rendering import Template

LIST = "regulars"
RUNNING = "spring-sale"
DRAFT = "autumn-tasting"
GAP = Gap(min_s=3, max_s=6)
FOLLOW_UP_AFTER_S = 180
BOUNCING = (40, 90, 140)  # numbers of regular customers whose addresses are refused
BY = "fairpost up"

STEPS = {
    RUNNING: (
        FileStep(
            content=Template(
                subject="{{ first_name }}, spring has come to {{ city }}",
                text="Dear {{ first_name }},\n\nfor {{ company }} we have put aside our first spring roast.\n"
                "Shall I send you a bag?\n\nNora, the Corner Shop",
                html="<p>Dear {{ first_name }},</p><p>for <b>{{ company }}</b> we have put aside our first spring roast."
                " Shall I send you a bag?</p><p>Nora, the Corner Shop</p>",
            )
        ),
        FileStep(
            delay_s=FOLLOW_UP_AFTER_S,
            content=Template(
                subject="",  # no subject of its own, so the follow-up stays in the first e-mail's thread
                text="Dear {{ first_name }},\n\none bag is still here for {{ company }}. It goes on Friday.\n\nNora",
            ),
        ),
    ),
    DRAFT: (
        FileStep(
            content=Template(
                subject="A tasting in {{ city }}",
                text="Dear {{ first_name }},\n\nsix coffees, one evening, and a chair for {{ company }}.\n\nNora, the Corner Shop",
            )
        ),
    ),
}


async def put_campaigns(store: Store, *, now: datetime) -> None:
    """Ensures that there is a running campaign and a draft.

    A paused campaign stays paused. A campaign that was interrupted when the process was killed continues.
    """
    await _import_regulars(store)
    await _under_way(store, now=now)
    await _put_draft(store, DRAFT, now=now)


async def _under_way(store: Store, *, now: datetime) -> None:
    campaign = await _put_draft(store, RUNNING, now=now)
    launched = await launching.launch(store, campaign, skip_incomplete=False, by=BY, now=now)
    await launching.schedule(store, launched)


async def _put_draft(store: Store, name: str, *, now: datetime) -> Campaign:
    """Returns the latest campaign with this name, or the next one if the latest has ended."""
    numbered = [(_number(name, each.name), each) for each in await campaigns.campaigns(store, SHOP)]
    last, campaign = max(numbered, key=lambda each: each[0], default=(0, None))
    if campaign is not None and last and campaign.state not in (*IS_OVER, CampaignState.FAILED):
        return campaign
    file = CampaignFile(
        name=name if last == 0 else f"{name}-{last + 1}",
        workspace=SHOP,
        lists=(LIST,),
        route=CAMPAIGN_POOL,
        user="nora",
        gap=GAP,
        steps=STEPS[name],
    )
    applied = await apply(store, file, now=now)
    assert applied.campaign is not None
    return applied.campaign


def _number(name: str, found: str) -> int:
    """Returns a campaign's number, or 0 if the name belongs to another campaign."""
    match = re.fullmatch(rf"{re.escape(name)}(?:-([1-9]\d{{0,8}}))?", found, re.ASCII)
    return int(match[1] or 1) if match else 0


async def _import_regulars(store: Store) -> None:
    async with store.connection() as conn:
        lines = [_line(number) for number in range(PEOPLE)]
        await import_prospects(conn, lines, workspace=SHOP, list_name=LIST, skip_bad=False)


def _line(number: int) -> ProspectLine:
    one = reader(number)
    return ProspectLine(
        line=number + 1,
        address=one.address(*(("rcpt-reject",) if number in BOUNCING else ())),
        fields={"first_name": one.first_name, "name": one.name, "company": one.company, "city": one.city},
        timezone=None,
        external_id=None,
    )
