"""Unsubscribe links. The links need no sign-in and no cookies, because the link itself is the authorization.

A POST request unsubscribes the recipient immediately (RFC 8058), because mail providers send it on behalf of their
users. A GET request changes nothing, because scanners follow every link. The response to GET is a page whose button
posts to another path. The response to a forged link does not reveal whether a recipient exists, and a deleted
recipient's link gets the same response as any other.
"""

from html import escape
from typing import Annotated

from fastapi import Depends, Path, Response, status

from fairpost.actions import unsubscribes
from fairpost.actions.acting import Actor, Done
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.model.public_ids import Kind
from fairpost.model.unsubscribe import PATH, Subscriber, is_genuine
from fairpost.model.workspace import WorkspaceSettings
from fairpost.store.store import Store
from fairpost.store.workspace_settings import settings_of

router = Router(prefix=PATH, include_in_schema=False)

PLAIN = WorkspaceSettings()
ACCENT = "#1d5fd1"
POLICY = "Content-Security-Policy"
HEADERS = {
    POLICY: "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}
LINK = "/{region}/{workspace}/{recipient}/{mac}"
Part = Annotated[str, Path(max_length=110)]


class Known:
    """A genuine link: the store of its region, the recipient, and the workspace's title, logo and colour."""

    def __init__(
        self, store: Store, subscriber: Subscriber, mac: str, prospect_id: int, look: WorkspaceSettings
    ) -> None:
        self.store = store
        self.look = look
        self.mac = mac
        self.title = look.title or subscriber.workspace
        self._request = unsubscribes.OfRecipient(workspace=subscriber.workspace, prospect_id=prospect_id)
        self._actor = Actor(who=f"recipient {subscriber.recipient}", workspace=subscriber.workspace)

    async def unsubscribe(self) -> None:
        assert isinstance(await unsubscribes.unsubscribe(self._actor, self._request, self.store), Done)

    async def resubscribe(self) -> None:
        assert isinstance(await unsubscribes.resubscribe(self._actor, self._request, self.store), Done)


async def known(region: Part, workspace: Part, recipient: Part, mac: Part, service: TheService) -> Known | None:
    if region not in service.regions:
        return None
    store = await service.store_of(region)
    ids = await store.public_ids()
    subscriber = Subscriber(region=region, workspace=workspace, recipient=recipient)
    prospect_id = ids.private(Kind.PROSPECT, recipient)
    if not is_genuine(subscriber, mac, ids.key) or prospect_id is None:
        return None
    return Known(store, subscriber, mac, prospect_id, await settings_of(store, workspace))


TheLink = Annotated[Known | None, Depends(known)]


@router.api_route(LINK, methods=["GET", "HEAD"])  # link checkers use HEAD
async def ask(link: TheLink) -> Response:
    if link is None:
        return _not_ours()
    words = "Do you want to stop receiving these e-mails?"
    return _page(f"Unsubscribe from {link.title}", words, f"{link.mac}/confirm", "Unsubscribe", look=link.look)


@router.post(LINK)
async def one_click(link: TheLink) -> Response:
    """Unsubscribes a recipient who pressed the unsubscribe button of a mail provider. The request body is always the
    same.
    """
    if link is None:
        return _not_ours()
    await link.unsubscribe()
    return Response(status_code=status.HTTP_200_OK, headers=HEADERS, media_type="text/plain", content="Unsubscribed.\n")


@router.post(f"{LINK}/confirm")
async def confirm(link: TheLink) -> Response:
    if link is None:
        return _not_ours()
    await link.unsubscribe()
    words = f"You will no longer receive these e-mails from {link.title}."
    return _page("You are unsubscribed", words, "undo", "Undo", is_quiet=True, look=link.look)


@router.post(f"{LINK}/undo")
async def undo(link: TheLink) -> Response:
    if link is None:
        return _not_ours()
    await link.resubscribe()
    words = (
        f"You will receive e-mails from {link.title} again. E-mails that have already been cancelled will not be sent."
    )
    return _page("You are subscribed again", words, "confirm", "Unsubscribe", look=link.look)


def _not_ours() -> Response:
    words = "This link is incomplete or has been altered. Use the link in the e-mail, or reply to the e-mail."
    return _page("This link does not work", words, status_code=status.HTTP_404_NOT_FOUND)


def _page(
    title: str,
    words: str,
    action: str = "",
    button: str = "",
    *,
    is_quiet: bool = False,
    look: WorkspaceSettings = PLAIN,
    status_code: int = 200,
) -> Response:
    """Returns a page that works without scripts and loads nothing but the workspace's logo. `action` is relative to the
    page, which a proxy may serve below another path.
    """
    kind = ' class="quiet"' if is_quiet else ""
    form = (
        f'<form method="post" action="{escape(action)}"><button{kind}>{escape(button)}</button></form>'
        if action
        else ""
    )
    accent = look.accent or ACCENT
    logo, headers = "", HEADERS
    if look.logo_url is not None:
        logo = f'<img src="{escape(look.logo_url)}" alt="{escape(look.title or "")}" height="40">'
        origin = "/".join(look.logo_url.split("/", 3)[:3])
        headers = HEADERS | {POLICY: f"{HEADERS[POLICY]}; img-src {origin}"}
    html = PAGE.format(
        title=escape(title), words=escape(words), form=form, logo=logo, accent=accent, on_accent=_readable_on(accent)
    )
    return Response(html, status_code=status_code, headers=headers, media_type="text/html")


def _readable_on(colour: str) -> str:
    """Returns black or white, whichever has more contrast."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#000000" if 299 * red + 587 * green + 114 * blue > 149_000 else "#ffffff"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 0; font: 16px/1.5 system-ui, sans-serif; background: light-dark(#f4f5f7, #16181c); color: light-dark(#1b1e24, #e8eaee) }}
main {{ max-width: 26rem; margin: 12vh auto; padding: 2rem; border-radius: 12px; background: light-dark(#ffffff, #22252b) }}
img {{ display: block; max-width: 100%; margin: 0 0 1rem }}
h1 {{ margin: 0 0 .5rem; font-size: 1.25rem; overflow-wrap: anywhere }}
button {{ margin-top: 1rem; padding: .6rem 1.2rem; border: 0; border-radius: 8px; font: inherit; background: {accent}; color: {on_accent}; cursor: pointer }}
button.quiet {{ background: none; border: 1px solid currentColor; color: inherit }}
</style></head>
<body><main>{logo}<h1>{title}</h1><p>{words}</p>{form}</main></body></html>
"""
