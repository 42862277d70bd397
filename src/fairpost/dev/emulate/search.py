"""The small part of Gmail's search language that a sender needs: people, text, labels and Message-ID."""

import re
from collections.abc import Callable

from fairpost.dev.emulate import mime
from fairpost.dev.emulate.mailbox import SPAM, TRASH, Message

WORDS_MAX = 50
_WORD = re.compile(r'(-?)(?:([a-z0-9]+):)?("[^"]*"|\S+)', re.IGNORECASE)


def matcher(query: str) -> Callable[[Message], bool]:
    """Returns a predicate for a query. All words of the query must match. An unknown operator matches nothing."""
    tests = [_test(*match.groups(default="")) for match in list(_WORD.finditer(query))[:WORDS_MAX]]
    return lambda message: all(test(message) for test in tests)


def _test(minus: str, operator: str, text: str) -> Callable[[Message], bool]:
    wanted = text.strip('"').lower()
    fits = _fits(operator.lower(), wanted)
    return (lambda message: not fits(message)) if minus else fits


def _fits(operator: str, wanted: str) -> Callable[[Message], bool]:
    match operator:
        case "rfc822msgid":
            return lambda message: message.rfc822_id.strip("<>").lower() == wanted.strip("<>")
        case "from" | "to" | "cc" | "bcc" | "subject":
            return lambda message: wanted in mime.decoded(mime.value(message.headers, operator)).lower()
        case "in" | "label" | "is":
            return lambda message: _is_in(message, wanted)
        case "":
            return lambda message: wanted in _text(message)
        case _:
            return lambda _: False


def _is_in(message: Message, place: str) -> bool:
    if place == "anywhere":
        return True
    label = {"drafts": "DRAFT"}.get(place, place.upper())
    return label in message.labels


def _text(message: Message) -> str:
    return f"{mime.decoded(mime.value(message.headers, 'Subject'))} {message.snippet}".lower()


def in_sight(message: Message) -> bool:
    """Returns whether lists include the message. By default, lists omit spam and trash."""
    return not {SPAM, TRASH} & set(message.labels)
