"""The table of truth: situations made for real, with a real engine and real servers, and the one answer that every view gives.

Each situation has a workspace, a pool, an account and a campaign of its own. All of them are looked at together, while one engine runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairpost.campaigns import calendars, launching
from fairpost.model.account import Limits, WarmUp
from fairpost.model.campaign import Campaign, Schedule, Step
from fairpost.model.prospect import ProspectLine
from fairpost.model.reason import Reason
from fairpost.model.sender import SenderId
from fairpost.model.transport import Security
from fairpost.model.window import Quota
from fairpost.observe.accounts import condition_of
from fairpost.observe.campaigns import view_campaign
from fairpost.observe.now import NowWatch
from fairpost.observe.status import read_facts
from fairpost.policy.conditions import Condition, Tone, diagnose
from fairpost.policy.senders import SenderPolicy, impose
from fairpost.reasons.rendering import command
from fairpost.store import campaigns, senders, templates
from fairpost.store.campaigns import Draft
from fairpost.store.prospects import import_prospects
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from tests.campaigns.world import office_hours
from tests.chaos.processes import Engine

PEOPLE = 40
MANY = 400  # to send to for as long as a busy machine may take
SETTLED_S_MAX = 200.0  # only against waiting for ever
HOUR = timedelta(hours=1)
NOBODY_LISTENS = 1


@dataclass
class Servers:
    """By what they do: their ports."""

    takes: int
    hangs: int
    refuses: int


@dataclass
class World:
    store: Store
    servers: Servers
    launched: dict[str, Campaign] = field(default_factory=dict)

    async def account(self, name: str, port: int | None, limits: Limits | None = None, *, own: str = "") -> None:
        server = SmtpSettings(host="127.0.0.1", port=port, security=Security.NONE) if port is not None else None
        await self.store.add_account(
            f"{own}{name}",
            address=f"out@{name}.example",
            pool=f"{own}{name}",
            limits=limits or Limits(),
            transport=server,
        )

    async def campaign(
        self,
        name: str,
        *,
        route: str | None = None,
        launch: bool = True,
        starts_at: datetime | None = None,
        people: int = PEOPLE,
    ) -> None:
        store, now = self.store, await self.store.now()
        lines = [
            ProspectLine(line=n, address=f"p{n}@{name}.example", fields={}, timezone=None, external_id=None)
            for n in range(people)
        ]
        async with store.connection() as conn:
            await import_prospects(conn, lines, workspace=name, list_name="people", skip_bad=False)
        await templates.put_template(store, name, "hello", subject="Hello", text="Hi", html=None)
        await templates.put_sequence(store, name, "hello", [Step(template="hello")])
        draft = Draft(
            workspace=name,
            name="spring",
            sequence="hello",
            lists=("people",),
            route=route or name,
            gap=None,
            by_recipients_clock=False,
            user="ann",
            starts_at=starts_at,
        )
        made = await campaigns.put_draft(store, draft)
        if launch:
            made = await launching.set_going(store, made, skip_incomplete=False, by="a test", now=now)
            await launching.schedule(store, made)
        self.launched[name] = made


Make = Callable[[World, str], Awaitable[None]]


@dataclass(frozen=True)
class Situation:
    """`account`: what its page says, where that is another; None: there is none. `now`: likewise of the workspace and of `status`."""

    make: Make
    code: str
    account: str | None = ""
    now: str | None = ""


def with_account(
    port: Callable[[Servers], int | None], limits: Limits | None = None, own: bool = False, people: int = PEOPLE
) -> Make:
    async def make(world: World, name: str) -> None:
        prefix = f"{name}/" if own else ""
        await world.account(name, port(world.servers), limits, own=prefix)
        await world.campaign(name, route=f"{prefix}{name}", people=people)

    return make


def takes(limits: Limits | None = None, *, people: int = PEOPLE) -> Make:
    return with_account(lambda servers: servers.takes, limits, people=people)


def then(first: Make, *after: Callable[[World, str], Awaitable[object]]) -> Make:
    async def make(world: World, name: str) -> None:
        await first(world, name)
        for each in after:
            await each(world, name)

    return make


def before(first: Callable[[World, str], Awaitable[object]], later: Make) -> Make:
    async def make(world: World, name: str) -> None:
        await first(world, name)
        await later(world, name)

    return make


def status(status: str, **more: str) -> Callable[[World, str], Awaitable[object]]:
    return lambda world, name: world.store.change_account(
        name, {"status": status, "status_reason": Reason("account.paused_by_hand", note="a test"), **more}
    )


def held(level: str, key: str = "") -> Callable[[World, str], Awaitable[object]]:
    return lambda world, name: world.store.hold(name, level, key, reason="a test")  # type: ignore[arg-type]


async def paused_until_tomorrow(world: World, name: str) -> None:
    until = await world.store.now() + 24 * HOUR
    await status("paused", status_until=until.isoformat())(world, name)


async def throttled(world: World, name: str) -> None:
    id_ = await senders.named(world.store, SenderId(workspace=name, name="ann"))
    until = await world.store.now() + HOUR
    await senders.decide_now(
        world.store, id_, lambda a, now: impose(a.sender, until=until, reason="a test", policy=SenderPolicy(), now=now)
    )


async def window_closed(world: World, name: str) -> None:
    now = await world.store.now()
    elsewhere = (now + timedelta(days=3)).isoweekday()
    await calendars.set_schedule(world.store, name, office_hours(days=(elsewhere,)), now=now)


async def quota_of_one(world: World, name: str) -> None:
    await calendars.set_schedule(world.store, name, Schedule(quota=Quota(daily_max=1)), now=await world.store.now())


async def pause_campaign(world: World, name: str) -> None:
    await campaigns.pause(world.store, world.launched[name], reason="a test", by="a test")


async def cancel_campaign(world: World, name: str) -> None:
    await campaigns.cancel(world.store, world.launched[name], reason="a test", by="a test")


async def draft(world: World, name: str) -> None:
    await world.account(name, world.servers.takes)
    await world.campaign(name, launch=False)


async def starts_tomorrow(world: World, name: str) -> None:
    await world.account(name, world.servers.takes)
    await world.campaign(name, starts_at=await world.store.now() + 24 * HOUR)


async def pool_empty(world: World, name: str) -> None:
    await world.account(name, world.servers.takes)
    await world.campaign(name)
    await world.store.change_account(name, {"pool": f"{name}-elsewhere"})


SLOW = Limits(delay_ms=1500)  # so that there is something left to send when it is looked at
SITUATIONS: dict[str, Situation] = {
    "sending": Situation(takes(SLOW, people=MANY), "account.sending", now="mail.sending"),
    "unreachable": Situation(with_account(lambda _: NOBODY_LISTENS), "account.server_unreachable"),
    "unreachable-and-limited": Situation(
        with_account(lambda _: NOBODY_LISTENS, Limits(hourly_max=1)), "account.server_unreachable"
    ),
    "hanging": Situation(with_account(lambda servers: servers.hangs), "account.server_hangs"),
    "refusing": Situation(with_account(lambda servers: servers.refuses), "account.server_unreachable"),
    "port-forbidden": Situation(with_account(lambda servers: servers.takes, own=True), "account.server_forbidden"),
    "network-forbidden": Situation(with_account(lambda _: 587, own=True), "account.server_forbidden"),
    "no-server": Situation(with_account(lambda _: None), "account.no_server"),
    "suspended": Situation(then(takes(SLOW), status("suspended")), "account.suspended"),
    "paused": Situation(then(takes(SLOW), status("paused")), "account.paused"),
    "paused-for-a-day": Situation(then(takes(SLOW), paused_until_tomorrow), "account.paused"),
    "paused-without-a-server": Situation(then(with_account(lambda _: None), status("paused")), "account.paused"),
    "hourly": Situation(takes(Limits(hourly_max=1)), "account.hourly_limit"),
    "daily": Situation(takes(Limits(daily_max=1)), "account.daily_limit"),
    "warm-up": Situation(takes(Limits(daily_max=100, warm_up=WarmUp(start=1, step=1))), "account.daily_limit"),
    "delay": Situation(takes(Limits(delay_ms=3_600_000)), "account.delay"),
    "quota-of-the-api": Situation(takes(Limits(units_per_minute=1, units_per_send=1)), "account.api_quota"),
    "pool-empty": Situation(pool_empty, "campaign.failed", "account.idle", "pool.empty"),
    "workspace-held": Situation(before(held("workspace"), takes(SLOW)), "hold.workspace", "account.idle"),
    "user-held": Situation(before(held("user", "ann"), takes(SLOW)), "hold.user", "account.idle"),
    "user-throttled": Situation(before(throttled, takes(SLOW)), "throttle.user", "account.idle"),
    "held-and-without-a-server": Situation(
        before(held("user", "ann"), with_account(lambda _: None)), "hold.user", "account.no_server", "account.no_server"
    ),
    "window-closed": Situation(
        before(window_closed, takes(SLOW)), "campaign.window_closed", "account.idle", "window.closed"
    ),
    "quota-used-up": Situation(
        before(quota_of_one, takes(SLOW)), "campaign.window_closed", "account.idle", "window.closed"
    ),
    "campaign-paused": Situation(then(takes(SLOW), pause_campaign), "campaign.paused", "account.idle", None),
    "campaign-cancelled": Situation(then(takes(SLOW), cancel_campaign), "campaign.cancelled", "account.idle", None),
    "draft": Situation(draft, "campaign.draft", "account.idle", "mail.none"),
    "starts-tomorrow": Situation(starts_tomorrow, "campaign.starts", "account.idle", None),
    "idle": Situation(takes(), "campaign.completed", "account.idle", "mail.none"),
}


@asynccontextmanager
async def serving() -> AsyncIterator[Servers]:
    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        is_data = False
        while line := await reader.readline():
            if is_data:
                is_data = line != b".\r\n"
                if not is_data:
                    writer.write(b"250 taken\r\n")
            elif line.upper().startswith(b"DATA"):
                is_data = True
                writer.write(b"354 go on\r\n")
            else:
                writer.write(b"250 fine\r\n")

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"554 no service here\r\n")

    def until_closed(
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.CancelledError):
                await serve(reader, writer)
            writer.close()

        return served

    async with AsyncExitStack() as opened:
        ports = []
        for serve in (takes, hangs, refuses):
            server = await asyncio.start_server(until_closed(serve), "127.0.0.1", 0)
            opened.callback(server.close)
            ports.append(server.sockets[0].getsockname()[1])
        yield Servers(*ports)


async def answers(world: World, names: Iterable[str]) -> dict[str, dict[str, Condition]]:
    """What each view says of each of these situations."""
    store = world.store
    facts = await read_facts(store)
    pages = {each.account.name.rpartition("/")[2]: condition_of(each, facts) for each in facts.accounts}
    found: dict[str, dict[str, Condition]] = {}
    for name in names:
        again = await campaigns.campaign_by_id(store, world.launched[name].id)
        found[name] = {
            "campaign": (await view_campaign(store, again)).waiting,
            "now": (await NowWatch(store, name).look()).headline,
        }
        if name in pages:
            found[name]["account"] = pages[name]
    return found


def wrong_in(found: dict[str, dict[str, Condition]]) -> dict[str, str]:
    """By situation, what is not said there."""
    wrong = {}
    for name, views in found.items():
        situation = SITUATIONS[name]
        expected = {"campaign": situation.code, "account": situation.account, "now": situation.now}
        for view, code in expected.items():
            wanted = situation.code if code == "" else code
            told = views.get(view)
            if wanted is not None and (told is None or told.code != wanted):
                wrong[name] = f"{name}: {view} says {told.code if told else None} instead of {wanted}"
    return wrong


async def settled(world: World) -> dict[str, dict[str, Condition]]:
    """What every view says once all of them are right at the same time. Until then only those that are not are looked at."""
    wrong: dict[str, str] = {}
    try:
        async with asyncio.timeout(SETTLED_S_MAX):
            while True:
                found = await answers(world, wrong or SITUATIONS)
                is_whole, wrong = not wrong, wrong_in(found)
                if is_whole and not wrong:
                    return found
                if wrong:
                    await asyncio.sleep(0.5)
    except TimeoutError:
        pytest.fail("\n".join(wrong.values()))


@pytest.mark.slow
async def test_every_view_gives_the_one_cause_of_each_situation(url: str, tmp_path: Path) -> None:
    async with Store.open(url) as store, serving() as servers:
        world = World(store, servers)
        for name, situation in SITUATIONS.items():
            await situation.make(world, name)
        engine = Engine.start(url, None, tmp_path, "--accounts-per-process", "50")
        try:
            found = await settled(world)
        finally:
            engine.end()
        for views in found.values():
            for condition in views.values():
                assert condition.tone in (Tone.WORKING, Tone.IDLE) or command(condition.reason), condition.code
        await _without_an_engine(world)


async def _without_an_engine(world: World) -> None:
    """What was sending says that there is no engine, once the last one no longer counts as alive."""
    told: dict[str, str] = {}
    try:
        async with asyncio.timeout(SETTLED_S_MAX):
            while not told or set(told.values()) != {"engine.none"}:
                (views,) = (await answers(world, ["sending"])).values()
                told = {view: condition.code for view, condition in views.items()}
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"without an engine: {told}")
    await world.store.value("SELECT fairpost.pause('a test', 'a test')")
    paused = (await answers(world, ["sending"]))["sending"]
    assert (paused["now"].code, paused["campaign"].code) == ("everything.paused", "everything.paused")
    assert diagnose(await read_facts(world.store))[0].code == "everything.paused"
