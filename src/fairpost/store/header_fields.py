"""The headers and Reply-To of templates and campaigns, validated like those of an e-mail."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairpost.model.errors import Refusal
from fairpost.model.mailbox import HeaderFields, Mailbox

if TYPE_CHECKING:
    from fairpost.store.store import Store


async def parsed(store: "Store", given: Mapping[str, Any]) -> HeaderFields:
    """Parse `given`, which contains `headers` and `reply_to` in the same format as in an e-mail. Raises Refusal."""
    given = {name: value for name, value in given.items() if value}
    if not given:
        return HeaderFields()
    row = await store.row(
        """SELECT fairpost.check_content($1::jsonb || '{"subject": "", "text": ""}') AS wrong,
                  fairpost.parse_address($1::jsonb -> 'reply_to') AS reply_to""",
        json.dumps(given),
    )
    if row["wrong"] is not None:
        raise Refusal("header.invalid", **json.loads(row["wrong"]))
    return read(json.dumps({**given, "reply_to": json.loads(row["reply_to"] or "null")}))


def read(stored: str | None) -> HeaderFields:
    fields = json.loads(stored or "{}")
    reply_to = fields.get("reply_to")
    return HeaderFields(headers=fields.get("headers") or {}, reply_to=Mailbox(**reply_to) if reply_to else None)


def raw(fields: HeaderFields) -> dict[str, Any]:
    """Return the fields in the same format as in an e-mail."""
    given = {"headers": dict(fields.headers), "reply_to": as_json(fields.reply_to)}
    return {name: value for name, value in given.items() if value}


def written(fields: HeaderFields) -> str | None:
    """Serialize the fields. Return None if there are no fields."""
    return json.dumps(given) if (given := raw(fields)) else None


def as_json(mailbox: Mailbox | None) -> dict[str, str] | None:
    if mailbox is None:
        return None
    return {"address": mailbox.address, **({"name": mailbox.name} if mailbox.name else {})}
