"""The app of the procrastinate peer. As a script, it reads e-mails as JSON and defers a job for each."""

import json
import sys
from typing import Any

import procrastinate  # type: ignore[import-not-found]
from mailing import send  # type: ignore[import-not-found]

app = procrastinate.App(connector=procrastinate.PsycopgConnector(), import_paths=["worker_procrastinate"])


async def send_email(email: dict[str, str]) -> None:
    await send(email)


async def retry_stalled_jobs(context: Any, timestamp: int) -> None:
    """Retries stalled jobs as in the documentation, but every minute, so that a run ends sooner."""
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


task = app.task(name="send_email")(send_email)
stalled = app.task(name="retry_stalled_jobs", queueing_lock="retry_stalled_jobs", pass_context=True)(retry_stalled_jobs)
app.periodic(cron="* * * * *")(stalled)

if __name__ == "__main__":
    emails = json.load(sys.stdin)
    with app.open():
        task.batch_defer(*({"email": email} for email in emails))
