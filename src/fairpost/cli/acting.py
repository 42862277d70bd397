"""Run an action from a command: return its value, or print its refusal as one red line with the next step."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fairpost.model.errors import FairpostError
from fairpost.model.reason import Reason

if TYPE_CHECKING:
    from fairpost.actions.acting import Action, Actor, Done, Refused
    from fairpost.settings import Settings
    from fairpost.store.store import Store

R = TypeVar("R")
T = TypeVar("T")


MISTAKES_SHOWN = 20
Fields = Mapping[str, str]  # options whose names differ from those of their request fields
AS_OPTIONS: Fields = {}


def act(action: "Action[R, T]", request: R, *, settings: "Settings | None" = None, fields: Fields = AS_OPTIONS) -> T:
    """Run the action on the configured database as this machine's user. Raises FairpostError for a refusal."""
    from fairpost.cli.session import with_store

    return with_store(lambda store: act_on(store, action, request, fields=fields), settings=settings)


def act_at_home(action: "Action[R, T]", request: R, *, fields: Fields = AS_OPTIONS) -> T:
    """Run the action on the home database, regardless of the selected region."""
    from fairpost.cli.session import with_home_store

    return with_home_store(lambda home: act_on(home, action, request, fields=fields))


def outcome_of(action: "Action[R, T]", request: R) -> "Done[T] | Refused":
    """Return the outcome, including refusals, for commands that handle them."""
    from fairpost.cli.session import with_store

    return with_store(lambda store: action(actor(), request, store))


async def act_on(store: "Store", action: "Action[R, T]", request: R, *, fields: Fields = AS_OPTIONS) -> T:
    return value_of(await action(actor(), request, store), fields=fields)


def actor() -> "Actor":
    from fairpost.actions.acting import Actor
    from fairpost.cli.session import who

    return Actor(who=f"cli {who()}", is_operator=True)


def value_of(outcome: "Done[T] | Refused", *, fields: Fields = AS_OPTIONS, **called: str) -> T:
    """Return the value or raise the refusal. `called` contains the refusal's parameters as the user typed them."""
    from fairpost.actions.acting import Done, Refused

    match outcome:
        case Done(value):
            return value
        case Refused(reason):
            raise FairpostError(in_words(Reason(reason.code, **{**reason.params, **called}), fields))


def in_words(reason: Reason, fields: Fields = AS_OPTIONS) -> str:
    from fairpost.reasons.catalogue import CATALOGUE, Kind
    from fairpost.reasons.rendering import command, field, sentence

    meaning = CATALOGUE[reason.code]
    following = [f"Next: {next_}"] if (next_ := command(reason)) else []
    if meaning.field:
        name = field(reason)
        called = fields.get(name, f"--{name.replace('_', '-')}")
        return " ".join([f"{called} {sentence(reason)}. Nothing was changed.", *following])
    end = following if meaning.kind is Kind.NOT_FOUND else ["Nothing was changed.", *following]
    lines = _mistakes(reason)
    return "\n".join([sentence(reason), *lines, " ".join(end)]) if lines else " ".join([sentence(reason), *end])


def _mistakes(reason: Reason) -> list[str]:
    """Return the first mistakes, indented below the sentence, and the number of mistakes that are not shown."""
    from fairpost.reasons.rendering import mistake_in_words, mistakes

    lacking = cast("list[dict[str, Any]]", reason.params.get("first", []))
    lines = [f"  {each['address']} lacks {', '.join(each['lacks'])}" for each in lacking]
    lines += [f"  {mistake_in_words(each)}" for each in mistakes(reason)[:MISTAKES_SHOWN]]
    more = cast("int", reason.params.get("count", 0)) - len(lines)
    return [*lines, f"  and {more:,} more"] if lines and more > 0 else lines
