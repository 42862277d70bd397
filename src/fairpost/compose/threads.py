"""How a message says which one it follows: In-Reply-To, and References for the way there (RFC 5322, 3.6.4)."""

import re

from fairpost.compose.headers import fold
from fairpost.model.email import Earlier, Outgoing

REFERENCES_MAX = 20  # a conversation of years would otherwise fill every message with ids

# What stands in a header must not be able to end it: others wrote these ids.
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,900}>")


def thread_headers(email: Outgoing) -> bytes:
    """Nothing where the earlier message has no usable id. What the caller gave under these names is left to stand."""
    if email.follows is None or not MESSAGE_ID.fullmatch(email.follows.message_id):
        return b""
    given = {name.lower() for name in email.content.headers}
    answered = fold(b"In-Reply-To", [email.follows.message_id.encode("ascii")])
    references = fold(b"References", [id_.encode("ascii") for id_ in _references(email.follows)])
    return (b"" if "in-reply-to" in given else answered) + (b"" if "references" in given else references)


def _references(earlier: Earlier) -> list[str]:
    """Oldest first, each once, the earlier message last. Of too many, the first stays: it names the conversation."""
    before = [id_ for id_ in dict.fromkeys(earlier.references) if MESSAGE_ID.fullmatch(id_)]
    ids = [*[id_ for id_ in before if id_ != earlier.message_id], earlier.message_id]
    return ids if len(ids) <= REFERENCES_MAX else [ids[0], *ids[1 - REFERENCES_MAX :]]
