"""Store, launch and query campaigns, and change their states."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.campaign import Campaign, CampaignState, Gap, Step
from fairpost.model.errors import NotFound, Refusal, Unknown
from fairpost.model.ids import EmailId
from fairpost.model.mailbox import HeaderFields
from fairpost.model.reason import Reason, write_params
from fairpost.store.header_fields import as_json, parsed, read, written
from fairpost.store.reasons import stored_reason
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    workspace: str
    name: str
    sequence: str
    lists: tuple[str, ...]
    route: str = "default"
    gap: Gap | None = None
    by_recipients_clock: bool = False
    has_footer: bool = True
    user: str = ""
    starts_at: datetime | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)  # the type, tags and metadata of its e-mails
    header_fields: Mapping[str, Any] = field(default_factory=dict)  # the headers and reply_to of its e-mails


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStep:
    """The content of a step at launch."""

    step: int
    template: str
    delay_s: int
    own_subject: bool
    subject: str
    text: str | None
    html: str | None
    is_template: bool
    header_fields: HeaderFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The result of planning one batch of prospects. `left_out` counts the prospects that lack a required field."""

    done: bool
    prospects: int
    scheduled: int
    skipped: int
    left_out: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """The progress of planning, across all processes.

    `scheduled` counts the e-mails from all runs; the other counts cover only the last run.
    """

    steps: int
    scheduled: int
    prospects: int
    left_out: int
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a campaign. `scheduled`, `skipped` and `left_out` come from planning and count e-mails or
    prospects.
    """

    scheduled: int
    skipped: int
    left_out: int
    members: int
    by_step: Mapping[
        int, Mapping[str, int]
    ]  # step -> state -> count; `waiting for the step before` and `parked` count as separate states

    def count(self, *states: str) -> int:
        return sum(counts.get(state, 0) for counts in self.by_step.values() for state in states)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSteps:
    """Follow-ups for one account that become due within the same ten minutes."""

    account: str
    step: int
    due_at: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StillToSend:
    recipients: int  # prospects that have not yet received the first step
    pending: tuple[PendingSteps, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The outcome of one campaign e-mail."""

    email_id: int
    step: int
    address: str
    prospect_id: int
    state: str
    reason: Reason | None
    account: str | None
    at: datetime | None
    attempts: int


_CAMPAIGN = """
    SELECT c.*, s.name AS sequence, n.steps_templates, n.steps_delays, n.steps_own_subjects,
           ARRAY(SELECT l.name FROM unnest(c.lists) WITH ORDINALITY w(id, place) JOIN fairpost.lists l ON l.id = w.id ORDER BY w.place) AS list_names
    FROM fairpost.campaigns c JOIN fairpost.sequences s ON s.id = c.sequence_id
    CROSS JOIN LATERAL (
        SELECT array_agg(x.template ORDER BY x.step) AS steps_templates, array_agg(x.delay_s ORDER BY x.step) AS steps_delays,
               array_agg(x.own_subject AND x.step > 1 ORDER BY x.step) AS steps_own_subjects
        FROM (SELECT y.step, y.template, y.delay_s, y.own_subject FROM fairpost.campaign_steps y WHERE y.campaign_id = c.id
              UNION ALL
              SELECT y.step, t.name, y.delay_s, y.own_subject FROM fairpost.sequence_steps y JOIN fairpost.templates t ON t.id = y.template_id
              WHERE y.sequence_id = c.sequence_id AND c.launched_at IS NULL) x) n"""


# ── drafts ────────────────────────────────────────────────────────────────────────────────────────────────


async def put_draft(store: "Store", draft: Draft) -> Campaign:
    """Create a draft, or change an existing draft.

    Raises NotFound for an unknown list or sequence, and Refusal for other problems.
    """
    labels = json.dumps(draft.labels) if draft.labels else None
    if labels and (wrong := await store.value("SELECT fairpost.check_words($1)", labels)):
        raise Refusal("campaign.invalid_label", **json.loads(wrong))
    header_fields = written(await parsed(store, draft.header_fields))
    lists = await list_ids(store, draft.workspace, draft.lists)
    row = await store.row(
        """INSERT INTO fairpost.campaigns AS c (workspace, name, sequence_id, lists, route, user_name, gap_min_s, gap_max_s, by_recipients_clock, has_footer, starts_at, created_at, labels, header_fields)
           SELECT $1, $2, s.id, $4, $5, fairpost.normalize_user($6), $7, $8, $9, $10, $11, coalesce($12::timestamptz, clock_timestamp()), $13, $14 FROM fairpost.sequences s WHERE s.workspace = $1 AND s.name = $3
           ON CONFLICT (workspace, name) DO UPDATE SET sequence_id = excluded.sequence_id, lists = excluded.lists, route = excluded.route, user_name = excluded.user_name,
               gap_min_s = excluded.gap_min_s, gap_max_s = excluded.gap_max_s, by_recipients_clock = excluded.by_recipients_clock, has_footer = excluded.has_footer, starts_at = excluded.starts_at, labels = excluded.labels, header_fields = excluded.header_fields
           WHERE c.state = 'draft' RETURNING c.id""",
        *(draft.workspace, draft.name, draft.sequence, lists, draft.route, draft.user),
        *((draft.gap.min_s, draft.gap.max_s) if draft.gap else (None, None)),
        *(draft.by_recipients_clock, draft.has_footer, draft.starts_at, clock.stated(), labels, header_fields),
    )
    if row is not None:
        return await campaign_by_id(store, row["id"])
    known = await find_campaign(store, draft.workspace, draft.name)
    if known is not None:
        raise Refusal("campaign.not_a_draft", name=draft.name, state=known.state)
    raise Unknown("sequence.unknown", name=draft.sequence, workspace=draft.workspace)


async def list_ids(store: "Store", workspace: str, names: Sequence[str]) -> list[int]:
    known = await known_lists(store, workspace, names)
    for name in names:
        if name not in known:
            raise Unknown("list.unknown", name=name, workspace=workspace)
    return [known[name] for name in dict.fromkeys(names)]


async def known_lists(store: "Store", workspace: str, names: Sequence[str]) -> dict[str, int]:
    """Return the IDs of the given lists that exist."""
    rows = await store.fetch(
        "SELECT id, name FROM fairpost.lists WHERE workspace = $1 AND name = ANY ($2)", workspace, list(names)
    )
    return {row["name"]: row["id"] for row in rows}


async def find_campaign(store: "Store", workspace: str, name: str) -> Campaign | None:
    row = await store.row(f"{_CAMPAIGN} WHERE c.workspace = $1 AND c.name = $2", workspace, name)
    return _campaign(row) if row else None


async def exists(store: "Store", workspace: str, name: str) -> bool:
    sql = "SELECT EXISTS (SELECT FROM fairpost.campaigns WHERE workspace = $1 AND name = $2)"
    return bool(await store.value(sql, workspace, name))


async def campaign_named(store: "Store", workspace: str, name: str) -> Campaign:
    found = await find_campaign(store, workspace, name)
    if found is None:
        raise Unknown("campaign.unknown", name=name, workspace=workspace)
    return found


async def campaign_by_id(store: "Store", campaign_id: int) -> Campaign:
    return _campaign(await store.row(f"{_CAMPAIGN} WHERE c.id = $1", campaign_id))


async def campaigns(
    store: "Store", workspace: str | None = None, *, before: int | None = None, most: int = 1000
) -> list[Campaign]:
    """Return campaigns, newest first. For the next page, pass the last ID as `before`."""
    sql = f"""{_CAMPAIGN} WHERE ($1::text IS NULL OR c.workspace = $1) AND ($2::bigint IS NULL OR c.id < $2)
        ORDER BY c.id DESC LIMIT $3"""
    rows = await store.fetch(sql, workspace, before, most)
    return [_campaign(row) for row in rows]


async def campaigns_before(
    store: "Store", workspace: str, before: tuple[datetime, str] | None, *, most: int
) -> list[Campaign]:
    """Return campaigns, newest first. `before` is the creation time and name of the last campaign on the previous page."""
    made_at, name = before or (None, None)
    rows = await store.fetch(
        f"""{_CAMPAIGN} WHERE c.workspace = $1 AND ($2::timestamptz IS NULL OR (c.created_at, c.name) < ($2, $3))
            ORDER BY c.created_at DESC, c.name DESC LIMIT $4""",
        *(workspace, made_at, name, most),
    )
    return [_campaign(row) for row in rows]


async def remove_draft(store: "Store", campaign: Campaign) -> bool:
    """Remove a draft and everything that belongs only to it.

    Return False if the campaign is no longer a draft, because launched campaigns are kept.
    """
    async with store.together() as one:
        sql = "DELETE FROM fairpost.campaigns WHERE id = $1 AND state = 'draft' RETURNING true"
        is_gone = bool(await one.value(sql, campaign.id))
        if is_gone:
            await _remove_own(one, campaign)
    return is_gone


async def _remove_own(store: "Store", campaign: Campaign) -> None:
    """Remove the sequence that was created for this campaign, along with the templates that were created for that
    sequence.
    """
    rows = await store.fetch(
        """SELECT s.id, x.template_id FROM fairpost.sequences s JOIN fairpost.sequence_steps x ON x.sequence_id = s.id
           WHERE s.workspace = $1 AND s.name = $2 AND s.is_own AND NOT EXISTS (SELECT FROM fairpost.campaigns c WHERE c.sequence_id = s.id)""",
        *(campaign.workspace, campaign.name),
    )
    await store.value("DELETE FROM fairpost.sequences s WHERE s.id = ANY ($1)", [row["id"] for row in rows])
    await store.value(
        """DELETE FROM fairpost.templates t WHERE t.id = ANY ($1) AND t.is_own
           AND NOT EXISTS (SELECT FROM fairpost.sequence_steps x WHERE x.template_id = t.id)""",
        [row["template_id"] for row in rows],
    )


# ── launch and states ─────────────────────────────────────────────────────────────────────────────────────


async def launch(
    store: "Store",
    campaign: Campaign,
    steps: Sequence[LaunchStep],
    *,
    required: Sequence[str],
    zones: Sequence[str],
    skip_incomplete: bool,
    by: str,
) -> bool:
    """Launch the campaign. Return False if it is no longer a draft. Afterwards, the caller plans the campaign's
    e-mails.
    """
    written = json.dumps(
        [
            {
                "step": s.step,
                "template": s.template,
                "delay_s": s.delay_s,
                "own_subject": s.own_subject,
                "subject": s.subject,
                "text": s.text,
                "html": s.html,
                "is_template": s.is_template,
                "headers": s.header_fields.headers or None,
                "reply_to": as_json(s.header_fields.reply_to),
            }
            for s in steps
        ]
    )
    row = await store.row(
        "SELECT (fairpost.launch_campaign($1, $2, $3, $4, $5, $6, $7)).id",
        *(campaign.id, written, list(required), list(zones), skip_incomplete, by, clock.stated()),
    )
    return row["id"] is not None


async def plan_batch(store: "Store", campaign_id: int, *, most: int) -> Planned:
    row = await store.row("SELECT * FROM fairpost.plan_batch($1, $2, $3)", campaign_id, most, clock.stated())
    return Planned(**{**row, "left_out": tuple(row["left_out"])})


async def planning(store: "Store", campaign: Campaign) -> Planning:
    row = await store.row(
        """SELECT c.scheduled, c.prospects, c.left_out, c.planned_at IS NOT NULL AS is_done,
                  (SELECT count(*) FROM fairpost.campaign_steps s WHERE s.campaign_id = c.id) AS steps
           FROM fairpost.campaigns c WHERE c.id = $1""",
        campaign.id,
    )
    return Planning(**row)


async def replan(store: "Store", campaign_id: int, zones: Sequence[str] = ()) -> bool:
    """Restart planning from the first prospect, to include recipients who were added in the meantime. Return False if
    the campaign is not running.
    """
    return bool(await store.value("SELECT fairpost.replan($1, $2)", campaign_id, list(zones)))


async def to_plan(store: "Store") -> list[int]:
    rows = await store.fetch(
        "SELECT id FROM fairpost.campaigns WHERE state IN ('scheduled', 'running') AND planned_at IS NULL ORDER BY id"
    )
    return [row["id"] for row in rows]


async def to_clear(store: "Store") -> list[int]:
    rows = await store.fetch("SELECT id FROM fairpost.campaigns WHERE state = 'cancelled' AND finished_at IS NULL")
    return [row["id"] for row in rows]


async def clear(store: "Store", campaign_id: int, *, most: int) -> bool:
    """Remove up to `most` e-mails from a cancelled campaign. Return True if none are left."""
    return bool(await store.value("SELECT fairpost.clear_campaign($1, $2, $3)", campaign_id, most, clock.stated()))


async def advance(store: "Store") -> list[tuple[str, str, CampaignState, Reason | None]]:
    """Move campaigns that are due for a transition to their next state. Return the workspace, name, new state and
    reason of each campaign that was moved.
    """
    rows = await store.fetch("SELECT * FROM fairpost.advance_campaigns($1)", clock.stated())
    return [(row["workspace"], row["name"], CampaignState(row["state"]), _reason(row)) for row in rows]


async def wrong_gates(store: "Store") -> list[str]:
    """Return the workspaces that have a gate to open or close."""
    return [
        row["workspace"]
        for row in await store.fetch("SELECT * FROM fairpost.wrong_gates($1) AS workspace", clock.stated())
    ]


async def fail_stranded(store: "Store", *, most: int) -> int:
    """Fail follow-ups whose account can no longer send them. Return how many failed."""
    return int(await store.value("SELECT fairpost.fail_stranded($1, $2)", most, clock.stated()))


async def fail_planning(store: "Store", campaign_id: int, reason: str) -> None:
    sql = "SELECT (fairpost.fail_campaign($1, $2, $3, $4)).id"
    why = Reason("campaign.planning_failed", error=reason)
    await store.value(sql, campaign_id, why.code, write_params(why), clock.stated())


async def pause(store: "Store", campaign: Campaign, *, reason: str | None, by: str) -> bool:
    """Pause the campaign. Return False if it was not in progress."""
    return bool(
        await store.value("SELECT fairpost.pause_campaign($1, $2, $3, $4)", campaign.id, reason, by, clock.stated())
    )


async def resume(store: "Store", campaign: Campaign, *, by: str) -> bool:
    """Resume the campaign. Return False if it was neither paused nor failed."""
    return bool(await store.value("SELECT fairpost.resume_campaign($1, $2, $3)", campaign.id, by, clock.stated()))


async def cancel(store: "Store", campaign: Campaign, *, reason: str | None, by: str) -> bool:
    """Cancel the campaign. Return False if it had already ended."""
    return bool(
        await store.value("SELECT fairpost.cancel_campaign($1, $2, $3, $4)", campaign.id, reason, by, clock.stated())
    )


# ── queries ───────────────────────────────────────────────────────────────────────────────────────────────


async def words_of_step(store: "Store", campaign: Campaign, number: int) -> tuple[str, str | None, str | None]:
    """Return the subject, text and HTML of a step, as launched or, before the launch, as in the current template.

    A follow-up without a subject uses the first step's subject.
    """
    row = await store.row(
        """SELECT o.subject, o.text_body, o.html_body FROM fairpost.campaign_steps x JOIN fairpost.contents o ON o.id = x.content_id
           WHERE x.campaign_id = $1 AND x.step = $2
           UNION ALL
           SELECT CASE WHEN x.own_subject THEN t.subject ELSE first.subject END, t.text_body, t.html_body
           FROM fairpost.campaigns c JOIN fairpost.sequence_steps x ON x.sequence_id = c.sequence_id JOIN fairpost.templates t ON t.id = x.template_id
           JOIN fairpost.sequence_steps y ON y.sequence_id = c.sequence_id AND y.step = 1 JOIN fairpost.templates first ON first.id = y.template_id WHERE c.id = $1 AND x.step = $2 AND c.launched_at IS NULL""",
        *(campaign.id, number),
    )
    if row is None:
        raise NotFound(f"Campaign {campaign.name} has no step {number}. It has only {len(campaign.steps)} steps.")
    return row["subject"], row["text_body"], row["html_body"]


async def header_fields_of_step(store: "Store", campaign: Campaign, number: int) -> HeaderFields:
    """Return the headers as launched or, for a draft, the headers of the campaign and the template."""
    row = await store.row(
        """SELECT true AS is_launched, jsonb_build_object('headers', o.headers, 'reply_to', o.reply_to) AS fields
           FROM fairpost.campaign_steps x JOIN fairpost.contents o ON o.id = x.content_id WHERE x.campaign_id = $1 AND x.step = $2
           UNION ALL
           SELECT false, t.header_fields FROM fairpost.campaigns c JOIN fairpost.sequence_steps x ON x.sequence_id = c.sequence_id
           JOIN fairpost.templates t ON t.id = x.template_id WHERE c.id = $1 AND x.step = $2 AND c.launched_at IS NULL""",
        *(campaign.id, number),
    )
    fields = read(row["fields"]) if row else HeaderFields()
    return fields if row and row["is_launched"] else campaign.header_fields.over(fields)


async def first_member(store: "Store", campaign: Campaign) -> str | None:
    """Return the address of the first prospect on the campaign's lists."""
    sql = """SELECT p.address FROM fairpost.prospects p JOIN fairpost.list_members m ON m.prospect_id = p.id
             WHERE m.list_id = ANY ((SELECT c.lists FROM fairpost.campaigns c WHERE c.id = $1)::bigint[]) ORDER BY p.id LIMIT 1"""
    address: str | None = await store.value(sql, campaign.id)
    return address


async def members(store: "Store", campaign: Campaign) -> int:
    """Return the number of distinct prospects on the campaign's lists."""
    sql = """SELECT count(DISTINCT m.prospect_id) FROM fairpost.list_members m
             WHERE m.list_id = ANY ((SELECT c.lists FROM fairpost.campaigns c WHERE c.id = $1)::bigint[])"""
    return int(await store.value(sql, campaign.id))


async def addresses(store: "Store", prospect_ids: Sequence[int]) -> list[str]:
    sql = "SELECT p.address FROM fairpost.prospects p WHERE p.id = ANY ($1) ORDER BY p.id"
    return [row["address"] for row in await store.fetch(sql, list(prospect_ids))]


async def next_due(store: "Store", campaign: Campaign) -> datetime | None:
    """Return the time at which the next waiting e-mail is due (possibly in the past), or None if no waiting e-mail has
    a due time.
    """
    sql = "SELECT min(q.due_at) FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.waiting AND q.due_at < 'infinity'"
    due_at: datetime | None = await store.value(sql, campaign.id)
    return due_at


async def zones(store: "Store", campaign: Campaign) -> list[str]:
    """Return the time zones of the prospects on the campaign's lists."""
    sql = """SELECT DISTINCT p.timezone FROM fairpost.list_members m JOIN fairpost.prospects p ON p.id = m.prospect_id
             WHERE m.list_id = ANY ((SELECT c.lists FROM fairpost.campaigns c WHERE c.id = $1)::bigint[]) AND p.timezone IS NOT NULL ORDER BY 1"""
    return [row["timezone"] for row in await store.fetch(sql, campaign.id)]


async def incomplete(
    store: "Store", campaign: Campaign, required: Sequence[str], *, most: int
) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """Return how many prospects on the campaign's lists lack at least one of these fields, and the first few of those
    prospects with their fields.
    """
    chosen = """FROM fairpost.prospects p WHERE EXISTS (
                    SELECT FROM fairpost.list_members m WHERE m.prospect_id = p.id
                    AND m.list_id = ANY ((SELECT c.lists FROM fairpost.campaigns c WHERE c.id = $1)::bigint[]))
                AND fairpost.lacks(p.fields, $2)"""
    rows = await store.fetch(
        f"SELECT p.address, p.fields {chosen} ORDER BY p.id LIMIT $3", campaign.id, list(required), most
    )
    count = len(rows)
    if count == most:  # there may be more than `most`, so count them all
        count = int(await store.value(f"SELECT count(*) {chosen}", campaign.id, list(required)))
    return count, [(row["address"], json.loads(row["fields"])) for row in rows]


async def lacking(store: "Store", campaign: Campaign, required: Sequence[str]) -> dict[str, int]:
    """Return how many prospects on the campaign's lists lack each of these fields. Omits fields that every prospect
    has.
    """
    rows = await store.fetch(
        """SELECT w.name, count(*) AS n FROM unnest($2::text[]) w(name) JOIN fairpost.prospects p ON fairpost.lacks(p.fields, ARRAY[w.name])
           WHERE EXISTS (SELECT FROM fairpost.list_members m WHERE m.prospect_id = p.id
               AND m.list_id = ANY ((SELECT c.lists FROM fairpost.campaigns c WHERE c.id = $1)::bigint[]))
           GROUP BY w.name ORDER BY n DESC, w.name""",
        *(campaign.id, list(required)),
    )
    return {row["name"]: row["n"] for row in rows}


async def progress(store: "Store", campaign: Campaign) -> Progress:
    rows = await store.fetch(
        """SELECT e.step, e.state::text, count(*) AS n FROM fairpost.emails e WHERE e.campaign_id = $1 GROUP BY 1, 2
           UNION ALL
           SELECT q.step, CASE WHEN q.state <> 'waiting' THEN q.state::text WHEN q.parked_due IS NOT NULL THEN 'parked'
                               WHEN q.due_at = 'infinity' THEN 'to_follow' WHEN q.due_at > coalesce($2, clock_timestamp()) THEN 'scheduled' ELSE 'ready' END, count(*)
           FROM fairpost.queue q WHERE q.campaign_id = $1 GROUP BY 1, 2""",
        *(campaign.id, clock.stated()),
    )
    counted = await store.row(
        """SELECT c.scheduled, c.left_out, greatest(0, (c.prospects - c.left_out) * (SELECT count(*) FROM fairpost.campaign_steps s WHERE s.campaign_id = c.id) - c.scheduled) AS skipped
           FROM fairpost.campaigns c WHERE c.id = $1""",
        campaign.id,
    )
    by_step: dict[int, Counter[str]] = {}
    for row in rows:
        by_step.setdefault(row["step"], Counter())[row["state"]] += row["n"]
    return Progress(
        **counted, members=await members(store, campaign), by_step={step: by_step[step] for step in sorted(by_step)}
    )


async def receipts(
    store: "Store",
    campaign: Campaign,
    *,
    states: Sequence[str],
    prospect_id: int | None = None,
    after: int = 0,
    most: int | None = None,
) -> AsyncIterator[Receipt]:
    """Yield the outcomes of e-mails in these states, ordered by ID, for all prospects or for one.

    If `most` is None, all pages are read.
    """
    sql = "SELECT * FROM fairpost.receipts($1, $2, $3, $4, $5, $6)"
    left = most
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = await store.fetch(sql, campaign.id, list(states), after, size, prospect_id, clock.stated())
        for row in rows:
            yield Receipt(**{**{k: v for k, v in row.items() if k != "reason_params"}, "reason": _reason(row)})
        if len(rows) < size:
            return
        after = rows[-1]["email_id"]
        left = None if left is None else left - len(rows)


async def still_to_send(store: "Store", campaign: Campaign) -> StillToSend:
    """Return the waiting e-mails, and the prospects on the campaign's lists that have no e-mails. Paused prospects are
    omitted.
    """
    rows = await store.fetch(
        """SELECT substr(q.route, 2) AS account, q.step::integer, to_timestamp(floor(extract(epoch FROM min(q.due_at)) / 600) * 600) AS due_at, count(*)::integer AS count
           FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.due_at < 'infinity' AND q.step > 1
           GROUP BY q.route, q.step, floor(extract(epoch FROM q.due_at) / 600)""",
        campaign.id,
    )
    recipients = await store.value(
        """SELECT (SELECT count(*) FROM fairpost.queue q WHERE q.campaign_id = $1 AND q.due_at < 'infinity' AND q.step = 1 AND q.state <> 'in_doubt')
                + CASE WHEN c.planned_at IS NOT NULL OR c.state NOT IN ('draft', 'scheduled', 'running', 'paused') THEN 0 ELSE
                  (SELECT count(DISTINCT m.prospect_id) FROM fairpost.list_members m JOIN fairpost.prospects p ON p.id = m.prospect_id
                   WHERE m.list_id = ANY (c.lists) AND m.prospect_id > c.planned_through AND NOT p.is_paused) END
           FROM fairpost.campaigns c WHERE c.id = $1""",
        campaign.id,
    )
    return StillToSend(recipients=recipients, pending=tuple(PendingSteps(**row) for row in rows))


async def sent_by_hour(store: "Store", campaign: Campaign) -> list[tuple[datetime, int]]:
    rows = await store.fetch(
        """SELECT fairpost.hour_of(e.finished_at) AS hour, count(*) AS n FROM fairpost.emails e
           WHERE e.campaign_id = $1 AND e.state = 'sent' GROUP BY 1 ORDER BY 1""",
        campaign.id,
    )
    return [(row["hour"], row["n"]) for row in rows]


async def keep_forecast(store: "Store", campaign: Campaign, written: str) -> None:
    sql = "UPDATE fairpost.campaigns SET forecast = $2 WHERE id = $1 AND forecast IS NULL"
    await store.value(sql, campaign.id, written)


async def kept_forecast(store: "Store", campaign: Campaign) -> str | None:
    text: str | None = await store.value("SELECT forecast FROM fairpost.campaigns WHERE id = $1", campaign.id)
    return text


async def retry(store: "Store", ids: Sequence[EmailId]) -> int:
    """Retry e-mails that failed, and start e-mails that were never started. Return the number of e-mails that are now
    waiting.
    """
    sql = """SELECT count(*) FROM (SELECT fairpost.retry(w.id, $2, true) AS state FROM unnest($1::bigint[]) w(id)) r WHERE r.state = 'waiting'"""
    return int(await store.value(sql, list(ids), clock.stated()))


async def stop(store: "Store", prospect_id: int, campaign: Campaign | None, *, reason: str) -> int:
    """Stop sending to a prospect, in one campaign or in all campaigns. Return how many e-mails were cancelled."""
    sql = "SELECT fairpost.stop_prospect($1, $2, $3, $4)"
    return int(await store.value(sql, prospect_id, campaign.id if campaign else None, reason, clock.stated()))


def _reason(row: Any) -> Reason | None:
    return stored_reason(row["reason"], row["reason_params"])


def _campaign(row: Any) -> Campaign:
    steps = zip(row["steps_templates"] or (), row["steps_delays"] or (), row["steps_own_subjects"] or (), strict=True)
    return Campaign(
        id=row["id"],
        workspace=row["workspace"],
        name=row["name"],
        state=CampaignState(row["state"]),
        reason=_reason(row),
        sequence=row["sequence"],
        sequence_id=row["sequence_id"],
        steps=tuple(Step(template=name, delay_s=delay_s, own_subject=own) for name, delay_s, own in steps),
        lists=tuple(row["list_names"]),
        route=row["route"],
        gap=Gap(min_s=row["gap_min_s"], max_s=row["gap_max_s"]) if row["gap_max_s"] is not None else None,
        by_recipients_clock=row["by_recipients_clock"],
        has_footer=row["has_footer"],
        user=row["user_name"],
        labels=json.loads(row["labels"] or "{}"),
        header_fields=read(row["header_fields"]),
        created_at=row["created_at"],
        starts_at=row["starts_at"],
        launched_at=row["launched_at"],
        planned_at=row["planned_at"],
        finished_at=row["finished_at"],
    )
