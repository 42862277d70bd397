"""What a campaign says, with the fields of a recipient in their places: of one e-mail, or the subjects of a page of them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fairpost.model.ids import EmailId
from fairpost.observe.emails import ListedEmail, ShownEmail, fields_of
from fairpost.store.store import Store
from fairpost.templates.reader import OPENING, TemplateError
from fairpost.templates.rendering import Rendered, Template, Unrenderable, compile_template

FILLED_MAX = 50  # of a page, the first ones

Subjects = Mapping[EmailId, str]


def filled(email: ShownEmail) -> Rendered | None:
    """None: its words are not kept any more, or its fields do not fit."""
    if email.subject is None:
        return None
    words = Template(subject=email.subject, text=email.text, html=email.html)
    return _rendered(words, email.recipients[0].address, email.fields)


async def filled_subjects(store: Store, emails: Sequence[ListedEmail]) -> Subjects:
    """Of those that are a campaign's, and have places. One question to the database for all of them."""
    with_places = {email.id: email for email in emails[:FILLED_MAX] if email.subject and OPENING.search(email.subject)}
    if not with_places:
        return {}
    fields = await fields_of(store, list(with_places))
    return await asyncio.to_thread(_subjects, with_places, fields)


def _subjects(emails: Mapping[EmailId, ListedEmail], fields: Mapping[EmailId, Mapping[str, Any]]) -> Subjects:
    said = {
        id_: _rendered(Template(subject=emails[id_].subject or ""), emails[id_].recipients[0].address, own)
        for id_, own in fields.items()
    }
    return {id_: words.subject for id_, words in said.items() if words is not None}


def _rendered(template: Template, address: str, fields: Mapping[str, Any]) -> Rendered | None:
    try:
        return compile_template(template).render({"email": address, **fields})
    except (TemplateError, Unrenderable):
        return None
