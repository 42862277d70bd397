"""A campaign's words with the fields of one recipient in their places."""

from dataclasses import replace

from fairpost.model.email import Outgoing
from fairpost.model.report import Reached, Report
from fairpost.templates.rendering import Template, TemplateError, Unrenderable, compile_template


def personal(email: Outgoing) -> Outgoing | Report:
    """As it goes out; a report where his fields do not fit, which nothing but a person can mend."""
    content = email.content
    if not content.is_template:
        return email
    try:
        compiled = compile_template(Template(subject=content.subject, text=content.text, html=content.html))
        said = compiled.render({"email": email.recipients[0].address, **email.fields})
    except (Unrenderable, TemplateError) as error:
        return Report(reached=Reached.UNSENDABLE, error=str(error))
    words = replace(content, id=None, subject=said.subject, text=said.text, html=said.html, is_template=False)
    return replace(email, content=words)
