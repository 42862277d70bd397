"""Log events of long-running commands, each with its level and sentence.

Catalogue codes are also events: an account that reaches its daily limit logs `account.daily_limit`. If a code is in
both places, the log uses the sentence in this file, because it names the subject.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpost.model.reason import Reason
from fairpost.reasons.catalogue import CATALOGUE
from fairpost.reasons.rendering import filled


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    level: Level
    sentence: str


def _info(sentence: str) -> Event:
    return Event(Level.INFO, sentence)


def _warning(sentence: str) -> Event:
    return Event(Level.WARNING, sentence)


def _error(sentence: str) -> Event:
    return Event(Level.ERROR, sentence)


EVENTS: Mapping[str, Event] = {
    # ── engines and their workers ──
    "engine.started": _info("Ready: engine {engine} is serving {region}."),
    "engine.stopped": _info("Engine {engine} has stopped."),
    "engine.off": _info("FAIRPOST_ENGINE is off: nothing will be sent. Stop with Ctrl-C or SIGTERM."),
    "engine.failed": _error("{why}"),
    "engine.found_dead": _warning("Engine {engine} was killed, and its {accounts} accounts were released."),
    "engine.polls": _info(
        "The database is behind a pooler. The engine polls every {every_s} s instead of using LISTEN."
    ),
    "engine.redirects": _warning("FAIRPOST_REDIRECT_ALL is set: every e-mail is sent only to {address}."),
    "orchestrator.ended": _warning("The orchestrator exited ({how}). Restarting in {again_in_s} s."),
    "worker.failed": _error("Account {account}'s worker failed: {why}"),
    "worker.ended": _warning("Worker process {pid} exited with code {code}."),
    "worker.silent": _warning("Worker process {pid} has not responded for {silent_s} s. Killing it."),
    "worker.stuck": _warning("Worker process {pid} made no progress on account {account}. Killing it."),
    "email.put_back": _info("Workers died and left {emails} e-mails incomplete. These e-mails will be retried."),
    "email.given_up": _warning(
        "{emails} e-mails failed because the only account that may send them was suspended for too long."
    ),
    # ── accounts, campaigns and senders ──
    "account.active": _info("Account {account} can send again."),
    "account.suspended": _warning("Account {account} is suspended[: {why}]."),
    "account.paused": _info("Account {account} is paused[ until {until}][: {why}]."),
    "account.no_server": _warning("Account {account} has no server."),
    "account.server_unreachable": _warning(
        "Account {account} cannot reach its server {server}[: {why}].[ Next attempt: {until}.]"
    ),
    "account.server_forbidden": _warning("Account {account} is not allowed to use its server {server}[: {why}]."),
    "account.provider_pause": _warning("The provider of account {account} asked for a pause[ until {until}][: {why}]."),
    "account.hourly_limit": _info("Account {account} has reached its hourly limit. Sending resumes at {until}."),
    "account.daily_limit": _info("Account {account} has reached its daily limit. Sending resumes at {until}."),
    "account.warm_up_limit": _info(
        "Account {account} has reached its warm-up limit for the day. Sending resumes at {until}."
    ),
    "account.provided": _info("{what}"),
    "account.not_provided": _warning("The account defined by environment variables was not changed: {why}"),
    "campaign.running": _info("Campaign {name} in workspace {workspace} is running[: {why}]."),
    "campaign.paused": _warning("Campaign {name} in workspace {workspace} is paused[: {why}]."),
    "campaign.failed": _error("Campaign {name} in workspace {workspace} has failed[: {why}]."),
    "campaign.completed": _info("Campaign {name} in workspace {workspace} is complete[: {why}]."),
    "campaign.cancelled": _info("Campaign {name} in workspace {workspace} is cancelled[: {why}]."),
    "sender.throttled": _warning("{sender} is throttled until {until}: {why}"),
    "sender.suspicious": _info("{sender} would be throttled until {until}: {why}"),
    "fairness.set": _info("The fair queue is {fairness}."),
    "webhook.disabled": _warning("Webhook {webhook} ({url}) was disabled[: {why}]."),
    "webhook.skipped": _warning("Webhook {webhook} ({url}) is skipping events that were dropped before delivery."),
    "history.dropped": _info("The history for {month} was dropped: {megabytes} MB."),
    # ── the database ──
    "database.away": _error("{why}[ {then}.]"),
    "database.answers_again": _info("The database is responding again."),
    "database.restarted": _info("The database was restarted. Sending continues without confirmation from {engines}."),
    "database.unconfirmed": _warning(
        "The database was restarted or failed over. Waiting for {engines} to confirm that no data is missing."
    ),
    "database.behind": _error("All sending is paused: {why}"),
    "database.engines_missing": _error("All sending is paused: {why}"),
    "database.restored": _error("All sending is paused: {why}. Next: fairpost resume --all"),
    "database.not_remembered": _warning("{folder} cannot be written to ({why}), so a restore may go unnoticed."),
    "postgres.died": _warning("The embedded PostgreSQL died. Restarting it."),
    "postgres.away": _error("{why}[ {then}.]"),
    "postgres.runs_again": _info("The embedded PostgreSQL is running again."),
    "postgres.frozen": _warning(
        "The embedded PostgreSQL (process {pid}) was stopped by a signal. To resume it, run: kill -CONT {pid}"
    ),
    "region.away": _error("{why}"),
    "region.answers_again": _info("Region {region} is responding again."),
    "region.not_served": _error("Region {region} will not be served until this is fixed: {why}[ {then}.]"),
    # ── the service ──
    "service.started": _info("Ready: the service is available at {url} (see /docs)."),
    "service.failed": _error("{why}"),
    "request.answered": _info("{method} {route}: {status} in {duration_ms} ms[, {actor}][ of {workspace}]."),
    "request.failed": _error("Request {request_id} failed: {error}"),
    "live.failed": _error("A live page failed: {error}"),
    "task.failed": _error("{task} failed: {error}"),
    "server.message": _warning("{message}"),
}


def level(event: Reason) -> Level:
    return EVENTS[event.code].level if event.code in EVENTS else Level.INFO


def message(event: Reason) -> str:
    return filled(EVENTS[event.code].sentence if event.code in EVENTS else CATALOGUE[event.code].sentence, event)


def table() -> str:
    """Returns the table in docs/logs.md."""
    return "\n".join(_rows())


def _rows() -> Iterator[str]:
    yield "| event | level | message |"
    yield "|---|---|---|"
    for code, event in EVENTS.items():
        yield f"| `{code}` | {event.level} | {event.sentence} |"


if __name__ == "__main__":
    print(table())  # noqa: T201
