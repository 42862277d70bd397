"""A workspace's templates and sequences, by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fairpost.model.campaign import Step
from fairpost.model.errors import Refusal, Unknown
from fairpost.model.mailbox import HeaderFields
from fairpost.store.header_fields import read, written
from fairpost.system import clock

if TYPE_CHECKING:
    from fairpost.store.store import Store

NO_HEADERS = HeaderFields()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTemplate:
    id: int
    workspace: str
    name: str
    subject: str
    text: str | None
    html: str | None
    created_at: datetime
    changed_at: datetime
    sequences: tuple[str, ...] = ()  # sequences that use this template
    header_fields: HeaderFields = field(default_factory=HeaderFields)  # headers for its e-mails


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTemplate:
    """A template without its content, which may be long."""

    name: str
    subject: str
    has_text: bool
    has_html: bool
    created_at: datetime
    changed_at: datetime
    sequences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSequence:
    id: int
    workspace: str
    name: str
    steps: tuple[Step, ...]
    created_at: datetime
    campaigns: tuple[str, ...] = ()  # campaigns that send this sequence
    is_launched: bool = False  # at least one campaign has been launched, so the steps can no longer change


_TEMPLATE = """
    SELECT t.id, t.workspace, t.name, t.subject, t.text_body AS text, t.html_body AS html, t.created_at, t.changed_at, t.header_fields,
           ARRAY(SELECT DISTINCT s.name FROM fairpost.sequence_steps x JOIN fairpost.sequences s ON s.id = x.sequence_id
                 WHERE x.template_id = t.id ORDER BY 1) AS sequences
    FROM fairpost.templates t"""

_SEQUENCE = """
    SELECT s.id, s.workspace, s.name, s.created_at,
           ARRAY(SELECT t.name FROM fairpost.sequence_steps x JOIN fairpost.templates t ON t.id = x.template_id
                 WHERE x.sequence_id = s.id ORDER BY x.step) AS templates,
           ARRAY(SELECT x.delay_s FROM fairpost.sequence_steps x WHERE x.sequence_id = s.id ORDER BY x.step) AS delays,
           ARRAY(SELECT x.own_subject AND x.step > 1 FROM fairpost.sequence_steps x WHERE x.sequence_id = s.id ORDER BY x.step) AS own_subjects,
           ARRAY(SELECT c.name FROM fairpost.campaigns c WHERE c.sequence_id = s.id ORDER BY 1) AS campaigns,
           EXISTS (SELECT FROM fairpost.campaigns c WHERE c.sequence_id = s.id AND c.launched_at IS NOT NULL) AS is_launched
    FROM fairpost.sequences s"""


async def put_template(
    store: "Store",
    workspace: str,
    name: str,
    *,
    subject: str,
    text: str | None,
    html: str | None,
    header_fields: HeaderFields = NO_HEADERS,
    is_own: bool = False,
) -> bool:
    """Store a template. Return True if the name is new.

    Launched campaigns keep the content with which they were launched. `is_own` means that the template belongs to one
    campaign. Raises Refusal if the name is taken by a template of the other kind.
    """
    is_new = await store.value(
        """INSERT INTO fairpost.templates AS t (workspace, name, subject, text_body, html_body, is_own, created_at, changed_at, header_fields)
               VALUES ($1, $2, $3, $4, $5, $7, coalesce($6::timestamptz, clock_timestamp()), coalesce($6::timestamptz, clock_timestamp()), $8)
               ON CONFLICT (workspace, name) DO UPDATE SET subject = excluded.subject, text_body = excluded.text_body,
                   html_body = excluded.html_body, changed_at = excluded.changed_at, header_fields = excluded.header_fields
               WHERE t.is_own = excluded.is_own RETURNING xmax = 0""",
        *(workspace, name, subject, text, html, clock.stated(), is_own, written(header_fields)),
    )
    if is_new is None:
        code = "campaign.template_exists" if is_own else "template.of_campaign"
        raise Refusal(code, name=name, workspace=workspace)
    return bool(is_new)


async def template_named(store: "Store", workspace: str, name: str) -> StoredTemplate:
    row = await store.row(f"{_TEMPLATE} WHERE t.workspace = $1 AND t.name = $2", workspace, name)
    if row is None:
        raise Unknown("template.unknown", name=name, workspace=workspace)
    return _template(row)


async def templates(store: "Store", workspace: str) -> list[StoredTemplate]:
    rows = await store.fetch(f"{_TEMPLATE} WHERE t.workspace = $1 ORDER BY t.name", workspace)
    return [_template(row) for row in rows]


async def templates_after(store: "Store", workspace: str, after: str = "", *, most: int) -> list[ListedTemplate]:
    """Return templates sorted by name, starting after `after`."""
    rows = await store.fetch(
        """SELECT t.name, t.subject, t.text_body IS NOT NULL AS has_text, t.html_body IS NOT NULL AS has_html, t.created_at, t.changed_at,
                  ARRAY(SELECT DISTINCT s.name FROM fairpost.sequence_steps x JOIN fairpost.sequences s ON s.id = x.sequence_id
                        WHERE x.template_id = t.id ORDER BY 1) AS sequences
           FROM fairpost.templates t WHERE t.workspace = $1 AND t.name > $2 ORDER BY t.name LIMIT $3""",
        *(workspace, after, most),
    )
    return [ListedTemplate(**{**row, "sequences": tuple(row["sequences"])}) for row in rows]


async def remove_template(store: "Store", template: StoredTemplate) -> bool:
    """Remove a template. Return False if the template is used by a sequence or is already gone."""
    sql = "DELETE FROM fairpost.templates t WHERE id = $1 AND NOT EXISTS (SELECT FROM fairpost.sequence_steps x WHERE x.template_id = t.id) RETURNING true"
    return bool(await store.value(sql, template.id))


async def put_sequence(
    store: "Store", workspace: str, name: str, steps: Sequence[Step], *, is_own: bool = False
) -> bool:
    """Store a sequence. Return True if the name is new. `is_own` means that the sequence belongs to one campaign.

    Raises Refusal if the sequence has been launched, if a sequence of the other kind already has this name, or if a
    template is missing.
    """
    result = await store.value(
        "SELECT fairpost.put_sequence($1, $2, $3, $4, $5, $6, $7)",
        *(workspace, name, [s.template for s in steps], [s.delay_s for s in steps]),
        *([s.own_subject for s in steps], clock.stated(), is_own),
    )
    match result.partition(" "):
        case "missing", _, template:
            number = [step.template for step in steps].index(template)
            raise Refusal("sequence.unknown_template", number=number, template=template, workspace=workspace)
        case "taken", _, _:
            code = "campaign.sequence_exists" if is_own else "sequence.of_campaign"
            raise Refusal(code, name=name, workspace=workspace)
        case "launched", _, campaign:
            raise Refusal("sequence.launched", name=name, workspace=workspace, campaign=campaign)
    return bool(result == "new")


async def sequence_named(store: "Store", workspace: str, name: str) -> StoredSequence:
    row = await store.row(f"{_SEQUENCE} WHERE s.workspace = $1 AND s.name = $2", workspace, name)
    if row is None:
        raise Unknown("sequence.unknown", name=name, workspace=workspace)
    return _sequence(row)


async def sequences(
    store: "Store", workspace: str, *, after: str = "", most: int | None = None
) -> list[StoredSequence]:
    """Return sequences sorted by name, starting after `after`."""
    sql = f"{_SEQUENCE} WHERE s.workspace = $1 AND s.name > $2 ORDER BY s.name LIMIT $3"
    return [_sequence(row) for row in await store.fetch(sql, workspace, after, most)]


async def remove_sequence(store: "Store", sequence: StoredSequence) -> bool:
    """Remove a sequence. Return False if the sequence is used by a campaign or is already gone."""
    sql = "DELETE FROM fairpost.sequences s WHERE id = $1 AND NOT EXISTS (SELECT FROM fairpost.campaigns c WHERE c.sequence_id = s.id) RETURNING true"
    return bool(await store.value(sql, sequence.id))


def _template(row: Any) -> StoredTemplate:
    fields = {"sequences": tuple(row["sequences"]), "header_fields": read(row["header_fields"])}
    return StoredTemplate(**{**row, **fields})


def _sequence(row: Any) -> StoredSequence:
    of_steps = zip(row["templates"], row["delays"], row["own_subjects"], strict=True)
    steps = tuple(Step(template=name, delay_s=delay_s, own_subject=own) for name, delay_s, own in of_steps)
    return StoredSequence(
        id=row["id"],
        workspace=row["workspace"],
        name=row["name"],
        steps=steps,
        created_at=row["created_at"],
        campaigns=tuple(row["campaigns"]),
        is_launched=row["is_launched"],
    )
