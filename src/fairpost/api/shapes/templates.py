"""Templates and their previews in requests and responses."""

from typing import Annotated

from fastapi import Path
from pydantic import Field, JsonValue

from fairpost.api.answers import Moment, Name, RequestModel, ResponseModel, Text
from fairpost.api.shapes.emails import Address, HeaderName, HeaderValue, MailboxOut
from fairpost.model.email_fields import BY_NAME
from fairpost.templates.reader import TEMPLATE_CHARS_MAX

TemplateName = Annotated[Name, Path(alias="name", description="The template's name.")]
Words = Annotated[Text, Field(max_length=TEMPLATE_CHARS_MAX)]
Subject = Annotated[Text, Field(max_length=BY_NAME["subject"].chars_max)]


class TemplateIn(RequestModel):
    """The text, the HTML, or both."""

    subject: Annotated[Subject, Field(examples=['Hello {{ first_name or "there" }}'])]
    text: Words | None = None
    html: Words | None = None
    reply_to: Annotated[
        Address | None, Field(description="The Reply-To address of the e-mails, unless the campaign has its own.")
    ] = None
    headers: Annotated[
        dict[HeaderName, HeaderValue] | None,
        Field(description="Additional headers for the e-mails. The campaign's headers replace them."),
    ] = None


class TemplateItem(ResponseModel):
    name: str
    subject: str
    has_text: bool
    has_html: bool
    created_at: Moment
    changed_at: Moment
    sequences: Annotated[list[str], Field(description="Sequences that use the template.")]


class TemplateOut(ResponseModel):
    name: str
    subject: str
    text: str | None
    html: str | None
    reply_to: MailboxOut | None
    headers: dict[str, str]
    required: Annotated[list[str], Field(description="Required fields.")]
    optional: Annotated[list[str], Field(description="Fields that have a fallback or are used in `if`.")]
    created_at: Moment
    changed_at: Moment
    sequences: Annotated[list[str], Field(description="Sequences that use the template.")]


class TemplatePreviewIn(RequestModel):
    values: Annotated[
        dict[Text, JsonValue] | None, Field(description="The fields of a recipient. [default: example values]")
    ] = None
    prospect: Annotated[
        Text | None, Field(max_length=500, description="The address of a prospect whose fields are used instead.")
    ] = None
    words: Annotated[
        TemplateIn | None,
        Field(description="Content to preview instead of the stored template. The template does not have to exist."),
    ] = None


class TemplatePreview(ResponseModel):
    subject: str
    text: str | None
    html: str | None


class FilledTemplate(TemplatePreview):
    required: Annotated[list[str], Field(description="Required fields.")]
    optional: Annotated[list[str], Field(description="Fields that have a fallback or are used in `if`.")]
    values: Annotated[dict[str, JsonValue], Field(description="The example values that were used for missing fields.")]
