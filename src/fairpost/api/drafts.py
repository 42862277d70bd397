"""Converts a campaign request into a draft."""

from fairpost.actions.templates import require_good
from fairpost.api.access import Caller
from fairpost.api.errors import invalid
from fairpost.api.routes.sequences import delays_s
from fairpost.api.shapes.campaigns import CampaignIn, CampaignStep
from fairpost.campaigns import values
from fairpost.campaigns.file import FileStep
from fairpost.model.campaign import HUMAN_GAP, Gap
from fairpost.model.sender import RESERVED_USERS, normalize_user
from fairpost.store.campaigns import Draft
from fairpost.templates.rendering import Template


def check(given: CampaignIn) -> None:
    """Checks that the fields of a campaign request are consistent. Raises ApiError."""
    if (given.sequence is None) == (given.steps is None):
        raise invalid("sequence", "is required unless steps is given, and cannot be combined with steps")
    if given.pool is not None and given.account is not None:
        raise invalid("account", "cannot be combined with pool")
    if len(set(given.lists)) < len(given.lists):
        raise invalid("lists", "must not contain the same name twice")
    if given.gap is not None and given.gap.min_s > given.gap.max_s:
        raise invalid("gap.max_s", "must not be less than min_s")
    try:
        values.user(given.user)
    except ValueError as error:
        raise invalid("user", str(error)) from None
    if normalize_user(given.user).startswith(RESERVED_USERS):
        raise invalid("user", f"must not begin with {' or '.join(RESERVED_USERS)}")
    try:
        if given.starts_at is not None:
            values.moment(given.starts_at)
    except (ValueError, OverflowError):
        raise invalid("starts_at", f"must be between the years {values.YEARS[0]} and {values.YEARS[-1]}") from None


async def own_steps(given: CampaignIn) -> tuple[FileStep, ...] | None:
    """Returns the steps that the request itself contains. Raises Refusal for an invalid template."""
    if given.steps is None:
        return None
    return tuple(
        [
            FileStep(
                delay_s=delay_s,
                template_name=step.template,
                content=await _content(step, f"steps[{number}].", is_first=number == 0),
                own_subject=number > 0 and (step.own_subject or step.subject is not None),
            )
            for number, (step, delay_s) in enumerate(zip(given.steps, delays_s(given.steps), strict=True))
        ]
    )


def draft_of(caller: Caller, name: str, given: CampaignIn) -> Draft:
    gap = Gap(min_s=given.gap.min_s, max_s=given.gap.max_s) if given.gap and given.gap.max_s else None
    if "gap" not in given.model_fields_set and (given.sequence is not None or len(given.steps or ()) > 1):
        gap = HUMAN_GAP
    return Draft(
        workspace=caller.workspace,
        name=name,
        sequence=given.sequence or name,
        lists=tuple(given.lists),
        route=f"@{given.account}" if given.account is not None else given.pool or "default",
        gap=gap,
        by_recipients_clock=given.by_recipients_clock,
        has_footer=given.footer,
        user=given.user,
        labels={
            name: value
            for name, value in (("type", given.type), ("tags", given.tags), ("metadata", given.metadata))
            if value
        },
        header_fields=given.model_dump(include={"headers", "reply_to"}, exclude_none=True),
        starts_at=given.starts_at,
    )


async def _content(step: CampaignStep, place: str, *, is_first: bool) -> Template | None:
    own = [part for part in ("subject", "text", "html") if getattr(step, part) is not None]
    if step.template is not None:
        if own:
            raise invalid(f"{place}{own[0]}", "cannot be combined with template")
        return None
    if step.subject is None and is_first:
        raise invalid(f"{place}subject", "is required unless template is given")
    if step.own_subject and step.subject is None:
        raise invalid(f"{place}own_subject", "requires a subject, or a template with a subject")
    template = Template(subject=step.subject or "", text=step.text, html=step.html)
    await require_good(template, place)
    return template
