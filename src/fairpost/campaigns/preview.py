"""One e-mail of a campaign as one prospect would get it, before it is sent."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairpost.campaigns.subjects import subjects_of
from fairpost.compose.message import compose, prepare
from fairpost.model.campaign import Campaign
from fairpost.model.email import Content, Mailbox, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.prospect import Prospect
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.store import campaigns
from fairpost.store.store import Store
from fairpost.templates.rendering import Rendered, Template, compile_template

NOBODY = Mailbox(address="nobody@localhost")  # where no account is there to send it


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    step: int
    sender: Mailbox
    to: str
    said: Rendered
    raw: bytes  # the whole message
    is_subject_inherited: bool = False  # from the first step
    leaves_thread: bool = False  # in Gmail, because its subject is another


async def preview(store: Store, campaign: Campaign, number: int, prospect: Prospect, *, now: datetime) -> Preview:
    """Raises Unrenderable where a field is missing, with its name."""
    subject, text, html = await campaigns.words_of_step(store, campaign, number)
    said = await asyncio.to_thread(_said, Template(subject=subject, text=text, html=html), prospect)
    accounts = await store.accounts(serving=[campaign.route])
    sender = Mailbox(address=accounts[0].address, name=accounts[0].display_name) if accounts else NOBODY
    message = compose(_outgoing(campaign, prospect, said), prepare(_content(said)), sender=sender, date=now)
    subjects = await subjects_of(store, campaign)
    return Preview(
        step=number,
        sender=sender,
        to=prospect.address,
        said=said,
        raw=message.data,
        is_subject_inherited=number in subjects.inherited,
        leaves_thread=number in subjects.leaving,
    )


def trial_email(shown: Preview, campaign: Campaign, to: str) -> dict[str, Any]:
    """For the queue: the same words to somebody else, now, through the same accounts. No step of the campaign is used up."""
    through = {"account": campaign.route[1:]} if campaign.route.startswith("@") else {"pool": campaign.route}
    return {
        "workspace": campaign.workspace,
        "to": to,
        "subject": shown.said.subject,
        **({"text": shown.said.text} if shown.said.text is not None else {}),
        **({"html": shown.said.html} if shown.said.html is not None else {}),
        "class": "urgent",
        **through,
    }


def _said(template: Template, prospect: Prospect) -> Rendered:
    return compile_template(template).render({"email": prospect.address, **prospect.fields})


def _content(said: Rendered) -> Content:
    return Content(id=None, subject=said.subject, text=said.text, html=said.html, reply_to=None, headers={})


def _outgoing(campaign: Campaign, prospect: Prospect, said: Rendered) -> Outgoing:
    return Outgoing(
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
        content=_content(said),
    )
