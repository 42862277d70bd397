"""Sends e-mails through the Gmail API as drafts. Google sends a draft only once, no matter how often it is asked to.
The outcome of a request that timed out can therefore be determined. If the draft still exists, it was not sent, and
sending it cannot cause a duplicate. If the draft is gone and its thread contains a sent message with Fairpost's mark,
the e-mail was sent. Otherwise, the e-mail is reported as in doubt. Once a request has gone unanswered, no later answer
proves that nothing was sent, because Google may still be processing that request. Only "sent" and "in doubt" then
remain possible.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import blake2s

from fairpost.compose.errors import Uncomposable
from fairpost.compose.message import compose
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.message import Message
from fairpost.model.report import Channel, Reached, Reply, Report, Step
from fairpost.model.return_path import unsubscribe_mailto
from fairpost.system import clock
from fairpost.transports.composing import PreparedContents, sender_of
from fairpost.transports.gmail.answers import Draft, Failure, Mail, NoAnswer, NoToken, Refusal, Withheld
from fairpost.transports.gmail.client import MESSAGE_BYTES_MAX, GmailClient
from fairpost.transports.gmail.evidence import (
    ADDRESSED,
    DRAFT,
    MARK,
    THREAD,
    WAITS_S,
    DraftEvidence,
    accepted,
    in_doubt,
    in_words,
    is_gone,
    waiting_s,
)
from fairpost.transports.port import Answer, Evidence, Fate, Permission

OPTIONS = {
    "--oauth google --key-file FILE": "--gmail FILE",
    "--oauth google --client-id ID --refresh-token-file FILE": "--gmail-refresh-token FILE",
    "--oauth … --refresh-token-file FILE": "--gmail-refresh-token FILE",
}


class GmailTransport:
    """Sends the e-mails of one account, one at a time."""

    def __init__(
        self,
        client: GmailClient,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        is_read: bool = False,
    ) -> None:
        self._client = client
        self._is_read = is_read
        self._pause = pause
        self._evidence = DraftEvidence(client, pause=pause)
        self._prepared = PreparedContents()

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        """Sends an e-mail for callers that store no intent. An e-mail in doubt cannot be checked later."""
        evidence = await self.draft(account, email)
        if isinstance(evidence, Report):
            return evidence
        report = await self.send_draft(account, email, evidence, permission=permission)
        if report.reached is Reached.UNTOUCHED:
            await self.discard(account, evidence)
        return report

    async def draft(self, account: Account, email: Outgoing) -> Evidence | Report:
        message = self._composed(account, email)
        if isinstance(message, Report):
            return message
        made = await self._create(message, thread_id=email.follows.thread_id if email.follows else None)
        if not isinstance(made, Draft):
            return _failed(made, step=Step.DATA)
        thread = {THREAD: made.thread_id} if made.thread_id else {}
        return {DRAFT: made.id, ADDRESSED: _addressed(email)} | thread

    async def send_draft(
        self, account: Account, email: Outgoing, evidence: Evidence, *, permission: Permission
    ) -> Report:
        if not evidence.get(DRAFT):
            return in_doubt("there is no recorded draft to send")
        if evidence.get(ADDRESSED) != _addressed(email):
            readdressed = await self._readdress(account, email, evidence)
            if isinstance(readdressed, Report):
                return readdressed
            evidence = readdressed
        open_ends: list[Failure] = []  # failures of requests that may nevertheless have sent the e-mail
        for usual_s in (*WAITS_S, None):
            sent = await self._client.send_draft(evidence[DRAFT], permission=permission)
            if isinstance(sent, Mail):
                return await self._sent(sent)
            if _did_nothing(sent):
                return await self._not_sent(account, email, evidence, sent, open_ends)
            open_ends.append(sent)
            answer = await self.ask(account, email, evidence)
            if answer.fate is not Fate.UNSENT:
                return _outcome(answer, in_words(sent))
            wait_s = waiting_s(sent, usual_s=usual_s)
            if wait_s is None:
                break
            await self._pause(wait_s)
        return await self._not_sent(account, email, evidence, open_ends[-1], open_ends)

    async def ask(self, account: Account, email: Outgoing, evidence: Evidence) -> Answer:
        return await self._evidence.ask(email, evidence)

    async def discard(self, account: Account, evidence: Evidence) -> None:
        if evidence.get(DRAFT):
            await self._client.delete_draft(evidence[DRAFT])

    async def close(self) -> None:
        await self._client.close()

    def _composed(self, account: Account, email: Outgoing) -> Message | Report:
        mailbox = account.address if self._is_read else None
        try:
            message = compose(
                email,
                self._prepared.of(email.content),
                sender=sender_of(account, email),
                date=clock.now(),
                headers_are_envelope=True,  # Gmail sends to the addresses in To, Cc and Bcc and removes the Bcc header
                extra=f"{MARK}: {email.name_in_headers}\r\n".encode("ascii"),
                mailto=unsubscribe_mailto(email.return_token, bounce_domain=None, mailbox=mailbox),
            )
        except Uncomposable as error:
            return _unsendable(400, f"invalidArgument: {error}")
        if len(message.data) > MESSAGE_BYTES_MAX:
            size = f"{len(message.data):,} bytes long with its attachments encoded"
            return _unsendable(413, f"uploadTooLarge: The message is {size}. Gmail's maximum is {MESSAGE_BYTES_MAX:,}.")
        return message

    async def _create(self, message: Message, *, thread_id: str | None) -> Draft | Failure:
        made = await self._client.create_draft(message.data, thread_id=thread_id)
        if thread_id and isinstance(made, Refusal) and _is_about_the_thread(made):
            # The conversation was deleted. Follow-ups can still be sent, threaded by their References alone.
            return await self._client.create_draft(message.data)
        return made

    async def _readdress(self, account: Account, email: Outgoing, evidence: Evidence) -> Evidence | Report:
        """Rewrites the draft's recipients, because Gmail sends to all addresses in the draft.

        This is needed if a recipient has been suppressed or has received the e-mail since the draft was created. The
        draft remains the same draft, so it is sent only once.
        """
        message = self._composed(account, email)
        if isinstance(message, Report):
            return message
        made = await self._client.update_draft(evidence[DRAFT], message.data, thread_id=evidence.get(THREAD))
        if isinstance(made, Draft):  # Gmail may have moved the draft to a new thread
            return {**evidence, THREAD: made.thread_id or evidence.get(THREAD, "")}
        if is_gone(made):
            return _outcome(await self.ask(account, email, evidence), "the draft's recipients cannot be changed")
        return await self._not_sent(account, email, evidence, made, [])

    async def _sent(self, sent: Mail) -> Report:
        """Reads the Message-ID of the sent message, because Gmail may have replaced it. Even if this fails, the e-mail
        has been sent.
        """
        read = await self._evidence.patiently(lambda: self._client.get_message(sent.id, ["Message-ID"]))
        if isinstance(read, Mail):
            return accepted(replace(sent, thread_id=sent.thread_id or read.thread_id), read.values("Message-ID"))
        return replace(accepted(sent, []), error=f"sent, but its Message-ID could not be read: {in_words(read)}")

    async def _not_sent(
        self, account: Account, email: Outgoing, evidence: Evidence, last: Failure, open_ends: Sequence[Failure]
    ) -> Report:
        """Deletes the draft of a refused e-mail, because the e-mail either fails or is retried with a new draft."""
        if not open_ends and not isinstance(last, Refusal):
            return _failed(last, step=Step.DOT)
        if not open_ends:
            if is_gone(await self._client.delete_draft(evidence[DRAFT])):  # an earlier request may have sent it
                return _outcome(await self.ask(account, email, evidence), in_words(last))
            return _failed(last, step=Step.DOT)
        # If Google itself reported every failure, no request is still in progress, and a deleted draft will not be
        # sent.
        is_over = isinstance(last, Refusal) and all(_has_ended(each) for each in open_ends)
        if is_over and await self._client.delete_draft(evidence[DRAFT]) is None:
            return _failed(last, step=Step.DOT)
        words = "; then: ".join(dict.fromkeys([*map(in_words, open_ends), in_words(last)]))
        return in_doubt(f"{words}; the draft still existed when it was last checked")


def what_to_type(advice: str, account: str) -> str:
    """Replaces the SMTP options in advice about tokens with the Gmail API options."""
    for smtps, ours in OPTIONS.items():
        advice = advice.replace(smtps, ours)
    return advice.replace("NAME", account)


def _addressed(email: Outgoing) -> str:
    """Returns a digest that shows whether a draft is addressed to the current recipients."""
    return blake2s("\0".join(sorted(email.envelope)).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _did_nothing(failure: Failure) -> bool:
    """Returns whether this request certainly sent nothing and will send nothing."""
    match failure:
        case Refusal():
            return failure.is_settled
        case NoAnswer():
            return not failure.has_left
        case NoToken() | Withheld():
            return True


def _has_ended(failure: Failure) -> bool:
    """Returns whether Google itself reported the failure. If it did not, a gateway may have timed out while Google is
    still processing the request.
    """
    return isinstance(failure, Refusal) and failure.is_googles and failure.status in (500, 503)


def _is_about_the_thread(refusal: Refusal) -> bool:
    return refusal.status == 404 or (refusal.status == 400 and "thread" in refusal.message.lower())


def _failed(failure: Failure, *, step: Step) -> Report:
    match failure:
        case Refusal(status=413):
            return _unsendable(413, failure.reply.text)
        case Refusal():
            return Report(
                reached=Reached.REPLIED,
                channel=Channel.GOOGLE,
                step=step,
                reply=failure.reply,
                retry_at=failure.retry_at,
            )
        case NoToken():
            return Report(reached=Reached.UNTOUCHED, channel=Channel.GOOGLE, step=Step.AUTH, reply=failure.reply)
        case NoAnswer():
            where = step if failure.has_left else Step.CONNECT
            return Report(reached=Reached.UNTOUCHED, channel=Channel.GOOGLE, step=where, error=failure.error)
        case Withheld():
            error = "the lease ran out before the message was complete"
            return Report(reached=Reached.UNTOUCHED, channel=Channel.GOOGLE, step=step, error=error)


def _unsendable(code: int, text: str) -> Report:
    return Report(reached=Reached.UNSENDABLE, channel=Channel.GOOGLE, step=Step.MAIL, reply=Reply(code, text))


def _outcome(answer: Answer, cause: str) -> Report:
    """Combines the first failure and the later answer about the draft into one report."""
    if answer.fate is Fate.SENT:
        return answer.report
    return in_doubt(f"{cause}; {answer.report.error or 'the draft still exists'}")
