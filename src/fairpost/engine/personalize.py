"""Fill in a campaign's content with one recipient's fields, and add the unsubscribe line."""

from dataclasses import replace

from fairpost.campaigns.footers import FIELD, with_footer
from fairpost.model.email import Outgoing
from fairpost.templates.rendering import Template, compile_template


def personal(email: Outgoing) -> Outgoing:
    """Return the content as sent. Raises Unrenderable if the recipient's fields do not fit the template."""
    content, bulk = email.content, email.bulk
    url = bulk.unsubscribe_url if bulk else None
    has_footer = bulk is not None and url is not None and not bulk.is_one_to_one
    if not content.is_template and not has_footer:
        return email
    text, html = with_footer(content.text, content.html) if has_footer else (content.text, content.html)
    compiled = compile_template(Template(subject=content.subject, text=text, html=html))
    link = {FIELD: url} if url is not None else {}
    said = compiled.render({"email": email.recipients[0].address, **email.fields, **link})
    words = replace(content, id=None, subject=said.subject, text=said.text, html=said.html, is_template=False)
    return replace(email, content=words)
