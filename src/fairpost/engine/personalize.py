"""Fill in a campaign's content with one recipient's fields, and add the unsubscribe line."""

from dataclasses import replace

from fairpost.campaigns.footers import FIELD, with_footer
from fairpost.model.email import Outgoing
from fairpost.templates.rendering import Template, compile_template


def personalize(email: Outgoing) -> Outgoing:
    """Return the content as it is sent. Raises Unrenderable if the recipient's fields do not fit the template."""
    content, bulk = email.content, email.bulk
    url = bulk.unsubscribe_url if bulk else None
    has_footer = bulk is not None and url is not None and not bulk.is_one_to_one
    if not content.is_template and not has_footer:
        return email
    compiled = compile_template(Template(subject=content.subject, text=content.text, html=content.html))
    link = {FIELD: url} if url is not None else {}
    said = compiled.render({"email": email.recipients[0].address, **email.fields, **link})
    text, html = (
        with_footer(said.text, said.html, url=url) if url is not None and has_footer else (said.text, said.html)
    )
    words = replace(content, id=None, subject=said.subject, text=text, html=html, is_template=False)
    return replace(email, content=words)
