"""Signed messages, verified by other implementations, both unchanged and after SMTP transfer."""

import random
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fairpost.compose import compose, prepare
from fairpost.compose.dkim import SigningKey, hash_of_body, signatures
from fairpost.model.dkim import Algorithm
from fairpost.model.email import Attachment, Content, Earlier, Mailbox, Recipient
from fairpost.model.message import Message
from fairpost.smtp.wire import stuffed
from tests.compose.composing import ANN, SHOP
from tests.compose.strategies import SPECIMENS, content_of, email_of
from tests.peers.dkim import by_dkimpy, by_mail_dkim, by_opendkim
from tests.peers.fetch import PeerMissing
from tests.thorough import IS_FREE, times

NOW = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)  # verifiers reject signatures from the future
RSA = generate_private_key(65537, 2048)
ED25519 = Ed25519PrivateKey.generate()
KEYS = (
    SigningKey(domain="example.org", selector="r1", algorithm=Algorithm.RSA, private=RSA),
    SigningKey(domain="example.org", selector="e1", algorithm=Algorithm.ED25519, private=ED25519),
)
DNS = {
    "r1._domainkey.example.org": "v=DKIM1; k=rsa; p="
    + b64encode(RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode(),
    "e1._domainkey.example.org": "v=DKIM1; k=ed25519; p="
    + b64encode(ED25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode(),
}
HOSTILE_TEXTS = (
    "", "\n", "\n\n\n", "a", "a\n", "a\n\n\n\n", "a  \n\t\n \n", " a", "\ta\t b  c \n", ".", "..\n.\n.a\n", "\n.", "From x\nFrom y", "a\rb\r\nc\nd",
    "ü\n\n", "ü \n.\n ", "\x00".replace("\x00", "\x01"), "x" * 3000, "=20\n= \n", "--=_a0\n", " \n" * 50, "\u2028\u0085",
)  # fmt: skip


def signed(
    content: Content, people: tuple[Recipient, ...] = ANN, sender: Mailbox = SHOP, follows: Earlier | None = None
) -> Message:
    email = replace(email_of(content, people), follows=follows)
    return compose(email, prepare(content), sender=sender, date=NOW, keys=KEYS)


def hostile() -> list[bytes]:
    """One key of each kind."""
    long = {
        "X-Long": "word " * 300,
        "List-Unsubscribe": f"<https://example.org/{'u' * 300}>",
        "List-Id": "a  list\t<l.example.org>",
    }
    people = tuple(Recipient(kind="to", address=f"someone.{n}@example.com", name=f"Jürgen  {n}") for n in range(40))
    earlier = Earlier(message_id="<9@example.org>", references=tuple(f"<{n}@example.org>" for n in range(30)))
    file = Attachment(filename="a b.txt", content_type="text/plain", data=b"a\n\n\r\n  \n")
    nested = Attachment(filename="m.eml", content_type="message/rfc822", data=b"Subject: x\n\n.\n \n\n")
    return [
        *[signed(content_of(text=text)).data for text in HOSTILE_TEXTS],
        *[signed(content_of(text=text, html=text)).data for text in HOSTILE_TEXTS],
        signed(content_of("Grüße  und\tKüsse " * 20, headers=long)).data,
        signed(content_of("")).data,
        signed(content_of(reply_to=Mailbox(address="r@example.org", name='A "b", c')), people).data,
        signed(content_of(), (Recipient(kind="bcc", address="x@example.com"),)).data,
        signed(content_of(), follows=earlier).data,
        signed(content_of(html="<p>", attachments=(file, nested))).data,
        signed(
            content_of(headers={"Precedence": "bulk", "Auto-Submitted": "auto-generated", "Sender": "a@example.org"})
        ).data,
    ]


def verified(messages: Sequence[bytes], folder: Path, *, without_peers: Callable[[str], None]) -> list[list[int]]:
    """Returns for each message how many of its two signatures are valid according to dkimpy, opendkim and Mail::DKIM,
    which counts at most one."""
    held = [by_dkimpy(messages, DNS)]
    try:
        held += [by_opendkim(messages, DNS, folder), by_mail_dkim(messages, DNS, folder)]
    except PeerMissing as missing:
        without_peers(str(missing))
    return [list(counts) for counts in zip(*held, strict=True)]


def test_hostile_messages_verify_at_three_verifiers(tmp_path: Path) -> None:
    messages = hostile()
    assert verified(messages, tmp_path, without_peers=pytest.skip) == [[2, 2, 1]] * len(messages)


def test_each_verifier_notices_a_changed_byte(tmp_path: Path) -> None:
    """Shows that the checks above can fail."""
    good = signed(content_of(text="Hello")).data
    messages = [good, good.replace(b"Hello", b"Hallo"), good.replace(b"\r\nSubject: ", b"\r\nSubject: Re: "), good]
    assert verified(messages, tmp_path, without_peers=pytest.skip) == [[2, 2, 1], [0, 0, 0], [0, 0, 0], [2, 2, 1]]


@pytest.mark.thorough
def test_random_messages_verify(tmp_path: Path) -> None:
    """`make fuzz` tries 100,000."""
    chance = random.Random(None if IS_FREE else 1)
    left = times(150, own="FAIRPOST_DKIM_MESSAGES")
    while left > 0:
        seeds = [chance.getrandbits(64) for _ in range(min(left, 500))]
        messages = [random_message(random.Random(seed)) for seed in seeds]
        held = verified(messages, tmp_path, without_peers=pytest.skip)
        broken = [(seed, counts) for seed, counts in zip(seeds, held, strict=True) if counts != [2, 2, 1]]
        assert not broken, f"random_message(random.Random(seed)) for these seeds: {broken[:5]}"
        left -= len(seeds)


def random_message(chance: random.Random) -> bytes:
    pieces = (*SPECIMENS, " ", "\t", "\n", "\n\n", "\r\n", "\n.", " \n", "word ", "x" * 80, "\x01", "\n \t\n")

    def some(most: int, *, is_line: bool = False) -> str:
        text = "".join(chance.choices(pieces, k=chance.randint(0, most)))
        return " ".join(re.split(r"[\x00-\x1f\u2028\u2029]+", text)).strip() if is_line else text

    def mailbox() -> Mailbox:
        return Mailbox(address=f"{chance.choice('abc')}@example.org", name=some(6, is_line=True) or None)

    names = ("X-Own", "List-Id", "List-Unsubscribe", "Feedback-ID", "Precedence", "Sender", "X-Priority", "Keywords")
    headers = {name: some(12, is_line=True) for name in chance.sample(names, chance.randint(0, 5))}
    headers = {
        name: value.encode("ascii", "ignore").decode() if name != "X-Own" else value for name, value in headers.items()
    }
    kinds = ("to", "cc", "bcc")
    people = tuple(
        Recipient(kind=chance.choice(kinds), address=f"r{n}@example.com", name=some(4, is_line=True) or None)
        for n in range(chance.randint(1, 5))
    )
    files = tuple(
        Attachment(
            filename="f",
            content_type=chance.choice(("text/plain", "message/rfc822", "image/png")),
            data=some(20).encode() if chance.random() < 0.5 else chance.randbytes(chance.randint(0, 200)),
        )
        for _ in range(chance.choice((0, 0, 0, 1, 2)))
    )
    html = some(40) if chance.random() < 0.5 else None
    reply_to = mailbox() if chance.random() < 0.3 else None
    content = content_of(some(10, is_line=True), some(40), html, reply_to, headers, files)
    return signed(content, people, mailbox()).data


def test_the_signature_survives_the_wire() -> None:
    """A receiver that removes the doubled dots has the signed bytes."""
    for message in hostile():
        on_the_wire = stuffed(message)
        assert re.sub(rb"(?m)^\.", b"", on_the_wire) == message
        assert b"\n" not in message.replace(b"\r\n", b"")
        assert b"\r" not in message.replace(b"\r\n", b"")


def test_an_added_or_changed_header_breaks_the_signature() -> None:
    content = content_of(
        headers={"List-Unsubscribe": "<https://example.org/u>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    )
    message = signed(content).data
    head, _, body = message.partition(b"\r\n\r\n")
    attacks = {
        "a second From": b"From: evil@example.net\r\n" + message,
        "a second From below": head + b"\r\nFrom: evil@example.net\r\n\r\n" + body,
        "a Reply-To": b"Reply-To: evil@example.net\r\n" + message,
        "a Cc": b"Cc: evil@example.net\r\n" + message,
        "a second Subject": b"Subject: evil\r\n" + message,
        "another unsubscribe": b"List-Unsubscribe: <https://evil.example.net>\r\n" + message,
        "another type": b"Content-Type: text/html\r\n" + message,
        "a line in the body": message + b"evil\r\n",
        "another unsubscribe in place": message.replace(b"example.org/u", b"example.net/u"),
    }
    assert {name for name, bytes_ in attacks.items() if by_dkimpy([bytes_], DNS) != [0]} == set()


def test_permitted_server_behaviour_does_not() -> None:
    message = signed(content_of(text="a  b \n\nc")).data
    harmless = {
        "a trace header": b"Received: from x by y\r\n" + message,
        "blank lines at the end": message + b"\r\n\r\n",
        "white space at line ends": message.replace(b"c\r\n", b"c  \r\n"),
        "a header folded again": message.replace(b"Message-ID: <", b"Message-ID:\r\n <"),
        "a header of a filter": b"X-Spam-Score: 0\r\n" + message,
    }
    assert {name for name, bytes_ in harmless.items() if by_dkimpy([bytes_], DNS) != [2]} == set()


def test_lines_of_a_signature_are_short_and_its_parts_are_there() -> None:
    head = signed(content_of()).data.partition(b"\r\nDate:")[0]
    assert max(map(len, head.split(b"\r\n"))) <= 78
    assert head.count(b"DKIM-Signature: v=1; a=") == 2
    assert b"d=example.org;" in head
    assert f"t={int(NOW.timestamp())};".encode() in head


def test_a_message_without_keys_is_not_touched() -> None:
    content = content_of()
    plain = compose(email_of(content, ANN), prepare(content), sender=SHOP, date=NOW)
    assert not signatures((), b"", body_hash=b"", at=NOW)
    assert signed(content).data.endswith(plain.data)


def test_a_shared_body_is_hashed_once() -> None:
    prepared = prepare(content_of(text="a\n"))
    assert prepared.body_hash is prepared.body_hash
    assert prepared.body_hash == hash_of_body(b"a\r\n\r\n\r\n")
