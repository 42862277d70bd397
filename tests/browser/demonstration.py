"""The content of the pictures: a service that is empty, then at work, then without an engine, then paused.

Its mail is that of `fairpost up`, sent by a real engine into a real inbox. Only the hours before it began are invented.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fairpost.campaigns import launching
from fairpost.campaigns.applying import apply
from fairpost.campaigns.file import CampaignFile, FileStep
from fairpost.dev.demo.background import Background
from fairpost.dev.demo.burst import Burst
from fairpost.dev.demo.campaign import LIST
from fairpost.dev.demo.stage import BOUNCE_PERCENT_MAX, BURST, POOLS, SHOP, put_accounts, put_workspaces
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.model.account import Lease, Limits, Usage
from fairpost.model.auth import Role
from fairpost.model.campaign import Gap
from fairpost.model.ids import EmailId
from fairpost.model.report import Reached, Reply, Report
from fairpost.model.transport import Security
from fairpost.model.verdict import Retry, Sent, Verdict
from fairpost.model.workspace import ACCOUNT, PROVEN, Loan, Scope
from fairpost.regions.directory import MAIN
from fairpost.store import templates, workspaces
from fairpost.store.pauses import pause_everything, resume_everything
from fairpost.store.store import Store
from fairpost.system import chance
from fairpost.templates.rendering import Template
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.browser.signing_in import add_member
from tests.chaos.driver import eventually, until
from tests.chaos.processes import Engine

CAMPAIGN = "summer-menu"
CAMPAIGN_POOL = "corner-shop"
CAMPAIGN_ACCOUNTS = {"nora": "Nora of the Corner Shop", "counter": "The Corner Shop"}
HALF_WAY = 60  # number of the campaign's e-mails sent when the pictures are taken
STEP_S = 0.7  # between two everyday e-mails
WAIT_S_MAX = 240
END_S_MAX = 120

MENU = Template(
    subject="{{ first_name }}, the summer menu is here",
    text="Dear {{ first_name }},\n\ncold brew, lemon cake and a table outside in {{ city }}: the summer menu is here.\n\nNora, the Corner Shop",
    html="<h2>The summer menu</h2>\n<p>Dear {{ first_name }},</p>\n<p>cold brew, lemon cake and a table outside:"
    " in <b>{{ city }}</b> it is summer from Monday on.</p>\n<ul>\n  <li>Cold brew, €4</li>\n  <li>Lemon cake, €5</li>\n</ul>\n"
    '<p><a href="https://shop.demo.invalid/menu">See the whole menu</a></p>\n<p>Nora, the Corner Shop</p>',
)
BUSY = Report(reached=Reached.REPLIED, reply=Reply(451, "4.7.1 Greylisted, come back in five minutes"))
TAKEN = Report(
    reached=Reached.REPLIED,
    reply=Reply(250, "2.0.0 Ok: queued as 4F1A2C"),
    message_id="<7c1.order-4711@shop.demo.invalid>",
)


ORDER = {
    "workspace": SHOP,
    "user": "till",
    "to": "Grace Brook <reader21@demo.invalid>",
    "from": "Corner Shop <orders@demo.invalid>",
    "subject": "Your order 4711: 2 × the blue teapot",
    "text": "Dear Grace,\n\nthank you for your order 4711: 2 × the blue teapot, €68.00.\nIt leaves for Lisbon tomorrow.\n\nThe Corner Shop",
    "html": "<h1>Thank you, Grace</h1><p>2 × the blue teapot, €68.00. It leaves for <b>Lisbon</b> tomorrow.</p>",
    "account": "demo-quick",
    "idempotency_key": "order 4711",
}


class Demonstration:
    def __init__(self, api: Api, home: Path, database_url: str) -> None:
        self._api = api
        self._store = api.store
        self._home = home
        self._url = database_url

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Mail is being sent, and a campaign is half done. A viewer that has watched from the start has seen the burst."""
        inbox = InboxServer(self._store, ServerOptions(port=0))
        await inbox.start()
        server = SmtpSettings(host="127.0.0.1", port=inbox.port, security=Security.NONE)
        await put_workspaces(self._store)
        await put_accounts(self._store, BURST, server)
        await _lay_past_hours(self._store)
        await _set_up_shop(self._api, server)
        await _deliver_at_the_second_attempt(self._store)
        engine = Engine.start(self._url, None, self._home)
        try:
            await until(engine.is_ready, "the engine is ready", s_max=WAIT_S_MAX)
            second = Background(self._store, server, dice=chance.dice("pictures"))
            rush = Burst(self._store, server, flood=400)
            await rush.begin()
            await eventually(lambda: _is_done(rush), "the rush is over", s_max=WAIT_S_MAX)
            await second.begin()
            await _launch(self._store)
            trickle = asyncio.create_task(_trickle(self._store, second))
            try:
                await eventually(
                    lambda: self._store.value(_IS_HALF_WAY, CAMPAIGN, HALF_WAY),
                    "the campaign is half done",
                    s_max=WAIT_S_MAX,
                )
                yield
            finally:
                trickle.cancel()
                await asyncio.gather(trickle, return_exceptions=True)
        finally:
            engine.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(engine.process.wait, END_S_MAX)
            engine.end()
            await inbox.stop()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        by = "admin ann@example.com"
        await pause_everything(self._store, reason="the provider is being changed", by=by, until=None)
        try:
            yield
        finally:
            await resume_everything(self._store, by=by)

    async def places(self) -> dict[str, str]:
        """Returns the URLs of objects that are shown, as far as they exist yet."""
        return {name: str(await self._store.value(sql) or 0) for name, sql in _PLACES.items()}


async def _lay_past_hours(store: Store) -> None:
    """Creates a day of mail, with more at noon than at night."""
    await store.fetch(
        """INSERT INTO fairpost.activity (workspace, user_name, hour, writer, volume, sent, bounced, rejected)
           SELECT w.name, w.user_name, h.at, 'before', n.sent, n.sent, n.sent / 40, n.sent / 90
           FROM (VALUES ('demo-flood', '', 60), ('demo-shop', 'till', 45), ('demo-shop', 'nora', 20), ('demo-club', 'editors', 25), ('demo-ann', '', 6))
                AS w (name, user_name, most),
                generate_series(fairpost.hour_of(now()) - interval '23 hours', fairpost.hour_of(now()) - interval '1 hour', interval '1 hour') AS h (at),
                LATERAL (SELECT (w.most * (1.1 - cos(extract(hour FROM h.at) / 12.0 * pi())) / 2 * (0.8 + mod(extract(hour FROM h.at)::int * 7, 5) / 10.0))::int AS sent) n"""
    )


async def _set_up_shop(api: Api, server: SmtpSettings) -> None:
    """Creates templates, accounts, keys and members of one workspace."""
    await workspaces.set_loans(api.store, SHOP, [Loan(pool, (PROVEN, ACCOUNT)) for pool in {*POOLS, CAMPAIGN_POOL}])
    for account, called in CAMPAIGN_ACCOUNTS.items():
        limits = Limits(delay_ms=200, daily_max=500, bounce_percent_max=BOUNCE_PERCENT_MAX)
        address = f"{account}@demo.invalid"
        await api.store.add_account(
            account, address=address, display_name=called, pool=CAMPAIGN_POOL, limits=limits, transport=server
        )
    await templates.put_template(api.store, SHOP, "summer-menu", subject=MENU.subject, text=MENU.text, html=MENU.html)
    for name, scopes in (("webshop", (Scope.SEND, Scope.READ)), ("reporting", (Scope.READ,))):
        await workspaces.add_key(api.store, SHOP, region=MAIN, name=name, scopes=scopes, by="admin ann@example.com")
    await add_member(api.store, SHOP, "nora@shop.example", name="Nora Holm", role=Role.MANAGER)


async def _launch(store: Store) -> None:
    now = await store.now()
    file = CampaignFile(
        name=CAMPAIGN,
        workspace=SHOP,
        lists=(LIST,),
        route=CAMPAIGN_POOL,
        user="nora",
        gap=Gap(min_s=1, max_s=2),
        steps=(FileStep(content=MENU),),
    )
    campaign = (await apply(store, file, now=now)).campaign
    assert campaign is not None
    await launching.schedule(store, await launching.launch(store, campaign, skip_incomplete=False, by="nora", now=now))


async def _is_done(rush: Burst) -> bool:
    return (await rush.look()).is_done


async def _trickle(store: Store, second: Background) -> None:
    """Sends everyday mail, and records the campaigns' progress every few seconds instead of every minute, because they
    are short."""
    while True:
        await second.step()
        await store.fetch("SELECT fairpost.count_campaign(c.id) FROM fairpost.campaigns c WHERE c.state = 'running'")
        await store.fetch("UPDATE fairpost.campaign_snapshots SET every_s = 2")
        await asyncio.sleep(STEP_S)


async def _deliver_at_the_second_attempt(store: Store) -> None:
    """Records that a server was busy five minutes ago. This runs before an engine does, which would be faster."""
    lease = await store.take_lease((await store.account_named("demo-quick")).id, owner="the pictures", seconds=600)
    assert lease is not None
    (row,) = await store.enqueue_many([ORDER])
    id_ = EmailId(row["id"])
    for verdict, report in ((Retry(await store.now(), ("reader21@demo.invalid",)), BUSY), (Sent(), TAKEN)):
        await _attempt(store, lease, id_, verdict, report)
    await store.drop_lease(lease)
    for sql in _FIVE_MINUTES_AGO:
        await store.fetch(sql, id_)


async def _attempt(store: Store, lease: Lease, id_: EmailId, verdict: Verdict, report: Report) -> None:
    while id_ not in (await store.claim(lease, limit=50)).ids:
        pass
    begun = await store.begin(lease, id_, usage=Usage())
    assert begun.verdict == "begun", begun
    await store.settle(lease, id_, verdict, report)


_FIVE_MINUTES_AGO = (
    """UPDATE fairpost.attempts a SET begun_at = a.begun_at - interval '5 minutes', ended_at = a.ended_at - interval '5 minutes'
       WHERE a.email_id = $1 AND a.n = 1""",
    "UPDATE fairpost.emails e SET created_at = e.created_at - interval '301 seconds' WHERE e.id = $1",
)
_IS_HALF_WAY = """
    SELECT count(*) >= $2 FROM fairpost.emails e JOIN fairpost.campaigns c ON c.id = e.campaign_id WHERE c.name = $1 AND e.state = 'sent'"""
_PLACES = {
    "retried": "SELECT fairpost.public_id(e.id) FROM fairpost.emails e WHERE e.idempotency_key = 'order 4711'",
    "doubt": "SELECT fairpost.public_id(q.id) FROM fairpost.queue q WHERE q.state = 'in_doubt' ORDER BY q.id LIMIT 1",
    "mail": "SELECT i.id FROM fairpost.inbox i WHERE i.subject LIKE 'On its way to %' ORDER BY i.id DESC LIMIT 1",
    "careless": "SELECT i.id FROM fairpost.inbox i WHERE i.subject LIKE 'Last chance%' ORDER BY i.id DESC LIMIT 1",
}
