"""The mail that `bench send` sends: single e-mails, each with its own content, or campaigns with quotas and follow-ups."""

from typing import Any

from fairpost.campaigns.calendars import set_schedule
from fairpost.campaigns.launching import launch, schedule
from fairpost.dev.bench.compose import HTML, SUBJECT, TEXT
from fairpost.dev.bench.workload import Progress
from fairpost.model.campaign import Schedule, Step
from fairpost.model.window import Quota
from fairpost.store import campaigns, templates
from fairpost.store.campaigns import Draft
from fairpost.store.store import Store
from fairpost.system import clock

WORKSPACES = 50
CAMPAIGNS = 10  # each in a workspace of its own, with a daily quota
DAY_S = 86_400

_PROSPECTS = """
WITH made AS (
    INSERT INTO fairpost.prospects (workspace, address, folded, fields, created_at, changed_at)
    SELECT $1, 'person' || n || '@example.org', 'person' || n || '@example.org', jsonb_build_object('first_name', 'Ann' || n), clock_timestamp(), clock_timestamp()
    FROM generate_series(1, $2::integer) n RETURNING id),
list AS (INSERT INTO fairpost.lists (workspace, name, created_at) VALUES ($1, 'everyone', clock_timestamp()) RETURNING id)
INSERT INTO fairpost.list_members SELECT list.id, made.id FROM made, list"""


def single(n: int) -> dict[str, Any]:
    return {
        "to": f"person{n}@example.org",
        "subject": SUBJECT,
        "text": TEXT,
        "html": HTML,
        "workspace": f"workspace{n % WORKSPACES}",
        "stream": "campaign",
    }


async def enqueue(store: Store, emails: int, progress: Progress) -> None:
    """Enqueues e-mails that do not share content, so encoded content cannot be reused."""
    for start in range(0, emails, 500):
        progress(f"enqueueing {start:,} of {emails:,}")
        await store.enqueue_many([single(n) for n in range(start, start + 500)])


async def launch_campaigns(store: Store, emails: int, progress: Progress) -> None:
    """Launches two-step campaigns whose first steps have a total of `emails` e-mails. Sending a first e-mail sets the
    time of its follow-up.
    """
    for n in range(CAMPAIGNS):
        progress(f"launching {n + 1} of {CAMPAIGNS} campaigns")
        workspace = f"workspace{n}"
        await set_schedule(store, workspace, Schedule(quota=Quota(daily_max=10 * emails)), now=clock.now())
        await store.value(_PROSPECTS, workspace, emails // CAMPAIGNS)
        await templates.put_template(
            store, workspace, "hello", subject=SUBJECT, text="Hello {{ first_name }},\n\n" + TEXT, html=HTML
        )
        await templates.put_sequence(
            store, workspace, "two", [Step(template="hello", delay_s=0), Step(template="hello", delay_s=DAY_S)]
        )
        draft = Draft(workspace=workspace, name="spring", sequence="two", lists=("everyone",))
        saved = await campaigns.put_draft(store, draft)
        await schedule(store, await launch(store, saved, skip_incomplete=False, by="bench", now=clock.now()))
