"""Templates: e-mail content, which is checked before it is stored."""

import asyncio

from fastapi import Response, status
from pydantic import JsonValue

from fairpost.actions import templates as actions
from fairpost.api.access import WRITING, Caller, Manages, Reads
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Page, Removed, failures
from fairpost.api.errors import ApiError, invalid, not_found
from fairpost.api.pages import Cursor, Limit, name_at, page_of
from fairpost.api.routes.prospects import prospect_at
from fairpost.api.routing import Router
from fairpost.api.shapes.emails import MailboxOut
from fairpost.api.shapes.templates import (
    FilledTemplate,
    TemplateIn,
    TemplateItem,
    TemplateName,
    TemplateOut,
    TemplatePreviewIn,
)
from fairpost.campaigns.launching import ALWAYS_KNOWN
from fairpost.model.errors import NotFound
from fairpost.model.prospect import Prospect
from fairpost.store import templates
from fairpost.store.store import Store
from fairpost.store.templates import StoredTemplate
from fairpost.templates.rendering import MissingFields, Template, Unrenderable, compile_template
from fairpost.templates.samples import sample_of

TAG = {"name": "templates", "description": "E-mail content with fields that are filled in for each recipient."}
router = Router(prefix="/v1/templates", tags=["templates"])

SAMPLE_ADDRESS = "ada@example.com"


@router.get("", summary="List templates by name", responses=failures())
async def list_templates(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> Answer[Page[TemplateItem]]:
    found = await templates.templates_after(caller.store, caller.workspace, name_at(cursor) or "", most=limit + 1)
    return page_of(found, limit, shown=TemplateItem.model_validate, place=lambda each: each.name)


@router.get("/{name}", summary="Get a template: its content and its fields", responses=failures("not_found"))
async def get_template(name: TemplateName, caller: Reads) -> Answer[TemplateOut]:
    return Answer(data=await _out(await named(caller.store, caller, name)))


@router.put(
    "/{name}",
    summary="Create or replace a template",
    description="Launched campaigns keep the content they were launched with.",
    responses={
        201: {"model": Answer[TemplateOut], "description": "The template was created."},
        **failures("conflict"),
    },
    dependencies=WRITING,
)
async def put_template(
    name: TemplateName, template: TemplateIn, caller: Manages, response: Response
) -> Answer[TemplateOut]:
    parts = template.model_dump(include=set(actions.PARTS))
    headers = template.model_dump(include=set(actions.HEADER_FIELDS), exclude_none=True)
    named_ = {"workspace": caller.workspace, "name": name}
    asked = actions.PutTemplate(**named_, parts=parts, header_fields=headers, is_whole=True)
    done = await act(caller, actions.put, asked)
    response.status_code = status.HTTP_201_CREATED if done.is_new else status.HTTP_200_OK
    return Answer(data=await _out(done.after))


@router.delete("/{name}", summary="Delete a template that is not in use", responses=failures("not_found", "conflict"))
async def delete_template(name: TemplateName, caller: Manages) -> Answer[Removed]:
    await act(caller, actions.remove, actions.Named(workspace=caller.workspace, name=name))
    return Answer(data=Removed())


@router.post(
    "/{name}/preview",
    summary="Render a template for a recipient",
    responses=failures("not_found"),
    dependencies=WRITING,
)
async def preview_template(
    name: TemplateName, caller: Reads, given: TemplatePreviewIn | None = None
) -> Answer[FilledTemplate]:
    given = given or TemplatePreviewIn()
    if given.prospect is not None and given.values is not None:
        raise invalid("prospect", "cannot be combined with values")
    prospect = None if given.prospect is None else await prospect_at(caller.store, caller, given.prospect)
    template = await _good(given.words) if given.words else _words(await named(caller.store, caller, name))
    return Answer(data=await asyncio.to_thread(_filled, template, given.values, prospect))


async def _good(given: TemplateIn) -> Template:
    said = Template(subject=given.subject, text=given.text, html=given.html)
    await actions.require_good(said, "words.")
    return said


async def named(store: Store, caller: Caller, name: str) -> StoredTemplate:
    try:
        return await templates.template_named(store, caller.workspace, name)
    except NotFound:
        raise not_found("template", name) from None


def unfilled(error: Unrenderable, place: str) -> ApiError:
    """Returns the error for missing fields. `place` is the part of the request from which the fields are missing."""
    names = error.names if isinstance(error, MissingFields) else ()
    return ApiError(
        "invalid",
        f"{place}: {error}",
        details=[{"field": f"{place}.{name}", "message": "is missing"} for name in names]
        or [{"field": place, "message": str(error)}],
    )


def _words(template: StoredTemplate) -> Template:
    return Template(subject=template.subject, text=template.text, html=template.html)


def _filled(template: Template, given: dict[str, JsonValue] | None, prospect: Prospect | None) -> FilledTemplate:
    compiled = compile_template(template)
    known = {"email": prospect.address, **prospect.fields} if prospect else sample_of(compiled)
    try:
        said = compiled.render({"email": SAMPLE_ADDRESS, **(known if given is None else given)})
    except Unrenderable as error:
        raise unfilled(error, "prospect" if prospect else "values") from None
    names = {path.partition(".")[0] for path in compiled.fields} if given is None else ()
    return FilledTemplate(
        subject=said.subject,
        text=said.text,
        html=said.html,
        required=sorted(compiled.required - ALWAYS_KNOWN),
        optional=sorted(compiled.optional - ALWAYS_KNOWN),
        values={name: known[name] for name in sorted(names) if name in known},
    )


async def _out(template: StoredTemplate) -> TemplateOut:
    # Runs in a thread, because compiling a long template takes a moment.
    compiled = await asyncio.to_thread(compile_template, _words(template))
    reply_to = template.header_fields.reply_to
    return TemplateOut(
        name=template.name,
        subject=template.subject,
        text=template.text,
        html=template.html,
        reply_to=MailboxOut.model_validate(reply_to) if reply_to else None,
        headers=dict(template.header_fields.headers),
        required=sorted(compiled.required - ALWAYS_KNOWN),
        optional=sorted(compiled.optional - ALWAYS_KNOWN),
        created_at=template.created_at,
        changed_at=template.changed_at,
        sequences=list(template.sequences),
    )
