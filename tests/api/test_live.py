"""Live topics: one look for all watchers, nothing of other workspaces, and no updates after the session has ended."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2 as httpx
import pytest

from fairpost.api import topics
from fairpost.api.errors import ApiError
from fairpost.api.live import LOOKS_OF_ONE_MAX, OPERATORS, Credential, Live, Screen, State, StreamRevoker, Topic
from fairpost.api.protocol import STREAMS
from fairpost.api.routes.live import router
from fairpost.dev.inbox import mails
from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.model.errors import DatabaseUnavailable
from fairpost.model.reason import Reason
from fairpost.settings import Settings
from fairpost.store import workspaces
from fairpost.system import clock
from tests.api.conftest import Api, answering
from tests.api.signed_in import signed_in

HEARD_S = 60.0  # only guards against waiting forever


class Stream:
    """Reads the events of one stream, by name."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self, *names: str) -> tuple[str, Any]:
        name = ""
        async with asyncio.timeout(HEARD_S):
            async for line in self._lines:
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: ") and (not names or name in names):
                    return name, json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream ended")

    async def state(self) -> Any:
        return (await self.next("state"))[1]


@asynccontextmanager
async def watching(client: httpx.AsyncClient, path: str = "/v1/live/now") -> AsyncIterator[Stream]:
    async with client.stream("GET", path) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield Stream(answer)


@pytest.fixture
def quick_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks sessions and keys often, so that no test has to wait."""
    monkeypatch.setattr("fairpost.api.live.REVOKED_EVERY_S", 0.2)


async def _enqueue(api: Api, workspace: str, n: int) -> None:
    await api.store.enqueue_many([{"workspace": workspace, "to": "a@b.example", "subject": "s", "text": "t"}] * n)


async def test_an_admin_sees_everything_and_each_change_of_it(api: Api) -> None:
    await _enqueue(api, "acme", 2)
    async with signed_in(api, None, Role.ADMIN) as client, watching(client) as stream:
        state = await stream.state()
        assert (state["waiting"], state["workspace"], state["classes"]) == (2, None, {"urgent": 2, "bulk": 0})
        assert (state["headline"]["code"], state["headline"]["tone"]) == ("account.none", "fault")
        await _enqueue(api, "other", 3)
        while state["waiting"] != 5:
            state = await stream.state()


async def test_a_workspace_sees_itself_and_nothing_of_others(api: Api) -> None:
    await api.workspace("acme")
    await api.store.add_account("secret-gmail", address="x@operator.example", pool="default", limits=Limits())
    await api.store.change_account(
        "secret-gmail",
        {"status": "suspended", "status_reason": Reason("account.paused_by_hand", note="the secret reason")},
    )
    await _enqueue(api, "acme", 2)
    await _enqueue(api, "rival", 777)
    async with signed_in(api, "acme", Role.VIEWER) as client, watching(client) as stream:
        state = await stream.state()
        assert (state["waiting"], state["workspace"]) == (2, "acme")
        assert state["health"] is None
        del state["now"], state["oldest_wait_s"]  # their values may vary
        told = json.dumps(state)
        for secret in ("secret", "rival", "777"):
            assert secret not in told
        assert "account" in state["headline"]["text"]
        assert "fairpost " not in told  # people on this page have no command line
    async with api.client("acme") as client, watching(client) as stream:  # the same with a key
        assert (await stream.state())["waiting"] == 2
    async with signed_in(api, None, Role.ADMIN) as client, watching(client, "/v1/live/now?workspace=acme") as stream:
        assert (await stream.state())["workspace"] == "acme"


async def test_watching_requires_permission(api: Api) -> None:
    await api.workspace("acme")
    async with httpx.AsyncClient(base_url=api.url) as client:
        assert (await client.get("/v1/live/now")).status_code == 401
    async with signed_in(api, "acme", Role.VIEWER) as client:
        assert (await client.get("/v1/live/nothing")).status_code == 404
        assert (await client.get("/v1/live/now?workspace=rival")).status_code == 403
        async with watching(client, "/v1/live/now") as stream:  # a caller that chose a workspace is not asked for one
            assert (await stream.state())["workspace"] == "acme"


async def test_only_admins_can_watch_the_inbox(api: Api) -> None:
    await api.workspace("acme")
    raw = b"From: Eve <eve@evil.example>\r\nSubject: " + b"x" * 100_000 + b"\r\n\r\nHello"
    people = tuple(f"{n}@example.com" for n in range(500))
    arrived = mails.Arrived(
        sender="eve@evil.example", recipients=people, helo="x", peer="y", tls=None, auth_user=None, raw=raw
    )
    for n in range(60):
        last = await mails.add_mail(api.store, arrived if n % 2 else replace(arrived, recipients=("ann@example.com",)))
    async with (
        signed_in(api, None, Role.ADMIN) as client,
        watching(client, "/v1/live/inbox?workspace=acme") as stream,  # regardless of the chosen workspace
    ):
        state = await stream.state()
        assert (state["count"], state["newest"], len(state["items"])) == (60, str(last.id), 50)
        first = state["items"][0]
        assert (first["id"], first["from"], first["recipients_count"]) == (
            str(last.id),
            "Eve <eve@evil.example>",
            500,
        )
        assert len(json.dumps(first)) < 1_000  # small, however large the message is
        older = (await client.get("/v1/inbox", params={"cursor": state["next"]})).json()["data"]
        assert [int(item["id"]) for item in older["items"]] == list(range(last.id - 50, last.id - 60, -1))
        await mails.delete_mails(api.store, [last.id])
        assert (await stream.state())["newest"] == str(last.id - 1)
    async with signed_in(api, "acme", Role.MANAGER) as client:
        assert (await client.get("/v1/live/inbox")).json()["error"]["code"] == "forbidden"
    async with api.client("acme") as client:
        assert (await client.get("/v1/live/inbox")).json()["error"]["code"] == "forbidden"


async def test_many_watchers_cost_as_much_as_one(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    real = topics.TOPICS["now"]

    def counted(watcher: topics.Watcher) -> Any:
        look = real.look(watcher)

        async def one() -> State:
            looks.append(clock.monotonic())
            return await look()

        return one

    monkeypatch.setitem(topics.TOPICS, "now", replace(real, look=counted))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(signed_in(api, None, Role.ADMIN))
        paths = ("/v1/live/now", "/v1/live/now?screen=narrow")
        streams = [await stack.enter_async_context(watching(client, paths[n % 2])) for n in range(60)]
        began_s = clock.monotonic()
        before = len(looks)
        await asyncio.gather(*(stream.state() for stream in streams))
        for n in range(3):
            await _enqueue(api, "acme", 1)
            await asyncio.gather(*(_until_waiting(stream, n + 1) for stream in streams))
        seconds = clock.monotonic() - began_s
    assert 3 <= len(looks) - before <= seconds + 2  # one per second for all of them


async def test_charts_are_drawn_for_the_screen_sizes_in_use() -> None:
    looks, drawn = 0, Counter[Screen]()

    async def look() -> State:
        nonlocal looks
        looks += 1

        def state(screen: Screen) -> bytes:
            drawn[screen] += 1
            return screen.encode()

        return state

    topic = Topic(look, every_s=1_000.0, log=lambda _: None)
    async with topic.watched(), topic.watched(), asyncio.timeout(HEARD_S):
        for _ in range(2):
            assert await anext(topic.events(asyncio.Event())) == b"event: state\ndata: wide\n\n"
        assert drawn == {Screen.WIDE: 1}
        async with topic.watched(Screen.NARROW), topic.watched(Screen.NARROW):
            for _ in range(2):  # no second look was made for them
                assert await anext(topic.events(asyncio.Event(), Screen.NARROW)) == b"event: state\ndata: narrow\n\n"
    assert (looks, drawn) == (1, {Screen.WIDE: 1, Screen.NARROW: 1})


async def test_a_chart_that_cannot_be_drawn_is_a_fault_of_ours_on_that_screen_alone() -> None:
    log: list[Reason] = []

    async def look() -> State:
        return lambda screen: {Screen.WIDE: b"1"}[screen]

    topic = Topic(look, every_s=1_000.0, log=log.append)
    async with topic.watched(), topic.watched(Screen.NARROW), asyncio.timeout(HEARD_S):
        assert await anext(topic.events(asyncio.Event())) == b"event: state\ndata: 1\n\n"
        assert (await anext(topic.events(asyncio.Event(), Screen.NARROW))).startswith(b"event: trouble\n")
    assert len(log) == 1


async def test_watching_a_new_name_each_time_costs_no_more(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic without names has one look; topics with names have a few in progress; and nothing is kept without
    watchers."""
    made, under_way, most = Counter[str](), 0, 0

    def counted(topic: str) -> None:
        real = topics.TOPICS[topic]

        def make(watcher: topics.Watcher) -> Any:
            look = real.look(watcher)
            made[topic] += 1

            async def one() -> State:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                try:
                    return await look()
                finally:
                    under_way -= 1

            return one

        monkeypatch.setitem(topics.TOPICS, topic, replace(real, look=make))

    for topic in ("now", "accounts"):
        counted(topic)
    await api.workspace("acme")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(signed_in(api, "acme", Role.VIEWER))
        paths = [f"/v1/live/{topic}?name={n}&having=x{n}" for n in range(40) for topic in ("now", "accounts")]
        streams = [await stack.enter_async_context(watching(client, path)) for path in paths]
        await asyncio.gather(*(stream.state() for stream in streams))
    assert made == {"now": 1, "accounts": 40}
    assert most <= LOOKS_OF_ONE_MAX
    async with signed_in(api, None, Role.ADMIN) as client, watching(client) as stream:
        await stream.state()  # by then, the service knows that the others have left
    assert {key[0] for key in api.service.live.topics if isinstance(key, tuple)} == {"now"}


async def _until_waiting(stream: Stream, n: int) -> None:
    while (await stream.state())["waiting"] < n:
        pass


@pytest.mark.usefixtures("quick_passes")
async def test_signing_out_ends_watching(api: Api) -> None:
    await api.workspace("acme")
    async with signed_in(api, "acme", Role.MANAGER) as client, watching(client) as stream:
        await stream.state()
        await api.store.value("UPDATE fairpost.sessions SET revoked_at = clock_timestamp()")
        assert await stream.next("over") == ("over", {})


@pytest.mark.usefixtures("quick_passes")
async def test_a_key_that_is_revoked_or_has_expired_watches_no_longer(api: Api) -> None:
    await api.workspace("acme")
    async with (
        api.client("acme") as revoked,
        api.client("acme") as expired,
        api.client("acme") as good,
        watching(revoked) as first,
        watching(expired) as second,
        watching(good) as third,
    ):
        for stream in (first, second, third):
            await stream.state()
        good_id, expired_id, revoked_id = [key["id"] for key in (await good.get("/v1/keys")).json()["data"]]
        assert (await good.delete(f"/v1/keys/{revoked_id}")).status_code == 200
        await api.store.value("UPDATE fairpost.api_keys SET expires_at = clock_timestamp() WHERE id = $1", expired_id)
        for stream in (first, second):
            assert await stream.next("over") == ("over", {})
        await _enqueue(api, "acme", 2)
        await _until_waiting(third, 2)  # holders of another key are not notified
        await good.delete(f"/v1/keys/{good_id}")
        assert await third.next("over") == ("over", {})
        assert (await good.get("/v1/live/now")).status_code == 401


@pytest.mark.usefixtures("quick_passes")
async def test_a_workspace_that_is_suspended_watches_no_longer(api: Api) -> None:
    await api.workspace("acme")
    async with (
        signed_in(api, "acme", Role.MANAGER) as client,
        api.client("acme") as with_key,
        watching(client) as stream,
        watching(with_key) as of_key,
    ):
        await stream.state()
        await of_key.state()
        await workspaces.suspend_workspace(api.store, "acme", reason="unpaid")
        for each in (stream, of_key):
            assert await each.next("over") == ("over", {})


async def test_one_email_is_watched_by_its_workspace_alone(api: Api) -> None:
    for workspace in ("acme", "rival"):
        await api.workspace(workspace)
    await _enqueue(api, "acme", 1)
    id_ = await api.store.value("SELECT id FROM fairpost.queue")
    public_id = (await api.store.public_ids()).email(id_)
    path = f"/v1/live/email?name={public_id}"
    async with signed_in(api, "acme", Role.VIEWER) as client, watching(client, path) as stream:
        state = await stream.state()
        assert (state["email"]["state"], state["email"]["class"], state["life"]["state"]) == (
            "ready",
            "urgent",
            "ready",
        )
        assert state["life"]["stands_in_the_way"]
        await api.store.cancel(id_, reason="a test")
        while state["email"]["state"] != "cancelled":
            state = await stream.state()
        assert state["life"]["moments"][-1]["words"].endswith("a test")
        assert state["life"]["stands_in_the_way"] == []
    async with signed_in(api, None, Role.ADMIN) as client:
        for nobodys in (
            path,
            f"{path}&workspace=rival",
            f"{path}9999999&workspace=acme",
            "/v1/live/email?workspace=acme",
            f"/v1/live/email?workspace=acme&name={id_:0100d}",
        ):
            async with watching(client, nobodys) as stream:
                assert await stream.state() is None
        async with watching(client, f"{path}&workspace=acme") as stream:
            assert (await stream.state())["email"]["id"] == public_id


async def test_a_topic_reports_trouble_and_continues() -> None:
    answers: list[bytes | Exception] = [b"1", DatabaseUnavailable("away"), b"2"]
    topic = Topic(lambda: _given(answers), every_s=0.01, log=lambda _: None)
    heard = []
    async with topic.watched():
        async for event in topic.events(asyncio.Event()):
            heard.append(event)
            if b"2" in event:
                break
    assert heard[0] == b"event: state\ndata: 1\n\n"
    assert heard[1].startswith(b"event: trouble\n")
    assert heard[-1] == b"event: state\ndata: 2\n\n"


async def test_a_fault_of_ours_is_reported_and_logged_once_and_the_looks_continue() -> None:
    answers: list[bytes | Exception] = [b"1", KeyError("ours"), KeyError("ours"), b"2"]
    log: list[Reason] = []
    topic = Topic(lambda: _given(answers), every_s=0.01, log=log.append)
    heard = []
    async with topic.watched(), asyncio.timeout(HEARD_S):
        async for event in topic.events(asyncio.Event()):
            heard.append(event)
            if b"2" in event:
                break
    assert heard[1].startswith(b"event: trouble\n")
    assert b"KeyError" not in heard[1]  # details of the error are only in the log
    assert [str(each.params["error"]).splitlines()[-1] for each in log] == ["KeyError: 'ours'"]


async def test_a_look_that_does_not_hear_that_it_is_to_end_is_the_last() -> None:
    looks, is_inside, go_on = 0, asyncio.Event(), asyncio.Event()

    async def deaf() -> State:
        nonlocal looks
        looks += 1
        is_inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go_on.wait()
            raise DatabaseUnavailable("the connection was lost on the way") from None
        raise AssertionError

    topic = Topic(deaf, every_s=0.0, log=lambda _: None)
    before = asyncio.all_tasks()
    async with topic.watched():
        await is_inside.wait()
        (task,) = asyncio.all_tasks() - before
    await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(HEARD_S):
        await asyncio.wait([task])
    assert looks == 1


async def test_the_stream_revoker_continues_after_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpost.api.live.REVOKED_EVERY_S", 0.01)
    answers: list[bytes | Exception] = [b"", KeyError("ours"), b""]
    log: list[Reason] = []

    async def still_open(region: str, credentials: Collection[Credential]) -> Collection[Credential]:
        await _given(answers)
        return credentials if log == [] else []  # they end after the fault

    topic = Topic(lambda: _given([b"1"]), every_s=1.0, log=log.append)
    async with (
        asyncio.timeout(HEARD_S),
        topic.watched(),
        StreamRevoker(still_open, log=log.append).watching("main", b"hash", topic) as ended,
    ):
        await ended.wait()
    assert len(log) == 1


async def _given(answers: list[bytes | Exception]) -> State:
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, Exception):
        raise answer
    return lambda screen: answer


async def test_nothing_is_queried_without_watchers() -> None:
    looks = 0

    async def look() -> State:
        nonlocal looks
        looks += 1
        seen = str(looks).encode()
        return lambda screen: seen

    topic = Topic(look, every_s=0.001, log=lambda _: None)
    async with topic.watched():
        events = topic.events(asyncio.Event())
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]
    seen = looks
    await asyncio.sleep(0.05)
    assert looks == seen


async def test_there_is_an_end_to_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpost.api.live.OF_ONE_MAX", 2)
    live = Live(lambda _: None)

    async def look() -> State:
        return lambda screen: b"1"

    async with AsyncExitStack() as stack:
        for _ in range(2):
            live.require_room("acme")
            await stack.enter_async_context(live.watching("k", lambda: look, of="acme"))
        with pytest.raises(ApiError) as refused:
            live.require_room("acme")
        assert (refused.value.code, refused.value.headers["Retry-After"]) == ("rate_limited", "30")
        live.require_room("other")
        monkeypatch.setattr("fairpost.api.live.OF_ALL_MAX", 2)
        with pytest.raises(ApiError) as refused:
            live.require_room("other")
        assert refused.value.code == "rate_limited"
        live.require_room(OPERATORS)  # admins can always watch, even if all places are taken
    live.require_room("acme")


async def test_shutting_down_does_not_wait_for_watchers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpost.api.serve.STOP_S_MAX", 1_000)
    async with AsyncExitStack() as stack, answering(settings) as api:
        client = await stack.enter_async_context(signed_in(api, None, Role.ADMIN))
        stream = await stack.enter_async_context(watching(client))
        await stream.state()
        ending = asyncio.timeout(2 * HEARD_S)
        await stack.enter_async_context(ending)


def test_streams_are_known_by_their_path() -> None:
    """The process does not wait for them when it stops."""
    assert f"{router.prefix}/" in STREAMS
