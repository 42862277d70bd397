"""Process returned mail: classify it, find the e-mail that it is about, and have the database apply the findings.

All returned mail is processed here, whether it arrives at the bounce address, through a pipe, or in a mailbox. No
message is ever answered, so no mail loop can start.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2s
from typing import Any

from fairpost.maintenance.loop import failed, keep_stepping
from fairpost.model.campaign import ReplyStops
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.public_ids import PublicIds
from fairpost.model.reason import Log
from fairpost.model.return_path import token_in
from fairpost.policy.companies import company_of
from fairpost.returns.answers import read_answer
from fairpost.returns.classify import Kind, Returned, classify
from fairpost.returns.effects import Consequence, Effect, consequences
from fairpost.returns.mail import BYTES_MAX
from fairpost.store import returned
from fairpost.store.returned import Taken
from fairpost.store.store import Store
from fairpost.system.failpoints import failpoint

KEPT = frozenset({Kind.REPLY, Kind.AUTO_REPLY, Kind.UNSUBSCRIBE})  # stored in the conversation
_OF_PEOPLE = frozenset({Effect.REPLIED, Effect.AWAY, Effect.UNSUBSCRIBED})
LOOK_S = 5.0
AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """The mailbox of an account. Mail from the mailbox's own address is not a reply."""

    account_id: AccountId
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    kind: Kind
    findings: tuple[Taken, ...]


async def take_in(
    store: Store,
    raw: bytes,
    *,
    now: datetime,
    recipients: Sequence[str] = (),
    mailbox: Mailbox | None = None,
    reply_stops: ReplyStops = ReplyStops.PERSON,
    also: Callable[[Store], Awaitable[None]] | None = None,
) -> TakenIn:
    """Process one message. `recipients` are the envelope recipients. If there are findings, `also` runs in the
    transaction that stores them.

    If `mailbox` is None, the message has an effect only if it carries a token or names both the e-mail and the
    recipient.
    """
    found = classify(raw, now=now)
    if mailbox is not None and found.sender.lower() == mailbox.address.lower():
        return TakenIn(kind=Kind.OTHER, findings=())
    public_ids = await store.public_ids()
    named = [public_ids.of_return_token(found.token), *(email_of(each, public_ids) for each in recipients)]
    tokens = [id_ for id_ in named if id_ is not None]
    findings = [
        _told(each, reply_stops) | {"by_name": mailbox is not None and _is_of_another_company(each, mailbox)}
        for each in consequences(found)
    ]
    if not findings:
        return TakenIn(kind=found.kind, findings=())
    failpoint("before_taking_return")
    async with store.together() if also is not None else nullcontext(store) as one:
        taken = await returned.take(
            one,
            findings,
            source=blake2s(raw[:BYTES_MAX], digest_size=16).hexdigest(),
            account_id=mailbox.account_id if mailbox else None,
            candidates=[*tokens[:1], *_named(found, public_ids)],
            is_token=bool(tokens),
            message_ids=found.message_ids,
            mail=_mail(raw, found.kind) if found.kind in KEPT else None,
            now=now,
        )
        if also is not None:
            await also(one)
    failpoint("after_taking_return")
    return TakenIn(kind=found.kind, findings=tuple(taken))


def email_of(address: str, public_ids: PublicIds) -> EmailId | None:
    """Return the e-mail to which this bounce address belongs."""
    token = token_in(address)
    return public_ids.of_return_token(token) if token else None


def _named(found: Returned, public_ids: PublicIds) -> list[EmailId]:
    ids = (public_ids.named_in(each) for each in found.message_ids)
    return [id_ for id_ in ids if id_ is not None]


def _mail(raw: bytes, kind: Kind) -> dict[str, Any]:
    """Return the message to store. The message is identified by its Message-ID, because the same message may arrive by
    several routes with different headers.
    """
    answer = read_answer(raw)
    named = (answer.message_id or "").encode() or raw[:BYTES_MAX]
    return {
        "kind": kind,
        "mail": blake2s(named, digest_size=16).hexdigest(),
        "from_name": answer.from_name,
        "from_address": answer.from_address,
        "to_addresses": answer.to_addresses,
        "subject": answer.subject,
        "sent_at": answer.sent_at.isoformat() if answer.sent_at else None,
        "message_id": answer.message_id,
        "in_reply_to": answer.in_reply_to,
        "refs": answer.references,
        "text": answer.text,
        "html": answer.html,
        "is_cut": answer.is_cut,
    }


def _told(each: Consequence, reply_stops: ReplyStops) -> dict[str, object]:
    stops_company = each.effect is Effect.REPLIED and reply_stops is ReplyStops.COMPANY
    company = company_of(each.address) if stops_company else None
    more = {"back_on": each.back_on.isoformat() if each.back_on else None, "company": company}
    return {
        "address": each.address,
        "aliases": list(each.aliases),
        "effect": each.effect,
        "reason": each.reason,
        "params": each.params | {name: value for name, value in more.items() if value},
        "back_on": more["back_on"],
    }


def _is_of_another_company(each: Consequence, mailbox: Mailbox) -> bool:
    """Return whether this message was written by a person outside the account's company, rather than by a colleague in
    the same thread.
    """
    company = company_of(mailbox.address)
    return each.effect in _OF_PEOPLE and (company is None or company_of(each.address) != company)


class ReturnsWatch:
    """Applies findings that arrived before their e-mail was finished.

    At worst, several engines do the same work, but each finding is applied only once.
    """

    def __init__(self, store: Store, log: Log) -> None:
        self._store, self._log = store, log

    async def run(self) -> None:
        await keep_stepping(self.step, every_s=LOOK_S, complain=partial(failed, "returns watch", log=self._log))

    async def step(self) -> bool:
        """Apply some findings. Return True if there is more to do immediately."""
        return await returned.apply_pending(self._store, most=AT_ONCE) == AT_ONCE
