"""Returned mail while processes die: whatever is killed, nothing is missed and nothing counts twice.

A mail server that gets no 250 delivers again, as the client here does.
"""

import asyncio
import os
import re
import select
import signal
import smtplib
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairpost.maintenance.returns import ReturnsWatch, take_in
from fairpost.model.account import Limits
from fairpost.model.ids import EmailId
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.store import Store
from tests.chaos.conftest import database_on
from tests.chaos.victims import apply_returns, ended, fork
from tests.cli.conftest import PROCESS_S_MAX, PROGRAM, process_environment
from tests.returns.mails import complaint, mail, report
from tests.settle.test_returned import DEAD, NOW, Post
from tests.simulation.world import connect

TO = "returns@here.example"
PEOPLE = [f"p{number}@people.example" for number in range(6)]


class Receiver:
    """Runs `fairpost receive`, restarted whenever it has died. Only its first process has the failpoint."""

    def __init__(self, url: str, home: Path, *, failpoint: str = "") -> None:
        self._environment = {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(home)}
        self._failpoint = {"FAIRPOST_FAILPOINT": failpoint} if failpoint else {}
        self.deaths = 0
        self._process, self._port = self._started()

    def _started(self) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            [*PROGRAM, "receive", "--listen", "127.0.0.1:0", "--also", TO],
            env=process_environment({**self._environment, **self._failpoint}),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        found = re.search(r":(\d+)$", process.stdout.readline().strip())
        assert found
        return process, int(found[1])

    def deliver(self, raw: bytes) -> bool:
        """Returns whether it was accepted: 250 after the dot."""
        try:
            with smtplib.SMTP("127.0.0.1", self._port, timeout=PROCESS_S_MAX) as client:
                client.sendmail("", [TO], raw)
        except (smtplib.SMTPException, OSError):
            self._replace_the_dead()
            return False
        return True

    def _replace_the_dead(self) -> None:
        if self._process.poll() is None and not self._failpoint:
            return  # it is alive, and replied 451
        assert self._process.wait(PROCESS_S_MAX) == -signal.SIGKILL
        self._failpoint = {}
        self.deaths += 1
        self.stop()
        self._process, self._port = self._started()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


async def outcome(store: Store) -> dict[str, Any]:
    """Returns all effects of returned mail, without times and row numbers."""
    queries = {
        "emails": "SELECT e.recipients #>> '{0,address}' AS who, e.state::text, e.reason FROM fairpost.emails e ORDER BY 1",
        "suppressions": "SELECT address, kind::text FROM fairpost.suppressions ORDER BY 1",
        "returned": "SELECT address, effect, applied_at IS NOT NULL AS is_applied FROM fairpost.returned ORDER BY 1, 2",
        "replies": "SELECT author, kind, text_body FROM fairpost.replies ORDER BY 1, 2, 3",
        "account": "SELECT day_bounces FROM fairpost.leases ORDER BY account_id",
        "senders": "SELECT workspace, sum(bounced) AS bounced, sum(rejected) AS rejected FROM fairpost.activity GROUP BY 1",
    }
    return {name: [tuple(row.values()) for row in await store.fetch(sql)] for name, sql in queries.items()}


async def mails_about(post: Post, ids: Sequence[EmailId]) -> list[bytes]:
    named = [await post.message_id(id_) for id_ in ids]
    away = {"Auto-Submitted": "auto-replied", "References": named[2]}
    return [
        report("5.1.1", DEAD, recipient=PEOPLE[0], message_id=named[0]),
        mail("Yes, gladly.", sender=PEOPLE[1], headers={"References": named[1]}),
        mail("I am away.", sender=PEOPLE[2], subject="Automatic reply", headers=away),
        complaint(recipient=PEOPLE[3], message_id=named[3]),
        mail("unsubscribe", sender=PEOPLE[4], headers={"References": named[4]}),
        report("5.1.1", DEAD, recipient=PEOPLE[5], message_id=named[5]),
    ]


async def without_deaths(store: Store, act: Callable[[Store], Awaitable[object]]) -> dict[str, Any]:
    """Returns the effects if nothing dies. Rolled back afterwards."""
    wanted: dict[str, Any] = {}
    with suppress(InterruptedError):
        async with store.together() as one:
            await act(one)
            wanted = await outcome(one)
            raise InterruptedError
    return wanted


async def take_all(store: Store, mails: Sequence[bytes]) -> None:
    for raw in mails:
        await take_in(store, raw, now=NOW)


async def post_at(url: str) -> Post:
    store = await connect(url)
    return Post(store, await store.add_account("anna", address="anna@post.test", limits=Limits()))


@pytest.fixture
async def post(url: str) -> AsyncIterator[Post]:
    post = await post_at(url)
    yield post
    await post.store.close()


@pytest.mark.parametrize("point", ["before_taking_return:3", "after_taking_return:3"])
async def test_a_receiver_killed_before_it_answers_misses_nothing_and_counts_once(
    post: Post, url: str, tmp_path: Path, point: str
) -> None:
    mails = await mails_about(post, [await post.sent(each) for each in PEOPLE])
    wanted = await without_deaths(post.store, partial(take_all, mails=mails))
    receiver = await asyncio.to_thread(Receiver, url, tmp_path, failpoint=point)
    try:
        for raw in mails:
            while not await asyncio.to_thread(receiver.deliver, raw):
                pass
    finally:
        receiver.stop()
    assert receiver.deaths == 1
    assert await outcome(post.store) == wanted


@pytest.mark.parametrize("point", ["after_finding_returns", "after_applying_return:2"])
async def test_an_engine_killed_while_it_applies_what_came_early_applies_each_once(
    post: Post, url: str, point: str
) -> None:
    for number, person in enumerate(PEOPLE):
        id_ = await post.sent(person, settle=False)
        await take_in(post.store, (await mails_about(post, [id_] * len(PEOPLE)))[number], now=NOW)
        await post.settle(id_)
    wanted = await without_deaths(post.store, lambda store: ReturnsWatch(store, lambda said: None).step())
    assert await ended(fork(apply_returns, url, point)) == -signal.SIGKILL
    await ReturnsWatch(post.store, lambda said: None).step()
    assert await outcome(post.store) == wanted


def kill(server: EmbeddedServer) -> None:
    """Returns when it is gone."""
    pid = server.status().pid
    assert pid is not None
    death = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([death], [], [])
    os.close(death)


@pytest.mark.slow
async def test_postgres_killed_while_mail_comes_in_forgets_no_mail_that_was_answered(
    mortal: EmbeddedServer, tmp_path: Path
) -> None:
    url = await database_on(mortal)
    post = await post_at(url)
    mails = await mails_about(post, [await post.sent(each) for each in PEOPLE])
    wanted = await without_deaths(post.store, partial(take_all, mails=mails))
    await post.store.close()
    receiver = await asyncio.to_thread(Receiver, url, tmp_path)
    deaths = 0
    try:
        for number, raw in enumerate(mails):
            delivery = asyncio.create_task(asyncio.to_thread(receiver.deliver, raw))
            if number in (1, 3):
                await asyncio.to_thread(kill, mortal)
                await asyncio.to_thread(mortal.start)
                deaths += 1
            while not await delivery:
                delivery = asyncio.create_task(asyncio.to_thread(receiver.deliver, raw))
    finally:
        receiver.stop()
    assert deaths == 2
    async with Store.open(url) as store:
        assert await outcome(store) == wanted
