"""The consequences of a returned message as values: the address, the effect, and the reason.

The database applies these consequences (sql/settle/returned.sql).
"""

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, assert_never

from fairpost.policy.replies import ReplyClass
from fairpost.returns.classify import Finding, Kind, Returned


class Effect(StrEnum):
    BOUNCED = "bounced"  # the address accepts no mail, so the e-mail bounces and the address is suppressed
    # The address seems to accept no mail, so the e-mail bounces. A second report suppresses the address.
    UNCONFIRMED = "unconfirmed"
    FULL = "full"  # the mailbox is full, so the e-mail bounces; several such reports suppress the address
    UNDELIVERED = "undelivered"  # refused for some other reason, so the e-mail bounces
    DELAYED = "delayed"
    DELIVERED = "delivered"
    COMPLAINED = "complained"  # the address is suppressed, and the complaint counts against the sender
    FEEDBACK = "feedback"
    AWAY = "away"  # the next step waits until the person is back
    UNSUBSCRIBED = "unsubscribed"  # the person receives no more bulk mail
    REPLIED = "replied"  # the sequence stops for the person


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    address: str
    effect: Effect
    reason: str
    params: dict[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    back_on: date | None = None


def consequences(found: Returned) -> list[Consequence]:
    return [
        Consequence(
            address=each.address,
            aliases=each.aliases,
            effect=effect,
            reason=each.code,
            params=_params(each),
            back_on=found.back_on,
        )
        for each in found.recipients
        if (effect := _effect(found.kind, each)) is not None
    ]


def _effect(kind: Kind, each: Finding) -> Effect | None:
    match kind:
        case Kind.REPORT:
            return _reported(each)
        case Kind.COMPLAINT:
            return Effect.COMPLAINED if each.suppress_recipient else Effect.FEEDBACK
        case Kind.AUTO_REPLY:
            return Effect.AWAY
        case Kind.UNSUBSCRIBE:
            return Effect.UNSUBSCRIBED
        case Kind.REPLY:
            return Effect.REPLIED
        case Kind.OTHER:
            return None
        case _:
            assert_never(kind)


def _reported(each: Finding) -> Effect:
    if each.class_ == ReplyClass.ACCEPTED:
        return Effect.DELIVERED
    if not each.is_final:
        return Effect.DELAYED
    if each.suppress_recipient:
        return Effect.BOUNCED
    if not each.is_confirmed:
        return Effect.UNCONFIRMED
    return Effect.FULL if each.class_ == ReplyClass.SOFT_BOUNCE else Effect.UNDELIVERED


def _params(each: Finding) -> dict[str, Any]:
    told = {"status": each.status, "reply": each.reply, "kind": each.kind}
    return {name: value for name, value in told.items() if value}
