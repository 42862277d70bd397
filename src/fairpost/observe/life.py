"""The timeline of one e-mail. Contains a sentence for each event, a list of what blocks the e-mail now, and, if the
e-mail is in doubt, the evidence.

`tell` is pure; `life_of` reads the data for it. Account names appear only in the field `account`, which can be hidden
from viewers who may not see them.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fairpost.model.account import Account
from fairpost.model.public_ids import PublicIds
from fairpost.model.reason import Reason
from fairpost.model.report import Channel, Reply, Step
from fairpost.model.states import FINAL, MEANING, WAITING, DoubtPolicy, EmailClass, State
from fairpost.observe.emails import Attempt, ShownEmail, stops_of
from fairpost.observe.status import read_accounts, read_engines
from fairpost.observe.watch import Called, as_stored
from fairpost.policy.conditions import Condition, of_blocks, of_route
from fairpost.policy.facts import BlockedMail, Facts, Route, Stop
from fairpost.policy.replies import meaning
from fairpost.policy.reply_codes import BY_REASON
from fairpost.reasons.rendering import brief, brief_or_none, told
from fairpost.store import email_rows
from fairpost.store.blocks import read_blocks
from fairpost.store.pauses import pause_now
from fairpost.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The server's reply for one recipient."""

    address: str
    code: int | None
    reply: str | None
    meaning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One event.

    `kind` is accepted, due, claimed, begun, ended, decided or retried. The `kind` of the last moment is the e-mail's
    state.

    `at` is None if unknown. `meaning` is the explanation from `fairpost explain`.
    """

    kind: str
    at: datetime | None
    words: str
    attempt: int | None = None
    account: str | None = None
    outcome: str | None = None
    code: int | None = None
    reply: str | None = None
    meaning: str | None = None
    recipients: tuple[Answered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Something that an e-mail is waiting for. `until` is None if unknown."""

    kind: str  # one of due, before, prospect, hold, throttle, window, pause, engine, block, account, patience, turn
    words: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    decision: str
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What is known about an e-mail in doubt, and the possible decisions."""

    attempt: int
    begun_at: datetime | None
    account: str | None
    reached: str
    said: str | None
    message_id_begins: str  # for finding the copy in the recipient's mailbox or sent folder
    asked: str
    policy: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision by a person, a policy or a provider: resolved or retried."""

    kind: str
    at: datetime
    decision: str | None
    by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CameBack:
    """A message that the recipient or a mail server sent back."""

    at: datetime
    address: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Facts for the timeline that are not stored with the e-mail. `paused` is the reason why all sending is paused."""

    campaign: str | None = None
    step: int | None = None
    follows: int | None = None
    is_parked: bool = False
    evidence: Mapping[str, Any] | None = None
    decisions: tuple[Decision, ...] = ()
    returned: tuple[CameBack, ...] = ()
    stops: tuple[Stop, ...] = ()
    paused: Reason | None = None
    paused_until: datetime | None = None
    accounts: tuple[Account, ...] = ()
    route: Condition | None = None  # condition of the e-mail's accounts, while the e-mail is ready
    name_in_headers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    moments: tuple[Moment, ...]
    stands_in_the_way: tuple[Obstacle, ...]
    doubt: Doubt | None


async def life_of(
    store: Store,
    email: ShownEmail,
    *,
    ids: PublicIds,
    now: datetime | None = None,
    called: Called = as_stored,
    told: Callable[[Condition], str] = told,
    known: Callable[[Reason], Reason] = lambda reason: reason,
) -> Life:
    """Reads the timeline.

    `called`, `told` and `known` limit accounts, conditions and reasons to those that the caller may see.
    """
    now = now or await store.now()
    behind = await _background(store, email, now, called)
    email = replace(email, reason=known(email.reason) if email.reason else None)
    behind = replace(
        behind,
        stops=tuple(replace(each, reason=known(each.reason) if each.reason else None) for each in behind.stops),
        paused=known(behind.paused) if behind.paused else None,
    )
    return tell(email, replace(behind, name_in_headers=ids.name_in_headers(email.id)), told=told)


def tell(email: ShownEmail, behind: Background, *, told: Callable[[Condition], str] = told) -> Life:
    return Life(
        moments=tuple(_moments(email, behind)),
        stands_in_the_way=tuple(_obstacles(email, behind, told)) if email.state in WAITING else (),
        doubt=_doubt(email, behind) if email.state is State.IN_DOUBT else None,
    )


def _moments(email: ShownEmail, behind: Background) -> list[Moment]:
    """Returns moments sorted by time. Moments at the same time are in logical order."""
    past = sorted(_past(email, behind), key=lambda moment: moment.at or email.created_at)
    last = _last(email)
    latest = past[-1].at
    if last.at is not None and latest is not None and last.at < latest:  # since then, the e-mail has been waiting again
        last = replace(last, at=latest)
    return [*past, last]


def _past(email: ShownEmail, behind: Background) -> Iterator[Moment]:
    yield Moment(kind="accepted", at=email.created_at, words=_accepted(email, behind))
    if email.due_at is not None and email.due_at > email.created_at and email.state not in WAITING:
        again = "due again" if any(each.ended_at <= email.due_at for each in email.log) else "due"
        if not email.finished_at or email.due_at <= email.finished_at:
            yield Moment(kind="due", at=email.due_at, words=again)
    if email.claimed_at is not None and email.state is not State.CLAIMED:
        yield Moment(kind="claimed", at=email.claimed_at, words="claimed by an account", account=email.account)
    for attempt in email.log:
        yield from _attempt(attempt)
    if email.state is State.IN_DOUBT and email.begun_at is not None:
        yield _begun(email.attempts, email.begun_at, email.account)
    for each in behind.decisions:
        yield _decided(each)
    for back in behind.returned:
        yield Moment(kind="returned", at=back.at, words=f"{back.address}: {brief(back.reason)}")


def _accepted(email: ShownEmail, behind: Background) -> str:
    if behind.campaign is not None:
        what = f"planned as step {behind.step} of campaign {behind.campaign}"
    else:
        what = f"accepted with key {email.idempotency_key}" if email.idempotency_key else "accepted"
    return f"{what}, for user {email.user}" if email.user else what


def _attempt(attempt: Attempt) -> Iterator[Moment]:
    yield _begun(attempt.n, attempt.begun_at, attempt.account)
    yield Moment(
        kind="ended",
        at=max(attempt.begun_at, attempt.ended_at),
        words=_OUTCOMES.get(attempt.outcome, attempt.outcome),
        attempt=attempt.n,
        account=attempt.account,
        outcome=attempt.outcome,
        code=attempt.code,
        reply=attempt.reply,
        meaning=_meaning(attempt.code, attempt.reply),
        recipients=tuple(_answered(attempt.recipients)),
    )


def _begun(n: int, at: datetime, account: str | None) -> Moment:
    return Moment(kind="begun", at=at, words=f"attempt {n} started", attempt=n, account=account)


_OUTCOMES = {
    "sent": "accepted by the server",
    "retry": "deferred, to be retried",
    "deferred": "not accepted because of a problem with the account, which was paused; no attempt was used up",
    "failed": "refused",
    "bounced": "permanently rejected because of the recipient",
    "in_doubt": "unknown whether the server accepted it",
    "cut": "its worker died before the message was complete: nothing was sent",
}


def _answered(recipients: Mapping[str, Any] | None) -> Iterator[Answered]:
    for address, said in (recipients or {}).items():
        code, text = (said.get("code"), said.get("text")) if isinstance(said, dict) else (None, None)
        yield Answered(address=address, code=code, reply=text, meaning=_meaning(code, text, Step.RCPT))


def _meaning(code: int | None, text: str | None, phase: Step | None = None) -> str | None:
    if code is None:
        return None
    reason, colon, _ = (text or "").partition(":")
    is_google = bool(colon) and reason.strip().casefold() in BY_REASON
    channel = Channel.GOOGLE if is_google else Channel.SMTP
    return meaning(Reply(code, text or ""), phase=phase, channel=channel).why


def _decided(each: Decision) -> Moment:
    by = f" by {each.by}" if each.by else ""
    if each.kind == "retried":
        return Moment(kind="retried", at=each.at, words=f"retry requested{by}")
    return Moment(kind="decided", at=each.at, words=f"resolved{by}: {each.decision}")


def _last(email: ShownEmail) -> Moment:
    """Returns the last moment. The kind of this moment is the e-mail's state."""
    kind = str(email.state)
    because = f": {brief(email.reason)}" if email.reason else ""
    match email.state:
        case State.SCHEDULED if email.due_at is None:
            return Moment(kind=kind, at=None, words="due after the previous e-mail")
        case State.SCHEDULED:
            return Moment(kind=kind, at=email.due_at, words=f"due{' again' if email.log else ''}{because}")
        case State.READY:
            return Moment(kind=kind, at=email.due_at, words=f"ready to be sent{because}")
        case State.CLAIMED:
            return Moment(kind=kind, at=email.claimed_at, words="claimed by an account", account=email.account)
        case State.SENDING:
            assert email.begun_at is not None
            return replace(_begun(email.attempts, email.begun_at, email.account), kind=kind)
        case State.IN_DOUBT:
            words = f"in doubt{because or ': it is unknown whether it was sent'}"
            return Moment(kind=kind, at=email.begun_at, words=words, attempt=email.attempts, account=email.account)
        case _:
            assert email.state in FINAL
            words = f"{MEANING[email.state]}{because}"
            return Moment(kind=kind, at=email.finished_at, words=words, account=email.account)


def _obstacles(email: ShownEmail, behind: Background, told: Callable[[Condition], str]) -> list[Obstacle]:
    found = [*_of_time(email, behind), *_of_people(behind)]
    if email.state is State.READY and not found:
        found = list(_of_accounts(behind, told)) or [Obstacle(kind="turn", words="its turn in the queue")]
    return [*found, *_of_patience(email, behind)]


def _of_time(email: ShownEmail, behind: Background) -> Iterator[Obstacle]:
    if behind.is_parked:
        yield Obstacle(kind="prospect", words="its prospect is paused")
    elif email.due_at is None:
        yield Obstacle(kind="before", words="the previous e-mail has not been sent yet")
    elif email.state is State.SCHEDULED:
        is_again = bool(email.log) and email.log[-1].outcome in ("retry", "deferred", "cut")
        words = "the next attempt is not due yet" if is_again else "it is not due yet"
        yield Obstacle(kind="due", words=words, until=email.due_at)


def _of_people(behind: Background) -> Iterator[Obstacle]:
    if behind.paused is not None:
        yield Obstacle(kind="pause", words=f"all sending is paused: {brief(behind.paused)}", until=behind.paused_until)
    for stop in behind.stops:
        name = "the workspace" if stop.level == "workspace" else f"the {stop.level} {stop.key}"
        done = "is held" if stop.kind == "held" else "must wait"
        words = f"{name} {done}: {brief(stop.reason) if stop.reason else 'no reason given'}"
        yield Obstacle(kind=_STOPS[stop.kind], words=words, until=stop.until)


_STOPS = {"held": "hold", "throttled": "throttle", "closed": "window"}


def _of_accounts(behind: Background, told: Callable[[Condition], str]) -> Iterator[Obstacle]:
    """Yields the reason why the accounts on the e-mail's route cannot send it.

    The wording is the same as everywhere else.
    """
    if behind.route is None or not behind.route.keeps_mail_back:
        return
    kind = {"engine.none": "engine", "account.blocks_workspace": "block"}.get(behind.route.code, "account")
    yield Obstacle(kind=kind, words=told(behind.route), until=behind.route.until)


def _of_patience(email: ShownEmail, behind: Background) -> Iterator[Obstacle]:
    """Yields the time at which the e-mail fails, provided that only one account may send it and that the account is
    still suspended then.
    """
    if not email.route.startswith("@"):
        return
    for patience in (account.patience for account in behind.accounts if account.patience):
        until = patience.urgent if email.email_class is EmailClass.URGENT else patience.bulk
        yield Obstacle(kind="patience", words="fails if the account is still suspended", until=until)


CHOICES = (
    Choice(decision="sent", means="The e-mail arrived. It counts as sent, and nothing more happens."),
    Choice(decision="resend", means="Send the e-mail again. Recipients who already received it will get it twice."),
    Choice(
        decision="failed",
        means="Give up on the e-mail. Recipients who did not receive it will not receive it unless you retry it.",
    ),
)


def _doubt(email: ShownEmail, behind: Background) -> Doubt:
    evidence = behind.evidence
    return Doubt(
        attempt=email.attempts,
        begun_at=email.begun_at,
        account=email.account,
        reached="the attempt was started, and the message may have been sent completely; no reply was recorded",
        said=brief_or_none(email.reason),
        message_id_begins=f"<{behind.name_in_headers}.",
        asked=_asked(evidence),
        policy=_policy(email, can_be_asked=evidence is not None and "unknown" not in evidence),
        choices=CHOICES,
    )


def _asked(evidence: Mapping[str, Any] | None) -> str:
    if evidence is None:
        return "SMTP servers cannot be asked later which e-mails they accepted."
    if "unknown" in evidence:
        return f"The provider was asked, but its answer was not conclusive: {evidence['unknown']}"
    return "The provider can be asked whether its draft was sent, but has not responded yet."


POLICIES: Mapping[str, str] = {
    "ask": "An engine asks the provider and acts on the answer.",
    "hold": "The e-mail stays in doubt until a person decides.",
    "resend": "The e-mail will be sent again automatically once an engine is working on its account.",
    "exhausted": "The e-mail has no attempts left, so it will not be sent again automatically. A person must decide.",
}


def _policy(email: ShownEmail, *, can_be_asked: bool) -> str:
    if can_be_asked:
        return POLICIES["ask"]
    if email.on_doubt is DoubtPolicy.HOLD:
        return POLICIES["hold"]
    return POLICIES["resend" if email.attempts < email.attempts_max else "exhausted"]


async def _background(
    store: Store, email: ShownEmail, now: datetime, called: Callable[[Account], Account]
) -> Background:
    row = await email_rows.origin_of(store, email.id)
    decided = await email_rows.decisions_on(store, email.id, email.workspace)
    returned = await email_rows.returned_for(store, email.id)
    known = Background(
        decisions=tuple(Decision(**each) for each in decided),
        returned=tuple(
            CameBack(
                at=each["at"], address=each["address"], reason=Reason(each["reason"], **json.loads(each["params"]))
            )
            for each in returned
        ),
    )
    if row is not None:
        known = replace(
            known,
            campaign=row["campaign"],
            step=row["step"],
            follows=row["follows"],
            is_parked=bool(row["is_parked"]) and email.due_at is None,
            evidence=json.loads(row["evidence"]) if row["evidence"] else None,
        )
    return await _with_what_bars(store, email, known, now, called) if email.state in WAITING else known


def _condition(email: ShownEmail, facts: Facts) -> Condition:
    is_shut = facts.accounts and all(each.account.id in facts.shut for each in facts.accounts)
    found = next(of_blocks(facts), None) if is_shut else None
    return found or of_route(Route(route=email.route, waiting=0), facts)


async def _with_what_bars(
    store: Store, email: ShownEmail, known: Background, now: datetime, called: Callable[[Account], Account]
) -> Background:
    pause = await pause_now(store, now=now)
    found = await read_accounts(store, serving=[email.route]) if email.state is State.READY else []
    runtimes = [replace(each, account=called(each.account)) for each in found]
    blocks = await read_blocks(store, now=now, workspace=email.workspace)
    facts = Facts(
        now=now,
        engines=await read_engines(store),
        accounts=runtimes,
        blocked=[BlockedMail(route=Route(route=email.route, waiting=0), block=each) for each in blocks],
        shut={each.account_id for each in blocks},
    )
    return replace(
        known,
        stops=tuple(await stops_of(store, email, now=now)),
        paused=pause["reason"] if pause else None,
        paused_until=pause["until"] if pause else None,
        accounts=tuple(each.account for each in runtimes),
        route=_condition(email, facts) if email.state is State.READY else None,
    )
