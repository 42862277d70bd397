"""Measures how long it takes to compose an e-mail, compared with the standard library.

The e-mail has 5 KB of text and HTML with umlauts and emoji. Two cases are measured: encoding the content for each
e-mail, and preparing it only once, as in a campaign.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP

from fairpost.compose.dkim import SigningKey
from fairpost.compose.message import compose, prepare
from fairpost.model.dkim import Algorithm
from fairpost.model.email import Attachment, Content, Mailbox, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.message import Message
from fairpost.model.states import DoubtPolicy, EmailClass
from fairpost.system import clock
from fairpost.vault.dkim import new_private_key

ROUNDS = 7
ROUND_S = 0.3

TEXT = "Hello Jürgen,\nyour order is on its way. 🎈 It should be with you by Thursday.\n\n" * 9
HTML = (
    "<p>Hello <b>Jürgen</b>,<br>your order is on its way. 🎈 See <a href='https://example.com/o/1'>here</a>.</p>\n" * 26
)
SUBJECT = "Your order 4711 is on its way, Jürgen 🎈"
SENDER = Mailbox(address="shop@example.com", name="The Shop")
DATE = datetime(2030, 1, 31, 9, tzinfo=UTC)
UNSUBSCRIBE = {
    "List-Unsubscribe": "<https://example.com/unsubscribe/4711>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
}


def bench_compose(progress: Callable[[str], None]) -> dict[str, float]:
    content = _content()
    prepared = prepare(content)
    emails = [_email(n, content) for n in range(100)]
    progress("making keys")
    rsa, ed25519 = (_key(Algorithm.RSA),), (_key(Algorithm.ED25519),)
    progress("composing")
    figures = _medians_us(
        {
            "compose_us": lambda n: compose(emails[n % 100], prepare(content), sender=SENDER, date=DATE),
            "compose_prepared_us": lambda n: compose(emails[n % 100], prepared, sender=SENDER, date=DATE),
            "signed_us": lambda n: compose(emails[n % 100], prepare(content), sender=SENDER, date=DATE, keys=rsa),
            "signed_prepared_us": lambda n: compose(emails[n % 100], prepared, sender=SENDER, date=DATE, keys=rsa),
            "signed_ed25519_us": lambda n: compose(
                emails[n % 100], prepare(content), sender=SENDER, date=DATE, keys=ed25519
            ),
            "stdlib_us": _by_the_standard_library,
        }
    )
    progress("encoding a 10 MB file")
    large = _content(
        Attachment(filename="large.bin", content_type="application/octet-stream", data=bytes(range(256)) * 40_960)
    )
    figures["compose_10mb_ms"] = _medians_us({"": lambda _: prepare(large)})[""] / 1000
    figures["message_bytes"] = len(bench_message(1).data)
    return figures


def bench_message(number: int) -> Message:
    content = _content()
    return compose(_email(number, content), prepare(content), sender=SENDER, date=DATE)


def _medians_us(subjects: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Times the functions in turn so that momentary load on the machine affects all of them."""
    seen: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            seen[name].append(_mean_us(subject))
    return {name: sorted(times)[ROUNDS // 2] for name, times in seen.items()}


def _mean_us(subject: Callable[[int], object]) -> float:
    done = 0
    started_s = clock.monotonic()
    while (taken_s := clock.monotonic() - started_s) < ROUND_S or not done:
        for _ in range(10):
            subject(done)
            done += 1
    return taken_s / done * 1e6


def _key(algorithm: Algorithm) -> SigningKey:
    private = new_private_key(algorithm)
    return SigningKey(domain="example.com", selector="bench", algorithm=algorithm, private=private)


def _content(*attachments: Attachment) -> Content:
    return Content(
        id=1, subject=SUBJECT, text=TEXT, html=HTML, reply_to=None, headers=UNSUBSCRIBE, attachments=attachments
    )


def _email(number: int, content: Content) -> Outgoing:
    address = f"reader{number}@example.org"
    return Outgoing(
        id=EmailId(2_000_000_000_000_000_000 + number),
        workspace="shop",
        email_class=EmailClass.BULK,
        on_doubt=DoubtPolicy.HOLD,
        attempts=0,
        attempts_max=3,
        sender=None,
        recipients=(Recipient(kind="to", address=address, name="Jürgen Groß"),),
        envelope=(address,),
        fields={},
        content=content,
    )


def _by_the_standard_library(number: int) -> bytes:
    message = EmailMessage(policy=SMTP)
    message["Date"] = DATE
    message["From"] = "The Shop <shop@example.com>"
    message["To"] = f"Jürgen Groß <reader{number}@example.org>"
    message["Subject"] = SUBJECT
    message["Message-ID"] = f"<{number}@example.com>"
    for name, value in UNSUBSCRIBE.items():
        message[name] = value
    message.set_content(TEXT)
    message.add_alternative(HTML, subtype="html")
    return message.as_bytes()
