"""One message over a ready connection, without I/O: what to do next and, at any moment, how far the message got.

The server cannot have accepted the message before the final dot is handed to the network. Before that, the message can
safely be repeated after any interruption. After that, only an answer shows the outcome. If the answers already decide
the outcome (the sender or every recipient was refused), a lost connection does not change it.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from fairpost.model.message import Message
from fairpost.model.report import Reached, Reply, Report, Step
from fairpost.smtp.replies import Garbage
from fairpost.smtp.wire import CLOSING, DATA, RESET, Answer, Command, Features, mail_from, rcpt_to

# These are looked up once, because in Python 3.11 each access to an enum member costs as much as a call.
MAIL, RCPT, BODY, DOT = Step.MAIL, Step.RCPT, Step.BODY, Step.DOT
DATA_SENT = Step.DATA


class Say(NamedTuple):
    """Write these commands, and pass in the answer to each."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Write the message, check the permission, write the dot, call `dot_written`, and pass in the answer."""


@dataclass(frozen=True, slots=True)
class EndEmpty:
    """No recipient is left, but the server is waiting for a message: write only a dot to end it."""


class Done(NamedTuple):
    report: Report
    usable: bool = True  # whether the connection can carry another message
    must_reset: bool = False  # send RSET before the next message


Next = Say | Deliver | EndEmpty | Done
DELIVER, END_EMPTY = Deliver(), EndEmpty()


class Transaction:
    def __init__(self, message: Message, features: Features, *, reset_first: bool = False) -> None:
        self._message = message
        self._features = features
        self._unsendable = _unsendable(message, features)
        self._todo: deque[Command] = deque()
        if self._unsendable is None:
            self._todo.extend(_commands(message, features, reset_first=reset_first))
        self._mail: Reply | None = None
        self._rcpt: list[Reply] = []
        self._accepted = 0  # number of accepted recipients
        self._data: Reply | None = None
        self._end: Answer | None = None  # the final answer: to the dot, during the message, or before closing
        self._pending: deque[Step] = deque()  # commands that have not been answered yet
        self._said = False
        self._dot_written = False

    @property
    def is_unheard(self) -> bool:
        """Whether no answer has arrived, or only a 421.

        Both can happen if the server has already closed an old connection.
        """
        return self._said and self._mail is None

    @property
    def is_ended(self) -> bool:
        """Whether the final answer has arrived."""
        return self._end is not None

    def next(self) -> Next:
        """Returns the next action. Raises Garbage if the answers are inconsistent."""
        if self._unsendable is not None:
            return Done(self._report(Reached.UNSENDABLE, MAIL, self._unsendable))
        if self._end is not None:
            return self._ended(self._end)
        refusal = self._refusal()
        if refusal is not None and (self._data is not None or not self._features.pipelining):
            return self._refused(refusal)
        if self._todo:
            return self._say()
        return DELIVER

    def answered(self, answer: Answer) -> None:
        """Processes an answer. Raises Garbage if it is invalid for its command."""
        step, reply = answer
        code = reply.code
        makes_sense = code == 354 or code >= 400 if step is DATA_SENT else not 300 <= code < 400
        if not makes_sense:
            raise Garbage(f"the server replied to {step} with {code}")
        if step is not BODY:
            self._pending.popleft()
        if step is DOT or step is BODY or code == CLOSING:
            self._end = answer
        elif step is MAIL:
            self._mail = reply
        elif step is RCPT:
            self._rcpt.append(reply)
            self._accepted += code < 300
        elif step is DATA_SENT:
            self._data = reply

    def dot_written(self) -> None:
        self._pending.append(DOT)
        self._dot_written = True

    def end_written(self) -> None:
        """Records the dot of EndEmpty, which sends no message."""
        self._pending.append(DOT)

    def denied(self) -> Report:
        """Reports that permission was denied, so the message was not completed."""
        return self._report(Reached.UNTOUCHED, BODY, error="the lease ran out before the message was complete")

    def broken(self, error: str) -> Report:
        """Reports the outcome that is certain when the connection is lost, or when no valid answer arrived in time."""
        refusal = self._refusal()
        if refusal is not None:
            return self._report(Reached.REPLIED, refusal.step, refusal.reply)
        step = self._pending[0] if self._pending else BODY if self._data is not None else MAIL
        if self._dot_written:
            return self._report(Reached.AFTER_DOT, step, error=error)
        return self._report(Reached.BEFORE_DOT if self._said else Reached.UNTOUCHED, step, error=error)

    def _say(self) -> Say:
        self._said = True
        if self._features.pipelining:
            group = tuple(self._todo)
            self._todo.clear()
        else:
            group = (self._todo.popleft(),)
        self._pending.extend(command.step for command in group)
        return Say(group)

    def _refusal(self) -> Answer | None:
        """Returns the result if no recipient is left before the message is written."""
        if self._mail is not None and self._mail.code >= 400:
            return Answer(MAIL, self._mail)
        if not self._accepted and len(self._rcpt) == len(self._message.recipients):
            return Answer(RCPT, self._rcpt[-1])
        if self._data is not None and self._data.code >= 400:
            return Answer(DATA_SENT, self._data)
        return None

    def _refused(self, refusal: Answer) -> Next:
        report = self._report(Reached.REPLIED, refusal.step, refusal.reply)
        if self._data is None or self._data.code >= 400:
            return Done(report, must_reset=True)
        if self._accepted:  # the sender was refused, but a recipient was accepted: a dot would send an empty message
            return Done(report, usable=False)
        return END_EMPTY

    def _ended(self, end: Answer) -> Done:
        if end.step is BODY and end.reply.code < 400:
            raise Garbage(f"the server replied {end.reply.code} before the message was complete")
        final = self._refusal() or end
        is_over = end.reply.code == CLOSING or end.step is not DOT
        return Done(self._report(Reached.REPLIED, final.step, final.reply), usable=not is_over)

    def _report(self, reached: Reached, step: Step, reply: Reply | None = None, *, error: str | None = None) -> Report:
        return Report(
            reached=reached,
            step=step,
            reply=reply,
            # if the sender was refused, replies about recipients mean nothing
            recipients={} if step is MAIL else dict(zip(self._message.recipients, self._rcpt, strict=False)),
            error=error,
            message_id=self._message.message_id,
        )


def _unsendable(message: Message, features: Features) -> Reply | None:
    """Returns the reply that RFC 6531, 1870 or 6152 prescribes if the server cannot accept this message."""
    size = len(message.data)
    if message.needs_smtputf8 and not features.smtputf8:
        return Reply(553, "5.6.7 the server does not offer SMTPUTF8, which an address in this e-mail requires")
    if not message.data.isascii() and not features.eight_bit:
        return Reply(554, "5.6.3 the server does not offer 8BITMIME, which this message requires")
    if features.size_max is not None and size > features.size_max:
        return Reply(552, f"5.3.4 the message is {size} bytes, but the server accepts at most {features.size_max}")
    return None


def _commands(message: Message, features: Features, *, reset_first: bool) -> list[Command]:
    mail = mail_from(
        message.sender,
        size=len(message.data) if features.takes_size else None,
        eight_bit=not message.data.isascii(),
        smtputf8=message.needs_smtputf8,
        envelope_id=message.message_id.strip("<>") if features.dsn else None,
    )
    reset = [RESET] if reset_first else []
    return [*reset, mail, *[rcpt_to(each, only_failures=features.dsn) for each in message.recipients], DATA]
