"""Renders campaign content for a recipient: one e-mail, or all subjects on a page."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fairpost.model.ids import EmailId
from fairpost.observe.emails import ListedEmail, ShownEmail, fields_of
from fairpost.store.store import Store
from fairpost.templates.reader import OPENING, TemplateError
from fairpost.templates.rendering import Rendered, Template, Unrenderable, compile_template

FILLED_MAX = 50  # maximum number of subjects to render on each page

Subjects = Mapping[EmailId, str]


def filled(email: ShownEmail) -> Rendered | None:
    """Returns the rendered content, or None if the content is no longer stored or the fields do not match it."""
    if email.subject is None:
        return None
    words = Template(subject=email.subject, text=email.text, html=email.html)
    return _rendered(words, email.recipients[0].address, email.fields)


def words_of(email: ShownEmail) -> tuple[str | None, str | None]:
    """The subject and text as the recipient sees them, or as stored if the fields do not match."""
    said = filled(email) if email.has_places else None
    return (said.subject, said.text) if said else (email.subject, email.text)


async def filled_subjects(store: Store, emails: Sequence[ListedEmail]) -> Subjects:
    """Renders campaign e-mail subjects that contain placeholders, using one query."""
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
