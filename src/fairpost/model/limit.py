"""The description of a limit in one place, with its unit, range, default and help. Options, requests, forms, preset
checks, a region's share of a limit, and the tables in the docs are derived from this description. An account's limits
are in `model/account.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from types import NoneType
from typing import Any, ClassVar, Protocol, Self, TypeVar, get_args, get_type_hints

INTEGER_MAX = 2**31 - 1  # the column's maximum
NONE = "none"  # the text that users enter to specify that there is no such limit

T = TypeVar("T")


class Plan(Protocol):
    """A limit with several parts. `FORM` describes the notation that users enter."""

    FORM: ClassVar[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse text in the user's notation. Raises ValueError."""

    def problem(self) -> str | None:
        """Return why the parts contradict each other, or None."""

    def in_words(self) -> str: ...


class Share(StrEnum):
    """How a limit is divided if several regions share the account."""

    WHOLE = "whole"
    PART = "part"  # a number, rounded down
    LONGER = "longer"  # a pause, rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The description of one limit.

    `name` is its column; `label` is shown before it on a page. If `is_optional`, null means that there is no such
    limit.
    """

    name: str = ""
    type: Any = int  # or a float, an enumeration or a plan
    is_optional: bool = False
    default: Any = None
    unit: str = ""
    ge: float = 0
    le: float = INTEGER_MAX
    label: str
    help: str
    short: str = ""  # the text in a list of limits ("{} a day"); if empty, the limit is not listed
    option: str = ""  # the option, if it differs from the name
    choices: Mapping[str, str] = field(default_factory=dict)  # what each value of an enumeration means
    parts: tuple["Limit", ...] = ()  # for a plan
    share: Share = Share.WHOLE
    is_asked_first: bool = False  # shown first on the page for adding an account

    @property
    def rule(self) -> str:
        if self.choices:
            what = f"one of {', '.join(self.choices)}"
        elif self.parts:
            what = f"like {self.type.FORM}"
        else:
            what = f"{self.ge:g} to {self.le:,}"
        return f"{what}, or {NONE}" if self.is_optional else what

    def checked(self, value: Any) -> Any:
        """Return the value to store. `value` is in its JSON or TOML form, or already converted. Raises ValueError."""
        if value is None and self.is_optional:
            return None
        if self.choices and value in self.choices:
            return self.type(value)
        if self.parts and isinstance(value, self.type | Mapping):
            return self._checked_plan(value)
        is_number = isinstance(value, int | self.type) and not isinstance(value, bool | str)
        if self.choices or self.parts or not is_number or not self.ge <= value <= self.le:
            raise ValueError(f"{self.name} must be {self.rule}, got {value!r}")
        return value

    def _checked_plan(self, value: Any) -> Any:
        given = value if isinstance(value, Mapping) else {part.name: getattr(value, part.name) for part in self.parts}
        known = {part.name: part for part in self.parts}
        if unknown := set(given) - set(known):
            raise ValueError(f"{self.name} has no {', '.join(sorted(unknown))}")
        plan = self.type(**{name: known[name].checked(each) for name, each in given.items()})
        if problem := plan.problem():
            raise ValueError(f"{self.name} {problem}")
        return plan

    def stored(self, value: Any) -> Any:
        """Convert a value read from the limit's column to the limit's type. Plans are stored as JSON.

        The value is not checked, because a region's part may exceed what users may enter.
        """
        if value is None:
            return None
        return self.type(**json.loads(value)) if self.parts else self.type(value)

    def read(self, text: str) -> Any:
        """Parse a command-line value. Raises ValueError."""
        if text == NONE and self.is_optional:
            return None
        try:
            return self.checked(self._parsed(text))
        except (ValueError, OverflowError):
            raise ValueError(f"must be {self.rule}, got {text!r}") from None

    def _parsed(self, text: str) -> Any:
        if self.parts:
            return self.type.read(text)
        if self.choices:
            return text
        if self.type is int and not (text.isascii() and text.isdigit()):
            raise ValueError(text)
        return self.type(text.removesuffix("%") if self.unit == "%" else text)

    def in_words(self, value: Any) -> str:
        if value is None:
            return "no limit"
        if self.choices:
            return self.choices[value]
        if self.parts:
            return str(value.in_words())
        if self.unit == "ms":
            return f"{value / 1000:g} s"
        return f"{value:g} {self.unit}" if self.unit in ("s", "%") else str(value)


def limit(default: T, **about: Any) -> T:
    """Describe a field of a dataclass (see `Limit`)."""
    return field(default=default, metadata={"limit": Limit(**about)})


def described(limits: Any) -> tuple[Limit, ...]:
    """Return the limits that this dataclass defines."""
    hints = get_type_hints(limits)
    return tuple(_whole(each.metadata["limit"], each.name, each.default, hints[each.name]) for each in fields(limits))


def _whole(about: Limit, name: str, default: Any, hint: Any) -> Limit:
    types = [each for each in get_args(hint) or (hint,) if each is not NoneType]
    return replace(
        about,
        name=name,
        type=types[0],
        is_optional=NoneType in get_args(hint),
        default=default,
        option=f"--{about.option or name.replace('_', '-')}",
        parts=described(types[0]) if is_dataclass(types[0]) else (),
    )
