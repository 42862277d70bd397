"""PgQueuer: a job for each e-mail, `pgq run` in two processes, and its documented recovery of stale jobs.

For short jobs, its documentation recommends larger batches than the default, so both are measured.
"""

import json
from collections.abc import Sequence

from benchmarks.peers.peer import SCRIPTS, Email, Place, install, run
from benchmarks.peers.processes import Workers

VERSION = "1.6.0"
TYPER = "typer==0.24.0"  # with 0.29, its command line raises an AttributeError
PROCESSES = 2


class Pgqueuer:
    def __init__(self, *, batch: int) -> None:
        self.title = f"PgQueuer {VERSION}, batches of {batch}"
        self._batch = batch

    def install(self) -> None:
        self._python = str(install("pgqueuer", f"pgqueuer=={VERSION}", "asyncpg==0.32.0", "aiosmtplib==5.1.3", TYPER))

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        self._place = place
        for command in ("install", "autovac"):
            run(self._command(command), environment=place.environment)
        enqueue = [self._python, str(SCRIPTS / "worker_pgqueuer.py")]
        run(enqueue, environment=place.environment, stdin=json.dumps(emails))

    def start(self) -> Workers:
        options = ("--batch-size", str(self._batch), "--max-concurrent-tasks", str(2 * self._batch))
        worker = self._command("run", "worker_pgqueuer:main", *options, "--log-level", "WARNING")
        return Workers(*[worker] * PROCESSES, environment=self._place.environment, log=self._place.log)

    def is_done(self) -> bool:
        return not self._place.database.value("SELECT EXISTS (SELECT FROM pgqueuer)")

    def recover(self) -> None: ...

    def left(self) -> int:
        return int(
            self._place.database.value(
                """SELECT (SELECT count(*) FROM pgqueuer)
                        + (SELECT count(*) FROM pgqueuer_log WHERE status IN ('exception', 'canceled', 'deleted'))"""
            )
        )

    def close(self) -> None: ...

    def _command(self, *arguments: str) -> list[str]:
        return [self._python, "-m", "pgqueuer", *arguments]
