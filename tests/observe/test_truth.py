"""The table of truth: situations created with a real engine and real servers, and the one answer that every view gives.

Each situation has its own workspace, pool, account and campaign. All of them are checked together, while one engine
runs. `status`, `doctor` and `account list` are the commands themselves. Then every next step that any of them offers is
run.
"""

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from fairpost.campaigns import calendars, launching
from fairpost.cli import app
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
from fairpost.policy.conditions import Condition, of_route
from fairpost.policy.senders import SenderPolicy, impose
from fairpost.reasons.rendering import command
from fairpost.store import campaigns, senders, templates
from fairpost.store.campaigns import Draft
from fairpost.store.prospects import import_prospects
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from tests.campaigns.world import office_hours
from tests.chaos.processes import Engine

PEOPLE = 5
MANY = 400  # enough to keep sending for as long as a busy machine may take
SETTLED_S_MAX = 200.0  # only guards against waiting forever
HOUR = timedelta(hours=1)
CLOSED_PORT = 1


@dataclass
class Servers:
    """Servers by their behaviour, with their ports."""

    takes: int
    hangs: int
    refuses: int
    stop_hanging: Callable[[], None]


@dataclass
class World:
    store: Store
    servers: Servers
    environment: Mapping[str, str]
    launched: dict[str, Campaign] = field(default_factory=dict)

    async def cli(self, *arguments: str, answers_json: bool = True) -> Any:
        """Returns the JSON of a command, or its text. `doctor` and `account verify` exit with 1 if something is wrong."""
        done = await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=dict(self.environment))
        may_fail = arguments[0] == "doctor" or arguments[:2] == ("account", "verify")
        assert done.exit_code == 0 or (may_fail and done.exit_code == 1), (arguments, done.output)
        return json.loads(done.stdout) if answers_json else done.output

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
    """`code` is the campaign's and, unless others are given, that of all views. `status` lists what keeps e-mails back,
    worst first; so does `doctor`, if it differs."""

    make: Make
    code: str
    account: str = ""
    now: str = ""
    status: Sequence[str] | None = None
    doctor: Sequence[str] | None = None

    def expected(self) -> dict[str, Sequence[str]]:
        now = self.now or self.code
        status = [now] if self.status is None else self.status
        doctor = status if self.doctor is None else self.doctor
        one = {"campaign": [self.code], "account": [self.account or self.code], "now": [now]}
        return {**one, "status": status, "doctor": doctor}


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


async def one_e_mail(world: World, name: str) -> None:
    """Nothing waits behind the e-mail being sent."""
    await world.account(name, world.servers.hangs)
    await world.campaign(name, people=1)


async def one_of_two_broken(world: World, name: str) -> None:
    await world.store.add_account(f"{name}-broken", address=f"out@{name}.example", pool=name, limits=Limits())
    await takes(SLOW, people=MANY)(world, name)


ONE_A_MINUTE = Limits(units_per_minute=1, units_per_send=1)
SLOW = Limits(delay_ms=1500)  # so that something is left to send when it is checked
SITUATIONS: dict[str, Situation] = {
    "sending": Situation(takes(SLOW, people=MANY), "account.sending", now="mail.sending", status=()),
    "one of two accounts has no server": Situation(one_of_two_broken, "account.sending", now="mail.sending", status=()),
    "server unreachable": Situation(with_account(lambda _: CLOSED_PORT), "account.server_unreachable"),
    "server unreachable, hourly limit reached": Situation(
        with_account(lambda _: CLOSED_PORT, Limits(hourly_max=1)), "account.server_unreachable"
    ),
    "server hangs": Situation(with_account(lambda servers: servers.hangs), "account.server_hangs"),
    "server hangs on the last e-mail": Situation(one_e_mail, "account.server_hangs"),
    "server refuses the connection": Situation(
        with_account(lambda servers: servers.refuses), "account.server_unreachable"
    ),
    "port forbidden": Situation(with_account(lambda servers: servers.takes, own=True), "account.server_forbidden"),
    "network forbidden": Situation(with_account(lambda _: 587, own=True), "account.server_forbidden"),
    "no server": Situation(with_account(lambda _: None), "account.no_server"),
    "account suspended": Situation(then(takes(SLOW), status("suspended")), "account.suspended"),
    "account paused": Situation(then(takes(SLOW), status("paused")), "account.paused"),
    "account paused for a day": Situation(then(takes(SLOW), paused_until_tomorrow), "account.paused"),
    "account paused, no server": Situation(then(with_account(lambda _: None), status("paused")), "account.paused"),
    "hourly limit": Situation(takes(Limits(hourly_max=1)), "account.hourly_limit"),
    "daily limit": Situation(takes(Limits(daily_max=1)), "account.daily_limit"),
    "warm-up limit": Situation(takes(Limits(daily_max=100, warm_up=WarmUp(start=1, step=1))), "account.warm_up_limit"),
    "delay of an hour": Situation(takes(Limits(delay_ms=3_600_000)), "account.delay"),
    "API quota used up": Situation(takes(ONE_A_MINUTE, people=40), "account.api_quota"),
    "pool without an account": Situation(pool_empty, "pool.empty", "account.idle"),
    "workspace held": Situation(before(held("workspace"), takes(SLOW)), "hold.workspace", "account.idle"),
    "user held": Situation(before(held("user", "ann"), takes(SLOW)), "hold.user", "account.idle"),
    "user throttled": Situation(before(throttled, takes(SLOW)), "throttle.user", "account.idle"),
    "user held, no server": Situation(before(held("user", "ann"), with_account(lambda _: None)), "account.no_server"),
    "campaign paused, no server": Situation(then(with_account(lambda _: None), pause_campaign), "account.no_server"),
    "window closed": Situation(before(window_closed, takes(SLOW)), "campaign.window_closed", "account.idle"),
    "daily quota used up": Situation(before(quota_of_one, takes(SLOW)), "campaign.window_closed", "account.idle"),
    "campaign paused": Situation(then(takes(SLOW), pause_campaign), "campaign.paused", "account.idle"),
    "campaign cancelled": Situation(
        then(takes(SLOW), cancel_campaign), "campaign.cancelled", "account.idle", "mail.none", ()
    ),
    "draft": Situation(draft, "campaign.draft", "account.idle", "mail.none", ()),
    "starts tomorrow": Situation(starts_tomorrow, "campaign.starts", "account.idle", "mail.scheduled", ()),
    "everything sent": Situation(takes(), "campaign.completed", "account.idle", "mail.none", ()),
}
ENGINE_KILLED, ALL_PAUSED = "engine killed", "everything paused"
ON_ALL = {ENGINE_KILLED: "engine.none", ALL_PAUSED: "everything.paused"}


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
        started = []
        for serve in (takes, hangs, refuses):
            server = await asyncio.start_server(until_closed(serve), "127.0.0.1", 0)
            opened.callback(server.close)
            started.append(server)
        ports = [server.sockets[0].getsockname()[1] for server in started]
        yield Servers(ports[0], ports[1], ports[2], stop_hanging=started[1].close)


def test_no_view_tells_a_situation_by_two_causes() -> None:
    assert [name for name, each in SITUATIONS.items() if any(len(told) > 1 for told in each.expected().values())] == []


def name_of(situation: str) -> str:
    """Returns the names of its workspace, pool and account, which occur in no sentence."""
    return f"at-{re.sub('[^a-z]+', '-', situation.lower())}"


class Told(NamedTuple):
    code: str
    then: str


Answers = dict[str, dict[str, list[Told]]]  # by situation and view, worst first


async def answers(world: World, situations: Iterable[str] = ()) -> Answers:
    """Returns what pages say about all, or about these."""
    store = world.store
    facts = await read_facts(store)
    pages = {each.account.name.rpartition("/")[2]: condition_of(each, facts) for each in facts.accounts}
    found: Answers = {}
    for situation in situations or SITUATIONS:
        name = name_of(situation)
        again = await campaigns.campaign_by_id(store, world.launched[name].id)
        now = await NowWatch(store, name).look()
        found[situation] = {
            "campaign": [_told((await view_campaign(store, again)).waiting)],
            "account": [_told(pages[name])],
            "now": [_told(now.headline)],
        }
    return found


async def typed(world: World, situations: Iterable[str] = ()) -> Answers:
    """Returns what commands say."""
    status, doctor = await world.cli("status", "--json"), await world.cli("doctor", "--json")
    accounts = await world.cli("account", "list", "--json")
    found: Answers = {}
    for situation in situations or SITUATIONS:
        name = name_of(situation)
        listed = [each["condition"] for each in accounts if each["name"].rpartition("/")[2] == name]
        found[situation] = {
            "status": _about(name, status["reasons"]),
            "doctor": _about(name, [each for each in doctor["checks"] if each["code"]]),
            "account": [Told(each["code"], each["then"]) for each in listed],
        }
    return found


def _about(name: str, told: list[dict[str, Any]]) -> list[Told]:
    whole = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return [Told(each["code"], each["then"] or "") for each in told if whole.search(f"{each['text']} {each['then']}")]


def _told(condition: Condition) -> Told:
    return Told(condition.code, command(condition.reason) or "")


def wrong_in(found: Answers) -> dict[str, str]:
    """Returns, by situation, what is missing."""
    wrong = {}
    for situation, views in found.items():
        expected = SITUATIONS[situation].expected()
        for view, told in views.items():
            codes = [each.code for each in told]
            if codes != list(expected[view]):
                wrong[situation] = f"{situation}: {view} says {codes} instead of {list(expected[view])}"
    return wrong


async def until_true(look: Callable[[Iterable[str]], Awaitable[Answers]]) -> Answers:
    """Waits until everything is true at the same time. Only statements that are still untrue are checked again: a busy
    machine takes time."""
    wrong: dict[str, str] = {}
    try:
        async with asyncio.timeout(SETTLED_S_MAX):
            while True:
                found = await look(wrong)
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
        world = World(store, servers, {"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path)})
        for situation, each in SITUATIONS.items():
            await each.make(world, name_of(situation))
        engine = Engine.start(url, None, tmp_path, "--accounts-per-process", "50")
        try:
            pages = await until_true(lambda names: answers(world, names))
            commands = await until_true(lambda names: typed(world, names))
        finally:
            engine.end()
        offered = {
            told for found in (pages, commands) for views in found.values() for each in views.values() for told in each
        }
        assert [told.code for told in offered if not told.then and told.code not in NO_NEXT_STEP] == []
        _compare_with_docs(pages)
        await _without_an_engine(world)
        await _type_all(world, offered)


NO_NEXT_STEP = (
    "account.sending",
    "account.idle",
    "mail.sending",
    "mail.none",
    "campaign.completed",
    "campaign.cancelled",
)


async def _without_an_engine(world: World) -> None:
    """Five seconds after an engine last reported, by the product's own clock, so the test need not wait."""
    store = world.store
    seen_at: datetime = await store.value("SELECT max(seen_at) FROM fairpost.engines")
    later = await read_facts(store, now=seen_at + timedelta(seconds=5))
    name = name_of("sending")
    (account,) = [each for each in later.accounts if each.account.name == name]
    (route,) = [each for each in later.routes if each.route == name]
    assert (condition_of(account, later).code, of_route(route, later).code) == ("engine.none", "engine.none")
    just_before = await read_facts(store, now=seen_at + timedelta(seconds=4.9))
    assert condition_of(account, just_before).code != "engine.none"
    async with asyncio.timeout(SETTLED_S_MAX):
        while (await store.now() - seen_at).total_seconds() < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await _all_say(world, "engine.none")
    await world.cli("pause", "--all", "--reason", "a test", answers_json=False)
    await _all_say(world, "everything.paused")
    await world.cli("resume", "--all", answers_json=False)


async def _all_say(world: World, code: str) -> None:
    """For an account with no problem of its own: every view, at the first read."""
    pages = (await answers(world, ["sending"]))["sending"]
    told = {view: [each.code for each in found] for view, found in pages.items()}
    assert all(codes == [code] for codes in told.values()), told
    accounts = await world.cli("account", "list", "--json")
    assert [each["condition"]["code"] for each in accounts if each["name"] == name_of("sending")] == [code]
    status, doctor = await world.cli("status", "--json"), await world.cli("doctor", "--json")
    for found in (status["reasons"], doctor["checks"]):
        assert [each["then"] for each in found if each["code"] == code] == [command(Reason(code))]


async def _type_all(world: World, offered: set[Told]) -> None:
    """Runs each next step as offered. It may report that a server is broken, but must not be rejected or find nothing."""
    world.servers.stop_hanging()
    for told in sorted(offered):
        words = shlex.split(told.then)[1:]
        if words:
            printed = await world.cli(*words, answers_json=False)
            assert "there is no" not in printed.lower(), (told, printed)
    ended = ("account paused", "account paused for a day", "workspace held", "user held", "user throttled", "campaign paused")  # fmt: skip
    after = await answers(world, ended)
    for situation in ended:
        was = SITUATIONS[situation].code
        assert was not in [each.code for view in after[situation].values() for each in view], situation


def _compare_with_docs(pages: Answers) -> None:
    page = (Path(__file__).parents[2] / "docs/conditions.md").read_text("utf-8")
    lacking = [line for line in table(pages) if line not in page.splitlines()]
    assert lacking == [], "in docs/conditions.md:\n" + "\n".join(table(pages))


def table(pages: Answers) -> list[str]:
    """Returns the rows of the page: the cause, and the next step for people who look at the campaign."""
    lines = []
    for situation, each in SITUATIONS.items():
        expected = each.expected()
        told = {view: ", ".join(f"`{code}`" for code in codes) or "–" for view, codes in expected.items()}
        then = pages[situation]["campaign"][0].then.replace(name_of(situation), "NAME")
        views = " | ".join(told[view] for view in ("campaign", "account", "now", "status", "doctor"))
        lines.append(f"| {situation} | {views} | {f'`{then}`' if then else '–'} |")
    for situation, code in ON_ALL.items():
        lines.append(f"| {situation} | {' | '.join([f'`{code}`'] * 5)} | `{command(Reason(code))}` |")
    return lines
