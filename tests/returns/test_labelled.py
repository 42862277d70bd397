"""The classifier's guarantees on a labelled set of real mails. FAIRPOST_TEST_BOUNCES names its folder; otherwise it is
../shared/data/bounces."""

import re
from base64 import encodebytes
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.returns.labelled import by_flufl, by_us, counts, folder, labels

FOLDER = folder() or Path()
pytestmark = pytest.mark.skipif(
    folder() is None, reason="no labelled mails: set FAIRPOST_TEST_BOUNCES, or put them in ../shared/data/bounces"
)


def test_the_labelled_set_is_understood() -> None:
    count = counts(FOLDER, by_us)
    wrong = [
        f"{part}: {count[part]} of {count[whole]}"
        for part, whole, share in (
            ("recipients found", "recipients", 0.95),
            ("temporary or permanent right", "temporary or permanent", 0.95),
            ("hard suppressed", "hard", 0.90),
            ("complaints right", "complaints", 1.0),
            ("auto_replys right", "auto_replys", 1.0),
        )
        if count[part] < share * count[whole]
    ]
    assert not wrong
    assert count["suppressed against the label"] <= 0.01 * count["suppressed"]
    flufl = counts(FOLDER, by_flufl)
    assert all(count[each] > flufl[each] for each in ("recipients found", "hard suppressed", "reports right"))


def _folded(raw: bytes) -> bytes:
    """Returns the mail with every header folded at every space."""
    head, gap, body = raw.partition(b"\n\n")
    fields = re.split(rb"\n(?![ \t])", head)
    return b"\n".join(re.sub(rb"(?<=[^\s:]) (?=\S)", b"\n\t", each) for each in fields) + gap + body


def _encoded(raw: bytes) -> bytes:
    """Returns the mail if it has a single plain-text part, with that part in base64 and UTF-16. Other mails are not
    changed."""
    head, _, body = raw.partition(b"\n\n")
    if re.search(rb"(?im)^(?:content-|mime-version|from )", head) or not raw.isascii():
        return raw
    fields = b"\nContent-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: base64\n\n"
    return head + fields + encodebytes(body.decode().encode("utf-16"))


MUTATIONS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "folded headers": _folded,
    "upper-case names": lambda raw: re.sub(rb"(?m)^[A-Za-z-]+(?=: )", lambda m: m[0].upper(), raw),
    "another charset": _encoded,
}


def test_the_form_of_a_mail_does_not_matter() -> None:
    changed = []
    for label in labels(FOLDER):
        raw = (FOLDER / label["file"]).read_bytes().replace(b"\r\n", b"\n")
        told = by_us(raw)
        changed += [f"{label['file']}: {name}" for name, mutated in MUTATIONS.items() if by_us(mutated(raw)) != told]
    assert not changed
