"""Shows a campaign e-mail as a prospect would receive it, before it is sent."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fairpost.campaigns.footers import FIELD, with_footer
from fairpost.campaigns.subjects import subjects_of
from fairpost.compose.message import compose, prepare
from fairpost.model.campaign import Campaign
from fairpost.model.email import Bulk, Content, Mailbox, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.mailbox import HeaderFields
from fairpost.model.prospect import Prospect
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.model.unsubscribe import PATH, base_of
from fairpost.quality.check import check
from fairpost.quality.findings import Finding
from fairpost.quality.reading import read
from fairpost.store import campaigns
from fairpost.store.header_fields import raw
from fairpost.store.store import Store
from fairpost.templates.rendering import Rendered, Template, compile_template

NO_ACCOUNT = Mailbox(address="nobody@localhost")  # the sender in a preview if there is no account


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    step: int
    sender: Mailbox
    to: str
    said: Rendered
    content: Content
    raw: bytes  # the complete message
    findings: tuple[Finding, ...] = ()  # problems that receivers may penalize, and checks that the e-mail passes
    is_subject_inherited: bool = False  # inherited from the first step
    leaves_thread: bool = False  # leaves the thread in Gmail because its subject differs


async def preview(
    store: Store, campaign: Campaign, number: int, prospect: Prospect, *, now: datetime, public_url: str = ""
) -> Preview:
    """Returns a preview of one e-mail, in which the unsubscribe link has no effect. Raises Unrenderable if a field is
    missing.
    """
    subject, text, html = await campaigns.words_of_step(store, campaign, number)
    base = base_of(public_url)
    link = f"{base.rstrip('/')}{PATH}/preview" if base else None
    said = await asyncio.to_thread(_said, Template(subject=subject, text=text, html=html), prospect, link)
    if campaign.has_footer and link is not None:
        text, html = with_footer(said.text, said.html, url=link)
        said = replace(said, text=text, html=html)
    accounts = await store.accounts(serving=[campaign.route])
    sender = Mailbox(address=accounts[0].address, name=accounts[0].display_name) if accounts else NO_ACCOUNT
    content = _content(said, await campaigns.header_fields_of_step(store, campaign, number))
    message = compose(_outgoing(campaign, prospect, content, link), prepare(content), sender=sender, date=now)
    subjects = await subjects_of(store, campaign)
    return Preview(
        step=number,
        sender=sender,
        to=prospect.address,
        said=said,
        content=content,
        raw=message.data,
        findings=await asyncio.to_thread(_findings, message.data),
        is_subject_inherited=number in subjects.inherited,
        leaves_thread=number in subjects.leaving,
    )


def trial_email(shown: Preview, campaign: Campaign, to: str) -> dict[str, Any]:
    """Returns a test e-mail for the queue. The test e-mail has the same content and uses the same accounts, but is sent
    immediately, to another address. The test e-mail does not count as a step of the campaign.
    """
    through = {"account": campaign.route[1:]} if campaign.route.startswith("@") else {"pool": campaign.route}
    return {
        "workspace": campaign.workspace,
        "to": to,
        "subject": shown.said.subject,
        **({"text": shown.said.text} if shown.said.text is not None else {}),
        **({"html": shown.said.html} if shown.said.html is not None else {}),
        **raw(HeaderFields(headers=shown.content.headers, reply_to=shown.content.reply_to)),
        "class": "urgent",
        **through,
    }


def _findings(raw_message: bytes) -> tuple[Finding, ...]:
    return check(raw_message, read(raw_message), is_sent=False).findings


def _said(template: Template, prospect: Prospect, link: str | None) -> Rendered:
    own = {FIELD: link} if link else {}
    return compile_template(template).render({"email": prospect.address, **prospect.fields, **own})


def _content(said: Rendered, fields: HeaderFields) -> Content:
    return Content(
        id=None,
        subject=said.subject,
        text=said.text,
        html=said.html,
        reply_to=fields.reply_to,
        headers=fields.headers,
    )


def _outgoing(campaign: Campaign, prospect: Prospect, content: Content, link: str | None) -> Outgoing:
    return Outgoing(
        bulk=Bulk(campaign=campaign.name, unsubscribe_url=link, is_one_to_one=not campaign.has_footer),
        id=EmailId(0),
        workspace=campaign.workspace,
        email_class=EmailClass.BULK,
        on_doubt=DoubtPolicy.HOLD,
        attempts=0,
        attempts_max=1,
        sender=None,
        recipients=(Recipient(kind="to", address=prospect.address),),
        envelope=(prospect.address,),
        fields={},
        content=content,
    )
