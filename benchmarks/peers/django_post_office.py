"""django-post_office: `send_queued_mail` in two processes, run again by cron until the queue is empty."""

import json
from collections.abc import Sequence

from benchmarks.peers.peer import SCRIPTS, Email, Place, install, run
from benchmarks.peers.processes import Workers

VERSION = "3.12.0"
QUEUED = "status IN (2, 3)"  # queued, requeued


class DjangoPostOffice:
    title = f"django-post_office {VERSION}"

    def install(self) -> None:
        self._python = str(
            install("django_post_office", f"django-post_office=={VERSION}", "Django==5.2.19", "psycopg[binary]==3.3.8")
        )

    def prepare(self, place: Place, emails: Sequence[Email]) -> None:
        self._place = place
        self._environment = {
            **place.environment,
            "QUEUE_APP": "post_office",
            "DJANGO_SETTINGS_MODULE": "django_settings",
        }
        run([self._python, "-m", "django", "migrate"], environment=self._environment)
        enqueue = [self._python, str(SCRIPTS / "django_enqueue.py")]
        run(enqueue, environment=self._environment, stdin=json.dumps(emails))

    def start(self) -> Workers:
        lock = str(self._place.folder / "lock")
        command = [self._python, "-m", "django", "send_queued_mail", "--processes", "2", "--lockfile", lock]
        return Workers(command, environment=self._environment, log=self._place.log)

    def is_done(self) -> bool:
        return not self._place.database.value(f"SELECT EXISTS (SELECT FROM post_office_email WHERE {QUEUED})")

    def recover(self) -> None: ...

    def left(self) -> int:
        return int(self._place.database.value("SELECT count(*) FROM post_office_email WHERE status <> 0"))

    def close(self) -> None: ...
