"""procrastinate: a job for each e-mail, two workers with ten jobs at a time, and its documented retry of stalled jobs."""

import json
from collections.abc import Sequence

from benchmarks.peers.peer import SCRIPTS, Email, Place, install, run
from benchmarks.peers.processes import Workers

VERSION = "3.10.0"
PROCESSES = 2
AT_ONCE = 10


class Procrastinate:
    title = f"procrastinate {VERSION}"

    def install(self) -> None:
        self._python = str(
            install("procrastinate", f"procrastinate=={VERSION}", "psycopg[binary]==3.3.8", "aiosmtplib==5.1.3")
        )

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        self._place = place
        run(self._command("schema", "--apply"), environment=place.environment)
        enqueue = [self._python, str(SCRIPTS / "worker_procrastinate.py")]
        run(enqueue, environment=place.environment, stdin=json.dumps(emails))

    def start(self) -> Workers:
        worker = self._command("worker", "--concurrency", str(AT_ONCE))
        return Workers(*[worker] * PROCESSES, environment=self._place.environment, log=self._place.log)

    def is_done(self) -> bool:
        return not self._unsettled("EXISTS (SELECT", "status IN ('todo', 'doing'))")

    def recover(self) -> None: ...

    def left(self) -> int:
        return int(self._unsettled("(SELECT count(*)", "status <> 'succeeded')"))

    def close(self) -> None: ...

    def _unsettled(self, what: str, which: str) -> int:
        return int(
            self._place.database.value(
                f"SELECT {what} FROM procrastinate_jobs WHERE task_name = 'send_email' AND {which}"
            )
        )

    def _command(self, *arguments: str) -> list[str]:
        return [self._python, "-m", "procrastinate", "--app=worker_procrastinate.app", *arguments]
