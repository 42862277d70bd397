"""Finds out whether an e-mail in doubt was sent, by checking whether its draft still exists or its thread contains the
sent message.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from fairpost.model.email import Outgoing
from fairpost.model.report import Channel, Reached, Reply, Report, Step
from fairpost.system import chance, clock
from fairpost.transports.gmail.answers import Draft, Failure, Mail, NoAnswer, NoToken, Refusal, Withheld
from fairpost.transports.gmail.client import GmailClient
from fairpost.transports.port import Answer, Evidence, Fate

MARK = "X-Fairpost-Id"  # header that marks a message as sent by Fairpost and identifies its e-mail
DRAFT = "draft"  # key of the draft ID in the evidence
THREAD = "thread"
ADDRESSED = "addressed"  # key for the recipient digest

WAITS_S = (1.0, 4.0)  # pauses before the second and third attempts of the same query
WAIT_S_MAX = 15.0  # if Google requests a longer wait, the query is abandoned, and the e-mail is retried later

T = TypeVar("T")


class DraftEvidence:
    """Queries one mailbox's drafts, with retries."""

    def __init__(self, client: GmailClient, *, pause: Callable[[float], Awaitable[None]]) -> None:
        self._client = client
        self._pause = pause

    async def ask(self, email: Outgoing, evidence: Evidence) -> Answer:
        """Asks Google about an e-mail. A fate of UNKNOWN with UNTOUCHED means that Google did not respond, so Fairpost
        can ask again.
        """
        if not evidence.get(DRAFT):
            return _unknown("no draft is recorded, so there is nothing to check")
        draft = await self.patiently(lambda: self._client.get_draft(evidence[DRAFT]))
        if isinstance(draft, Draft):
            return Answer(Fate.UNSENT, Report(reached=Reached.UNTOUCHED, channel=Channel.GOOGLE))
        if not is_gone(draft):
            return _unanswered(f"the draft could not be checked: {in_words(draft)}", draft)
        sent = await self._sent_in_thread(email, evidence)
        if isinstance(sent, Mail):
            return Answer(Fate.SENT, accepted(sent, sent.values("Message-ID")))
        if sent is None:
            return _unknown("the draft is gone, and its thread has no message sent by Fairpost")
        return _unanswered(f"the draft is gone, and its thread could not be read: {in_words(sent)}", sent)

    async def patiently(self, ask: Callable[[], Awaitable[T | Failure]]) -> T | Failure:
        """Repeats a query if the answer may soon change. Queries have no side effects."""
        answer = await ask()
        for usual_s in WAITS_S:
            if not _may_pass(answer):
                return answer
            assert isinstance(answer, Refusal | NoAnswer)
            wait_s = waiting_s(answer, usual_s=usual_s)
            if wait_s is None:
                return answer
            await self._pause(wait_s)
            answer = await ask()
        return answer

    async def _sent_in_thread(self, email: Outgoing, evidence: Evidence) -> Mail | Failure | None:
        """Returns the message that was sent from the draft. Checks twice, because Google sometimes shows sent messages
        late.
        """
        thread_id = evidence.get(THREAD)
        if not thread_id:
            return None
        for wait_s in (WAITS_S[0], None):
            mails = await self.patiently(lambda: self._client.get_thread(thread_id, [MARK, "Message-ID"]))
            if not isinstance(mails, tuple) and not is_gone(mails):
                return mails
            found = mails if isinstance(mails, tuple) else ()
            for mail in found:
                if mail.is_sent and mail.values(MARK) in _marks(email):
                    return mail
            if wait_s is not None:
                await self._pause(wait_s)
        return None


def accepted(sent: Mail, message_ids: list[str]) -> Report:
    return Report(
        reached=Reached.REPLIED,
        channel=Channel.GOOGLE,
        step=Step.DOT,
        reply=Reply(200, f"sent: message {sent.id}"),
        message_id=next(iter(message_ids), None),
        thread_id=sent.thread_id,
    )


def in_doubt(error: str) -> Report:
    return Report(reached=Reached.AFTER_DOT, channel=Channel.GOOGLE, step=Step.DOT, error=error)


def is_gone(failure: Failure | None) -> bool:
    return isinstance(failure, Refusal) and failure.status == 404 and failure.is_googles


def waiting_s(failure: Failure, *, usual_s: float | None) -> float | None:
    """Returns how long to wait before a retry, or None if a retry would not help."""
    if usual_s is None:
        return None
    asked_at = failure.retry_at if isinstance(failure, Refusal) else None
    asked_s = (asked_at - clock.now()).total_seconds() if asked_at else 0.0
    return None if asked_s > WAIT_S_MAX else max(asked_s, usual_s * (0.5 + chance.roll()))


def in_words(failure: Failure) -> str:
    match failure:
        case Refusal() | NoToken():
            return f"{failure.reply.code} {failure.reply.text}"
        case NoAnswer():
            return failure.error
        case Withheld():
            return "the lease ran out"


def _unknown(error: str) -> Answer:
    return Answer(Fate.UNKNOWN, in_doubt(error))


def _unanswered(error: str, failure: Failure) -> Answer:
    retry_at = failure.retry_at if isinstance(failure, Refusal) else None
    return Answer(Fate.UNKNOWN, replace(in_doubt(error), reached=Reached.UNTOUCHED, retry_at=retry_at))


def _may_pass(answer: object) -> bool:
    return isinstance(answer, NoAnswer) or (
        isinstance(answer, Refusal) and (answer.status >= 500 or answer.status in (408, 429))
    )


def _marks(email: Outgoing) -> list[list[str]]:
    """Returns the values that may mark the sent message: the current one, and the number that older versions used.
    An engine that has not been restarted since an upgrade may have used the number.
    """
    return [[email.name_in_headers], [f"{email.id:x}"]]
