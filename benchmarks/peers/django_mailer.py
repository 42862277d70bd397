"""django-mailer: `runmailer_pg`, which deliberately sends one e-mail at a time in one process."""

import json
from collections.abc import Sequence

from benchmarks.peers.peer import SCRIPTS, Email, Place, install, run
from benchmarks.peers.processes import Workers

VERSION = "2.3.2"
DEFERRED = "priority = 4"


class DjangoMailer:
    title = f"django-mailer {VERSION}"

    def install(self) -> None:
        self._python = str(
            install("django_mailer", f"django-mailer=={VERSION}", "Django==5.2.19", "psycopg[binary]==3.3.8")
        )

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        self._place = place
        self._environment = {**place.environment, "QUEUE_APP": "mailer", "DJANGO_SETTINGS_MODULE": "django_settings"}
        self._manage("migrate")
        enqueue = [self._python, str(SCRIPTS / "django_enqueue.py")]
        run(enqueue, environment=self._environment, stdin=json.dumps(emails))

    def start(self) -> Workers:
        command = [self._python, "-m", "django", "runmailer_pg"]
        return Workers(command, environment=self._environment, log=self._place.log, cwd=self._place.folder)

    def is_done(self) -> bool:
        return not self._place.database.value(f"SELECT EXISTS (SELECT FROM mailer_message WHERE NOT {DEFERRED})")

    def recover(self) -> None:
        self._manage("retry_deferred")

    def left(self) -> int:
        return int(self._place.database.value("SELECT count(*) FROM mailer_message"))

    def close(self) -> None: ...

    def _manage(self, command: str) -> None:
        run([self._python, "-m", "django", command], environment=self._environment)
