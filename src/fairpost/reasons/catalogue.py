"""Every reason code with its sentence and the next step on the command line.

Sentences have parameters in braces. A part in brackets is left out if one of its parameters is empty. Commands are
complete and can be run as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpost.policy.reply_findings import FINDINGS


class Kind(StrEnum):
    """The kinds of refusal. These kinds are also error codes in the HTTP API."""

    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    GONE = "gone"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The meaning of a code.

    `kind` is the kind of refusal. `field` names the invalid part of a request, unless the parameter `mistakes` lists
    the invalid parts.

    `brief` continues a sentence that names the subject. `is_kept` means that the reason is stored with its subject.
    `is_step` marks the next step after an error whose own text explains what is wrong.
    """

    sentence: str
    kind: Kind | None = None
    command: str = ""
    field: str = ""
    brief: str = ""
    is_kept: bool = False
    is_step: bool = False


def _unknown(sentence: str, command: str = "") -> Meaning:
    return Meaning(sentence=sentence, kind=Kind.NOT_FOUND, command=command)


def _conflict(sentence: str, command: str = "") -> Meaning:
    return Meaning(sentence=sentence, kind=Kind.CONFLICT, command=command)


def _forbidden(sentence: str) -> Meaning:
    return Meaning(sentence=sentence, kind=Kind.FORBIDDEN)


def _rate_limited(sentence: str) -> Meaning:
    """Describe a rate limit. The reason has the parameter `retry_after_s`."""
    return Meaning(sentence=sentence, kind=Kind.RATE_LIMITED)


def _invalid(field: str, sentence: str, command: str = "") -> Meaning:
    """Describe an invalid field. The sentence continues after the field name."""
    return Meaning(sentence=sentence, kind=Kind.INVALID, field=field, command=command)


def _mistakes(sentence: str, command: str = "") -> Meaning:
    """Describe a list of mistakes.

    For each mistake, the parameter `mistakes` contains a line or field and a message.
    """
    return Meaning(sentence=sentence, kind=Kind.INVALID, command=command)


def _state(sentence: str, command: str = "", *, brief: str = "") -> Meaning:
    """Describe a condition, as opposed to a refusal."""
    return Meaning(sentence=sentence, command=command, brief=brief)


def _why(brief: str) -> Meaning:
    """Describe why something is in its state. The reason is stored and shown with its subject, as the end of a sentence."""
    return Meaning(sentence=f"{brief[0].upper()}{brief[1:]}.", brief=brief, is_kept=True)


def _no_forecast(sentence: str) -> Meaning:
    """Describe why there is no forecast. The reason is stored with its campaign."""
    return Meaning(sentence=sentence, kind=Kind.CONFLICT, is_kept=True)


def _bottleneck(cause: str) -> Meaning:
    return Meaning(sentence=f"Accounts wait longest for {cause}: {{percent}}% of their waiting time.")


def _change(brief: str) -> Meaning:
    """Describe a change that would let a campaign finish sooner."""
    return Meaning(sentence=f"{brief[0].upper()}{brief[1:]}.", brief=brief)


def _step(words: str, command: str) -> Meaning:
    """Describe the next step after an error. The error itself explains what is wrong."""
    return Meaning(sentence=f"{words}.", command=command, brief=f"{words}: {command}", is_step=True)


CATALOGUE: Mapping[str, Meaning] = {
    # ── conditions of the whole installation ──
    "everything.paused": _state(
        "All sending was paused by {by} at {since}[, until {until}]: {why}.", "fairpost resume --all"
    ),
    "everything.restored": _state("All sending has been paused since {since}: {why}.", "fairpost resume --all"),
    "engine.none": _state("No engine is running.", "fairpost work"),
    "mail.sending": _state("Sending."),
    "mail.waiting": _state("Waiting to be sent.", "fairpost status"),
    "mail.none": _state("No e-mails are queued."),
    "mail.scheduled": _state("The next e-mail is due at {due_at}.", "fairpost email list --state scheduled"),
    "mail.undecided": _state(
        "The outcome of sending is unknown. Decide whether to send each e-mail again.",
        "fairpost email list --state in_doubt",
    ),
    "mail.in_doubt": _state(
        "The outcome of sending is unknown. An engine will resolve each e-mail according to its policy.",
        "fairpost email list --state in_doubt",
    ),
    "mail.stranded": _state(
        "Claimed by a worker that has stopped. The next worker will take over.",
        "fairpost email list --state claimed --state sending",
    ),
    "mail.turn": _state("Waiting its turn."),
    # ── account and pool conditions ──
    "account.none": _state("There are no sender accounts.", "fairpost account add --help"),
    "account.unknown": _state("There is no account {account}.", "fairpost account list"),
    "pool.empty": _state("Pool {pool} has no accounts.", "fairpost account add --help"),
    "account.suspended": _state(
        "Account {account} is suspended[: {why}].[ E-mails that only this account may send will start to fail: urgent ones at {urgent_until}, bulk ones at {bulk_until}.]",
        "fairpost account verify {account}",
    ),
    "account.no_server": _state("Account {account} has no server.", "fairpost account set --help"),
    "account.paused": _state(
        "Account {account} is paused[ until {until}][: {why}].", "fairpost account resume {account}"
    ),
    "account.server_unreachable": _state(
        "Account {account} cannot reach its server {server}[: {why}].[ Next attempt: {until}.]",
        "fairpost account verify {account}",
        brief="its server could not be reached[: {why}]",
    ),
    "account.server_forbidden": _state(
        "Account {account} is not allowed to use its server {server}[: {why}].", "fairpost account verify {account}"
    ),
    "account.read_login_refused": _state(
        "The mailbox of account {account} rejects the login[: {why}]. Late bounces and replies are not detected.[ Next attempt: {until}.]",
        "fairpost account verify {account}",
        brief="its mailbox rejects the login[: {why}]",
    ),
    "account.read_unreachable": _state(
        "The mailbox of account {account} cannot be reached[: {why}]. Late bounces and replies are not detected.[ Next attempt: {until}.]",
        "fairpost account verify {account}",
        brief="its mailbox cannot be reached[: {why}]",
    ),
    "account.read_refused": _state(
        "The mailbox of account {account} cannot be read[: {why}]. Late bounces and replies are not detected.[ Next attempt: {until}.]",
        "fairpost account verify {account}",
        brief="its mailbox cannot be read[: {why}]",
    ),
    "account.read_forbidden": _state(
        "Account {account} is not allowed to use its mailbox's server[: {why}].", "fairpost account verify {account}"
    ),
    "account.read": _state("The mailbox of account {account} is read regularly[. It was last checked at {looked_at}]."),
    "account.read_soon": _state("The mailbox of account {account} will be read once an engine is running."),
    "account.read_overdue": _state(
        "The mailbox of account {account} was last read at {read_at}. Bounces and replies that have arrived since then will not be detected until an engine reads the mailbox again.",
        "fairpost account verify {account}",
    ),
    "account.replies_unknown": _state(
        "Account {account} receives bounce reports, but its mailbox is not read, so replies are not detected.",
        "fairpost account set {account} {option}",
    ),
    "account.no_way_back": _state(
        "The mailbox of account {account} is not read, so late bounces, complaints and replies are not detected.",
        "fairpost account set {account} {option}",
    ),
    "account.server_hangs": _state(
        "Account {account}'s server {server} has not responded since {since}.", "fairpost account verify {account}"
    ),
    "account.server_slow": _state(
        "Account {account} has been waiting for its server {server} since {since}.", "fairpost account verify {account}"
    ),
    "account.provider_pause": _state(
        "The provider of account {account} asked for a pause[ until {until}][: {why}].",
        "fairpost account show {account}",
        brief="the provider asked for a pause[: {why}]",
    ),
    "account.delay": _state(
        "Account {account} is pausing between e-mails until {until}.", "fairpost account show {account}", brief="delay"
    ),
    "account.hourly_limit": _state(
        "Account {account} has reached its hourly limit. Sending resumes at {until}.",
        "fairpost account show {account}",
        brief="hourly limit",
    ),
    "account.daily_limit": _state(
        "Account {account} has reached its daily limit. Sending resumes at {until}.",
        "fairpost account show {account}",
        brief="daily limit[: {why}]",
    ),
    "account.warm_up_limit": _state(
        "Account {account} has reached its warm-up limit for the day. Sending resumes at {until}.",
        "fairpost account show {account}",
        brief="daily warm-up limit",
    ),
    "account.api_quota": _state(
        "Account {account} has used up its API quota. Sending resumes at {until}.",
        "fairpost account show {account}",
        brief="provider's API quota",
    ),
    "account.blocks_workspace": _state(
        "Workspace {workspace} is blocked from using account {account}[ until {until}][: {why}].",
        "fairpost account unblock {account} --workspace {workspace}",
    ),
    "account.no_worker": _state(
        "An engine is running but has not started a worker for account {account} yet.",
        "fairpost account show {account}",
    ),
    "account.not_begun": _state(
        "Account {account} can send but has not started yet.", "fairpost account show {account}"
    ),
    "account.sending": _state("Account {account} is sending."),
    "account.idle": _state("Account {account} is ready, but no e-mails are queued for it."),
    # ── why accounts are stopped ──
    "account.not_active": _why("{status}[: {why}]"),
    "account.paused_by_hand": _why("{note}"),
    "account.authentication_failed": _why("the account's server rejected the login: {reply}"),
    "account.too_many_bounces": _why("{bounced} of {sent} e-mails bounced in one day, more than {percent_max}%"),
    "account.refused_in_a_row": _why("{refused} rejections in a row: {reply}"),
    "account.worker_died": _why("the account's worker died {times} times in a row"),
    "account.daily_limit_reached": _why("daily limit reached: {sent} e-mails sent"),
    "account.warm_up_limit_reached": _why("daily warm-up limit reached: {sent} e-mails sent"),
    # ── why e-mails were not sent; for replies of servers, see below ──
    "email.cancelled": _why("cancelled[: {note}]"),
    "email.cancelled_by_operator": _why("cancelled by the operator"),
    "email.cancelled_by_request": _why("cancelled by request"),
    "email.campaign_cancelled": _why("the campaign was cancelled[: {note}]"),
    "email.expired": _why("expired at {expired_at}"),
    "email.suppressed": _why("every recipient is on the suppression list"),
    "email.recipient_suppressed": _why("the recipient is on the suppression list[: {note}]"),
    "email.recipient_erased": _why("the recipient was erased on request"),
    "email.prospect_stopped": _why("the campaign was stopped for this prospect[: {note}]"),
    "email.prospect_replied": _why("the prospect replied"),
    "email.prospect_removed": _why("the prospect was removed"),
    "email.step_not_reached": _why("the previous e-mail was not sent"),
    "email.step_lost_account": _why("the account that sent the previous e-mail was removed"),
    "email.account_suspended": _why("the only account that may send the e-mail was suspended for too long"),
    "email.account_removed": _why("account {account} was removed"),
    "email.fields_missing": _why("the template cannot be rendered with the e-mail's fields: {problem}"),
    "email.worker_died": _why("the worker died before the message was complete"),
    "email.server_unreachable": _why("the server could not be reached[: {error}]"),
    "email.connection_lost": _why("the connection broke before the message was complete[: {error}]"),
    "email.outcome_unknown": _why("it is unknown whether the e-mail was sent[: {error}]"),
    "email.unsendable": _why("the server does not support this kind of message[: {error}]"),
    "email.resolved_as_sent": _why("resolved by {by}"),
    "email.resolved_as_failed": _why("outcome unknown, marked as failed by {by}"),
    **{each.code: _why(f"{each.why[0].lower()}{each.why[1:]}[: {{code}} {{reply}}]") for each in FINDINGS},
    # ── why campaigns are in their states, and why prospects get no more e-mails ──
    "campaign.paused_by_hand": _why("{note}"),
    "campaign.cancelled_by_hand": _why("{note}"),
    "campaign.emails_held": _why(
        "{count} e-mails are unfinished because they are in doubt or their prospects are paused"
    ),
    "campaign.account_removed": _why("account {account} was removed"),
    "campaign.pool_emptied": _why("pool {pool} no longer has any accounts"),
    "campaign.planning_failed": _why("the campaign could not be scheduled: {error}"),
    "prospect.stopped_by_hand": _why("{note}"),
    "prospect.replied": _why("the prospect replied"),
    # ── what recipients and servers sent back ──
    "email.replied": _why("the recipient replied"),
    "email.auto_replied": _why("the recipient's mailbox sent an automatic reply[: away until {back_on}]"),
    "email.unsubscribed": _why("the recipient asked not to receive any more mail"),
    "email.complained": _why("the recipient reported the e-mail as spam"),
    "email.feedback": _why("feedback of type {kind}, which is not a complaint"),
    # ── why addresses are on the suppression list ──
    "suppression.soft_bounces": _why("the mailbox rejected mail too often[: {note}]"),
    "suppression.hard_bounce": _why("the address does not accept mail[: {note}]"),
    "suppression.manual": _why("added manually[: {note}]"),
    "suppression.unsubscribe": _why("the recipient unsubscribed[: {note}]"),
    "suppression.complaint": _why("the recipient complained[: {note}]"),
    # ── why mail is held, throttled or outside its window, or everything is paused ──
    "hold.by_hand": _why("{note}"),
    "hold.campaign_paused": _why("campaign {campaign} is paused"),
    "hold.campaign_cancelled": _why("campaign {campaign} is cancelled"),
    "hold.campaign_failed": _why("campaign {campaign} has failed"),
    "throttle.by_hand": _why("{note}"),
    "throttle.scored": _why("{reasons}"),
    "sender.too_many_bounces": _why("{bounced} of {total} e-mails bounced, more than 10%"),
    "sender.too_many_rejections": _why("{rejected} of {total} e-mails were rejected, more than 5%"),
    "sender.unusual_volume": _why("{volume} e-mails in 24 hours, more than {factor} times the usual {usual} per day"),
    "sender.too_much_too_soon": _why(
        "{volume} e-mails in 24 hours from a sender that is less than 7 days old, more than the threshold of {most}"
    ),
    "schedule.window_closed": _why("the sending window is closed"),
    "schedule.quota_used_up": _why("the daily quota is used up: {used} of {allowed}"),
    "schedule.quota_unknown": _why("today's quota has not been computed yet"),
    "everything.paused_by_hand": _why("{note}"),
    "everything.database_restored": _state(
        "This database was restored or copied: {signs}. E-mails sent since the backup are still in its queue and would be sent again. Check the queue, cancel e-mails that must not be sent, and then resume.",
        "fairpost resume --all",
        brief="this database was restored or copied: {signs}. E-mails sent since the backup are still in its queue and would be sent again. Check the queue, cancel e-mails that must not be sent, and then resume",
    ),
    "everything.engines_silent": _state(
        "The database failed over to another server, and {engines} did not confirm within 30 seconds that no data is missing there[ (accounts {accounts})]. If you start the missing engines again, sending will resume once they have confirmed. Otherwise, check the queue, cancel e-mails that must not be sent, and then resume.",
        "fairpost resume --all",
        brief="the database failed over to another server, and {engines} did not confirm within 30 seconds that no data is missing there[ (accounts {accounts})]. If you start the missing engines again, sending will resume once they have confirmed. Otherwise, check the queue, cancel e-mails that must not be sent, and then resume",
    ),
    "everything.database_restarted": _why(
        "the database was restarted or failed over. Waiting for these engines to confirm that no data is missing: {engines}"
    ),
    # ── signs of a restored database ──
    "database.forgot_engine": _why(
        "this engine used the database until {used_at}, but the database has no record of that"
    ),
    "database.older_timeline": _why("the server's timeline was {before} and is now {now}, which is older"),
    "database.unseen_failover": _why(
        "the server's timeline was {before} and is now {now}. The server was recovered or failed over, and this engine was not running to confirm that nothing is missing"
    ),
    "database.other_server": _why(
        "the database is on another PostgreSQL server (the system identifier was {before} and is now {now})"
    ),
    "database.other_oid": _why("it is a different database (its OID was {before} and is now {now})"),
    "database.tables_recreated": _why("the tables were recreated, for example from a dump"),
    "database.files_copied": _why("the files of the embedded PostgreSQL were copied or restored"),
    "database.gone_back": _why(
        "the database has gone back in time. This engine wrote to it at {written_at}[, but the last write that it contains is from {known_at}]"
    ),
    "database.lacks_steps": _why(
        "the database lacks the last {steps} steps of account {account}[ (e-mails {emails})][, and {more} more e-mails]"
    ),
    "database.more_accounts_lack_steps": _why("the last steps of {accounts} more accounts are missing"),
    # ── why there is no forecast ──
    "forecast.too_slow": _no_forecast(
        "The forecast takes too long to compute: {done} of {emails} e-mails were processed in time."
    ),
    "forecast.crashed": _no_forecast("The forecast could not be computed: {error}."),
    "forecast.unknown": _no_forecast("The forecast could not be computed."),
    "forecast.bad_recipients": _no_forecast("Specify the number of remaining recipients, which must be 0 or more."),
    "forecast.bad_delay": _no_forecast(
        "Delays must be 0 seconds or more, got {delay_s}. Specify the delay between two steps."
    ),
    "forecast.bad_window": _no_forecast("The sending window cannot be used: {problem}."),
    "forecast.bad_quota": _no_forecast("The daily quota cannot be used: {problem}."),
    "forecast.too_long": _no_forecast(
        "Even after {years} years, only {sent} of {emails} e-mails would have been sent. Add accounts or raise their limits."
    ),
    "forecast.no_account": _no_forecast("No account is included, so nothing would be sent. Add at least one account."),
    "forecast.same_name": _no_forecast("Two accounts have the same name. Use different names."),
    "forecast.account_missing": _no_forecast(
        "E-mails are waiting for {account}, which is paused or not included. Resume or include the account."
    ),
    "forecast.unknown_step": _no_forecast(
        "E-mails are waiting for step {step}, but there are only {steps} steps. Specify a delay for every step."
    ),
    "forecast.never_sends": _no_forecast(
        "{account} would never send: its {limit} must be at least {least}, got {value}. Raise the limit, or omit the account."
    ),
    # ── what a forecast's accounts wait for, and what would help ──
    "bottleneck.account_delay": _bottleneck("their pause between two e-mails"),
    "bottleneck.hourly_limit": _bottleneck("their hourly limit"),
    "bottleneck.daily_limit": _bottleneck("their daily limit"),
    "bottleneck.warm_up": _bottleneck("their warm-up, which limits the first days"),
    "bottleneck.units": _bottleneck("their provider's API quota per minute"),
    "bottleneck.sending_window": _bottleneck("the sending window to open"),
    "bottleneck.daily_quota": _bottleneck("the workspace's daily quota"),
    "bottleneck.ramp_up": _bottleneck("the daily quota's ramp-up, which limits the first days"),
    "bottleneck.gap": _bottleneck("the campaign's random gap between two e-mails"),
    "bottleneck.step_delay": _bottleneck("the delay between two steps"),
    "bottleneck.time_a_send_takes": _bottleneck("the previous e-mail to be sent"),
    "bottleneck.pause_of_an_account": _bottleneck("the end of a pause"),
    "bottleneck.nothing": _state("There is no bottleneck."),
    "suggestion.account": _change("one more account like {account}"),
    "suggestion.no_window": _change("sending around the clock"),
    "suggestion.no_quota": _change("no daily quota"),
    "suggestion.no_ramp_up": _change("no ramp-up"),
    "suggestion.no_gap": _change("no gap"),
    "suggestion.half_delay": _change("half the delay between steps"),
    # ── sentences stored before there were codes ──
    "legacy.text": _why("{text}"),
    # ── sender conditions ──
    "hold.workspace": _state(
        "Workspace {workspace} is held[ until {until}][: {why}].", "fairpost release --workspace {workspace}"
    ),
    "hold.domain": _state(
        "Domain {name} in workspace {workspace} is held[ until {until}][: {why}].",
        "fairpost release --workspace {workspace} --domain {name}",
    ),
    "hold.user": _state(
        "User {name} in workspace {workspace} is held[ until {until}][: {why}].",
        "fairpost release --workspace {workspace} --user {name}",
    ),
    "hold.stream": _state(
        "Stream {name} in workspace {workspace} is held[ until {until}][: {why}].",
        "fairpost release --workspace {workspace} --stream {name}",
    ),
    "throttle.workspace": _state(
        "Workspace {workspace} is throttled until {until}[: {why}].", "fairpost user unthrottle --workspace {workspace}"
    ),
    "throttle.domain": _state(
        "Domain {name} in workspace {workspace} is throttled until {until}[: {why}].",
        "fairpost user unthrottle --workspace {workspace}",
    ),
    "throttle.user": _state(
        "User {name} in workspace {workspace} is throttled until {until}[: {why}].",
        "fairpost user unthrottle --workspace {workspace} {name}",
    ),
    "window.closed": _state(
        "{name} in workspace {workspace} is waiting until {until}[: {why}].",
        "fairpost schedule show --workspace {workspace}",
    ),
    # ── campaign conditions ──
    "campaign.draft": _state("Not launched yet.", "fairpost campaign launch {name} --workspace {workspace}"),
    "campaign.starts": _state("Starts at {until}.", "fairpost campaign show {name} --workspace {workspace}"),
    "campaign.paused": _state(
        "Campaign {name} is paused[: {why}].", "fairpost campaign resume {name} --workspace {workspace}"
    ),
    "campaign.failed": _state(
        "Campaign {name} has failed[: {why}].", "fairpost campaign resume {name} --workspace {workspace}"
    ),
    "campaign.completed": _state("Completed[: {why}]."),
    "campaign.cancelled": _state("Campaign {name} is cancelled[: {why}]."),
    "campaign.planning": _state("Scheduling e-mails: {planned}[ of {members}] recipients so far."),
    "campaign.next_due": _state(
        "The next e-mail is due at {until}.", "fairpost campaign show {name} --workspace {workspace}"
    ),
    "campaign.held_back": _state(
        "The remaining e-mails cannot be sent: {in_doubt} are in doubt, and {parked} are for paused recipients.",
        "fairpost campaign recipients {name} --workspace {workspace}",
    ),
    "campaign.ending": _state("About to complete."),
    "campaign.window_closed": _state(
        "Campaign {name} is outside its sending window or over its quota[: {why}]. Sending resumes at {until}.",
        "fairpost schedule show --workspace {workspace}",
    ),
    "address.invalid": _invalid("address", "must be an e-mail address, got {address}"),
    # ── e-mails ──
    "email.unknown": _unknown("There is no e-mail {id}.", "fairpost email list"),
    "email.not_cancellable": _conflict(
        "E-mail {id} is {state}, so you can no longer cancel it.", "fairpost email show {id}"
    ),
    "email.not_retryable": _conflict(
        "E-mail {id} is {state}. You can retry only e-mails that failed or bounced.", "fairpost email show {id}"
    ),
    "email.not_in_doubt": _conflict("E-mail {id} is {state}, not in doubt.", "fairpost email show {id}"),
    # ── events ──
    "events.cursor_expired": Meaning(
        sentence="Some events after this cursor have been dropped. Start again without a cursor and read the current state of anything you missed.",
        kind=Kind.GONE,
    ),
    "events.cursor_unknown": _invalid("after", "is not a cursor from this database"),
    # ── campaigns ──
    "campaign.unknown": _unknown(
        "There is no campaign {name} in workspace {workspace}.", "fairpost campaign list --workspace {workspace}"
    ),
    "campaign.not_a_draft": _conflict(
        "Campaign {name} is {state}. Only drafts can be changed. Create a campaign with a new name.",
        "fairpost campaign new --help",
    ),
    "campaign.wrong_state": _conflict(
        "Campaign {name} is {state}, so you cannot {action} it.",
        "fairpost campaign show {name} --workspace {workspace}",
    ),
    "campaign.no_unsubscribe_link": _state(
        "Campaign {name}'s e-mails have no unsubscribe link, and receivers reject bulk mail without one. Set FAIRPOST_PUBLIC_URL to the HTTPS URL of `fairpost api`, here and on the engines."
    ),
    "campaign.no_footer": _state(
        "No unsubscribe line is added to campaign {name}'s e-mails, which is acceptable only for one-to-one sequences."
    ),
    "campaign.unknown_list": _invalid(
        "lists[{number}]",
        "refers to list {list}, which does not exist in workspace {workspace}",
        "fairpost prospects import --help",
    ),
    "campaign.unknown_sequence": _invalid(
        "sequence",
        "refers to sequence {sequence}, which does not exist in workspace {workspace}",
        "fairpost sequence list",
    ),
    "campaign.unknown_account": _invalid(
        "account", "refers to account {account}, which does not exist in workspace {workspace}"
    ),
    "campaign.unknown_pool": _invalid("pool", "refers to pool {pool}, which does not exist in workspace {workspace}"),
    "campaign.pool_without_address": _invalid(
        "pool",
        "refers to pool {pool}, which is lent without its accounts' addresses. A campaign needs an account that belongs to the workspace",
    ),
    "campaign.invalid_label": _invalid("{field}", "{message}"),
    "header.invalid": _invalid("{field}", "{message}"),
    "campaign.no_recipients": _conflict(
        "There are no recipients on the campaign's lists ({lists}).", "fairpost prospects import --help"
    ),
    "campaign.no_account": _conflict(
        "There is no account {account} to send the campaign from.", "fairpost account add --help"
    ),
    "campaign.empty_pool": _conflict(
        "Pool {pool} has no accounts to send the campaign from.", "fairpost account add --help"
    ),
    "campaign.pool_not_lent": _conflict(
        "Pool {pool} is not lent to workspace {workspace} with its accounts' addresses.",
        "fairpost workspace show {workspace}",
    ),
    "campaign.no_steps": _conflict("Sequence {sequence} has no steps.", "fairpost sequence set {sequence} --help"),
    "campaign.missing_fields": _conflict(
        "{count} recipients lack a field that the templates require: {fields}. Fill in the fields, add a fallback to the template, or launch without these recipients.",
        "fairpost campaign launch {name} --workspace {workspace} --skip-incomplete",
    ),
    "campaign.template_exists": _conflict(
        "A template named {name} already exists. Use a different name for the campaign.",
        "fairpost template show {name} --workspace {workspace}",
    ),
    "campaign.sequence_exists": _conflict(
        "A sequence named {name} already exists. Use a different name for the campaign, or use that sequence.",
        "fairpost sequence show {name} --workspace {workspace}",
    ),
    # ── templates and sequences ──
    "template.unknown": _unknown(
        "There is no template {name} in workspace {workspace}.", "fairpost template list --workspace {workspace}"
    ),
    "template.no_subject": _invalid(
        "subject", "is required for a new template: there is no template {name} in workspace {workspace}"
    ),
    "template.no_body": _invalid("{place}text", "is required unless `html` is given"),
    "template.empty_part": _invalid("{part}", "must not be empty"),
    "template.broken": _mistakes("The template is not valid.", "fairpost template set --help"),
    "template.in_use": _conflict(
        "Template {name} is used by {sequences}. First use a different template in those sequences.",
        "fairpost template show {name} --workspace {workspace}",
    ),
    "template.of_campaign": _conflict(
        "Template {name} belongs to a campaign. Change it there.",
        "fairpost campaign list --workspace {workspace}",
    ),
    "sequence.unknown": _unknown(
        "There is no sequence {name} in workspace {workspace}.", "fairpost sequence list --workspace {workspace}"
    ),
    "sequence.unknown_template": _invalid(
        "steps[{number}].template", "refers to template {template}, which does not exist in workspace {workspace}"
    ),
    "sequence.in_use": _conflict(
        "Sequence {name} is used by {campaigns}. Remove those campaigns first.",
        "fairpost sequence show {name} --workspace {workspace}",
    ),
    "sequence.of_campaign": _conflict(
        "Sequence {name} belongs to the campaign with the same name. Choose a different name.",
        "fairpost campaign show {name} --workspace {workspace}",
    ),
    "sequence.launched": _conflict(
        "Sequence {name} was launched with campaign {campaign}, so its steps cannot be changed. Create a sequence with a new name.",
        "fairpost sequence set --help",
    ),
    # ── workspaces ──
    "workspace.unknown": _unknown("There is no workspace {name}.", "fairpost workspace add {name}"),
    "region.unknown": _unknown(
        "Workspace {workspace} is not assigned to a region.", "fairpost region place {workspace} --help"
    ),
    "workspace.bad_name": _invalid(
        "name",
        "must be 1 to 100 lowercase letters, digits, dots, dashes or underscores, starting with a letter or digit",
    ),
    "workspace.invalid_setting": _invalid("{field}", "{rule}"),
    "workspace.reserved_name": _invalid("name", "must not be {name}, which is reserved"),
    "workspace.placed_elsewhere": _conflict(
        "Workspace {workspace} is in region {lives_in} and cannot be moved to {region}.",
        "fairpost region workspaces",
    ),
    "workspace.already_suspended": _conflict(
        "Workspace {name} is already suspended.", "fairpost workspace show {name}"
    ),
    "workspace.not_suspended": _conflict("Workspace {name} is not suspended.", "fairpost workspace show {name}"),
    "loan.bad_pool": _invalid(
        "pools[{number}]",
        "must be a pool name of 1 to 100 characters that contains none of = , ; / and does not start with @, got {pool}",
    ),
    "loan.bad_count": _invalid("pools[{number}]", "must list 1 to {most} senders, got {count}"),
    "loan.bad_sender": _invalid(
        "pools[{number}]", "must list senders as addresses, domains, `proven` or `account`, got {sender}"
    ),
    "loan.service_pool": _invalid(
        "pools[{number}]",
        "must not be {pool}, which sends the service's own e-mails, such as sign-in codes. Lend a different pool, or set a separate one for the service (FAIRPOST_SERVICE_POOL)",
    ),
    # ── keys ──
    "key.unknown": _unknown(
        "There is no key {key} in workspace {workspace}.", "fairpost key list --workspace {workspace}"
    ),
    "key.beyond_maker": _forbidden("You cannot grant scopes that you do not have: {scopes}."),
    "key.expires_in_past": _invalid("expires_at", "must be in the future, got {expires_at}"),
    "key.rate_too_high": _invalid("per_minute", "must be at most {most}, the workspace's limit"),
    "key.too_many": _conflict(
        "Workspace {workspace} already has {most} keys, the maximum.", "fairpost key list --workspace {workspace}"
    ),
    # ── webhooks ──
    "webhook.unknown": _unknown("There is no webhook {webhook}.", "fairpost webhook list"),
    "webhook.url_invalid": _invalid("url", "{problem}"),
    "webhook.kind_unknown": _invalid(
        "types", "must contain only event types, got {kind}", "fairpost webhook add --help"
    ),
    "webhook.too_many": _conflict("The maximum of {most} webhooks has been reached.", "fairpost webhook list"),
    "webhook.events_expired": _invalid("since", "is before the oldest stored event"),
    "webhook.cursor_unknown": _invalid("cursor", "is not an event cursor"),
    "webhook.failing": _state(
        "Webhook {webhook} ({url}) has been failing since {since}[: {why}].", "fairpost webhook log {webhook}"
    ),
    "webhook.disabled": _state("Webhook {webhook} ({url}) was disabled[: {why}].", "fairpost webhook resume {webhook}"),
    "webhook.status": _why("the endpoint responded with {status}"),
    "webhook.redirect": _why("the endpoint responded with {status}, and redirects are not followed"),
    "webhook.gone": _why("the endpoint responded with 410, which asks Fairpost to stop sending events"),
    "webhook.timeout": _why("the endpoint did not respond within {seconds} s"),
    "webhook.unreachable": _why("the endpoint cannot be reached: {error}"),
    "webhook.broken": _why("the connection broke: {error}"),
    "webhook.tls": _why("the TLS connection failed: {error}"),
    "webhook.forbidden": _why("the address is not allowed: {error}"),
    "webhook.no_secret": _why("the webhook's signing secret cannot be read. Rotate the secret"),
    # ── domains ──
    "domain.unknown": _unknown(
        "There is no domain {domain} in workspace {workspace}.", "fairpost domain list --workspace {workspace}"
    ),
    "domain.invalid": _invalid("domain", "must be your own domain, such as example.com, got {domain}"),
    "domain.spf_good": _state("The SPF record of {domain} includes the servers that send its mail."),
    "domain.spf_missing": _state("{domain} has no SPF record, so receivers reject its bulk mail."),
    "domain.spf_many": _state(
        "{domain} has {count} SPF records, and receivers ignore all of them. Merge the records into one."
    ),
    "domain.spf_allows_all": _state("The SPF record of {domain} allows every server on the internet (+all)."),
    "domain.spf_lookups": _state(
        "The SPF record of {domain} needs more than {most} lookups, the maximum that receivers allow. Remove some includes."
    ),
    "domain.spf_voids": _state(
        "The SPF record of {domain} names several hosts that do not exist, including {name}. Receivers ignore such a record. Remove these hosts."
    ),
    "domain.spf_broken": _state(
        "The SPF record of {domain} is not valid, so receivers ignore it. Correct this part: {term}"
    ),
    "domain.spf_without_host": _state(
        "The SPF record of {domain} does not seem to include every server that sends its mail. Missing: {hosts}."
    ),
    "domain.dkim_good": _state("Mail from {domain} is signed with DKIM, and the key's DNS record is published."),
    "domain.dkim_by_parent": _state("Mail from {domain} is signed with the DKIM key of {parent}, which is published."),
    "domain.dkim_by_provider": _state("Mail from {domain} is signed by the providers that send it."),
    "domain.dkim_unpublished": _state(
        "Mail from {domain} is signed with the DKIM key {selector}, but the key's DNS record is not published."
    ),
    "domain.dkim_pending": _state(
        "The DKIM key {selector} for {domain} is waiting for its DNS record. Mail is not signed yet."
    ),
    "domain.dkim_missing": _state("Mail from {domain} is not signed with DKIM.", "fairpost domain add-key --help"),
    "domain.dkim_without_rsa": _state(
        "Mail from {domain} is signed only with Ed25519, which most receivers cannot verify. Add an RSA key.",
        "fairpost domain add-key --help",
    ),
    "domain.key_locked": Meaning(
        sentence="The DKIM key {selector} for {domain} cannot be decrypted by an engine, so mail from {domain} is not being sent.",
        brief="the DKIM key {selector} for {domain} cannot be decrypted",
        command="fairpost doctor",
        is_kept=True,
    ),
    "domain.dmarc_good": _state("{domain} has a DMARC policy ({policy}), and its mail is aligned."),
    "domain.dmarc_missing": _state("{domain} has no DMARC record, so receivers reject its bulk mail."),
    "domain.dmarc_broken": _state(
        "The DMARC record of {domain} is not valid. Publish exactly one record, with a policy."
    ),
    "domain.dmarc_unaligned": _state(
        "Mail from {domain} is not aligned: its envelope sender is in {envelope}, and no DKIM signature matches {domain}. Receivers apply the DMARC policy to this mail.",
        "fairpost domain add-key --help",
    ),
    "domain.dmarc_fails": _state(
        "{domain} has a DMARC policy, but neither DKIM nor SPF passes for its mail. Receivers apply the policy to this mail.",
        "fairpost domain add-key --help",
    ),
    "domain.dmarc_strict": _state(
        "The DMARC record of {domain} requires signatures by {domain} itself (adkim=s), but the mail is signed by {signing}. Only SPF is aligned, and forwarding breaks SPF.",
        "fairpost domain add-key --help",
    ),
    "domain.mx_good": _state("{domain} accepts mail, so replies and bounces arrive."),
    "domain.mx_missing": _state("{domain} has no MX record, so replies and bounces are lost."),
    "domain.spf_relayed": _state(
        "{domain} has an SPF record. Check that the record includes the public addresses of these servers, whose own addresses are private: {hosts}."
    ),
    "domain.ptr_good": _state("The servers that send mail from {domain} have names that resolve to their addresses."),
    "domain.ptr_missing": _state(
        "{address} sends mail from {domain} but has no PTR record. Ask the address's network provider to set the record shown."
    ),
    "domain.ptr_unconfirmed": _state(
        "{address} sends mail from {domain}. The PTR record of {address} contains {name}, but that name does not resolve to {address}."
    ),
    "domain.tls_good": _state("Mail from {domain} is sent through {hosts} over TLS, with a valid certificate."),
    "domain.tls_none": _state(
        "Mail from {domain} is sent through {hosts}, but TLS is not offered there, so the connection is not encrypted."
    ),
    "domain.tls_untrusted": _state(
        "Mail from {domain} is sent through {hosts}, but the TLS certificate there is not valid."
    ),
    "domain.tls_unknown": _state(
        "Mail from {domain} is sent through {hosts}, but TLS could not be checked there, because no connection was possible."
    ),
    "domain.dns_silent": _state("The DNS lookup for {domain} failed ({error}). Try again later."),
    "campaign.domain_unchecked": _state(
        "Campaign {name} sends from {domain}, whose DNS records have never been checked.",
        "fairpost domain add --workspace {workspace} {domain}",
    ),
    "campaign.domain_unhealthy": _state(
        "Campaign {name} sends from {domain}, which failed these checks: {what}. Receivers may reject its e-mails.",
        "fairpost domain check --workspace {workspace} {domain}",
    ),
    "campaign.content_faulty": _state(
        "Step {step} of campaign {name}: {finding}",
        "fairpost campaign preview {name} --workspace {workspace} --step {step}",
    ),
    "campaign.domain_refused": _conflict(
        "Campaign {name} would send from {domain}, which failed these checks: {what}. Workspace {workspace} is set to refuse such launches.",
        "fairpost domain check --workspace {workspace} {domain}",
    ),
    "domain.key_unknown": _unknown("Domain {domain} has no key {selector}.", "fairpost domain keys --help"),
    "domain.too_many": _conflict(
        "Workspace {workspace} already has {most} domains, the maximum.", "fairpost domain list --workspace {workspace}"
    ),
    # ── members and admins ──
    "member.unknown": _unknown(
        "Workspace {workspace} has no member {address}.", "fairpost member list --workspace {workspace}"
    ),
    "member.known": _conflict(
        "{address} is already a member.", "fairpost member reset --workspace {workspace} {address}"
    ),
    "member.disabled": _conflict(
        "{address} is disabled. Enable this member first.", "fairpost member enable --workspace {workspace} {address}"
    ),
    "member.too_many_invitations": _rate_limited(
        "At most {a_day} invitations and password resets are sent per day, and at most {an_hour} per hour to any one address."
    ),
    "admin.unknown": _unknown("There is no admin {address}.", "fairpost admin list"),
    "admin.known": _conflict("{address} is already an admin.", "fairpost admin reset {address}"),
    "admin.disabled": _conflict("{address} is disabled. Enable this admin first.", "fairpost admin enable {address}"),
    "session.unknown": _unknown("You have no session {session}."),
    "sign_in.none_waits": _unknown(
        "No sign-in for {address} is waiting for a code. Enter the password in the browser, then try again."
    ),
    "inbox.unknown_mail": _unknown("There is no message {mail} in the inbox.", "fairpost inbox list"),
    "admin.last_admin": _conflict(
        "{address} is the last admin who can sign in. Invite another admin first.", "fairpost admin invite --help"
    ),
    "person.bad_name": _invalid(
        "name", "must be at most {most} characters on one line and must not contain an e-mail address"
    ),
    "person.bad_role": _invalid("role", "must be `manager`, `sender` or `viewer` for a member"),
    "person.bad_workspace": _invalid(
        "workspace",
        "must be 1 to 100 lowercase letters, digits, dots, dashes or underscores, and not reserved, got {workspace}",
    ),
    # ── logins of applications ──
    "login.unknown": _unknown("Role {login} has no access to any workspace.", "fairpost db logins"),
    "login.no_role": _unknown(
        "There is no role {login} on this server. Create the role first, as a database administrator: CREATE ROLE \"{login}\" LOGIN PASSWORD '…'.",
        "fairpost db grant {login}",
    ),
    "login.is_owner": _conflict(
        "Role {login} owns Fairpost's schema or is a superuser, so it already has all privileges.", "fairpost db logins"
    ),
    # ── portals ──
    "portal.unknown": _unknown("Portal {portal} has no template {type}.", "fairpost portal list"),
    "portal.not_overridden": _conflict(
        "Workspace {workspace} has no custom content for {portal}/{type}.",
        "fairpost portal list --workspace {workspace}",
    ),
    "portal.broken": _mistakes("The template is not valid."),
    # ── schedules ──
    "schedule.invalid": _invalid("{field}", "{problem}", "fairpost schedule set --help"),
    "schedule.too_many_holidays": _invalid("holidays", "must contain at most {most} dates, got {count}"),
    "schedule.ramp_up_without_quota": _invalid(
        "daily_max",
        "is required for a ramp-up",
        "fairpost schedule set --quota none --ramp-up none --workspace {workspace}",
    ),
    # ── accounts ──
    "account.not_found": _unknown("There is no account {account}.", "fairpost account list"),
    "account.exists": _conflict("Account {account} already exists.", "fairpost account show {account}"),
    "account.wrong_server": _invalid("{field}", "{rule}"),
    "account.too_many": _conflict(
        "A workspace can have at most {most} accounts.", "fairpost account list --workspace {workspace}"
    ),
    "account.has_mail": _conflict(
        "Account {account} still has e-mails: {in_hand} claimed, {in_doubt} in doubt, and {pinned} that only this account may send.",
        "fairpost email list --account {account}",
    ),
    "mailbox.taken": _conflict(
        "The mailbox of {address} is used by another account, perhaps in another workspace.", "fairpost account list"
    ),
    # ── senders ──
    "pause.end_in_past": _invalid("until", "must be in the future, got {until}"),
    "hold.unknown": _unknown("There is no hold on {subject}.", "fairpost status"),
    "throttle.unknown": _unknown(
        "There is no throttle on {subject}.", "fairpost user show --workspace {workspace} {user}"
    ),
    "user.unknown": _unknown(
        "There is no {sender}: it is not registered and has never sent anything.", "fairpost user list"
    ),
    "user.since_in_future": _invalid("since", "must not be in the future, got {since}"),
    # ── conversations ──
    "conversation.unknown": _unknown("There is no conversation {conversation}.", "fairpost conversation list"),
    "conversation.account_removed": _conflict(
        "The account that wrote to this person was removed, so you cannot reply from it.",
        "fairpost email send --help",
    ),
    "conversation.sender_forbidden": _forbidden("This workspace is no longer allowed to send e-mails from {sender}."),
    "conversation.bad_label": _invalid("labels", "must be 1 to 50 characters (a-z, 0-9 and _ . : -), got {label}"),
    "conversation.too_many_labels": _invalid("labels", "must have at most {most} entries"),
    # ── suppressions ──
    "suppression.unknown": _unknown(
        "{address} is not suppressed in workspace {workspace}.", "fairpost suppress show {address}"
    ),
    "suppression.unknown_everywhere": _unknown(
        "{address} has no suppression that applies to all workspaces.", "fairpost suppress show {address}"
    ),
    "suppression.bad_lines": _mistakes(
        "{count} lines are not valid. Correct these lines, or import the list without them.",
        "fairpost suppress import --help",
    ),
    # ── prospects ──
    "prospect.unknown": _unknown(
        "There is no prospect {address} in workspace {workspace}.", "fairpost prospects list --workspace {workspace}"
    ),
    "prospect.id_taken": _conflict("The ID {external_id} belongs to another prospect."),
    "prospect.bad_id": _invalid("external_id", 'must be on one line, without ":"'),
    "prospect.bad_timezone": _invalid("timezone", "must be a name such as Europe/Berlin, got {timezone}"),
    "prospect.too_many_fields": _invalid("fields", "must be at most {most} bytes in total"),
    "prospects.bad_lines": _mistakes(
        "{count} lines are not valid. Correct these lines, or import the list without them.",
        "fairpost prospects import --help",
    ),
    "list.unknown": _unknown(
        "There is no list {name} in workspace {workspace}.", "fairpost prospects lists --workspace {workspace}"
    ),
    "list.in_use": _conflict("List {name} is used by {campaigns}.", "fairpost campaign list --workspace {workspace}"),
    # ── next steps after errors ──
    "step.begin_empty": _step("To start with an empty database instead, run", "fairpost db start"),
    "step.start_database": _step("Start it again", "fairpost db start"),
    "step.migrate": _step("Then run", "fairpost db migrate"),
    "step.doctor": _step("For details, run", "fairpost doctor"),
    "step.set_server": _step("Set one", "fairpost account set {account} --smtp URL"),
    "step.set_password": _step("Set it again", "fairpost account set {account} --ask-password"),
    "step.set_gmail_key": _step("Set it", "fairpost account set {account} --gmail KEYFILE"),
    "step.add_dkim_key": _step("Add a new one", "fairpost domain add-key --help"),
    "step.rotate_webhook": _step("Make a new one", "fairpost webhook rotate --help"),
    "step.rotate_secrets": _step("Run it again", "fairpost secrets rotate"),
    "step.drop_unreadable": _step("If the key is lost", "fairpost secrets rotate --drop-unreadable"),
    "step.list_regions": _step("To list all regions, run", "fairpost region list"),
}
