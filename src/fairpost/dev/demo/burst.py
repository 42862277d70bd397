"""The demo's burst, which takes only seconds. The burst has four senders, one of which floods the queue, and three
accounts with different rates.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime

from fairpost.dev.demo.stage import ANN, BURST, CLUB, FLOOD, POOL, SHOP, cancel_waiting, put_accounts
from fairpost.dev.inbox.mails import Mail, MailId, list_mails
from fairpost.policy.limits import NotBefore, admit
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.smtp.settings import SmtpSettings

OTHERS = {SHOP: 40, CLUB: 15, ANN: 5}  # senders that follow the flood, in this order
MAILS_SHOWN = 5

CONTENT = {
    "subject": "A demonstration",
    "text": "This e-mail is part of `fairpost up` and was delivered only to the development inbox.",
    "html": "<p>This e-mail is part of <code>fairpost up</code> and was delivered only to the development inbox.</p>",
}


@dataclass(slots=True)
class Served:
    """The progress of one sender's e-mails."""

    total: int
    sent: int = 0
    done_after_s: float | None = None


@dataclass(slots=True)
class AtWork:
    """What an account has sent and when it may send next."""

    delay_ms: int
    before: int = 0  # sent before the demo
    sent: int = 0
    next_at: datetime | None = None
    is_driven: bool = False


@dataclass(slots=True)
class Progress:
    senders: dict[str, Served]
    accounts: dict[str, AtWork] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)  # the newest messages in the inbox
    started_s: float = 0.0
    elapsed_s: float = 0.0
    left: int | None = None  # e-mails still to be sent; unknown before the first read

    @property
    def is_done(self) -> bool:
        return self.left == 0


class Burst:
    def __init__(self, store: Store, server: SmtpSettings, *, flood: int) -> None:
        totals = {FLOOD: flood, **OTHERS}
        self.progress = Progress({name: Served(total) for name, total in totals.items()})
        self._store = store
        self._server = server
        self._first_id = 0
        self._last_mail = MailId(0)

    async def begin(self) -> None:
        await cancel_waiting(self._store, [POOL])  # e-mails from a demo that was killed
        await put_accounts(self._store, BURST, self._server)
        totals = {row["name"]: row["sent_total"] for row in await self._store.fetch(_TOTALS, POOL)}
        self.progress.accounts = {
            name: AtWork(part.limits.delay_ms, before=totals[name]) for name, part in BURST.items()
        }
        self._last_mail = MailId(await self._store.value("SELECT coalesce(max(id), 0) FROM fairpost.inbox"))
        self._first_id = await self._store.value("SELECT fairpost.new_id()")
        content = await self._store.value("SELECT fairpost.put_content($1)", json.dumps(CONTENT))
        for sender, served in self.progress.senders.items():
            email = {"workspace": sender, "pool": POOL, "stream": "demo", "content_id": content}
            await self._store.enqueue_many([{**email, "to": f"reader{n}@demo.invalid"} for n in range(served.total)])
        self.progress.started_s = clock.monotonic()

    async def look(self) -> Progress:
        """Reads the progress from the database."""
        progress = self.progress
        progress.elapsed_s = clock.monotonic() - progress.started_s
        progress.left = await self._store.value(
            """SELECT count(*) FROM fairpost.queue q
               WHERE q.workspace = ANY ($1) AND q.id >= $2 AND q.route = $3 AND q.state <> 'in_doubt'""",
            *(list(progress.senders), self._first_id, POOL),
        )
        rows = await self._store.fetch(  # read after the queue, so e-mails that have left the queue are counted here
            """SELECT e.workspace, count(*) AS n FROM fairpost.emails e
               WHERE e.workspace = ANY ($1) AND e.id >= $2 AND e.state = 'sent' AND e.route = $3 GROUP BY 1""",
            *(list(progress.senders), self._first_id, POOL),
        )
        for row in rows:
            self._count(progress.senders[row["workspace"]], row["n"])
        await self._look_at_accounts()
        progress.mails = await list_mails(self._store, after=self._last_mail, most=MAILS_SHOWN)
        return progress

    def _count(self, served: Served, sent: int) -> None:
        served.sent = sent
        if sent >= served.total and served.done_after_s is None:
            served.done_after_s = self.progress.elapsed_s

    async def _look_at_accounts(self) -> None:
        now = clock.now()
        for runtime in await self._store.runtimes():
            account = self.progress.accounts.get(runtime.account.name)
            if account is not None:
                allowed = admit(runtime.account.limits, runtime.account.usage, now=now)
                account.sent = runtime.sent_total - account.before
                account.next_at = allowed.moment if isinstance(allowed, NotBefore) else None
                account.is_driven = runtime.is_driven()


_TOTALS = """
    SELECT a.name, l.sent_total FROM fairpost.accounts a JOIN fairpost.leases l ON l.account_id = a.id WHERE a.pool = $1"""
