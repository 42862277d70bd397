"""Malicious mails: reading them takes bounded time and memory, and never fails."""

import gzip
import io
import random
import resource
import time
import zipfile
from base64 import b64encode
from functools import cache

from fairpost.returns.answers import read_answer
from fairpost.returns.classify import classify
from fairpost.returns.mail import BYTES_MAX, PARTS_MAX, read_mail
from tests.returns.mails import complaint, report
from tests.returns.test_classify import NOW

MB = 1_000_000
CPU_S_MAX = 5.0  # a normal mail takes a thousandth of this


def nested(depth: int) -> bytes:
    head = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(depth))
    return f"From: mailer-daemon@a.example\nSubject: failure notice\n{head}\nx".encode()


def zip_bomb() -> bytes:
    """100 MB of zeros in 100 kB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("invoice.txt", b"0" * 100 * MB)
    return file.getvalue()


@cache
def hostile() -> dict[str, bytes]:
    """150 MB of it."""
    return {
        "20 MB of text": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n" + b"ann@people.example " * MB,
        "10,000 parts": b"Content-Type: multipart/mixed; boundary=b\n\n"
        + b"--b\nContent-Type: text/plain\n\nx\n" * 10_000,
        "10,000 nested parts": nested(10_000),
        "messages in messages": b"From: mailer-daemon@a.example\n" + b"Content-Type: message/rfc822\n\n" * 30_000,
        "a million headers": b"X: y\n" * MB + b"\n",
        "one header of 20 MB": b"Subject: " + b"a" * 20 * MB + b"\n\n",
        "folded forever": b"Subject: a\n" + b" a\n" * MB,
        "encoded words": b"Subject: " + b"=?utf-8?q?=41?= " * 60_000 + b"\n\n",
        "at signs": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n" + b"@" * MB,
        "one long word": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n" + b"a" * MB,
        "tags": b"From: mailer-daemon@a.example\nSubject: failure notice\nContent-Type: text/html\n\n"
        + b"<style " * 150_000,
        "brackets": b"From: mailer-daemon@a.example\nSubject: failure notice\nContent-Type: text/html\n\n" + b"<" * MB,
        "dashes": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n" + b"- " * 500_000,
        "boundaries unnamed": b"Content-Type: multipart/mixed\n\n" + b"--" + b"-a" * 500_000,
        "groups": b"From: mailer-daemon@a.example\nContent-Type: message/delivery-status\n\n"
        + b"Final-Recipient: rfc822; a@b.example\n" * 30_000,
        "codes": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n" + b"550 " * 250_000,
        "dates": b"Auto-Submitted: auto-replied\nIn-Reply-To: <a@b>\n\n" + b"until 1.1. " * 90_000,
        "quotes": b"In-Reply-To: <a@b>\n\n" + b"On Monday Ben\n" * 70_000,
        "opening braces": b"\n\n" + b'{"a":' * 200_000,
        "json in a mail": b"From: a@b.example\n\n" + b'{"notificationType":"Bounce","bounce":' + b"[" * 100_000,
        "feedback": b"Content-Type: message/feedback-report\n\n" + b"Original-Rcpt-To: a@b.example\n" * 30_000,
        "nothing but spaces": b" " * MB,
        "nothing but lines": b"\n" * MB,
        "a base64 bomb": b"Content-Transfer-Encoding: base64\n\n" + b"A" * 20 * MB,
        "stops": b"In-Reply-To: <a@b>\n\n" + b"not " * 250_000 + b"stop",
        "addresses of dots": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n" + b"a@" + b"b." * 500_000,
        "a zip bomb": b"In-Reply-To: <a@b>\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: application/zip\n"
        + b"Content-Transfer-Encoding: base64\n\n"
        + b64encode(zip_bomb())
        + b"\n--b--\n",
        "a compressed body": b"In-Reply-To: <a@b>\nContent-Encoding: gzip\n\n" + gzip.compress(b"0" * 50 * MB),
        "nested tags in a reply": b"In-Reply-To: <a@b>\nContent-Type: text/html\n\n" + b"<div>" * 200_000,
        "broken encodings": b"In-Reply-To: <a@b>\nSubject: =?utf-8?b?\xff=?= =?x?y?z?= =?utf-7?q?+2AA-?=\nContent-Type: text/plain; charset=utf-7\n\n+2AA-\0"
        + bytes(range(256)) * 100,
        "half a character": "In-Reply-To: <a@b>\nContent-Type: text/plain; charset=utf-16\n\nüü".encode()[:-1],
        "NULs in a report": report("5.1.1", "550 5.1.1 User\0 unknown", recipient="a\0nn@people.example"),
        "many failed": b"From: mailer-daemon@a.example\nSubject: failure notice\n\n"
        + b"".join(b"<a%d@b.example>: 550 no\n" % n for n in range(30_000)),
    }


def test_hostile_mail_takes_bounded_time_and_memory() -> None:
    mails, slow = hostile(), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, raw in mails.items():
        start = time.process_time()
        classify(raw, now=NOW)
        read_answer(raw)
        if (took := time.process_time() - start) > CPU_S_MAX:
            slow.append(f"{name}: {took:.1f} s")
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert not slow
    assert grown_kb < 300_000


def test_only_the_beginning_and_a_bounded_number_of_parts_are_read() -> None:
    assert len(read_mail(hostile()["10,000 parts"]).parts) == PARTS_MAX
    assert len(read_mail(hostile()["20 MB of text"]).parts[0].body) <= BYTES_MAX
    assert len(classify(hostile()["many failed"], now=NOW).recipients) <= 100


def test_damaged_mails_are_read_without_failing() -> None:
    roll = random.Random(25)
    for raw in (report("5.1.1", "550 5.1.1 User unknown"), complaint()):
        for _ in range(400):
            damaged = bytearray(raw)
            for _ in range(roll.randint(1, 30)):
                at = roll.randrange(len(damaged))
                match roll.randrange(3):
                    case 0:
                        damaged[at] = roll.randrange(256)
                    case 1:
                        del damaged[at : at + roll.randint(1, 50)]
                    case _:
                        damaged[at:at] = raw[: roll.randint(0, 80)]
                if not damaged:
                    break
            classify(bytes(damaged), now=NOW)
