"""What long-running commands write into their log: every event with its level and sentence.

Codes of the catalogue are events as well: an account that reaches its daily limit logs `account.daily_limit`. Where a code
stands in both, the log uses the sentence from here, which names what it is about.
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
    "engine.started": _info("Ready: engine {engine} drives the accounts of {region}."),
    "engine.stopped": _info("Engine {engine} has stopped."),
    "engine.off": _info("FAIRPOST_ENGINE is off: nothing is sent from here. Stop it with Ctrl-C or SIGTERM."),
    "engine.failed": _error("{why}"),
    "engine.found_dead": _warning("Engine {engine} was killed. Its {accounts} accounts are free."),
    "engine.polls": _info("The database is behind a pooler. The engine looks every {every_s} s, without LISTEN."),
    "engine.redirects": _warning("FAIRPOST_REDIRECT_ALL is set: every e-mail goes to {address} only."),
    "orchestrator.ended": _warning("The orchestrator ended ({how}). It starts again in {again_in_s} s."),
    "worker.failed": _error("The worker of account {account} failed: {why}"),
    "worker.ended": _warning("Worker process {pid} ended with code {code}."),
    "worker.silent": _warning("Worker process {pid} has said nothing for {silent_s} s and is killed."),
    "worker.stuck": _warning("Worker process {pid} makes no progress on account {account} and is killed."),
    "email.put_back": _info("Dead workers left {emails} e-mails incomplete. They are tried again."),
    "email.given_up": _warning(
        "{emails} e-mails were given up. The only account that may send them has been suspended too long."
    ),
    # ── accounts, campaigns and senders ──
    "account.active": _info("Account {account} can send again."),
    "account.suspended": _warning("Account {account} is suspended[: {why}]."),
    "account.paused": _info("Account {account} is paused[ until {until}][: {why}]."),
    "account.no_server": _warning("Account {account} has no server."),
    "account.server_unreachable": _warning(
        "Account {account} cannot reach its server {server}[: {why}].[ Next attempt: {until}.]"
    ),
    "account.server_forbidden": _warning("Account {account} may not use its server {server}[: {why}]."),
    "account.provider_pause": _warning("The provider of account {account} asked for a pause[ until {until}][: {why}]."),
    "account.hourly_limit": _info("Account {account} has reached its hourly limit. It resumes at {until}."),
    "account.daily_limit": _info("Account {account} has reached its daily limit. It resumes at {until}."),
    "account.warm_up_limit": _info(
        "Account {account} has reached its warm-up limit for the day. It resumes at {until}."
    ),
    "account.provided": _info("{what}"),
    "account.not_provided": _warning("The account of the environment stays as it is: {why}"),
    "campaign.running": _info("Campaign {name} of workspace {workspace} is running[: {why}]."),
    "campaign.paused": _warning("Campaign {name} of workspace {workspace} is paused[: {why}]."),
    "campaign.failed": _error("Campaign {name} of workspace {workspace} has failed[: {why}]."),
    "campaign.completed": _info("Campaign {name} of workspace {workspace} is completed[: {why}]."),
    "campaign.cancelled": _info("Campaign {name} of workspace {workspace} is cancelled[: {why}]."),
    "sender.throttled": _warning("{sender} is throttled until {until}: {why}"),
    "sender.suspicious": _info("{sender} would be throttled until {until}: {why}"),
    "fairness.set": _info("The fair queue is {fairness}."),
    "history.dropped": _info("The history of {month} was dropped: {megabytes} MB."),
    # ── the database ──
    "database.away": _error("{why}[ {then}.]"),
    "database.answers_again": _info("The database answers again."),
    "database.restarted": _info("The database was restarted. Sending continues without an answer from {engines}."),
    "database.unconfirmed": _warning(
        "The database is another server, or was restarted. Waiting for {engines} to confirm it."
    ),
    "database.behind": _error("Everything is paused: {why}"),
    "database.engines_missing": _error("Everything is paused: {why}"),
    "database.restored": _error("{why}"),
    "database.not_remembered": _warning("{why}"),
    "postgres.died": _warning("The embedded PostgreSQL has died. It is started again."),
    "postgres.away": _error("{why}[ {then}.]"),
    "postgres.runs_again": _info("The embedded PostgreSQL runs again."),
    "postgres.frozen": _warning(
        "The embedded PostgreSQL (process {pid}) was stopped by a signal. Continue it: kill -CONT {pid}"
    ),
    "region.away": _error("{why}"),
    "region.answers_again": _info("Region {region} answers again."),
    "region.not_served": _error("Region {region} is not served until this is fixed: {why}[ {then}.]"),
    # ── the service ──
    "service.started": _info("Ready: the service answers at {url} (see /docs)."),
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
    """For docs/logs.md."""
    return "\n".join(_rows())


def _rows() -> Iterator[str]:
    yield "| event | level | message |"
    yield "|---|---|---|"
    for code, event in EVENTS.items():
        yield f"| `{code}` | {event.level} | {event.sentence} |"


if __name__ == "__main__":
    print(table())  # noqa: T201
