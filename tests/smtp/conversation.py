"""The client's loop without a network: the server sends any bytes, in any pieces, and then disconnects.

Used by the property tests and by the fuzzer. The guarantees are asserted here, at every step.
"""

from collections.abc import Iterable, Iterator

from fairpost.model.message import Message
from fairpost.model.report import Reached, Report, Step
from fairpost.smtp.replies import UNREAD_BYTES_MAX, Garbage
from fairpost.smtp.transaction import Deliver, Done, EndEmpty, Say, Transaction
from fairpost.smtp.wire import Answer, State, Wire, hello, stuffed

STEPS_MAX = 200  # three recipients, one by one, take 7


class HungUp(Exception):
    pass


class Conversation:
    def __init__(self, said: Iterable[bytes], message: Message) -> None:
        self._said: Iterator[bytes] = iter(said)
        self._wire = Wire()
        self._message = message
        self._answers: list[Answer] = []
        self._talk: Transaction | None = None
        self._dot_written = False

    def run(self) -> Report | None:
        """Returns the report on the message, or None if it was not reached."""
        try:
            if self._greet():
                return self._checked(self._carry_out())
        except (Garbage, HungUp) as error:
            if self._talk is not None:
                return self._checked(self._talk.broken(str(error)))
        return None

    def _greet(self) -> bool:
        self._answer()
        if self._wire.state is State.GREETED:
            self._wire.say(hello("me"))
            self._answer()
        return self._wire.state is State.READY

    def _carry_out(self) -> Report:
        self._answers.clear()
        self._talk = talk = Transaction(self._message, self._wire.features)
        for _ in range(STEPS_MAX):
            match talk.next():
                case Say(commands):
                    self._wire.say(*commands)
                    for _ in commands:
                        talk.answered(self._answer())
                        if self._wire.state is State.CLOSED:
                            break
                case Deliver():
                    self._deliver(talk)
                case EndEmpty():
                    assert not self._has_recipient(), "an empty message to a recipient"
                    self._wire.write_end(b"")
                    talk.end_written()
                    talk.answered(self._answer())
                case Done(report):
                    return report
        raise AssertionError("it does not end")

    def _deliver(self, talk: Transaction) -> None:
        early = self._wire.next_answer()
        if early is not None:
            talk.answered(early)
            return
        assert self._code(Step.MAIL) < 300
        assert self._has_recipient()
        assert self._code(Step.DATA) == 354
        self._wire.write_end(stuffed(self._message.data))
        talk.dot_written()
        self._dot_written = True
        talk.answered(self._answer())

    def _answer(self) -> Answer:
        while (answer := self._wire.next_answer()) is None:
            try:
                self._wire.receive(next(self._said))
            except StopIteration:
                raise HungUp("it hung up") from None
            assert self._wire.unread_bytes <= UNREAD_BYTES_MAX
        self._answers.append(answer)
        return answer

    def _has_recipient(self) -> bool:
        return any(answer.step is Step.RCPT and answer.reply.code < 300 for answer in self._answers)

    def _code(self, step: Step) -> int:
        return next(answer.reply.code for answer in self._answers if answer.step is step)

    def _checked(self, report: Report) -> Report:
        """The server can have the message if and only if the dot was written, and the report says so."""
        if self._dot_written:
            assert report.reached in (Reached.REPLIED, Reached.AFTER_DOT)
        else:
            assert report.reached is not Reached.AFTER_DOT
        if report.reached is Reached.REPLIED:
            assert report.reply is not None
            if report.reply.code < 400:
                assert self._dot_written
                assert self._answers[-1] == Answer(Step.DOT, report.reply)
        assert "\x00" not in f"{report.reply} {report.error} {report.recipients}"
        return report
