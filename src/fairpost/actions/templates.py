"""Actions on templates and sequences: create, change and remove. A template is checked before it is stored."""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairpost.actions.acting import Actor, action
from fairpost.model.campaign import Step
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.mailbox import HeaderFields
from fairpost.store import header_fields, templates
from fairpost.store.store import Store
from fairpost.store.templates import StoredSequence, StoredTemplate
from fairpost.templates.reader import TemplateError
from fairpost.templates.rendering import Template, compile_template

T = TypeVar("T")

PARTS = ("subject", "text", "html")
HEADER_FIELDS = ("headers", "reply_to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A template or a sequence, by name."""

    workspace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTemplate(Named):
    """A request to store a template. `parts` are `subject`, `text` and `html`; None removes a part.

    `header_fields` are `headers` and `reply_to`, as in an e-mail. With `is_whole`, omitted parts and fields are
    removed; otherwise they are kept.
    """

    parts: Mapping[str, str | None]
    header_fields: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSequence(Named):
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePut:
    """A stored template. `changed` lists the parts that differ from `before`."""

    before: StoredTemplate | None
    after: StoredTemplate
    is_new: bool
    changed: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencePut:
    sequence: StoredSequence
    is_new: bool


# ── templates ─────────────────────────────────────────────────────────────────────────────────────────────


@action("template.put", in_one_commit=False)
async def put(actor: Actor, request: PutTemplate, store: Store) -> TemplatePut:
    """Stores a template. Campaigns that are already launched keep their content."""
    wanted = _merged(await _or_none(_template(store, request)), request)
    await require_good(wanted)  # done first, because it is slow and needs no connection
    async with store.together() as one:
        before = await _or_none(_template(one, request))
        kept = before.header_fields if before is not None and not request.is_whole else HeaderFields()
        headers = await _merged_headers(one, kept, request.header_fields)
        changed = [part for part in PARTS if before is None or getattr(before, part) != getattr(wanted, part)]
        old = before.header_fields if before is not None else HeaderFields()
        changed += [name for name in HEADER_FIELDS if getattr(old, name) != getattr(headers, name)]
        is_new = bool(changed) and await templates.put_template(
            *(one, request.workspace, request.name),
            subject=wanted.subject,
            text=wanted.text,
            html=wanted.html,
            header_fields=headers,
        )
        if changed:
            await _record(actor, one, "template", "add" if is_new else "change", request)
        return TemplatePut(before=before, after=await _template(one, request), is_new=is_new, changed=changed)


@action("template.remove")
async def remove(actor: Actor, request: Named, store: Store) -> None:
    template = await _template(store, request)
    if not await templates.remove_template(store, template):
        sequences = (await _template(store, request)).sequences
        raise Refusal("template.in_use", name=request.name, workspace=request.workspace, sequences=sequences)
    await _record(actor, store, "template", "remove", request)


async def require_good(template: Template, place: str = "") -> None:
    """Raises Refusal with the line and column of each mistake. `place` is the prefix for field names."""
    for part in PARTS:
        words = getattr(template, part)
        if words is not None and not words.strip():
            raise Refusal("template.empty_part", part=f"{place}{part}")
    if template.text is None and template.html is None:
        raise Refusal("template.no_body", place=place)
    mistakes = await asyncio.to_thread(lambda: list(_mistakes(template, place)))
    if mistakes:
        raise Refusal("template.broken", mistakes=mistakes)


def _mistakes(template: Template, place: str) -> Iterator[dict[str, Any]]:
    """Yields the first mistake in each part. Compiling the whole template at once would report only the first mistake
    overall.
    """
    alone = (Template(subject=template.subject), Template(subject="", text=template.text))
    for each in (*alone, Template(subject="", html=template.html)):
        try:
            compile_template(each)
        except TemplateError as error:
            yield {
                "field": f"{place}{error.part}",
                "message": error.message,
                "line": error.line,
                "column": error.column,
            }


def _merged(before: StoredTemplate | None, request: PutTemplate) -> Template:
    kept = None if request.is_whole else before
    parts = {part: request.parts.get(part, getattr(kept, part, None)) for part in PARTS}
    if parts["subject"] is None:
        raise Refusal("template.no_subject", name=request.name, workspace=request.workspace)
    return Template(subject=parts["subject"], text=parts["text"], html=parts["html"])


async def _merged_headers(store: Store, kept: HeaderFields, given: Mapping[str, Any]) -> HeaderFields:
    parsed = await header_fields.parsed(store, given)
    return HeaderFields(**{name: getattr(parsed if name in given else kept, name) for name in HEADER_FIELDS})


async def _template(store: Store, request: Named) -> StoredTemplate:
    return await templates.template_named(store, request.workspace, request.name)


# ── sequences ─────────────────────────────────────────────────────────────────────────────────────────────


@action("sequence.put")
async def put_sequence(actor: Actor, request: PutSequence, store: Store) -> SequencePut:
    """Stores a sequence, replacing all of its steps."""
    before = await _or_none(_sequence(store, request))
    is_new = await templates.put_sequence(store, request.workspace, request.name, request.steps)
    if before is None or list(before.steps) != list(request.steps):
        used = [step.template for step in request.steps]
        await _record(actor, store, "sequence", "add" if is_new else "change", request, templates=used)
    return SequencePut(sequence=await _sequence(store, request), is_new=is_new)


@action("sequence.remove")
async def remove_sequence(actor: Actor, request: Named, store: Store) -> None:
    """Removes a sequence. The sequence's templates are kept."""
    sequence = await _sequence(store, request)
    if not await templates.remove_sequence(store, sequence):
        campaigns = (await _sequence(store, request)).campaigns
        raise Refusal("sequence.in_use", name=request.name, workspace=request.workspace, campaigns=campaigns)
    await _record(actor, store, "sequence", "remove", request)


async def _sequence(store: Store, request: Named) -> StoredSequence:
    return await templates.sequence_named(store, request.workspace, request.name)


async def _or_none(found: Awaitable[T]) -> T | None:
    try:
        return await found
    except NotFound:
        return None


async def _record(actor: Actor, store: Store, what: str, verb: str, request: Named, **detail: object) -> None:
    await actor.record(store, f"{what}.{verb}", f"{what} {request.name}", workspace=request.workspace, **detail)
