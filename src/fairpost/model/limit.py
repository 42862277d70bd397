"""How a limit is described: once, with its unit, its bounds, its default and its words.

Options, requests, forms, the checks of presets, what a region gets of a limit and the tables of the docs follow from it. Which limits an
account has is not said here but in `model/account.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from types import NoneType
from typing import Any, ClassVar, Protocol, Self, TypeVar, get_args, get_type_hints

INTEGER_MAX = 2**31 - 1  # what a column holds
NONE = "none"  # how people write that there is no such limit

T = TypeVar("T")


class Plan(Protocol):
    """A limit of several parts. `FORM`: how people write it."""

    FORM: ClassVar[str]

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ValueError."""

    def problem(self) -> str | None:
        """Why its parts do not go together."""

    def in_words(self) -> str: ...


class Share(StrEnum):
    """What a region gets of a limit when several share the account."""

    WHOLE = "whole"
    PART = "part"  # a number, rounded down
    LONGER = "longer"  # a pause, rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`name` is that of its column; `label` stands before it on a page. Null, where `is_optional`: no such limit."""

    name: str = ""
    type: Any = int  # or float, an enumeration, a plan
    is_optional: bool = False
    default: Any = None
    unit: str = ""
    ge: float = 0
    le: float = INTEGER_MAX
    label: str
    help: str
    short: str = ""  # how it reads in a line of limits: "{} a day"; empty: it is not in there
    option: str = ""  # where it is not the name
    choices: Mapping[str, str] = field(default_factory=dict)  # of an enumeration: what each value means
    parts: tuple["Limit", ...] = ()  # of a plan
    share: Share = Share.WHOLE
    is_asked_first: bool = False  # when an account is added on a page

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
        """What is stored. `value`: as JSON and TOML have it, or as it is. Raises ValueError."""
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
        """From its column: a plan is JSON there. Not checked: a region's part may be longer than one that people give."""
        if value is None:
            return None
        return self.type(**json.loads(value)) if self.parts else self.type(value)

    def read(self, text: str) -> Any:
        """From a command line. Raises ValueError."""
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
    """A field of a dataclass, described: see `Limit`."""
    return field(default=default, metadata={"limit": Limit(**about)})


def described(limits: Any) -> tuple[Limit, ...]:
    """The limits that this dataclass has."""
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
