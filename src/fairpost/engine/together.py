"""Claims and commits shared by the accounts of one process."""

from dataclasses import dataclass
from typing import Self

from fairpost.engine.claims import ClaimGroup
from fairpost.engine.group import StepGroup
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True)
class Together:
    claims: ClaimGroup
    steps: StepGroup

    @classmethod
    def over(cls, store: Store) -> Self:
        return cls(ClaimGroup(store), StepGroup.of(store))
