"""A campaign's words with the fields of one recipient in their places."""

from dataclasses import replace

from fairpost.model.email import Outgoing
from fairpost.templates.rendering import Template, compile_template


def personal(email: Outgoing) -> Outgoing:
    """As it goes out. Raises Unrenderable where his fields do not fit: nothing but a person can mend that."""
    content = email.content
    if not content.is_template:
        return email
    compiled = compile_template(Template(subject=content.subject, text=content.text, html=content.html))
    said = compiled.render({"email": email.recipients[0].address, **email.fields})
    words = replace(content, id=None, subject=said.subject, text=said.text, html=said.html, is_template=False)
    return replace(email, content=words)
