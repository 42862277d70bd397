"""Signing in: a password and a code, in one browser, with a limited number of tries for each."""

import asyncio
import re
import threading
from datetime import timedelta
from typing import Any, Literal

import asyncpg
import pytest
from argon2 import PasswordHasher
from argon2.low_level import hash_secret
from hypothesis import given
from hypothesis import strategies as st

from fairpost.auth import codes, membership, passwords, signing_in
from fairpost.auth.codes import CODE_LIFE, CODE_TRIES_MAX
from fairpost.auth.sessions import session_of
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.auth import LocalCode, Refused, Role, SignedIn, SignInBegun
from fairpost.model.email import Outgoing
from fairpost.model.report import Report
from fairpost.model.tokens import hash_of
from fairpost.model.workspace import SERVICE_WORKSPACE
from fairpost.store.store import Store
from fairpost.transports.scripted.send import OK, ScriptedTransport
from tests.auth.conftest import CLIENT, PASSWORD, T0, CountingHasher, Desk, another

SECOND = timedelta(seconds=1)
WINDOW = signing_in.FAILURES.length


async def test_password_and_code_make_a_session(desk: Desk) -> None:
    ann = await desk.admin()
    begun = await desk.begin("Ann@Example.COM ")
    assert isinstance(begun, SignInBegun)
    assert begun.expires_at == T0 + CODE_LIFE
    done = await desk.finish(begun.browser_secret, await desk.code())
    assert isinstance(done, SignedIn)
    session = await session_of(desk.store, done.session_token, now=T0)
    assert session is not None
    assert (session.person.id, session.person.role, session.agent) == (ann.id, Role.ADMIN, "Firefox on Linux")
    assert session.person.last_sign_in_at == T0


async def test_before_the_code_nothing_of_a_sign_in_opens_a_session(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    for token in (secret, code, secret + code):
        assert await session_of(desk.store, token, now=T0) is None


async def test_the_code_goes_through_the_queue_urgently_and_ends_with_it(desk: Desk) -> None:
    await desk.admin()
    _, code = await desk.begun()
    (email,) = await desk.emails()
    assert (email["workspace"], email["class"], email["route"]) == (SERVICE_WORKSPACE, "urgent", "service")
    assert (email["addresses"], email["expires_at"]) == (["ann@example.com"], T0 + CODE_LIFE)
    assert code not in email["subject"]
    assert (email["text_body"].count(code), email["html_body"].count(code)) == (1, 1)
    assert "Ann" in email["text_body"]
    assert CLIENT in email["text_body"]


async def test_a_member_gets_the_e_mail_of_the_hub(desk: Desk) -> None:
    await desk.person("acme", "bob@example.com", Role.SENDER)
    done = await desk.signed_in("bob@example.com", workspace="acme")
    assert (done.person.workspace, done.person.role) == ("acme", Role.SENDER)


async def test_one_address_may_be_an_admin_and_a_member_with_passwords_of_their_own(desk: Desk) -> None:
    await desk.admin("ann@example.com")
    await desk.person("acme", "ann@example.com", Role.VIEWER)
    assert isinstance(await desk.begin(workspace="other"), Refused)
    assert (await desk.signed_in(workspace="acme")).person.role is Role.VIEWER
    assert (await desk.signed_in()).person.role is Role.ADMIN


@pytest.mark.parametrize("workspace", ["", "\0", "x" * 1000])
async def test_an_unknown_workspace_is_not_the_service(desk: Desk, workspace: str) -> None:
    await desk.admin()
    assert await desk.begin(workspace=workspace) == signing_in.WRONG


async def test_the_code_is_sent_by_the_engine_like_any_other_e_mail(desk: Desk) -> None:
    await desk.admin()
    _, code = await desk.begun(now=None)
    account_id = await desk.store.add_account("ours", address="no-reply@example.com", pool="service", limits=Limits())
    bodies: list[str | None] = []

    def take(email: Outgoing) -> Report:
        bodies.append(email.content.text)
        return OK

    runner = await Runner.start(desk.store, ScriptedTransport(always=take), account_id, owner="test")
    assert runner is not None
    await runner.run_until_idle()
    await runner.stop()
    (body,) = bodies
    assert body is not None
    assert f"    {code}\n" in body


# ── wrong input ───────────────────────────────────────────────────────────────────────────────────────────


async def test_unknown_wrong_disabled_and_not_yet_come_get_one_answer_for_one_piece_of_work(
    desk: Desk, hasher: CountingHasher
) -> None:
    await desk.admin()
    gone = await desk.admin("gone@example.com")
    await membership.disable_person(desk.store, gone.id, now=T0)
    await membership.invite(desk.store, workspace=None, address="new@example.com", role=Role.ADMIN, now=T0)
    answers = []
    for address, password in [
        ("ann@example.com", "not this password"),
        ("nobody@example.com", PASSWORD),
        ("gone@example.com", PASSWORD),
        ("new@example.com", PASSWORD),
        ("new@example.com", ""),
        ("", ""),
        ("\0", PASSWORD),
        ("x" * 5000 + "@example.com", PASSWORD),
        ("ann@example.com", PASSWORD + "x" * 5000),
        ("ann@example.com", "\ud800 half a letter"),
        ("\ud800@example.com", PASSWORD),
    ]:
        before = len(hasher.verified)
        answers.append(await desk.begin(address, password))
        assert len(hasher.verified) == before + 1, address
    assert set(answers) == {signing_in.WRONG}
    assert await desk.emails() == []


async def test_the_decoy_is_as_much_work_as_any_password(desk: Desk, hasher: CountingHasher) -> None:
    await desk.admin()
    await desk.begin(password="not this password")
    await desk.begin("nobody@example.com")
    real, decoy = (hash_.split("$")[:4] for hash_ in hasher.verified)
    assert real == decoy


class Crowded(PasswordHasher):
    """Lets a password check continue once another one runs in parallel, and records how many there were at once."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.lock, self.pair = threading.Lock(), threading.Barrier(2, timeout=60)
        self.inside = self.most = 0

    def verify(self, *given: Any, **more: Any) -> Literal[True]:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.pair.wait()
        with self.lock:
            self.inside -= 1
        return super().verify(*given, **more)


async def test_at_most_two_passwords_are_checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = Crowded()
    monkeypatch.setattr(passwords, "HASHER", crowded)
    kept = crowded.hash(PASSWORD)
    assert await asyncio.gather(*(passwords.is_right(PASSWORD, kept) for _ in range(6))) == [True] * 6
    assert crowded.most == 2


async def test_the_queue_for_password_checks_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.admin()
    monkeypatch.setattr(passwords, "WAITING_MAX", 0)
    refused = await desk.begin()
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.retry_after_s) == ("too_many", signing_in.BUSY_S)
    assert await desk.store.value("SELECT count(*) FROM fairpost.sign_in_attempts") == 0


async def test_a_wrong_code_gets_an_error_with_the_tries_that_are_left(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    for left in (4, 3, 2, 1, 0):
        refused = await desk.finish(secret, another(code))
        assert isinstance(refused, Refused)
        assert (refused.kind, refused.tries_left) == ("wrong", left)
    assert await desk.finish(secret, code) == signing_in.EXPIRED


async def test_a_code_as_people_type_it_is_taken(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    assert isinstance(await desk.finish(secret, f" {code[:3]} {code[3:]}\n"), SignedIn)


async def test_a_code_works_to_its_last_second_and_not_after(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    assert await desk.finish(secret, code, now=T0 + CODE_LIFE) == signing_in.EXPIRED
    assert isinstance(await desk.finish(secret, code, now=T0 + CODE_LIFE - SECOND), SignedIn)


async def test_a_code_works_once(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    assert isinstance(await desk.finish(secret, code), SignedIn)
    assert await desk.finish(secret, code) == signing_in.EXPIRED


async def test_only_one_of_many_concurrent_uses_of_a_code_signs_in(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    done = await asyncio.gather(*(desk.finish(secret, code, now=T0) for _ in range(8)))
    assert sum(isinstance(each, SignedIn) for each in done) == 1


async def test_only_five_of_many_concurrent_guesses_are_judged(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    guesses = [another(code, by) for by in range(1, 30)]
    answers = await asyncio.gather(*(desk.finish(secret, guess) for guess in guesses))
    kinds = [each.kind for each in answers if isinstance(each, Refused)]
    assert sorted(kinds) == ["expired"] * (len(guesses) - CODE_TRIES_MAX) + ["wrong"] * CODE_TRIES_MAX
    assert await desk.finish(secret, code) == signing_in.EXPIRED


async def test_a_code_of_another_browser_does_not_work(desk: Desk) -> None:
    await desk.admin()
    mine, _ = await desk.begun()
    yours, code = await desk.begun()
    refused = await desk.finish(mine, code)
    assert isinstance(refused, Refused)
    assert refused.kind == "wrong"
    assert await desk.finish("no browser of ours", code) == signing_in.EXPIRED
    assert isinstance(await desk.finish(yours, code), SignedIn)


async def test_a_second_browser_does_not_end_the_first(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    await desk.begun()
    assert isinstance(await desk.finish(secret, code), SignedIn)


async def test_a_change_after_the_password_was_entered_ends_the_sign_in(desk: Desk) -> None:
    ann, _ = await desk.admin(), await desk.admin("other@example.com")
    secret, code = await desk.begun()
    await membership.disable_person(desk.store, ann.id, now=T0)
    assert await desk.finish(secret, code) == signing_in.EXPIRED
    await membership.enable_person(desk.store, ann.id, now=T0)
    assert await desk.finish(secret, code) == signing_in.EXPIRED
    secret, code = await desk.begun()
    await membership.change_password(desk.store, ann, old=PASSWORD, new="another good one", now=T0)
    assert await desk.finish(secret, code) == signing_in.EXPIRED


class SlowHasher(CountingHasher):
    """Reports when it has begun, and continues when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002
        self.has_begun.set()
        assert self.may_end.wait(120)
        return super().verify(hash, password)


@pytest.mark.parametrize("change", ["password_hash = 'another'", "disabled_at = now()"])
async def test_a_change_during_the_password_check_counts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    await desk.admin()
    slow = SlowHasher()
    monkeypatch.setattr(passwords, "HASHER", slow)
    beginning = asyncio.create_task(desk.begin())
    assert await asyncio.to_thread(slow.has_begun.wait, 30)
    await desk.store.value(f"UPDATE fairpost.people SET {change}")
    slow.may_end.set()
    assert await beginning == signing_in.WRONG
    assert await desk.emails() == []


# ── another code ──────────────────────────────────────────────────────────────────────────────────────────


async def resend(desk: Desk, secret: str, **options: object) -> SignInBegun | Refused:
    now = options.get("now", T0)
    return await signing_in.resend_code(desk.store, browser_secret=secret, client=CLIENT, mail=desk.mail, now=now)  # type: ignore[arg-type]


async def test_a_new_code_ends_the_one_before_and_keeps_the_tries(desk: Desk) -> None:
    await desk.admin()
    secret, old = await desk.begun()
    await desk.finish(secret, another(old))
    later = T0 + CODE_LIFE - SECOND
    again = await resend(desk, secret, now=later)
    assert isinstance(again, SignInBegun)
    assert (again.browser_secret, again.expires_at) == (secret, later + CODE_LIFE)
    new = await desk.code()
    if new != old:
        refused = await desk.finish(secret, old, now=later)
        assert isinstance(refused, Refused)
        assert (refused.kind, refused.tries_left) == ("wrong", CODE_TRIES_MAX - 2)
    assert isinstance(await desk.finish(secret, new, now=later + CODE_LIFE - SECOND), SignedIn)


async def test_a_new_code_ends_the_one_of_the_server_too(desk: Desk) -> None:
    ann = await desk.admin()
    secret, _ = await desk.begun()
    made = await local(desk, ann.id)
    assert made is not None
    await resend(desk, secret)
    if made.code != await desk.code():
        assert isinstance(await desk.finish(secret, made.code), Refused)


async def test_after_three_codes_the_password_is_asked_for_again(desk: Desk) -> None:
    await desk.admin()
    secret, _ = await desk.begun()
    assert [type(await resend(desk, secret)) for _ in range(3)] == [SignInBegun, SignInBegun, Refused]
    assert len(await desk.emails()) == 3


async def test_only_two_of_many_concurrent_requests_get_a_new_code(desk: Desk) -> None:
    await desk.admin()
    secret, _ = await desk.begun()
    answers = await asyncio.gather(*(resend(desk, secret) for _ in range(6)))
    assert sum(isinstance(each, SignInBegun) for each in answers) == 2


async def test_knowing_the_password_is_not_enough_to_flood_a_mailbox(desk: Desk) -> None:
    await desk.admin()
    most = signing_in.CODES_IN_WINDOW_MAX
    answers = await asyncio.gather(*(desk.begin() for _ in range(most + 5)))
    assert sum(isinstance(each, SignInBegun) for each in answers) == most == len(await desk.emails())
    refused = await desk.begin(now=T0 + timedelta(minutes=5))
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.retry_after_s) == ("too_many", 600)
    assert isinstance(await desk.begin(now=T0 + WINDOW), SignInBegun)


@pytest.mark.parametrize("ended", ["used", "expired", "guessed", "unknown"])
async def test_an_expired_sign_in_gets_no_new_code(desk: Desk, ended: str) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    now = T0
    if ended == "used":
        await desk.finish(secret, code)
    elif ended == "expired":
        now = T0 + CODE_LIFE
    elif ended == "guessed":
        for _ in range(CODE_TRIES_MAX):
            await desk.finish(secret, another(code))
    else:
        secret = "someone else's"
    assert await resend(desk, secret, now=now) == signing_in.EXPIRED


# ── a code created on the server ──────────────────────────────────────────────────────────────────────────


async def local(desk: Desk, person_id: object, **options: object) -> LocalCode | None:
    return await signing_in.make_local_code(desk.store, person_id, now=options.get("now", T0))  # type: ignore[arg-type]


async def test_a_code_made_on_the_server_works_beside_the_one_by_e_mail(desk: Desk) -> None:
    ann = await desk.admin()
    secret, _ = await desk.begun()
    made = await local(desk, ann.id)
    assert made is not None
    assert (made.begun_at, made.expires_at) == (T0, T0 + CODE_LIFE)
    assert isinstance(await desk.finish(secret, made.code), SignedIn)
    secret, code = await desk.begun()
    assert await local(desk, ann.id) is not None
    assert isinstance(await desk.finish(secret, code), SignedIn)


async def test_it_is_for_the_newest_sign_in_and_its_browser_alone(desk: Desk) -> None:
    ann = await desk.admin()
    older, _ = await desk.begun()
    newer, _ = await desk.begun(now=T0 + SECOND)
    made = await local(desk, ann.id, now=T0 + SECOND)
    assert made is not None
    refused = await desk.finish(older, made.code, now=T0 + SECOND)
    assert isinstance(refused, Refused)
    assert refused.kind == "wrong"
    assert isinstance(await desk.finish(newer, made.code, now=T0 + SECOND), SignedIn)


async def test_it_has_the_limits_of_the_other(desk: Desk) -> None:
    ann = await desk.admin()
    secret, _ = await desk.begun()
    made = await local(desk, ann.id)
    assert made is not None
    assert await desk.finish(secret, made.code, now=T0 + CODE_LIFE) == signing_in.EXPIRED
    for _ in range(CODE_TRIES_MAX):
        await desk.finish(secret, "not a code")
    assert await desk.finish(secret, made.code) == signing_in.EXPIRED
    assert await local(desk, ann.id) is None


async def test_without_a_sign_in_that_waits_there_is_none(desk: Desk) -> None:
    ann = await desk.admin()
    assert await local(desk, ann.id) is None
    await desk.signed_in()
    assert await local(desk, ann.id) is None


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_after_ten_failures_an_address_waits_until_the_first_is_a_quarter_of_an_hour_old(desk: Desk) -> None:
    await desk.admin()
    for minute in range(10):
        await desk.begin(password="wrong", client=f"192.0.2.{minute}", now=T0 + timedelta(minutes=minute))
    refused = await desk.begin("ANN@example.com", client="198.51.100.1", now=T0 + timedelta(minutes=10))
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.retry_after_s) == ("too_many", 300)
    assert "5 minutes" in refused.message
    assert isinstance(await desk.begin(now=T0 + WINDOW), SignInBegun)
    assert (await desk.begin(password="wrong", now=T0 + WINDOW)) == signing_in.WRONG
    assert isinstance(await desk.begin(now=T0 + WINDOW + SECOND), Refused)


async def test_an_unknown_address_is_limited_as_a_known_one(desk: Desk) -> None:
    for _ in range(10):
        assert await desk.begin("nobody@example.com") == signing_in.WRONG
    refused = await desk.begin("nobody@example.com")
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.retry_after_s) == ("too_many", 900)
    assert await desk.begin("someone@example.com") == signing_in.WRONG


async def test_a_refused_attempt_costs_no_argon2(desk: Desk, hasher: CountingHasher) -> None:
    for _ in range(15):
        await desk.begin("nobody@example.com")
    assert len(hasher.verified) == 10


async def test_only_ten_of_many_concurrent_attempts_are_judged(desk: Desk, hasher: CountingHasher) -> None:
    await desk.admin()
    answers = await asyncio.gather(*(desk.begin(password=f"guess {n}") for n in range(30)))
    assert answers.count(signing_in.WRONG) == 10 == len(hasher.verified)


WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory')"


async def test_a_second_try_waits_until_the_first_is_counted(url: str) -> None:
    sql = "SELECT attempt_id FROM fairpost.take_attempt($1, $2, 1, 1, '15 minutes', $3)"
    for first, second in [((b"a", b"c"), (b"a", b"d")), ((b"x", b"n"), (b"y", b"n"))]:
        one, other, watch = [await asyncpg.connect(url) for _ in range(3)]
        before = one.transaction()
        await before.start()
        assert await one.fetchval(sql, *first, T0) is not None
        waiting = asyncio.create_task(other.fetchval(sql, *second, T0))
        while not waiting.done() and not await watch.fetchval(WAITS):
            pass
        assert not waiting.done()
        await before.commit()
        assert await waiting is None
        for conn in (one, other, watch):
            await conn.close()


async def test_a_network_address_has_fifty_failures_whatever_it_tries(desk: Desk) -> None:
    await desk.admin()
    answers = await asyncio.gather(*(desk.begin(f"user{n}@example.com") for n in range(49)))
    assert answers == [signing_in.WRONG] * 49
    assert isinstance(await desk.begin(), SignInBegun)
    assert await desk.begin("one-more@example.com") == signing_in.WRONG
    assert isinstance(await desk.begin(), Refused)
    assert isinstance(await desk.begin(client="198.51.100.1"), SignInBegun)


async def test_signing_in_well_costs_nothing(desk: Desk) -> None:
    await desk.admin()
    for hour in range(12):
        await desk.signed_in(now=T0 + timedelta(hours=hour))
    assert await desk.store.value("SELECT count(*) FROM fairpost.sign_in_attempts") == 0


async def test_wrong_codes_count_as_failures_across_sign_ins(desk: Desk) -> None:
    await desk.admin()
    judged = 0
    for n in range(8):
        begun = await desk.begin(client=f"192.0.2.{n}")
        if isinstance(begun, Refused):
            assert begun.kind == "too_many"
            break
        code = await desk.code()
        for by in range(1, 7):
            refused = await desk.finish(begun.browser_secret, another(code, by))
            judged += isinstance(refused, Refused) and refused.kind == "wrong"
    assert judged == 10


async def test_a_sign_in_that_was_begun_cannot_be_finished_above_the_limit(desk: Desk) -> None:
    await desk.admin()
    secret, code = await desk.begun()
    for _ in range(10):
        await desk.begin(password="wrong")
    refused = await desk.finish(secret, code)
    assert isinstance(refused, Refused)
    assert refused.kind == "too_many"
    assert await desk.store.value("SELECT tries FROM fairpost.sign_ins") == 0


async def test_attempts_are_forgotten_when_they_do_not_count_any_more(desk: Desk) -> None:
    for n in range(20):
        await desk.begin(f"user{n}@example.com")
    await desk.begin(now=T0 + WINDOW)
    assert await desk.store.value("SELECT count(*) FROM fairpost.sign_in_attempts") == 1


async def test_old_sign_ins_sessions_and_links_are_forgotten(desk: Desk) -> None:
    await desk.admin()
    await membership.invite(desk.store, workspace="acme", address="new@example.com", role=Role.VIEWER, now=T0)
    await desk.begun()
    await desk.signed_in()
    late = T0 + timedelta(days=60)
    done = await desk.signed_in(now=late)
    counts = await desk.store.row(
        """SELECT (SELECT count(*) FROM fairpost.sign_ins), (SELECT count(*) FROM fairpost.sessions),
                  (SELECT count(*) FROM fairpost.invitations)"""
    )
    assert tuple(counts) == (1, 1, 0)
    assert await session_of(desk.store, done.session_token, now=late) is not None


@pytest.mark.parametrize(
    ("client", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        (" 192.0.2.7 ", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("unix", "unix"),
        ("x" * 1000, ""),
        ("\0", ""),
    ],
)
def test_clients_are_counted_by_what_one_customer_has(client: str, network: str) -> None:
    assert signing_in.network_of(client) == network


async def test_several_workspaces_of_an_address_cost_one_computation(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for workspace in ("acme", "globex", "initech"):
        await desk.person(workspace, "bob@example.com", Role.SENDER)
    made: list[bytes] = []

    def counted(secret: bytes, salt: bytes, **more: Any) -> bytes:
        made.append(salt)
        return hash_secret(secret, salt, **more)

    monkeypatch.setattr(passwords, "hash_secret", counted)
    found = await signing_in.candidates(desk.store, "bob@example.com", region="main", of_members=True)
    assert len(found) == 3
    meant = await signing_in.the_one_meant(found, password="not these four words", client=CLIENT, now=T0)
    assert isinstance(meant, Refused)
    assert (meant.kind, len(made)) == ("wrong", 1)


async def test_guesses_without_a_workspace_use_up_the_failures_of_each(desk: Desk) -> None:
    for workspace in ("acme", "globex"):
        await desk.person(workspace, "bob@example.com", Role.SENDER)
    found = await signing_in.candidates(desk.store, "bob@example.com", region="main", of_members=True)
    kinds = []
    for _ in range(signing_in.FAILURES.address_max + 1):
        tried = await signing_in.the_one_meant(found, password="not these four words", client=CLIENT, now=T0)
        assert isinstance(tried, Refused)
        kinds.append(tried.kind)
    assert kinds == ["wrong"] * signing_in.FAILURES.address_max + ["too_many"]


# ── passwords ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_password_is_rehashed_at_the_next_sign_in_after_the_parameters_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.admin()
    before = await desk.store.value("SELECT password_hash FROM fairpost.people")
    monkeypatch.setattr(passwords, "HASHER", CountingHasher(time_cost=2))
    await desk.begin(password="wrong")
    assert await desk.store.value("SELECT password_hash FROM fairpost.people") == before
    await desk.begun()
    after = await desk.store.value("SELECT password_hash FROM fairpost.people")
    assert (before.split("$")[3], after.split("$")[3]) == ("m=8,t=1,p=1", "m=8,t=2,p=1")
    await desk.signed_in()
    assert await desk.store.value("SELECT password_hash FROM fairpost.people") == after


async def test_letters_may_be_composed_in_any_way(desk: Desk) -> None:
    ann = await desk.admin()
    await membership.change_password(desk.store, ann, old=PASSWORD, new="Jo\u0308rg und Zoe\u0308", now=T0)
    assert isinstance(await desk.begin(password="J\u00f6rg und Zo\u00eb"), SignInBegun)


def test_the_parameters_are_those_of_rfc_9106(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    hashed = passwords.HASHER.hash("x")
    assert hashed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_table_has_a_secret_in_the_clear_but_the_queue_what_it_sends(desk: Desk) -> None:
    """The code is in the e-mail that carries it, and is useless without the browser's secret."""
    ann = await desk.admin()
    secret, code = await desk.begun()
    made = await signing_in.make_local_code(desk.store, ann.id, now=T0)
    assert made is not None
    await desk.begin("my password in the wrong field", "x")
    done = await desk.finish(secret, code)
    assert isinstance(done, SignedIn)
    link = await membership.first_admin_link(desk.store, "https://x.test", now=T0)
    assert link is None
    offered = await membership.offer_reset(desk.store, ann.id, now=T0)
    assert not isinstance(offered, Refused)
    everything = await all_rows(desk.store)
    of_people = [row for table, row in everything if table not in QUEUE]
    for hidden in (secret, done.session_token, done.csrf_token, offered.token, PASSWORD, "in the wrong field"):
        assert not any(hidden in row for _, row in everything)
    for hidden in (code, made.code):  # microseconds of a timestamp may look like a code
        assert not any(re.search(rf"(?<![0-9a-f.]){hidden}(?![0-9a-f])", row) for row in of_people)
    assert not any(made.code in row for table, row in everything if table == "contents" and made.code != code)


QUEUE = {"queue", "contents", "attachments", "emails", "arrivals", "idempotency_keys"}


async def all_rows(store: Store) -> list[tuple[str, str]]:
    tables = await store.fetch(
        """SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'fairpost'::regnamespace AND c.relkind IN ('r', 'p')
           AND NOT c.relispartition"""
    )
    return [
        (table["relname"], row["row"])
        for table in tables
        for row in await store.fetch(f'SELECT t::text AS row FROM fairpost."{table["relname"]}" t')
    ]


async def test_values_do_not_show_their_secrets(desk: Desk) -> None:
    await desk.admin()
    begun = await desk.begin()
    assert isinstance(begun, SignInBegun)
    assert begun.browser_secret not in repr(begun)
    done = await desk.signed_in()
    assert done.session_token not in repr(done)
    assert done.csrf_token not in repr(done)


@given(st.text(max_size=80), st.text(max_size=12))
def test_a_code_is_right_in_its_own_browser_only(other: str, typed: str) -> None:
    secret, code = "browser-secret", "012345"
    emailed, local_hash = codes.code_hash(secret, code), codes.local_code_hash(hash_of(secret), "987654")
    assert codes.is_code(secret, code, emailed=emailed, local=None)
    assert codes.is_code(secret, "987654", emailed=emailed, local=local_hash)
    assert not codes.is_code(secret, "987654", emailed=emailed, local=None)
    assert codes.is_code(other, code, emailed=emailed, local=local_hash) == (other == secret)
    assert codes.is_code(other, "987654", emailed=emailed, local=local_hash) == (other == secret)
    right = "".join(typed.split()) in (code, "987654")
    assert codes.is_code(secret, typed, emailed=emailed, local=local_hash) == right


def test_codes_have_six_digits() -> None:
    made = {codes.new_code() for _ in range(200)}
    assert all(re.fullmatch(r"[0-9]{6}", code) for code in made)
    assert len(made) > 150
