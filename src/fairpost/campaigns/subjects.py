"""Determines which follow-ups stay in the first e-mail's thread. Gmail starts a new thread if the subject differs."""

import re
from dataclasses import dataclass

from fairpost.model.campaign import Campaign
from fairpost.store import campaigns
from fairpost.store.store import Store

_REPLY = re.compile(r"\s*re\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The numbers of the steps that inherit the subject, and of those that leave the thread."""

    inherited: tuple[int, ...] = ()  # steps with the first step's subject
    leaving: tuple[int, ...] = ()  # steps that leave the thread because of their subject


async def subjects_of(store: Store, campaign: Campaign) -> Subjects:
    if len(campaign.steps) < 2:
        return Subjects()
    numbers = range(1, len(campaign.steps) + 1)
    first, *others = [(await campaigns.words_of_step(store, campaign, number))[0] for number in numbers]
    insisting = [number for number, step in enumerate(campaign.steps, 1) if step.own_subject]
    leaving = tuple(number for number in insisting if not is_same_thread(first, others[number - 2]))
    return Subjects(inherited=tuple(n for n in numbers if n > 1 and n not in insisting), leaving=leaving)


def is_same_thread(first: str, other: str) -> bool:
    """Returns whether Gmail treats the two subjects as the same. Gmail ignores reply prefixes and spaces."""
    return _bare(first) == _bare(other)


def _bare(subject: str) -> str:
    while found := _REPLY.match(subject):
        subject = subject[found.end() :]
    return " ".join(subject.split())
