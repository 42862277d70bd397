"""The meaning of replies. replies.csv has real replies of servers (with changed addresses), and their meanings."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.model.report import Channel, Reply, Step
from fairpost.policy.replies import ReplyClass, Scope, meaning
from tests.policy.reply_table import SEEN as ROWS
from tests.policy.reply_table import label, read, verdict_on


def name(row: dict[str, str]) -> str:
    text = re.sub(r"[^\w.]+", " ", row["text"])[:40]
    return f"{row['source']} {row['phase']} {row['code']} {text}"


def test_every_real_reply_is_understood() -> None:
    wrong = [f"{name(row)}: {read(row).why}" for row in ROWS if verdict_on(row) != label(row)]
    assert wrong == []


def test_the_table_has_every_class_and_every_scope_but_no_reply_twice() -> None:
    assert {row["class"] for row in ROWS} == set(ReplyClass)
    assert {row["scope"] for row in ROWS} == set(Scope)
    said = [(row["channel"], row["phase"], row["code"], row["enhanced"], row["text"]) for row in ROWS]
    assert len(set(said)) == len(said)


def told(
    code: int, text: str, phase: Step | None = None, channel: Channel = Channel.SMTP, enhanced: str | None = None
) -> ReplyClass:
    return meaning(Reply(code, text), phase=phase, channel=channel, enhanced=enhanced).class_


@pytest.mark.parametrize("phase", [Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.MAIL])
def test_before_a_recipient_was_named_no_reply_is_about_one(phase: Step) -> None:
    assert told(550, "5.1.1 User unknown", phase) is ReplyClass.POLICY_SENDER
    assert told(550, "", phase) is ReplyClass.POLICY_SENDER


def test_before_the_content_was_sent_no_reply_is_about_it() -> None:
    assert told(550, "spam detected", Step.RCPT) is ReplyClass.POLICY_SENDER
    assert told(550, "spam detected", Step.DOT) is ReplyClass.MESSAGE


def test_after_the_content_only_plain_words_make_a_hard_bounce() -> None:
    assert told(550, "mailbox unavailable", Step.RCPT) is ReplyClass.HARD_BOUNCE
    assert told(550, "mailbox unavailable", Step.DOT) is ReplyClass.UNKNOWN
    assert told(550, "no such user", Step.DOT) is ReplyClass.HARD_BOUNCE


def test_a_guess_suppresses_no_address() -> None:
    for code in (550, 551, 553, 554):
        assert not meaning(Reply(code, ""), phase=Step.RCPT).suppress_recipient


def test_a_login_that_is_refused_is_the_accounts_matter_whatever_is_said() -> None:
    for text in ("", "5.1.1 user unknown", "5.7.1 spam", "authentication failed"):
        assert told(550, text, Step.AUTH) in (ReplyClass.AUTH, ReplyClass.POLICY_SENDER)
    assert told(535, "") is ReplyClass.AUTH


@pytest.mark.parametrize(
    "text",
    [
        "5.1.1 User unknown; your IP is on our blacklist",
        "5.2.1 mailbox disabled for mail from IP address 192.0.2.7",
        "5.1.1 no such user, see the reputation of your server",
        "5.1.1 invalid recipient: message classified as spam",
    ],
)
@pytest.mark.parametrize("phase", [None, Step.RCPT, Step.DOT])
def test_a_reply_that_blames_us_suppresses_no_address(text: str, phase: Step | None) -> None:
    found = meaning(Reply(550, text), phase=phase)
    assert not found.suppress_recipient
    assert found.class_ in (ReplyClass.POLICY_SENDER, ReplyClass.MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "the domain of the sender does not exist",
        "The sender's mailbox does not exist",
        "sender callout: mailbox does not exist",
        "originator address not found",
        "invalid return address",
        "Reply-to mailbox unknown",
        "Your mailbox is disabled, you cannot send mail",
        "Your address is not a member of this mailing list",
        "license for user expired",
        "user authentication unknown",
        "reverse lookup: host not found",
        "DNS record not found for address 192.0.2.7",
        "ldap error: user not found due to timeout",
        "Too many unknown RCPT TO addresses from host 192.0.2.7",
        "unknown error while delivering to mailbox",
        "No such file or directory",
        "Requested action not taken: mailbox unavailable\nFailure sending mail. Try again later",
        "Absender existiert nicht",
        "\u53d1\u4ef6\u4eba\u4e0d\u5b58\u5728",
    ],
)
@pytest.mark.parametrize("phase", [None, Step.RCPT, Step.DOT])
def test_an_unknown_other_address_is_not_the_recipient(text: str, phase: Step | None) -> None:
    assert not meaning(Reply(550, text), phase=phase).suppress_recipient
    assert not meaning(Reply(0, text), phase=phase).suppress_recipient


def test_a_code_for_dead_domains_does_not_outweigh_what_is_said() -> None:
    found = meaning(Reply(556, "The number of RCPTs is over size"))
    assert found.class_ is ReplyClass.MESSAGE


@pytest.mark.parametrize("phase", [step for step in Step if step is not Step.AUTH])
def test_a_bad_sequence_of_commands_is_nobodys_fault_that_lasts(phase: Step) -> None:
    assert meaning(Reply(503, "5.5.1 Bad sequence of commands"), phase=phase).retry


@pytest.mark.parametrize("code", [500, 550, 554, 570, 599])
def test_unknown_replies_are_retried_to_be_safe(code: int) -> None:
    found = meaning(Reply(code, "Zorp"), phase=Step.DOT)
    assert (found.class_, found.retry, found.suppress_recipient) == (ReplyClass.UNKNOWN, True, False)


def test_a_limit_for_one_recipient_is_that_recipients_and_not_the_accounts() -> None:
    for text in ("Rate limit exceeded for this recipient", "too many messages to this recipient"):
        found = meaning(Reply(451, f"4.7.1 {text}"), phase=Step.RCPT)
        assert (found.class_, found.scope) == (ReplyClass.RATE_LIMIT, Scope.RECIPIENT)
    assert meaning(Reply(451, "4.7.1 Rate limit exceeded"), phase=Step.RCPT).scope is Scope.PROVIDER


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host mx.example.com[192.0.2.9] said: 550 5.1.1 no such user", ReplyClass.HARD_BOUNCE),
        ("Remote Server returned '452 4.2.2 mailbox full'", ReplyClass.SOFT_BOUNCE),
        ("connect to mx.example.com[192.0.2.9]:25: Connection refused", ReplyClass.TRANSIENT),
        ("Host not found, try again", ReplyClass.TRANSIENT),
        ("dial tcp: lookup smtp.example.com: no such host", ReplyClass.TRANSIENT),
        ("No such host is known. (smtp.example.com:587)", ReplyClass.TRANSIENT),
        ("DNS type 'mx' lookup of example.com responded with code NXDOMAIN", ReplyClass.HARD_BOUNCE),
        ("Host not found", ReplyClass.HARD_BOUNCE),
        ("", ReplyClass.UNKNOWN),
    ],
)
def test_a_failure_without_a_code_is_read_by_its_words(text: str, expected: ReplyClass) -> None:
    found = meaning(Reply(0, text))
    assert found.class_ is expected
    assert found.retry is not found.suppress_recipient


def test_accents_make_no_difference() -> None:
    for text in ("Bo\u00eete pleine", "Boite pleine", "BO\u00ceTE PLEINE"):
        assert told(552, text, Step.RCPT) is ReplyClass.SOFT_BOUNCE


def test_an_address_in_the_text_says_nothing() -> None:
    for address in ("mailbox-full@example.com", "spam@greylist.example", "no such user@example.com"):
        assert told(550, f"5.1.1 <{address}> rejected", Step.RCPT) is ReplyClass.HARD_BOUNCE
    assert told(550, "<user-unknown@example.com> try https://example.com/mailbox-full", Step.RCPT) is ReplyClass.UNKNOWN


def test_an_ip_address_or_a_version_is_no_enhanced_code() -> None:
    assert told(550, "5.1.1.9 says no", Step.RCPT) is ReplyClass.UNKNOWN
    assert told(550, "by server 4.2.2", Step.RCPT) is ReplyClass.UNKNOWN
    assert told(550, "says no (#5.1.1)", Step.RCPT) is ReplyClass.HARD_BOUNCE


def test_an_enhanced_code_that_was_given_apart_counts_more_than_one_in_the_text() -> None:
    assert told(550, "5.7.1 rejected", Step.RCPT, enhanced="5.1.1") is ReplyClass.HARD_BOUNCE
    assert told(550, "5.1.1 rejected", Step.RCPT, enhanced="nonsense") is ReplyClass.HARD_BOUNCE


def test_http_codes_are_not_read_as_smtp_codes() -> None:
    assert told(500, "backendError: Internal error", channel=Channel.GOOGLE) is ReplyClass.TRANSIENT
    assert not meaning(Reply(400, "invalidArgument: Invalid To header"), channel=Channel.GOOGLE).retry
    assert told(403, "newReason: Sending limit exceeded", channel=Channel.GOOGLE) is ReplyClass.RATE_LIMIT


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (429, "rateLimitExceeded: Retry after 2023-03-07T18:18:23.688Z", (2023, 3, 7, 18, 18, 23, 688_000)),
        (429, "User-rate limit exceeded.  Retry after 2023-03-07T18:18:23Z", (2023, 3, 7, 18, 18, 23)),
        (429, "User-rate limit exceeded.  Retry after 2023-03-07T19:18:23+01:00", (2023, 3, 7, 18, 18, 23)),
        (451, "4.7.1 Greylisted, please try again in 600 seconds", 600),
        (451, "4.7.1 Recipient address rejected: Greylisted for 5 minutes", 300),
        (450, "4.2.0 greylisted for 60 seconds by ZEROSPAM", 60),
        (450, "try again in 5 minutes", 300),
        (451, "retry in 3600 seconds", 3_600),
        (421, "too many connections, try again after 2 hours", 7_200),
        (421, "please wait for 30s", 30),
        (451, "greylisting, come back in 00:04:59", 299),
        (451, "try again later", None),
        (451, "try again in 0 seconds", None),
        (451, "try again in 999999 hours", None),
        (429, "Retry after 2023-13-07T18:18:23Z", None),
        (550, "5.1.1 user unknown, try again in 5 minutes", None),
    ],
)
def test_a_wait_that_the_text_names_is_read(code: int, text: str, expected: tuple[int, ...] | int | None) -> None:
    channel = Channel.GOOGLE if code == 429 else Channel.SMTP
    wait = meaning(Reply(code, text), channel=channel).wait
    if isinstance(expected, tuple):
        assert isinstance(wait, datetime)
        assert wait == datetime(*expected, tzinfo=UTC)  # type: ignore[arg-type, misc]
    else:
        assert wait == (timedelta(seconds=expected) if expected is not None else None)


def test_every_why_is_one_sentence() -> None:
    for found in map(read, ROWS):
        assert found.why[0].isupper()
        assert found.why.endswith(".")
        assert found.why.count(". ") == 0


WORDS = sorted({word for row in ROWS for word in row["text"].split()})
CODES = st.one_of(st.integers(400, 599), st.integers(200, 299), st.integers(-(10**6), 10**6))
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
    st.sampled_from([row["text"] for row in ROWS]),
)
PHASES = st.none() | st.sampled_from(Step)
CHANNELS = st.sampled_from(Channel)
ENHANCED = st.none() | st.from_regex(r"[245]\.\d{1,3}\.\d{1,3}", fullmatch=True) | st.text(max_size=8)


@given(CODES, TEXTS, PHASES, CHANNELS, ENHANCED)
def test_the_rules_hold_for_any_reply(
    code: int, text: str, phase: Step | None, channel: Channel, enhanced: str | None
) -> None:
    found = meaning(Reply(code, text), phase=phase, channel=channel, enhanced=enhanced)
    assert (found.class_ is ReplyClass.ACCEPTED) == (200 <= code < 300)
    assert found.suppress_recipient == (found.class_ is ReplyClass.HARD_BOUNCE)
    assert not (found.suppress_recipient and (found.retry or found.scope is not Scope.RECIPIENT))
    if channel is Channel.SMTP and 400 <= code < 500:
        assert found.retry
        assert not found.suppress_recipient
    if found.class_ in (ReplyClass.RATE_LIMIT, ReplyClass.SOFT_BOUNCE, ReplyClass.TRANSIENT, ReplyClass.UNKNOWN):
        assert found.retry
    if found.class_ is ReplyClass.RATE_LIMIT:
        assert found.scope in (Scope.ACCOUNT, Scope.PROVIDER, Scope.RECIPIENT)
    if found.class_ in (ReplyClass.AUTH, ReplyClass.POLICY_SENDER):
        assert found.scope is Scope.ACCOUNT
    if found.wait is not None:
        assert found.retry


@given(CODES, TEXTS, PHASES, CHANNELS)
def test_upper_and_lower_case_mean_the_same(code: int, text: str, phase: Step | None, channel: Channel) -> None:
    assert meaning(Reply(code, text.upper()), phase=phase, channel=channel) == meaning(
        Reply(code, text.lower()), phase=phase, channel=channel
    )


@given(CODES, TEXTS, PHASES, CHANNELS)
def test_lines_may_be_broken_anywhere_between_words(code: int, text: str, phase: Step | None, channel: Channel) -> None:
    flat = " ".join(text.split())
    broken = Reply(code, flat.replace(" ", "\r\n"))
    assert meaning(broken, phase=phase, channel=channel) == meaning(Reply(code, flat), phase=phase, channel=channel)


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "daily ",
        "a@",
        "<",
        "5.1.1 ",
        "mailbox ",
        "\u0130",
        "retry ",
        "again a ",
        "user",
        " \n",
        "https://",
        "1",
        "exceeded ",
    ],
)
def test_a_huge_text_takes_no_time(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    began = time.process_time()  # only ours, because other tests are running
    for code in (450, 550):
        meaning(Reply(code, text), phase=Step.RCPT)
    assert time.process_time() - began < 60  # quadratic time would take minutes
