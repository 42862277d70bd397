"""Fairpost itself: `fairpost work` with its defaults, and eight accounts without a delay."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Literal

import asyncpg
from benchmarks.peers.peer import Email, Place
from benchmarks.peers.processes import Workers

from fairpost.model.account import Limits
from fairpost.model.transport import Security
from fairpost.store.migrations import migrate
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings

ACCOUNTS = 8
ENQUEUED_AT_ONCE = 500


class Fairpost:
    def __init__(self, on_doubt: Literal["hold", "resend"]) -> None:
        self.title = f"Fairpost, {on_doubt}"
        self._on_doubt = on_doubt

    def install(self) -> None: ...

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        self._place = place
        asyncio.run(self._prepare(emails))

    async def _prepare(self, emails: Sequence[Email]) -> None:
        url, sink = self._place.database.url, self._place.sink
        conn = await asyncpg.connect(url)
        await migrate(conn)
        await conn.close()
        async with Store.open(url) as store:
            for n in range(ACCOUNTS):
                await store.add_account(
                    f"account{n}",
                    address=f"shop{n}@example.com",
                    limits=Limits(),
                    transport=SmtpSettings(host=sink.host, port=sink.port, security=Security.NONE),
                )
            for at in range(0, len(emails), ENQUEUED_AT_ONCE):
                await store.enqueue_many([self._entry(email) for email in emails[at : at + ENQUEUED_AT_ONCE]])

    def _entry(self, email: Email) -> dict[str, Any]:
        content = {name: email[name] for name in ("to", "subject", "text", "html")}
        return {**content, "stream": "news", "on_doubt": self._on_doubt}

    def start(self) -> Workers:
        home = {"FAIRPOST_DATABASE_URL": self._place.database.url, "FAIRPOST_HOME": str(self._place.folder)}
        return Workers([sys.executable, "-m", "fairpost", "work"], environment=home, log=self._place.log)

    def is_done(self) -> bool:
        waits = "on_doubt = 'resend' AND attempts < attempts_max" if self._on_doubt == "resend" else "false"
        return not self._place.database.value(
            f"SELECT EXISTS (SELECT FROM fairpost.queue WHERE state <> 'in_doubt' OR {waits})"
        )

    def recover(self) -> None: ...

    def left(self) -> int:
        return int(
            self._place.database.value(
                """SELECT (SELECT count(*) FROM fairpost.queue)
                        + (SELECT count(*) FROM fairpost.emails WHERE state <> 'sent')"""
            )
        )

    def close(self) -> None: ...
