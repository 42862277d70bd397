"""Threading headers: In-Reply-To and References (RFC 5322, 3.6.4)."""

import re

from fairpost.compose.headers import fold
from fairpost.model.email import Earlier, Outgoing

REFERENCES_MAX = 20  # because a conversation that lasts several years would otherwise fill every message with IDs

# IDs come from other systems and must not be able to end the header.
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,900}>")


def thread_headers(email: Outgoing) -> bytes:
    """Returns the threading headers, or nothing if the earlier message has no usable ID.

    The caller's own headers are not replaced.
    """
    if email.follows is None or not MESSAGE_ID.fullmatch(email.follows.message_id):
        return b""
    given = {name.lower() for name in email.content.headers}
    answered = fold(b"In-Reply-To", [email.follows.message_id.encode("ascii")])
    references = fold(b"References", [id_.encode("ascii") for id_ in _references(email.follows)])
    return (b"" if "in-reply-to" in given else answered) + (b"" if "references" in given else references)


def _references(earlier: Earlier) -> list[str]:
    """Returns the IDs, oldest first and without duplicates, ending with the earlier message.

    If there are too many IDs, the first is kept, because it identifies the conversation.
    """
    before = [id_ for id_ in dict.fromkeys(earlier.references) if MESSAGE_ID.fullmatch(id_)]
    ids = [*[id_ for id_ in before if id_ != earlier.message_id], earlier.message_id]
    return ids if len(ids) <= REFERENCES_MAX else [ids[0], *ids[1 - REFERENCES_MAX :]]
