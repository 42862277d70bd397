"""Fuzzes the wire, guided by coverage: `make fuzz`, or with libFuzzer's own options after it.

The input's first byte selects recipients and greeting; the rest is the server's output, cut at every 0xFF. A crash, a
broken guarantee, a hang (-timeout) or too much memory (-rss_limit_mb) ends the run with the input that caused it.
"""

import sys

import atheris

with atheris.instrument_imports(include=["fairpost.smtp"]):
    from fairpost.model.message import Message
    from tests.smtp.conversation import Conversation

HELLOS = ((), (b"220 hi\r\n", b"250-hi\r\n250 PIPELINING\r\n"), (b"220 hi\r\n", b"250 hi\r\n"))


def one_input(data: bytes) -> None:
    pick = data[0] if data else 0
    to = tuple(f"r{n}@example.com" for n in range(1 + pick % 3))
    message = Message(sender="me@example.com", recipients=to, message_id="<1@x>", data=b"Subject: x\r\n\r\n.\r\n")
    Conversation([*HELLOS[pick // 3 % 3], *data[1:].split(b"\xff")], message).run()


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
