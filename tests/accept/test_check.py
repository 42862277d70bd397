"""How the database validates e-mails: what it rejects, for which field, and what it must accept.

Everything goes through SQL, as in any language. Each check is rolled back.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formataddr
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.model.email_fields import BY_NAME, EMAIL_FIELDS, EmailField
from fairpost.store.migrations import migrate
from tests.thorough import times

HELLO: dict[str, Any] = {"to": "ann@example.com", "subject": "Hello", "text": "Hi"}
ADDRESS_FIELDS = ("to", "cc", "bcc", "from", "reply_to")
FIELDS = tuple(BY_NAME)
ATTACHED_BYTES_MAX = BY_NAME["attachments"].bytes_max or 0
CONTROLS = [chr(c) for c in (*range(1, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)]
INVISIBLE = "\xa0\xad\u1680\u2000\u200b\u200e\u202e\u202f\u205f\u2060\u2066\u3000\ufeff"


@dataclass(frozen=True)
class Judgement:
    id: int | None
    field: str | None = None
    message: str | None = None


class Judge:
    def __init__(self, conn: "psycopg.Connection[Any]") -> None:
        self.conn = conn

    def all(self, emails: list[Any]) -> list[Judgement]:
        """Checks each e-mail and rolls back. The result is that of the e-mail, or an error if it was rejected. If all
        are rejected, nothing is written."""
        with self.conn.transaction(force_rollback=True):
            rows = self.conn.execute(
                "SELECT id, new, error ->> 'field', error ->> 'message' "
                "FROM fairpost.enqueue_many(%s::text::jsonb) ORDER BY ord",
                [json.dumps(emails)],
            ).fetchall()
            xid = self.conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
        assert len(rows) == len(emails)
        for email_id, new, field, message in rows:
            is_refused = field is not None
            assert (email_id is None) == is_refused == bool(message)
            assert not (new and is_refused), "an e-mail with a known key is not new"
        if all(row[0] is None for row in rows):
            assert xid == (None,), "something was written"
        return [Judgement(row[0], row[2], row[3]) for row in rows]

    def one(self, email: Any) -> Judgement:
        (judgement,) = self.all([email])
        return judgement

    def refuses(self, field: str, *emails: Any) -> None:
        for email, judgement in zip(emails, self.all(list(emails)), strict=True):
            assert judgement.field == field, (email, judgement)

    def accepts(self, *emails: Any) -> None:
        for email, judgement in zip(emails, self.all(list(emails)), strict=True):
            assert judgement.id, (email, judgement)

    def parse(self, address: Any) -> Any:
        row = self.conn.execute("SELECT fairpost.parse_address(%s::text::jsonb)", [json.dumps(address)]).fetchone()
        assert row
        return row[0]


@pytest.fixture(scope="module")
def judge(file_url: str) -> Iterator[Judge]:
    with psycopg.connect(file_url, autocommit=True) as conn:
        yield Judge(conn)


def hello(**more: Any) -> dict[str, Any]:
    return {**HELLO, **more}


def attached(**more: Any) -> dict[str, Any]:
    return hello(attachments=[{"filename": "a.txt", "data": "", **more}])


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────
NO_ADDRESSES = [
    *("", " ", "@", "ann", "ann@", "@example.com", "ann@@example.com", "ann@bob@example.com", "ann@localhos"),
    *(" ann@example.com", "ann@example.com ", "an n@example.com", "ann@exa mple.com", "ann @example.com"),
    *(".ann@example.com", "ann.@example.com", "an..n@example.com", "ann@.example.com", "ann@example.com."),
    *("ann@example..com", "ann@-example.com", "ann@example-.com", "ann@example.-com", "ann@example.com-"),
    *("ann@exam_ple.com", "ann@[10.0.0.1]", "ann@[IPv6:::1]", "ann@example.com:25", "ann@example,com", "ann@(x).com"),
    *('"ann"@example.com', "an\\n@example.com", "an(n)@example.com", "an,n@example.com", "an:n@example.com"),
    *("an;n@example.com", "an[n]@example.com", "ann@example.com, bob@example.com", "mailto:ann@example.com"),
    *("Ann ann@example.com", "Ann <ann@example.com", "Ann ann@example.com>", "Ann <<ann@example.com>>"),
    *("Ann <ann@example.com> x", "Ann <ann@example.com><bob@example.com>", "Ann <>", "Ann < ann@example.com>"),
    *('An"n <ann@example.com>', '"Ann <ann@example.com>', '"A\\nn" <ann@example.com>', '"A"n" <ann@example.com>'),
    *("ann@example。com", "ann@" + "a" * 64 + ".com", "a" * 65 + "@example.com", "ä" * 33 + "@example.com"),
    *(f"an{space}n@example.com" for space in INVISIBLE),
    *(f"ann@exa{space}mple.com" for space in INVISIBLE),
    *(f"ann@example.com{space}" for space in INVISIBLE),
    *(None, True, 5, [], ["ann@example.com"]),
]
WRONG_PARTS: list[tuple[str, dict[str, Any]]] = [
    *(
        (".address", each)
        for each in ({}, {"name": ""}, {"name": "A\nB"}, {"address": None}, {"address": 5}, {"address": "ann"})
    ),
    *((".address", {"address": each}) for each in ("Ann <ann@example.com>", ["ann@example.com"])),
    (".name", {"address": "ann@example.com", "name": 5}),
    (".nick", {"address": "ann@example.com", "nick": "Ann"}),
]


def test_an_invalid_address_is_refused_in_every_field(judge: Judge) -> None:
    for kind in ("to", "cc", "bcc"):
        judge.refuses(f"{kind}[1]", *(hello(**{kind: ["ann@example.com", address]}) for address in NO_ADDRESSES))
    single = [address for address in NO_ADDRESSES if address is not None and not isinstance(address, list)]
    for field in ADDRESS_FIELDS:
        judge.refuses(field, *(hello(**{field: address}) for address in single))
    for part, address in WRONG_PARTS:
        judge.refuses(f"to[1]{part}", hello(to=["ann@example.com", address]))
        for field in ADDRESS_FIELDS:
            judge.refuses(f"{field}{part}", hello(**{field: address}))


def test_only_a_sender_can_be_a_name_alone(judge: Judge) -> None:
    named = {"name": "Ann"}
    judge.accepts(hello(**{"from": named}))
    judge.refuses("to[0].address", hello(to=[named]))
    judge.refuses("reply_to.address", hello(reply_to=named))


ADDRESSES: dict[str, dict[str, str]] = {
    "ann@example.com": {"address": "ann@example.com"},
    "Ann.Lee@Example.COM": {"address": "Ann.Lee@example.com"},
    "ann+tag@example.com": {"address": "ann+tag@example.com"},
    "!#$%&'*+-/=?^_`{|}~@example.com": {"address": "!#$%&'*+-/=?^_`{|}~@example.com"},
    "a@b.c": {"address": "a@b.c"},
    "ann@localhost": {"address": "ann@localhost"},
    "ann@xn--bcher-kva.example": {"address": "ann@xn--bcher-kva.example"},
    "ann@bücher.example": {"address": "ann@bücher.example"},
    "ann@例え.テスト": {"address": "ann@例え.テスト"},
    "用户@例え.テスト": {"address": "用户@例え.テスト"},
    "jürgen@example.com": {"address": "jürgen@example.com"},
    "ann@نامه\u200cای.com": {"address": "ann@نامه\u200cای.com"},
    "1@2.3": {"address": "1@2.3"},
    "<ann@example.com>": {"address": "ann@example.com"},
    "Ann <ann@example.com>": {"address": "ann@example.com", "name": "Ann"},
    "  Ann   Lee  <ann@example.com> ": {"address": "ann@example.com", "name": "Ann   Lee"},
    "Lee, Ann (Acme) <ann@example.com>": {"address": "ann@example.com", "name": "Lee, Ann (Acme)"},
    '"Ann \\"The Boss\\" Lee \\\\" <ann@example.com>': {
        "address": "ann@example.com",
        "name": 'Ann "The Boss" Lee \\',
    },
    '"Lee <Ann>" <ann@example.com>': {"address": "ann@example.com", "name": "Lee <Ann>"},
    '"" <ann@example.com>': {"address": "ann@example.com"},
    "Ann 🎉 Ünal <ann@example.com>": {"address": "ann@example.com", "name": "Ann 🎉 Ünal"},
    "a" * 64 + "@example.com": {"address": "a" * 64 + "@example.com"},
    "ann@" + "a" * 63 + ".com": {"address": "ann@" + "a" * 63 + ".com"},
}


def test_unusual_addresses_pass(judge: Judge) -> None:
    for given_address, parsed in ADDRESSES.items():
        assert judge.parse(given_address) == parsed
        assert judge.parse(parsed) == parsed
        judge.accepts(*(hello(**{field: given_address}) for field in ADDRESS_FIELDS))
        judge.accepts(*(hello(**{field: parsed}) for field in ADDRESS_FIELDS))
        judge.accepts(*(hello(**{field: [given_address, parsed]}) for field in ("to", "cc", "bcc")))


letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
words = st.text(letters, max_size=20)
pieces = st.sampled_from([*'@.<>"\\ ,;:()-+_', "ann", "example.com", "ä", "\r\n", "\x85", "\u2028", "\u200b"])
addresslike = st.lists(pieces | words, max_size=8).map("".join) | st.builds("{} <{}@{}>".format, words, words, words)


@settings(max_examples=times(90))
@given(address=addresslike | st.fixed_dictionaries({"address": addresslike, "name": words}))
def test_an_accepted_address_is_clean_and_stays_the_same(judge: Judge, address: Any) -> None:
    parsed = judge.parse(address)
    if parsed is not None:
        assert judge.parse(parsed) == parsed
        local, at, domain = parsed["address"].partition("@")
        assert local
        assert at
        assert domain
        assert not set(parsed["address"]) & {*CONTROLS, *INVISIBLE, *' "<>,;:()[]\\'}
        assert "@" not in domain
        assert len(parsed.get("name", "").splitlines()) <= 1
        EmailMessage()["To"] = formataddr((parsed.get("name", ""), "ann@example.com"))


# ── line breaks and other control characters ─────────────────────────────────────────────────────────────
# The field that contains the text, its name in errors, and the e-mail with the text.
PLACES: list[tuple[str, Callable[[str], dict[str, Any]]]] = [
    ("subject", lambda x: hello(subject=x)),
    ("workspace", lambda x: hello(workspace=x)),
    ("user", lambda x: hello(user=x)),
    ("stream", lambda x: hello(stream=x)),
    ("pool", lambda x: hello(pool=x)),
    ("account", lambda x: hello(account=x)),
    ("idempotency_key", lambda x: hello(idempotency_key=x)),
    ("headers.X-A", lambda x: hello(headers={"X-A": x})),
    ("headers", lambda x: hello(headers={f"X-A{x}": "a"})),
    ("type", lambda x: hello(type=f"a{x}")),
    ("tags.a", lambda x: hello(tags={"a": x})),
    ("tags", lambda x: hello(tags={f"a{x}": "b"})),
    ("class", lambda x: hello(**{"class": f"urgent{x}"})),
    ("on_doubt", lambda x: hello(on_doubt=f"hold{x}")),
    ("due_at", lambda x: hello(due_at=f"2100-01-01T00:00:00Z{x}")),
    ("content_id", lambda x: {"to": "ann@example.com", "content_id": f"5{x}"}),
    ("attachments[0].filename", lambda x: attached(filename=x)),
    ("attachments[0].content_type", lambda x: attached(content_type=f"image/png{x}")),
    ("attachments[0].inline_id", lambda x: attached(inline_id=f"logo{x}")),
]
for _field in ADDRESS_FIELDS:
    PLACES += [
        (_field, lambda x, f=_field: hello(**{f: f"ann@example.com{x}"})),  # type: ignore[misc]
        (_field, lambda x, f=_field: hello(**{f: f"{x}ann@example.com"})),  # type: ignore[misc]
        (_field, lambda x, f=_field: hello(**{f: f"Ann{x} <ann@example.com>"})),  # type: ignore[misc]
        (_field, lambda x, f=_field: hello(**{f: f'"Ann{x}" <ann@example.com>'})),  # type: ignore[misc]
        (_field, lambda x, f=_field: hello(**{f: f"{x}Ann <ann@example.com>"})),  # type: ignore[misc]
        (_field, lambda x, f=_field: hello(**{f: f"Ann <ann@example.com{x}>"})),  # type: ignore[misc]
        (_field, lambda x, f=_field: hello(**{f: f"Ann <ann@example.com>{x}"})),  # type: ignore[misc]
        (f"{_field}.name", lambda x, f=_field: hello(**{f: {"address": "ann@example.com", "name": x}})),  # type: ignore[misc]
    ]


def test_no_control_character_gets_in_anywhere(judge: Judge) -> None:
    for field, email_with in PLACES:
        controls = [control for control in CONTROLS if (field, control) != ("headers.X-A", "\t")]
        texts = [(c, f"a{c}b", f"a{c}", f"\r\nBcc: eve@x.org{c}") for c in controls]
        judge.refuses(field, *(email_with(text) for four in texts for text in four))


def test_bodies_and_fields_may_contain_any_character(judge: Judge) -> None:
    every = "".join(CONTROLS) + INVISIBLE + "\ufffe\U0010ffff🎉"
    judge.accepts(hello(text=every, html=every, fields={every: every}))


ONE_LINERS: list[Callable[[str], dict[str, Any]]] = [
    lambda x: hello(subject=x),
    lambda x: hello(headers={"X-A": x}),
    lambda x: hello(to={"address": "ann@example.com", "name": x}),
    lambda x: attached(filename=x),
]


@given(text=st.text(letters | st.sampled_from(CONTROLS), max_size=300), place=st.sampled_from(ONE_LINERS))
def test_an_accepted_header_can_be_written_by_python(
    judge: Judge, text: str, place: Callable[[str], dict[str, Any]]
) -> None:
    if judge.one(place(text)).id:
        assert len(text.splitlines()) <= 1
        message = EmailMessage()
        message["Subject"] = text
        message.as_bytes()


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────
def of_size(size: int) -> str:
    return "x" * size


def base64_of(size: int) -> str:
    return b64encode(bytes(size)).decode()


def people(size: int) -> list[str]:
    return [f"u{n}@example.com" for n in range(size)]


def attachments_of(size: int) -> list[dict[str, str]]:
    """One attachment, or two with one byte too many: the limit applies to all of them together."""
    sizes = [size] if size <= ATTACHED_BYTES_MAX else [size // 2, size - size // 2]
    return [{"filename": "a", "data": base64_of(each)} for each in sizes]


# The largest valid size, the error for one more, and an e-mail of a given size.
LIMITS: list[tuple[int, str, Callable[[int], dict[str, Any]]]] = [
    (998, "subject", lambda n: hello(subject="ä" * n)),
    (200, "workspace", lambda n: hello(workspace="ä" * n)),
    (200, "user", lambda n: hello(user="ä" * n)),
    (200, "stream", lambda n: hello(stream="ä" * n)),
    (100, "pool", lambda n: hello(pool="ä" * n)),
    (100, "account", lambda n: hello(account="ä" * n)),
    (500, "idempotency_key", lambda n: hello(idempotency_key="ä" * n)),
    (10_485_760, "text", lambda n: hello(text="ä" + of_size(n - 2))),  # bytes, not letters
    (10_485_760, "html", lambda n: hello(html=of_size(n))),
    (65_536, "fields", lambda n: hello(fields={"x": of_size(n - len('{"x": ""}'))})),
    (50, "attempts_max", lambda n: hello(attempts_max=n)),
    (50, "headers", lambda n: hello(headers={f"X-{i}": "" for i in range(n)})),
    (100, "headers", lambda n: hello(headers={of_size(n): ""})),
    (8_192, "headers.X-A", lambda n: hello(headers={"X-A": of_size(n)})),
    (4_096, "headers.X-A", lambda n: hello(headers={"X-A": "ä" * n})),
    (50, "attachments", lambda n: hello(attachments=[{"filename": "a", "data": ""}] * n)),
    (ATTACHED_BYTES_MAX, "attachments", lambda n: hello(attachments=attachments_of(n))),
    (255, "attachments[0].filename", lambda n: attached(filename="ä" * n)),
    (100, "attachments[0].content_type", lambda n: attached(content_type=f"{of_size(n)}/x")),
    (100, "attachments[0].content_type", lambda n: attached(content_type=f"x/{of_size(n)}")),
    (200, "attachments[0].inline_id", lambda n: attached(inline_id=of_size(n))),
    (256, "to.name", lambda n: hello(to={"address": "ann@example.com", "name": "ä" * n})),
    (64, "to", lambda n: hello(to=f"{of_size(n)}@example.com")),
    (63, "to", lambda n: hello(to=f"ann@{of_size(n)}.com")),
    (254, "to", lambda n: hello(to=f"anna@{'x' * 62}.{'x' * 62}.{'x' * 62}.{of_size(n - 194)}")),
    (150, "type", lambda n: hello(type=of_size(n))),
    (20, "tags", lambda n: hello(tags={f"t{i}": "" for i in range(n)})),
    (50, "tags", lambda n: hello(tags={of_size(n): ""})),
    (200, "tags.order", lambda n: hello(tags={"order": "ä" * n})),
    (2_048, "metadata", lambda n: hello(metadata={"x": of_size(n - len('{"x": ""}'))})),
    (50, "to", lambda n: hello(to=people(n))),
    (50, "cc", lambda n: hello(to=people(20), cc=people(n - 20))),
    (50, "bcc", lambda n: hello(to=people(20), cc=people(29), bcc=people(n - 49))),
]


def test_the_limit_passes_and_one_more_is_refused(judge: Judge) -> None:
    for limit, field, email_of in LIMITS:
        judge.accepts(email_of(limit))
        judge.refuses(field, email_of(limit + 1))


@pytest.mark.parametrize("field", EMAIL_FIELDS, ids=lambda each: each.name)
def test_every_described_bound_is_one_of_those_limits(field: EmailField) -> None:
    bounds = {each for each in (field.chars_max, field.bytes_max, field.le, field.count_max) if each is not None}
    assert bounds <= {limit for limit, name, _ in LIMITS if name == field.name}


@pytest.mark.parametrize("field", EMAIL_FIELDS, ids=lambda each: each.name)
def test_the_least_and_the_choices_are_as_described(judge: Judge, field: EmailField) -> None:
    if field.chars_max is not None:
        of_none = judge.one(hello(**{field.name: ""}))
        assert of_none.field == (field.name if field.chars_min else None)
    if field.ge is not None:
        judge.accepts(hello(**{field.name: field.ge}))
        judge.refuses(field.name, hello(**{field.name: field.ge - 1}))
    judge.accepts(*(hello(**{field.name: choice}) for choice in field.choices))
    if field.choices:
        judge.refuses(field.name, hello(**{field.name: "other"}))


def test_the_fields_that_are_known_are_those_described(judge: Judge) -> None:
    known = (judge.one(hello(nonsense=1)).message or "").partition("known: ")[2]
    assert set(known.split(", ")) == set(BY_NAME)


def test_a_value_that_is_far_too_long_is_refused_with_a_short_message(judge: Judge) -> None:
    long = "x" * 50_000
    emails = [email_with(long) for _, email_with in PLACES] + [hello(**{long: 1}), hello(headers={long: "a"})]
    for judgement in judge.all(emails):
        assert judgement.id is None
        assert len(judgement.field or "") + len(judgement.message or "") < 1_000


def test_ten_thousand_emails_are_one_call_and_one_more_is_not(judge: Judge) -> None:
    judge.accepts(*[HELLO] * 10_000)
    with pytest.raises(psycopg.DatabaseError, match="10000") as refused:
        judge.all([HELLO] * 10_001)
    assert refused.value.sqlstate == "FP001"


# ── other rejections ─────────────────────────────────────────────────────────────────────────────────────
REFUSED: list[tuple[str, Any]] = [
    ("", None),
    ("", 5),
    ("", "ann@example.com"),
    ("", [HELLO]),
    ("to", {}),
    ("to", hello(to=None)),
    ("to", hello(to=[])),
    ("to", hello(to=[], cc=[], bcc=[])),
    ("subject", hello(subject=None)),
    ("text", hello(text=None)),
    ("sbject", hello(sbject="x")),
    ("To", hello(To="ann@example.com")),
    ("kind", hello(kind=None)),
    ("workspace", hello(workspace="")),
    ("pool", hello(pool="")),
    ("pool", hello(pool="@sales")),
    ("account", hello(account="")),
    ("account", hello(account="sales", pool="default")),
    ("idempotency_key", hello(idempotency_key="")),
    ("class", hello(**{"class": "Urgent"})),
    ("on_doubt", hello(on_doubt="drop")),
    ("attempts_max", hello(attempts_max=0)),
    ("attempts_max", hello(attempts_max=-1)),
    ("attempts_max", hello(attempts_max=1.5)),
    ("attempts_max", hello(attempts_max="5")),
    ("attempts_max", hello(attempts_max=10**400)),
    ("follows", hello(follows=5)),
    ("follows", hello(follows="first")),
    ("follows", hello(follows=10**30)),
    ("content_id", {"to": "ann@example.com", "content_id": 5}),
    ("content_id", {"to": "ann@example.com", "content_id": -5}),
    ("content_id", {"to": "ann@example.com", "content_id": 10**400}),
    ("content_id", {"to": "ann@example.com", "content_id": 2**63}),
    ("content_id", {"to": "ann@example.com", "content_id": 9 * 10**18}),
    ("content_id", {"to": "ann@example.com", "content_id": "٣"}),
    ("content_id", hello(content_id=5)),
    ("headers", hello(headers={"": "a"})),
    ("headers", hello(headers={"X A": "a"})),
    ("headers", hello(headers={"X:A": "a"})),
    ("headers", hello(headers={"Xä": "a"})),
    ("headers.X-A", hello(headers={"X-A": None})),
    ("headers.X-A", hello(headers={"X-A": 5})),
    ("headers.X-A", hello(headers={"X-A": ["a"]})),
    ("attachments[0]", hello(attachments=["a.txt"])),
    ("attachments[0]", attached(size=5)),
    ("attachments[1].data", hello(attachments=[{"filename": "a", "data": ""}, {"filename": "b", "data": "é"}])),
    ("attachments[0].data", hello(attachments=[{"filename": "a.txt"}])),
    ("attachments[0].data", attached(data=None)),
    ("attachments[0].data", attached(data="no base64!")),
    ("attachments[0].data", attached(data="YQ=")),
    ("attachments[0].filename", hello(attachments=[{"data": ""}])),
    ("attachments[0].filename", attached(filename="")),
    ("attachments[0].filename", attached(filename="../a.txt")),
    ("attachments[0].filename", attached(filename="a\\b.txt")),
    ("attachments[0].content_type", attached(content_type="png")),
    ("attachments[0].content_type", attached(content_type="text/html; charset=x")),
    ("attachments[0].inline_id", attached(inline_id="")),
    ("attachments[0].inline_id", attached(inline_id="<logo>")),
]
WRONG_LABELS: dict[str, list[Any]] = {
    "type": ["", " ", "-a", "a b", "ä", "a\n", "a@b", 5, ["a"]],
    "tags": [[], "a=b", 5, {"": "a"}, {"a b": "c"}, {"ä": "b"}, {"a\n": "b"}, {"a@b": "c"}],
    "metadata": [[], "a", 5, True],
}
REFUSED += [(name, hello(**{name: value})) for name, values in WRONG_LABELS.items() for value in values]
WRONG_TAGS: list[Any] = [None, 5, True, ["b"], {"b": "c"}, "b\nc", "\x7f"]
REFUSED += [("tags.a", hello(tags={"a": value})) for value in WRONG_TAGS]
REFUSED += [
    (f"headers.{name}", hello(headers={name: "a"}))
    for name in (
        *("From", "TO", "cc", "Bcc", "Subject", "Date", "Message-ID", "Reply-To", "Sender", "Return-Path"),
        *("Received", "MIME-Version", "DKIM-Signature", "Content-Type", "content-transfer-encoding"),
    )
]


def test_a_bad_email_is_refused_by_the_name_of_its_field(judge: Judge) -> None:
    judgements = judge.all([email for _, email in REFUSED])
    assert [(j.field, email) for j, (_, email) in zip(judgements, REFUSED, strict=True)] == REFUSED


ACCEPTED: list[dict[str, Any]] = [
    HELLO,
    hello(subject="", text=""),
    hello(text=None, html=""),
    hello(subject="🎉 " * 300),
    hello(to=None, cc="ann@example.com"),
    hello(to=[], bcc=["ann@example.com"]),
    hello(to=["ann@example.com", "ann@example.com"]),
    hello(user="", stream=""),
    hello(account="sales"),
    hello(pool="a@b"),
    hello(attempts_max=1),
    hello(headers={"List-Unsubscribe": "<https://example.com/u?a=1&b=2>", "X-Tab": "a\tb", "X-Empty": ""}),
    hello(headers={"!#$%&'*+-.^_`|~09": "ä🎉"}),
    hello(attachments=[], headers={}, fields={}, cc=[], bcc=[]),
    attached(filename='a "quoted"; ünï.txt', content_type="application/vnd.ms-excel+x", inline_id="logo@1.x+y"),
    attached(filename="a.txt", content_type=None, inline_id=None, data="YQ==\n"),
    hello(type="hub_forgot_password", tags={"order": "7 ä", "a.b-c_D": ""}, metadata={"a": [1, {"b": None}]}),
    hello(type=None, tags={}, metadata={}),
    {name: HELLO.get(name) for name in FIELDS},
]


def test_unusual_emails_pass(judge: Judge) -> None:
    judge.accepts(*ACCEPTED)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────
NO_MOMENTS = [
    *("", "now", "tomorrow", "infinity", "-infinity", "epoch", "2100-01-01", "2100-01-01T00:00:00", "12:00Z"),
    *("2100-02-30T00:00:00Z", "2100-02-29T00:00:00Z", "2100-13-01T00:00:00Z", "2100-00-10T00:00:00Z"),
    *("2100-01-32T00:00:00Z", "2100-01-00T00:00:00Z", "2100-01-01T24:01:00Z", "2100-01-01T00:60:00Z"),
    *("2100-01-01T25:00:00Z", "2100-01-01T00:00:61Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
    *("2100-01-01T00:00:00+16:00", "2100-01-01T00:00:00+99", "2100-01-01T00:00:00-12:60", "2100-01-01T00:00:00z"),
    *("2100-01-01T00:00:00.1234567Z", "2100-01-01T00:00:00 Z", "2100-01-01T00:00:00Z ", "2100-01-01T00:00:00CET"),
    *("2100-01-01T00:00:00Europe/Vienna", "2100-01-01T00:00:00Z BC", "-2100-01-01T00:00:00Z", "２100-01-01T00:00Z"),
    *("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2200-01-01T00:00:01Z", "9999-12-31T23:59:59-12:00"),
    *(4102444800, 4102444800.5, True, [], {}, ["2100-01-01T00:00:00Z"]),
]
MOMENTS = [
    *("2100-01-01T00:00:00Z", "2100-01-01 00:00Z", "2096-02-29T23:59:59.999999+00", "2100-01-01T00:00:00+0530"),
    *("2100-01-01T00:00:00-12:00", "2100-01-01T24:00:00Z", "2100-01-01T00:00:60Z", "2199-12-31T23:59:59Z"),
]


def test_an_invalid_time_is_refused(judge: Judge) -> None:
    judge.refuses("due_at", *(hello(due_at=moment) for moment in NO_MOMENTS))
    judge.refuses("expires_at", *(hello(expires_at=moment) for moment in NO_MOMENTS))


def test_moments_pass(judge: Judge) -> None:
    judge.accepts(*(hello(due_at=moment) for moment in (*MOMENTS, "1970-01-01T00:00:00Z")))
    judge.accepts(*(hello(expires_at=moment) for moment in MOMENTS))


def test_an_email_expires_after_it_is_due_and_after_now(judge: Judge) -> None:
    at_nine, later = "2100-01-01T09:00:00Z", "2100-01-01T09:00:00.000001Z"
    judge.accepts(hello(due_at=at_nine, expires_at=later), hello(due_at="1999-01-01T09:00:00Z", expires_at=at_nine))
    judge.refuses(
        "expires_at",
        hello(due_at=at_nine, expires_at=at_nine),
        hello(due_at=later, expires_at=at_nine),
        hello(expires_at="1999-01-01T09:00:00Z"),
        hello(due_at="1999-01-01T09:00:00Z", expires_at="1999-01-01T10:00:00Z"),
        hello(due_at="2100-01-01T09:00:00+01:00", expires_at="2100-01-01T09:00:00+02:00"),
    )


# ── arbitrary JSON ───────────────────────────────────────────────────────────────────────────────────────
OF_ANOTHER_TYPE = [True, False, 5, 1.5, "x", [], [5], {}, {"x": 5}]
TAKES: dict[str, list[Any]] = {
    **{name: ["x"] for name in ("subject", "text", "html", "workspace", "user", "stream", "pool", "account")},
    **{name: [[]] for name in ("cc", "bcc", "attachments")},
    "idempotency_key": ["x"],
    "headers": [{}],
    "fields": [{}, {"x": 5}],
    "attempts_max": [5],
    "type": ["x"],
    "tags": [{}],
    "metadata": [{}, {"x": 5}],
}


def test_a_value_of_another_type_is_refused_in_every_field(judge: Judge) -> None:
    for name in FIELDS:
        for value in OF_ANOTHER_TYPE:
            email = {"to": "ann@example.com", "content_id": value} if name == "content_id" else hello(**{name: value})
            judgement = judge.one(email)
            if any(type(value) is type(good) and value == good for good in TAKES.get(name, [])):
                assert judgement.id, email
            else:
                assert (judgement.field or "").partition("[")[0].partition(".")[0] == name, (email, judgement)


telling = st.sampled_from(
    [
        *("ann@example.com", "Ann <ann@example.com>", "urgent", "hold", "2100-01-01T00:00:00Z", "YQ==", "image/png"),
        *("5", 5, 1, 0, 51, -1, 2**63, 1e300, "", "@", "x" * 300, "\u2028", "\r\n", "٣"),
    ]
)
names = st.sampled_from([*FIELDS, "address", "name", "filename", "data", "content_type", "inline_id", "X-A"]) | words
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
anything = st.recursive(
    telling | scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=10,
)
emails = st.dictionaries(st.sampled_from(FIELDS), anything, max_size=5).map(lambda more: {**HELLO, **more})


@settings(max_examples=times(60))
@given(batch=st.lists(emails | st.dictionaries(names, anything, max_size=5) | anything, min_size=1, max_size=5))
def test_any_json_gives_a_result_or_a_complaint_and_never_an_error(judge: Judge, batch: list[Any]) -> None:
    for email, judgement in zip(batch, judge.all(batch), strict=True):
        if judgement.field:
            name = judgement.field
            assert any(name.startswith(known) for known in ("to", "subject", "text", *email))
        elif judgement.id is None:
            assert not isinstance(email, dict) or "" in email


addresses = st.from_regex(r"[A-Za-z0-9_+.-]{1,70}@[a-zA-Z0-9.-]{1,70}", fullmatch=True) | telling
nearly_plain = st.fixed_dictionaries(
    {"to": addresses, "subject": words | telling, "text": words | telling},
    optional={
        "from": addresses,
        "html": words,
        "class": st.sampled_from(["urgent", "bulk", "x"]),
        "due_at": st.datetimes().map(lambda at: at.isoformat() + "Z") | telling,
        **dict.fromkeys(("workspace", "user", "stream", "pool", "account", "idempotency_key"), words | telling),
        "content_id": telling,
    },
)


@pytest.mark.thorough
@settings(max_examples=times(15))
@given(batch=st.lists(nearly_plain, min_size=20, max_size=20))
def test_a_plain_email_passes_every_check(judge: Judge, batch: list[Any]) -> None:
    """The shortcut never accepts what the full check would reject, and gives the same result."""
    rows = judge.conn.execute(
        """SELECT e, fairpost.check_email(e, now()) FROM jsonb_array_elements(%s::text::jsonb) e
           WHERE fairpost.is_plain(e, jsonb_populate_record(NULL::fairpost.plain_fields, e), '{5}') AND NOT e ? 'content_id' AND (
               fairpost.check_email(e, now()) IS NOT NULL
               OR fairpost.recipients_of(e) <> jsonb_build_array(jsonb_build_object('kind', 'to', 'address', e ->> 'to'))
               OR fairpost.parse_address(e -> 'from') <> jsonb_build_object('address', e ->> 'from'))""",
        [json.dumps(batch)],
    ).fetchall()
    assert rows == []


def test_a_plain_email_is_known_at_first_sight(judge: Judge) -> None:
    """Otherwise the shortcut would never be taken, and only the benchmark would show it."""
    plain = hello(**{"from": "news@shop.example", "workspace": "w", "user": "u", "stream": "c", "idempotency_key": "k"})
    row = judge.conn.execute(
        "SELECT fairpost.is_plain(e, jsonb_populate_record(NULL::fairpost.plain_fields, e), NULL) FROM (SELECT %s::text::jsonb) e(e)",
        [json.dumps(plain)],
    ).fetchone()
    assert row == (True,)


SHORT_WAY = (
    """SELECT e, r.id FROM jsonb_array_elements(%s::text::jsonb) e, fairpost.enqueue_plain(e, %s, 9, 9, 9999, 5) r"""
)
LONG_WAY = """SELECT e, r.id FROM jsonb_array_elements(%s::text::jsonb) e,
    fairpost.enqueue_many(jsonb_build_array(e), %s, 9, 9, 9999, '{5}') r"""
WRITTEN = """
    SELECT w.what, replace((to_jsonb(w.written) - 'xid')::text, i.id::text, 'its id')
    FROM unnest(%s::bigint[]) WITH ORDINALITY i(id, ord) CROSS JOIN LATERAL (
        SELECT 'queue', to_jsonb(q) FROM fairpost.queue q WHERE q.id = i.id UNION ALL
        SELECT 'contents', to_jsonb(c) FROM fairpost.contents c WHERE c.id = i.id UNION ALL
        SELECT 'arrivals', to_jsonb(a) FROM fairpost.arrivals a WHERE a.id = i.id UNION ALL
        SELECT 'idempotency_keys', to_jsonb(k) || coalesce(to_jsonb(f), '{}') FROM fairpost.idempotency_keys k
        LEFT JOIN fairpost.request_fingerprints f USING (key_hash) WHERE k.email_id = i.id) w(what, written)
    ORDER BY i.ord, w.what"""
COUNTED = "SELECT workspace, user_name, hour, n FROM fairpost.submissions ORDER BY 1, 2, 3"
NOW = datetime(2026, 3, 1, 9, 59, 59, 999999, UTC)


@pytest.mark.thorough
@settings(max_examples=times(20))
@given(batch=st.lists(nearly_plain | emails | anything, min_size=10, max_size=10))
def test_the_short_way_leaves_the_same_rows_as_the_long_one(judge: Judge, batch: list[Any]) -> None:
    def written(way: str, emails: list[Any]) -> tuple[list[Any], list[Any]]:
        with judge.conn.transaction(force_rollback=True):
            taken = [row for row in judge.conn.execute(way, [json.dumps(emails), NOW]).fetchall() if row[1] is not None]
            rows = judge.conn.execute(WRITTEN, [[id_ for _, id_ in taken]]).fetchall()
            return [email for email, _ in taken], rows + judge.conn.execute(COUNTED).fetchall()

    plain, short = written(SHORT_WAY, [hello(), *batch])
    assert hello() in plain
    assert written(LONG_WAY, plain) == (plain, short)


# ── many at once; rejected ones write nothing ─────────────────────────────────────────────────────────


def test_a_bad_email_in_the_middle_does_not_affect_the_others(judge: Judge) -> None:
    results = judge.all([hello(), hello(to="nobody"), hello(), 5, hello(idempotency_key="k"), hello(class_="x")])
    assert [result.field for result in results] == [None, "to", None, "", None, "class_"]
    assert len({result.id for result in results if result.id}) == 3


def test_a_refused_email_writes_nothing_into_any_table(judge: Judge) -> None:
    before = counts(judge.conn)
    bad = {**attached(data="no base64!"), "idempotency_key": "k"}
    with pytest.raises(psycopg.DatabaseError, match=r"attachments\[0\].data: .*base64") as refused:
        judge.conn.execute("SELECT fairpost.enqueue(%s::text::jsonb)", [json.dumps(bad)])
    assert refused.value.sqlstate == "FP001"
    assert json.loads(refused.value.diag.message_detail or "")["field"] == "attachments[0].data"
    judge.conn.execute("SELECT fairpost.enqueue_many(%s::text::jsonb)", [json.dumps([bad, bad])])
    assert counts(judge.conn) == before


def counts(conn: "psycopg.Connection[Any]") -> dict[str, int]:
    tables = conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'fairpost'::regnamespace AND relkind IN ('r', 'p')"
    ).fetchall()
    assert len(tables) > 15
    return {name: conn.execute(f"SELECT count(*) FROM fairpost.{name}").fetchone() for (name,) in tables}  # type: ignore


def test_put_content_is_checked_as_an_email_is(judge: Judge) -> None:
    bad = [{}, {"subject": "x"}, {"text": "x"}, {**HELLO}, {"subject": "a\nb", "text": ""}, []]
    bad += [{"subject": "", "text": "", "headers": {"To": "x"}}, {"subject": "", "text": "", "reply_to": "x"}]
    for content in bad:
        with pytest.raises(psycopg.DatabaseError) as refused:
            judge.conn.execute("SELECT fairpost.put_content(%s::text::jsonb)", [json.dumps(content)])
        assert refused.value.sqlstate == "FP001", content


def test_the_judgement_does_not_depend_on_the_language_of_the_database(server_url: str) -> None:
    """Where every script has its digits and its capitals, \\d and lower() mean more than they do elsewhere."""
    url = urlunsplit(urlsplit(server_url)._replace(path="/elsewhere"))
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(b"CREATE DATABASE elsewhere TEMPLATE template0 " + of_every_script(server.info.server_version))
        try:
            asyncio.run(migrate_at(url))
            with psycopg.connect(url, autocommit=True) as conn:
                judge = Judge(conn)
                test_a_bad_email_is_refused_by_the_name_of_its_field(judge)
                test_an_invalid_time_is_refused(judge)
                test_unusual_emails_pass(judge)
                test_unusual_addresses_pass(judge)
        finally:
            server.execute("DROP DATABASE elsewhere WITH (FORCE)")


def of_every_script(version: int) -> bytes:
    """A database locale that this version of PostgreSQL supports."""
    if version >= 180_000:
        return b"LOCALE_PROVIDER builtin BUILTIN_LOCALE 'PG_UNICODE_FAST'"
    return b"LOCALE_PROVIDER icu ICU_LOCALE 'und'" if version >= 150_000 else b"LOCALE 'C.UTF-8'"


async def migrate_at(url: str) -> None:
    conn = await asyncpg.connect(url)
    await migrate(conn)
    await conn.close()
