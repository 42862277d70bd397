"""A workspace with people, templates and accounts, on the real database and a manual clock."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from fairpost.campaigns import calendars, launching
from fairpost.campaigns.launching import SchedulingResult
from fairpost.dev.simulate.drive import Drive
from fairpost.engine.runner import Runner
from fairpost.maintenance.campaigns import CampaignWatch
from fairpost.maintenance.patience import PatienceWatch
from fairpost.model.account import Account, Limits
from fairpost.model.campaign import Campaign, Gap, Schedule, Step
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId, EmailId
from fairpost.model.prospect import Prospect
from fairpost.model.report import Reached, Report
from fairpost.model.window import Quota, SendingWindow
from fairpost.store import campaigns, prospects, templates
from fairpost.store.campaigns import Draft
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.system.clock import ManualClock
from fairpost.transports.port import Permission
from fairpost.transports.scripted.send import OK
from fairpost.transports.smtp.settings import SmtpSettings

MONDAY = datetime(2030, 1, 7, 8, tzinfo=UTC)
WORKSPACE = "acme"
LIST = "people"
BERLIN = "Europe/Berlin"
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
P0, P1, P2 = "p0@there.test", "p1@there.test", "p2@there.test"
QUICK = Limits()  # no pause: e-mails are claimed in batches, and each begin settles the previous one


@dataclass(frozen=True, slots=True)
class Sending:
    at: datetime
    account: str
    to: str
    email: Outgoing


@dataclass(slots=True)
class Post:
    """The server of every account. `answers` are its next answers for a recipient, before it accepts everything."""

    sent: list[Sending] = field(default_factory=list)
    answers: dict[str, list[Report]] = field(default_factory=dict)

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        to = email.envelope[0]
        if self.answers.get(to):
            return self.answers[to].pop(0)
        if not permission():
            return Report(reached=Reached.UNTOUCHED, error="no permission")
        self.sent.append(Sending(clock.now(), account.name, to, email))
        return Report(
            reached=OK.reached,
            step=OK.step,
            reply=OK.reply,
            message_id=f"<{email.id}@post.test>",
            thread_id=email.follows.thread_id if email.follows else f"t{email.id}",
        )

    def by_day(self, zone: str = "UTC") -> Counter[date]:
        return Counter(each.at.astimezone(ZoneInfo(zone)).date() for each in self.sent)

    def of(self, to: str) -> list[Sending]:
        return [each for each in self.sent if each.to == to]


@dataclass(slots=True)
class World:
    store: Store
    clock: ManualClock
    post: Post = field(default_factory=Post)
    accounts: dict[AccountId, Post] = field(default_factory=dict)

    async def add_accounts(self, *names: str, limits: Limits | None = None, pool: str = "default") -> None:
        for name in names:
            id_ = await self.store.add_account(
                name,
                address=f"{name}@post.test",
                pool=pool,
                limits=limits or Limits(delay_ms=1000),
                transport=SmtpSettings(host="mail.post.test", port=587),
            )
            self.accounts[id_] = self.post

    async def add_people(
        self, n: int, *, list_name: str = LIST, workspace: str = WORKSPACE, zones: Sequence[str | None] = (None,)
    ) -> None:
        """Adds p0@there.test and so on, each with a first name."""
        await self.store.value(
            """WITH made AS (
                   INSERT INTO fairpost.prospects (workspace, address, folded, fields, timezone, created_at, changed_at)
                   SELECT $1, 'p' || n || '@there.test', 'p' || n || '@there.test', jsonb_build_object('first_name', 'Ann' || n),
                          ($5::text[])[1 + n % cardinality($5)], $3, $3 FROM generate_series(0, $2 - 1) n
                   ON CONFLICT (workspace, folded) DO UPDATE SET changed_at = excluded.changed_at RETURNING id
               ), list AS (
                   INSERT INTO fairpost.lists (workspace, name, created_at) VALUES ($1, $4, $3)
                   ON CONFLICT (workspace, name) DO UPDATE SET name = excluded.name RETURNING id)
               INSERT INTO fairpost.list_members SELECT list.id, made.id FROM list, made ON CONFLICT DO NOTHING""",
            *(workspace, n, self.clock.now, list_name, list(zones)),
        )

    async def draft(
        self,
        name: str = "spring",
        *,
        delays: Sequence[timedelta] = (),
        lists: Sequence[str] = (LIST,),
        gap: Gap | None = None,
        text: str = "Hello {{ first_name }}",
        workspace: str = WORKSPACE,
        sequence: str | None = None,
        route: str = "default",
        starts_at: datetime | None = None,
        by_recipients_clock: bool = False,
        labels: Mapping[str, Any] | None = None,
    ) -> Campaign:
        """Creates a campaign with a first step, and a follow-up for each delay."""
        steps = []
        for number, delay in enumerate((timedelta(), *delays), 1):
            template = f"{sequence or name}-{number}"
            await templates.put_template(
                self.store, workspace, template, subject=f"{number}", text=f"{text} {number}", html=None
            )
            steps.append(Step(template=template, delay_s=int(delay.total_seconds()), own_subject=number > 1))
        await templates.put_sequence(self.store, workspace, sequence or name, steps)
        return await campaigns.put_draft(
            self.store,
            Draft(
                workspace=workspace,
                name=name,
                sequence=sequence or name,
                lists=tuple(lists),
                gap=gap,
                route=route,
                starts_at=starts_at,
                by_recipients_clock=by_recipients_clock,
                labels=labels or {},
            ),
        )

    async def launch(self, campaign: Campaign, *, skip_incomplete: bool = False) -> SchedulingResult:
        launched = await launching.launch(
            self.store, campaign, skip_incomplete=skip_incomplete, by="test", now=self.clock.now
        )
        return await launching.schedule(self.store, launched)

    async def set_schedule(self, schedule: Schedule, workspace: str = WORKSPACE) -> None:
        await calendars.set_schedule(self.store, workspace, schedule, now=self.clock.now)

    def drive(self) -> Drive:
        return Drive(
            self.store, self.clock, self.accounts, orchestrate=CampaignWatch(self.store, log=lambda words: None).step
        )

    async def run(self, *, days: float) -> None:
        """Runs this many days, or until nothing is waiting any more."""
        await self.drive().run(until=self.clock.now + timedelta(days=days))

    async def give_up_pinned(self) -> None:
        """Handles suspended accounts, as an engine does."""
        day = timedelta(days=1)
        await PatienceWatch(self.store, urgent=day, bulk=7 * day, log=lambda words: None).step()

    async def again(self, campaign: Campaign) -> Campaign:
        return await campaigns.campaign_by_id(self.store, campaign.id)


def office_hours(
    timezone: str = BERLIN,
    *,
    days: Sequence[int] = (1, 2, 3, 4, 5),
    start: time = time(9),
    end: time = time(17),
    quota: Quota | None = None,
    holidays: Sequence[date] = (),
) -> Schedule:
    window = SendingWindow(timezone=timezone, days=frozenset(days), start=start, end=end, holidays=frozenset(holidays))
    return Schedule(timezone=timezone, window=window, quota=quota or Quota())


# ── what a test asks and does ─────────────────────────────────────────────────────────────────────────────


async def look(world: World) -> None:
    await CampaignWatch(world.store, log=lambda words: None).step()


async def person(world: World, address: str) -> Prospect:
    return await prospects.known_by(world.store, WORKSPACE, address)


async def pause_person(world: World, address: str, is_paused: bool = True) -> None:
    await prospects.pause(world.store, await person(world, address), is_paused=is_paused)


async def runner_of(world: World, name: str) -> Runner:
    account = await world.store.account_named(name)
    runner = await Runner.start(world.store, world.post, account.id, owner="test")
    assert runner is not None
    return runner


async def states(world: World, address: str | None = None) -> dict[tuple[str, int], str]:
    rows = await world.store.fetch(
        """SELECT addresses[1] AS address, step, state::text FROM fairpost.queue
           UNION ALL SELECT addresses[1], step, state::text FROM fairpost.emails ORDER BY 1, 2"""
    )
    return {(r["address"], r["step"]): r["state"] for r in rows if address in (None, r["address"])}


async def in_hand(world: World) -> str:
    """A prospect whose e-mail is claimed but not begun."""
    return str(
        await world.store.value("SELECT addresses[1] FROM fairpost.queue WHERE state = 'claimed' ORDER BY id LIMIT 1")
    )


async def email_of(world: World, address: str, step: int = 1) -> EmailId:
    sql = """SELECT id FROM fairpost.queue WHERE addresses = ARRAY[$1::text] AND step = $2
             UNION ALL SELECT id FROM fairpost.emails WHERE addresses = ARRAY[$1::text] AND step = $2"""
    return EmailId(await world.store.value(sql, address, step))


def subjects(world: World, to: str) -> list[str]:
    return [each.email.content.subject for each in world.post.of(to)]


def counts(world: World) -> Counter[str]:
    return Counter(each.to for each in world.post.sent)


def once(n: int, *, steps: int = 1) -> dict[str, int]:
    return {f"p{i}@there.test": steps for i in range(n)}
