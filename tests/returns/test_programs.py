"""What mail servers and programs write when they cannot deliver, and complaints: mails of our own making in their formats.

programs.mbox has the mails, each with the kind and the findings that are expected: address, retry, suppress_recipient.
"""

import re
from pathlib import Path

from fairpost.returns.classify import classify
from fairpost.returns.mail import read_mail
from tests.returns.test_classify import NOW

MAILS = Path(__file__).with_name("programs.mbox")


def test_reports_of_many_programs_name_recipient_duration_and_consequence() -> None:
    wrong = []
    mails = re.findall(r"^From (\S+)\n(.*?)(?=^From \S+\n|\Z)", MAILS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(mails) > 100
    for name, text in mails:
        raw = text.encode()
        headers = read_mail(raw).headers
        found = classify(raw, now=NOW)
        told = {each.address: (each.retry, each.suppress_recipient) for each in found.recipients}
        expected = dict(_expected(each) for each in headers.all("x-expected"))
        is_as_expected = told.keys() == expected.keys() and all(
            want is None or want == got
            for address, wanted in expected.items()
            for want, got in zip(wanted, told[address], strict=True)
        )
        if found.kind != headers["x-kind"] or not is_as_expected:
            wrong.append(f"{name}: {found.kind} {told}")
    assert not wrong


def _expected(line: str) -> tuple[str, tuple[bool | None, bool | None]]:
    address, retry, suppress = re.fullmatch(r"(\S+); retry=(\w+); suppress=(\w+)", line).groups()  # type: ignore[union-attr]
    words = {"yes": True, "no": False, "any": None}
    return address, (words[retry], words[suppress])
