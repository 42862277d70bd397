"""Providers as encountered in practice. Each provider is described once and behaves the same on a socket and in a
simulation.

An SMTP provider is a function that decides what happens at each step (`dev/inbox/faults.py`). A Gmail API provider is a
list of the emulator's faults. This module does not describe how the engine reacts.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from fairpost.dev.emulate.faults import Fault, parse_all
from fairpost.dev.inbox.faults import Action, Answer, Cut, Decide, Delay, Heard, Stall, Step
from fairpost.system.chance import Dice

POISON = "poison"  # a recipient for which some providers defer mail or never answer
POISON_AT_GMAIL = f"{POISON}+send-error-503"  # the emulator reads the fault from the address
ABUSER = "abuser.test"  # a sending domain that some providers refuse

TAKES_S = 0.02  # how long an e-mail takes if there are no problems
SLOW_S = 3.0
TARPIT_S = 5.0  # delay of each reply
GREY_S = 45.0
MESSAGES_PER_CONNECTION = 20
PER_MINUTE = 30
BROKEN_EVERY = 4
RANDOM_SHARE = 0.05
DOWN = (
    timedelta(seconds=30),
    timedelta(minutes=60, seconds=30),
)  # start and end of the outage, relative to the first request


class Matter(StrEnum):
    """The scope of a provider's problem. E-mails outside this scope must be sent as if there were no problem."""

    NEITHER = "neither"  # no problem: the provider accepts all mail, although perhaps slowly
    MESSAGE = "message"  # one recipient or one e-mail
    SENDER = "sender"  # one of the senders that share the account
    ACCOUNT = "account"  # the account may pause or wait for manual action


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    name: str
    about: str
    matter: Matter = Matter.NEITHER
    smtp: Callable[[Dice], Decide] | None = None
    gmail: tuple[Mapping[str, Any], ...] | None = None
    takes_s: float = TAKES_S  # how long an e-mail takes if there are no problems
    is_closing: bool = False  # mail is accepted only for a short time or not at all, so the capacity is unreliable

    @property
    def is_gmail(self) -> bool:
        return self.gmail is not None

    def faults(self) -> list[Fault]:
        return parse_all([dict(each) for each in self.gmail or ()])


def _always(decide: Decide) -> Callable[[Dice], Decide]:
    return lambda _: decide


def _healthy(_: Heard) -> Sequence[Action]:
    return ()


def _at(step: Step, *actions: Action) -> Callable[[Dice], Decide]:
    return _always(lambda heard: actions if heard.step is step else ())


def _is_poison(heard: Heard) -> bool:
    return heard.recipient.partition("@")[0].partition("+")[0] == POISON


def _tarpit(heard: Heard) -> Sequence[Action]:
    return () if heard.step is Step.CONNECT else (Delay(TARPIT_S),)


def _greylisting(_: Dice) -> Decide:
    first: dict[tuple[str, str], datetime] = {}

    def decide(heard: Heard) -> Sequence[Action]:
        if heard.step is not Step.RCPT:
            return ()
        known_since = first.setdefault((heard.sender, heard.recipient), heard.now)
        is_known = heard.now >= known_since + timedelta(seconds=GREY_S)
        return () if is_known else (Answer("451 4.7.1 Greylisted, please try again later"),)

    return decide


def _deferring_one(heard: Heard) -> Sequence[Action]:
    is_meant = heard.step is Step.RCPT and _is_poison(heard)
    return (Answer("451 4.7.1 Rate limit exceeded for this recipient"),) if is_meant else ()


def _hanging_on_one(heard: Heard) -> Sequence[Action]:
    return (Stall(),) if heard.step is Step.DOT and _is_poison(heard) else ()


def _refusing_a_sender(heard: Heard) -> Sequence[Action]:
    is_meant = heard.step is Step.MAIL and heard.sender.endswith(f"@{ABUSER}")
    return (Answer("550 5.7.1 Your domain is not allowed to send here"),) if is_meant else ()


def _knowing_no_user(heard: Heard) -> Sequence[Action]:
    is_meant = heard.step is Step.RCPT and heard.sender.endswith(f"@{ABUSER}")
    return (Answer("550 5.1.1 No such user here"),) if is_meant else ()


def _closing_after_some(heard: Heard) -> Sequence[Action]:
    is_enough = heard.step is Step.MAIL and heard.messages >= MESSAGES_PER_CONNECTION
    return (Answer("421 4.7.0 Too many messages on this connection, reconnect"),) if is_enough else ()


def _some_per_minute(_: Dice) -> Decide:
    taken: deque[datetime] = deque()

    def decide(heard: Heard) -> Sequence[Action]:
        if heard.step is not Step.MAIL:
            return ()
        while taken and taken[0] <= heard.now - timedelta(minutes=1):
            taken.popleft()
        if len(taken) >= PER_MINUTE:
            return (Answer("450 4.7.28 Too many messages in a minute, slow down"),)
        taken.append(heard.now)
        return ()

    return decide


def _breaking(_: Dice) -> Decide:
    seen = Counter[Step]()

    def decide(heard: Heard) -> Sequence[Action]:
        seen[heard.step] += 1
        return (Cut(),) if heard.step is Step.DATA and seen[heard.step] % BROKEN_EVERY == 0 else ()

    return decide


def _refusing_at_random(roll: Dice) -> Decide:
    def decide(heard: Heard) -> Sequence[Action]:
        strikes = heard.step is Step.RCPT and roll() < RANDOM_SHARE
        return (Answer("451 4.3.0 Temporary local problem, please try later"),) if strikes else ()

    return decide


def _down(_: Dice) -> Decide:
    """Accepts mail for half a minute, then accepts no connections for an hour."""
    asked: list[datetime] = []

    def decide(heard: Heard) -> Sequence[Action]:
        asked[1:] = [heard.now]
        since = heard.now - asked[0]
        return (Cut(),) if DOWN[0] <= since < DOWN[1] else ()

    return decide


def _gmail(name: str, about: str, *faults: Mapping[str, Any], **more: Any) -> Behaviour:
    return Behaviour(name=name, about=about, gmail=faults, **more)


_HANGS = {
    Step.CONNECT: "greeting",
    Step.EHLO: "ehlo",
    Step.AUTH: "auth",
    Step.MAIL: "mail",
    Step.RCPT: "rcpt",
    Step.DATA: "data",
    Step.DOT: "dot",
}

_A = Matter.ACCOUNT

ZOO: dict[str, Behaviour] = {
    behaviour.name: behaviour
    for behaviour in (
        Behaviour(name="healthy", about="accepts everything immediately", smtp=_always(_healthy)),
        Behaviour(
            name="slow",
            about=f"replies to the final dot after {SLOW_S:g} s",
            smtp=_at(Step.DOT, Delay(SLOW_S)),
            takes_s=TAKES_S + SLOW_S,
        ),
        *(
            Behaviour(
                name=f"hangs-at-{name}",
                about=f"never replies: {step}",
                smtp=_at(step, Stall()),
                matter=_A,
                is_closing=True,
            )
            for step, name in _HANGS.items()
        ),
        Behaviour(
            name="hangs-on-one",
            about="never replies to one e-mail's final dot",
            smtp=_always(_hanging_on_one),
            matter=_A,
        ),
        Behaviour(
            name="tarpit",
            about=f"takes {TARPIT_S:g} s for each reply",
            smtp=_always(_tarpit),
            takes_s=TAKES_S + 4 * TARPIT_S,
        ),
        Behaviour(
            name="greylisting",
            about=f"defers each new sender-recipient pair for {GREY_S:g} s",
            smtp=_greylisting,
            matter=Matter.MESSAGE,
        ),
        Behaviour(
            name="defers-one",
            about="451 4.7.1 for one recipient, always",
            smtp=_always(_deferring_one),
            matter=Matter.MESSAGE,
        ),
        Behaviour(
            name="refuses-a-sender",
            about="550 5.7.1 for one of the domains that share the account",
            smtp=_always(_refusing_a_sender),
            matter=Matter.SENDER,
        ),
        Behaviour(
            name="bounces-a-sender",
            about="550 5.1.1 for every recipient of one sender of a shared account",
            smtp=_always(_knowing_no_user),
            matter=Matter.SENDER,
        ),
        Behaviour(
            name="closes-after-20",
            about=f"421 after {MESSAGES_PER_CONNECTION} messages on a connection",
            smtp=_always(_closing_after_some),
        ),
        Behaviour(
            name="30-per-minute",
            about=f"450 4.7.28 beyond {PER_MINUTE} messages per minute",
            smtp=_some_per_minute,
            matter=_A,
        ),
        Behaviour(
            name="tls-breaks",
            about=f"every {BROKEN_EVERY}th encrypted connection breaks in the middle of a message",
            smtp=_breaking,
            matter=Matter.MESSAGE,
        ),
        Behaviour(
            name="random-4xx",
            about=f"451 4.3.0 for {RANDOM_SHARE:.0%} of all recipients, at random",
            smtp=_refusing_at_random,
            matter=Matter.MESSAGE,
        ),
        Behaviour(
            name="down",
            about="accepts mail for half a minute, then is unavailable for an hour",
            smtp=_down,
            matter=_A,
            is_closing=True,
        ),
        _gmail("gmail", "the Gmail API, without problems"),
        _gmail(
            "gmail-429",
            "429 rateLimitExceeded for the 20th message and the two after it",
            {"route": "drafts.send", "action": "error", "status": 429, "nth": [20, 21, 22]},
            matter=_A,
        ),
        _gmail(
            "gmail-403",
            "403 userRateLimitExceeded for the 20th message, with a retry time",
            {"route": "drafts.send", "action": "error", "reason": "userRateLimitExceeded", "nth": 20}
            | {"retry_after_s": 20},
            matter=_A,
        ),
        # A 503 is treated as Google's problem until it is clear that only this message causes the error. A few short
        # pauses are justified.
        _gmail("gmail-503-for-one", "503 for one message, every time", matter=_A),
        *(
            _gmail(
                f"gmail-hangs-at-{name}",
                f"never replies: {route}",
                {"route": route, "action": "stall"},
                matter=_A,
                is_closing=True,
            )
            for name, route in (("draft", "drafts.create"), ("send", "drafts.send"))
        ),
        _gmail(
            "gmail-401",
            "401 authError from the 20th message on",
            {"route": "drafts.send", "action": "error", "status": 401, "nth": list(range(20, 500))},
            {"route": "drafts.create", "action": "error", "status": 401, "nth": list(range(21, 500))},
            matter=_A,
            is_closing=True,
        ),
    )
}
