"""The product's own e-mails by portal and type: read, customize and send them in a workspace."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response, status

from fairpost.actions import portals as actions
from fairpost.api.access import WRITING, Caller, Manages, Reads, Sends
from fairpost.api.acting import act
from fairpost.api.answers import Answer, Removed, failures
from fairpost.api.errors import ApiError, not_found
from fairpost.api.routes.emails import KNOWN_BEFORE, hand_in
from fairpost.api.routing import Router
from fairpost.api.service import Service, TheService
from fairpost.api.shapes.emails import Accepted, IdempotencyKey
from fairpost.api.shapes.portals import PortalItem, PortalPath, PortalPreviewIn, PortalSend, TypePath, WordsIn, WordsOut
from fairpost.api.shapes.templates import TemplatePreview
from fairpost.auth.mails import ADMIN_PORTAL
from fairpost.model.errors import FairpostError
from fairpost.portals.folder import BrokenTemplates
from fairpost.portals.template import PortalTemplate, Words
from fairpost.portals.workspace import Override, WorkspacePortals
from fairpost.store.store import Store
from fairpost.system import clock

TAG = {"name": "portals", "description": "The product's own e-mails, such as welcome messages, codes and invitations."}
router = Router(prefix="/v1/portals", tags=["portals"])


@router.get("", summary="List the product e-mails, and which of them the workspace has replaced", responses=failures())
async def list_portal_templates(caller: Reads, service: TheService) -> Answer[list[PortalItem]]:
    desk = WorkspacePortals(caller.store, service.mail.portals, kept=service.kept[caller.region])
    own = {(each.stored.portal, each.stored.type): each for each in await desk.overrides(caller.workspace)}
    return Answer(
        data=[
            _item(each, own.get((each.portal.key, each.type)))
            for each in desk.portals.list()
            if _is_for(caller, each.portal.key)
        ]
    )


@router.get("/{portal}/{type}", summary="Get the content in use for a product e-mail", responses=failures("not_found"))
async def get_portal_template(
    portal: PortalPath,
    type: TypePath,  # noqa: A002
    caller: Reads,
    service: TheService,
) -> Answer[WordsOut]:
    return Answer(
        data=_told(
            portal, type, await _desk(caller.store, caller, service, portal).words(caller.workspace, portal, type)
        )
    )


@router.put(
    "/{portal}/{type}",
    status_code=status.HTTP_201_CREATED,
    summary="Replace the content of a product e-mail in this workspace",
    responses={
        200: {"model": Answer[WordsOut], "description": "The content had already been replaced."},
        **failures("not_found"),
    },
    dependencies=WRITING,
)
async def put_portal_template(
    portal: PortalPath,
    type: TypePath,  # noqa: A002
    given: WordsIn,
    caller: Manages,
    service: TheService,
    response: Response,
) -> Answer[WordsOut]:
    asked = actions.OverridePortal(**_named(caller, service, portal, type), parts=given.model_dump())
    done = await act(caller, actions.override, asked)
    if not done.saved.is_new:
        response.status_code = status.HTTP_200_OK
    return Answer(data=_told(portal, type, done.words, [str(each) for each in done.saved.warnings]))


@router.delete(
    "/{portal}/{type}", summary="Restore the original content of a product e-mail", responses=failures("not_found")
)
async def reset_portal_template(
    portal: PortalPath,
    type: TypePath,  # noqa: A002
    caller: Manages,
    service: TheService,
) -> Answer[Removed]:
    removed = await act(caller, actions.reset, actions.NamedPortal(**_named(caller, service, portal, type)))
    return Answer(data=Removed(removed=removed))


@router.post(
    "/{portal}/{type}/preview",
    summary="Render a product e-mail",
    responses=failures("not_found"),
    dependencies=WRITING,
)
async def preview_portal_template(
    portal: PortalPath,
    type: TypePath,  # noqa: A002
    given: PortalPreviewIn,
    caller: Reads,
    service: TheService,
) -> Answer[TemplatePreview]:
    desk = _desk(caller.store, caller, service, portal)
    if given.words is None:
        template = await desk.template(caller.workspace, portal, type)
    else:
        try:
            template = await desk.reworded(caller.workspace, portal, type, _said(given.words))
        except BrokenTemplates as broken:
            raise actions.broken(broken, "words.") from None
    return Answer(data=await asyncio.to_thread(_rendered, template, {**template.sample, **given.values}))


@router.post(
    "/{portal}/{type}/send",
    status_code=status.HTTP_201_CREATED,
    summary="Send a product e-mail",
    responses={**KNOWN_BEFORE, **failures("not_found", "quota_reached", "idempotency_key_reused")},
)
async def send_portal_email(
    portal: PortalPath,
    type: TypePath,  # noqa: A002
    given: PortalSend,
    caller: Sends,
    service: TheService,
    response: Response,
    key: IdempotencyKey = None,
) -> Answer[Accepted]:
    template = await _desk(caller.store, caller, service, portal).template(caller.workspace, portal, type)
    said = await asyncio.to_thread(_rendered, template, given.values)
    email = given.model_dump(by_alias=True, exclude_none=True, mode="json", exclude={"values"})
    email = {**template.envelope, **email, "subject": said.subject}
    email |= {
        name: part
        for name, part in (("text", said.text), ("html", said.html), ("idempotency_key", key))
        if part is not None
    }
    if template.expires_after is not None:
        email["expires_at"] = (clock.now() + template.expires_after).isoformat()
    asked = {"portal": portal, "type": type, **given.model_dump(by_alias=True, exclude_none=True, mode="json")}
    return await hand_in(caller, service, email, response, request=asked)


def _is_for(caller: Caller, portal: str) -> bool:
    """Returns whether the caller can use a portal. Only admins can use the portal for the operator's own e-mails."""
    return portal != ADMIN_PORTAL or caller.is_operator


def _desk(store: Store, caller: Caller, service: Service, portal: str) -> WorkspacePortals:
    """Returns the portal's templates in the caller's workspace. Raises ApiError if the caller cannot use the portal."""
    if not _is_for(caller, portal):
        raise not_found("portal", portal)
    return WorkspacePortals(store, service.mail.portals, kept=service.kept[caller.region])


def _named(caller: Caller, service: Service, portal: str, mail_type: str) -> dict[str, Any]:
    kept = service.kept[caller.region]
    return {
        "workspace": caller.workspace,
        "portal": portal,
        "type": mail_type,
        "portals": service.mail.portals,
        "kept": kept,
    }


def _item(template: PortalTemplate, own: Override | None) -> PortalItem:
    return PortalItem(
        portal=template.portal.key,
        type=template.type,
        fields=sorted(template.fields),
        is_urgent=template.is_urgent,
        is_overridden=own is not None,
        changed_at=own.stored.changed_at if own else None,
        problem=own.problem if own else None,
    )


def _rendered(template: PortalTemplate, values: Mapping[str, object]) -> TemplatePreview:
    try:
        said = template.render(values)
    except FairpostError as error:
        raise ApiError("invalid", str(error), details=[{"field": "values", "message": str(error)}]) from None
    return TemplatePreview.model_validate(said)


def _said(given: WordsIn) -> Words:
    return Words(subject=given.subject, preheader=given.preheader, text=given.text, html=given.html)


def _told(portal: str, mail_type: str, said: Words, warnings: Sequence[str] = ()) -> WordsOut:
    return WordsOut(
        portal=portal,
        type=mail_type,
        subject=said.subject,
        preheader=said.preheader,
        text=said.text,
        html=said.html,
        warnings=list(warnings),
    )
