"""Every code there is, with the sentence that people read and the next step that the command line offers.

A sentence names the parameters of its reason in braces; what stands in brackets is left out where one of its parameters is empty.
A command is complete: it works as it is typed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpost.policy.reply_rules import FINDINGS


class Kind(StrEnum):
    """What a refusal is to whoever asked. The HTTP API answers with these codes."""

    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """`kind`: of a refusal. `field`: what of the request is wrong, where it is invalid and its `mistakes` do not say it.
    `brief`: as the end of another sentence, which names what it is about. `is_kept`: stored with what it is about. `is_step`: what to do
    about an error, whose own words say what is wrong."""

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
    """Its reason has `retry_after_s`."""
    return Meaning(sentence=sentence, kind=Kind.RATE_LIMITED)


def _invalid(field: str, sentence: str, command: str = "") -> Meaning:
    """The sentence goes on after the name of the field."""
    return Meaning(sentence=sentence, kind=Kind.INVALID, field=field, command=command)


def _mistakes(sentence: str, command: str = "") -> Meaning:
    """`mistakes` says what is wrong where: a line or field, and a message."""
    return Meaning(sentence=sentence, kind=Kind.INVALID, command=command)


def _state(sentence: str, command: str = "", *, brief: str = "") -> Meaning:
    """What is going on: no refusal."""
    return Meaning(sentence=sentence, command=command, brief=brief)


def _why(brief: str) -> Meaning:
    """Why something is in its state. It is kept with it, and told with it: as the end of a sentence."""
    return Meaning(sentence=f"{brief[0].upper()}{brief[1:]}.", brief=brief, is_kept=True)


def _step(words: str, command: str) -> Meaning:
    """What to do about an error. The error itself says what is wrong."""
    return Meaning(sentence=f"{words}.", command=command, brief=f"{words}: {command}", is_step=True)


CATALOGUE: Mapping[str, Meaning] = {
    # ── what is going on with everything ──
    "everything.paused": _state(
        "Everything is paused since {since} by {by}[, until {until}]: {why}.", "fairpost resume --all"
    ),
    "everything.restored": _state("Everything is paused since {since}: {why}.", "fairpost resume --all"),
    "engine.none": _state("No engine is running.", "fairpost work"),
    "mail.sending": _state("Sending."),
    "mail.waiting": _state("Waiting to be sent.", "fairpost status"),
    "mail.none": _state("Nothing is waiting."),
    "mail.scheduled": _state("The next e-mail is due at {due_at}.", "fairpost email list --state scheduled"),
    "mail.undecided": _state(
        "It is unknown whether these e-mails were sent. Decide for each.", "fairpost email list --state in_doubt"
    ),
    "mail.in_doubt": _state(
        "It is unknown whether these e-mails were sent. An engine resolves them by their policy.",
        "fairpost email list --state in_doubt",
    ),
    "mail.stranded": _state(
        "These e-mails are held by a worker that is gone. The next worker frees them.",
        "fairpost email list --state claimed --state sending",
    ),
    "mail.turn": _state("It waits for its turn."),
    # ── with accounts and pools ──
    "account.none": _state("There is no sender account.", "fairpost account add --help"),
    "account.unknown": _state("There is no account {account}.", "fairpost account list"),
    "pool.empty": _state("Pool {pool} has no account.", "fairpost account add --help"),
    "account.suspended": _state(
        "Account {account} is suspended[: {why}].[ E-mails that only it may send fail: urgent ones from {urgent_until}, bulk from {bulk_until}.]",
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
        "Account {account} may not use its server {server}[: {why}].", "fairpost account verify {account}"
    ),
    "account.server_hangs": _state(
        "The server {server} of account {account} has not answered since {since}.", "fairpost account verify {account}"
    ),
    "account.server_slow": _state(
        "Account {account} is waiting for its server {server} since {since}.", "fairpost account verify {account}"
    ),
    "account.provider_pause": _state(
        "The provider of account {account} asked for a pause[ until {until}][: {why}].",
        "fairpost account show {account}",
        brief="the provider asked for a pause[: {why}]",
    ),
    "account.delay": _state(
        "Account {account} pauses between e-mails until {until}.", "fairpost account show {account}", brief="delay"
    ),
    "account.hourly_limit": _state(
        "Account {account} has reached its hourly limit. It resumes at {until}.",
        "fairpost account show {account}",
        brief="hourly limit",
    ),
    "account.daily_limit": _state(
        "Account {account} has reached its daily limit. It resumes at {until}.",
        "fairpost account show {account}",
        brief="daily limit[: {why}]",
    ),
    "account.warm_up_limit": _state(
        "Account {account} has reached its warm-up limit for the day. It resumes at {until}.",
        "fairpost account show {account}",
        brief="daily limit of the warm-up",
    ),
    "account.api_quota": _state(
        "Account {account} has used up its API quota. It resumes at {until}.",
        "fairpost account show {account}",
        brief="quota of the provider's API",
    ),
    "account.blocks_workspace": _state(
        "Workspace {workspace} is blocked on account {account}[ until {until}][: {why}].",
        "fairpost account unblock {account} --workspace {workspace}",
    ),
    "account.no_worker": _state(
        "An engine is running, and has not started a worker for account {account} yet.",
        "fairpost account show {account}",
    ),
    "account.not_begun": _state(
        "Account {account} may send, and has not begun yet.", "fairpost account show {account}"
    ),
    "account.sending": _state("Account {account} is sending."),
    "account.idle": _state("Account {account} is ready. Nothing is waiting for it."),
    # ── why accounts are stopped ──
    "account.not_active": _why("{status}[: {why}]"),
    "account.paused_by_hand": _why("{note}"),
    "account.authentication_failed": _why("its server refused the login: {reply}"),
    "account.too_many_bounces": _why("{bounced} of {sent} e-mails bounced on this day, more than {percent_max} %"),
    "account.refused_in_a_row": _why("refused {refused} times in a row: {reply}"),
    "account.worker_died": _why("its worker died {times} times in a row"),
    "account.daily_limit_reached": _why("daily limit reached: {sent} sent"),
    "account.warm_up_limit_reached": _why("daily limit of the warm-up reached: {sent} sent"),
    # ── why e-mails were not sent; what servers say is below ──
    "email.cancelled": _why("cancelled[: {note}]"),
    "email.cancelled_by_operator": _why("cancelled by the operator"),
    "email.cancelled_by_request": _why("cancelled by request"),
    "email.campaign_cancelled": _why("the campaign was cancelled[: {note}]"),
    "email.expired": _why("expired at {expired_at}"),
    "email.suppressed": _why("every recipient is on the suppression list"),
    "email.recipient_suppressed": _why("the recipient is on the suppression list[: {note}]"),
    "email.recipient_erased": _why("the recipient was erased on request"),
    "email.prospect_stopped": _why("the campaign was stopped for this prospect[: {note}]"),
    "email.prospect_removed": _why("the prospect was removed"),
    "email.step_not_reached": _why("the e-mail before it was not sent"),
    "email.step_lost_account": _why("the account of the e-mail before it was removed"),
    "email.account_suspended": _why("the only account that may send it was suspended for too long"),
    "email.account_removed": _why("account {account} was removed"),
    "email.fields_missing": _why("its fields do not fit its template: {problem}"),
    "email.worker_died": _why("its worker died before the message was complete"),
    "email.server_unreachable": _why("the server could not be reached[: {error}]"),
    "email.connection_lost": _why("the connection broke before the message was complete[: {error}]"),
    "email.outcome_unknown": _why("it is unknown whether it was sent[: {error}]"),
    "email.unsendable": _why("this server cannot take such a message[: {error}]"),
    "email.resolved_as_sent": _why("resolved by {by}"),
    "email.resolved_as_failed": _why("outcome unknown, given up by {by}"),
    **{each.code: _why(f"{each.why[0].lower()}{each.why[1:]}[: {{code}} {{reply}}]") for each in FINDINGS},
    # ── why campaigns are in their states, and prospects get nothing more ──
    "campaign.paused_by_hand": _why("{note}"),
    "campaign.cancelled_by_hand": _why("{note}"),
    "campaign.emails_held": _why("{count} e-mails are held: in doubt, or of paused prospects"),
    "campaign.account_removed": _why("account {account} was removed"),
    "campaign.pool_emptied": _why("pool {pool} has no account any more"),
    "campaign.planning_failed": _why("it could not be planned: {error}"),
    "prospect.stopped_by_hand": _why("{note}"),
    # ── why mail is held, throttled or outside its window, and everything paused ──
    "hold.by_hand": _why("{note}"),
    "hold.campaign_paused": _why("campaign {campaign} is paused"),
    "hold.campaign_cancelled": _why("campaign {campaign} is cancelled"),
    "hold.campaign_failed": _why("campaign {campaign} has failed"),
    "throttle.by_hand": _why("{note}"),
    "throttle.scored": _why("{reasons}"),
    "sender.too_many_bounces": _why("{bounced} of {total} e-mails bounced, more than 10 %"),
    "sender.too_many_rejections": _why("{rejected} of {total} e-mails were rejected, more than 5 %"),
    "sender.unusual_volume": _why("{volume} e-mails in 24 hours, more than {factor} times the usual {usual} a day"),
    "sender.too_much_too_soon": _why(
        "{volume} e-mails in 24 hours, more than {most} from an account younger than 7 days"
    ),
    "schedule.window_closed": _why("the sending window is closed"),
    "schedule.quota_used_up": _why("the daily quota is used up: {used} of {allowed}"),
    "schedule.quota_unknown": _why("the quota of today is not worked out yet"),
    "everything.paused_by_hand": _why("{note}"),
    "everything.database_restored": _state(
        "This database was restored or copied: {signs}. What was sent since the backup was made still waits in it and would be "
        "sent again. Look at what waits, cancel what must not go out, then resume.",
        "fairpost resume --all",
        brief="this database was restored or copied: {signs}. What was sent since the backup was made still waits in it and "
        "would be sent again. Look at what waits, cancel what must not go out, then resume",
    ),
    "everything.engines_silent": _state(
        "The database was failed over to another server, and {engines} did not confirm within 30 seconds that nothing is missing "
        "there[ (accounts {accounts})]. Start that engine again, and mail goes out as soon as it has confirmed. Or look at what "
        "waits, cancel what must not go out, then resume.",
        "fairpost resume --all",
        brief="the database was failed over to another server, and {engines} did not confirm within 30 seconds that nothing is "
        "missing there[ (accounts {accounts})]. Start that engine again, and mail goes out as soon as it has confirmed. Or look "
        "at what waits, cancel what must not go out, then resume",
    ),
    "everything.database_restarted": _why(
        "the database was restarted or failed over. Waiting for these engines to confirm that nothing is missing: {engines}"
    ),
    # ── a sentence that was stored before there were codes ──
    "legacy.text": _why("{text}"),
    # ── with senders ──
    "hold.workspace": _state("Workspace {workspace} is held[ until {until}][: {why}].", "fairpost release {workspace}"),
    "hold.domain": _state(
        "Domain {name} of workspace {workspace} is held[ until {until}][: {why}].",
        "fairpost release {workspace} --domain {name}",
    ),
    "hold.user": _state(
        "User {name} of workspace {workspace} is held[ until {until}][: {why}].",
        "fairpost release {workspace} --user {name}",
    ),
    "hold.stream": _state(
        "Stream {name} of workspace {workspace} is held[ until {until}][: {why}].",
        "fairpost release {workspace} --stream {name}",
    ),
    "throttle.workspace": _state(
        "Workspace {workspace} is throttled until {until}[: {why}].", "fairpost user unthrottle {workspace}"
    ),
    "throttle.domain": _state(
        "Domain {name} of workspace {workspace} is throttled until {until}[: {why}].",
        "fairpost user unthrottle {workspace}",
    ),
    "throttle.user": _state(
        "User {name} of workspace {workspace} is throttled until {until}[: {why}].",
        "fairpost user unthrottle {workspace} {name}",
    ),
    "window.closed": _state(
        "{name} of workspace {workspace} waits until {until}[: {why}].",
        "fairpost schedule show --workspace {workspace}",
    ),
    # ── with campaigns ──
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
    "campaign.planning": _state("Scheduling e-mails: {planned}[ of {members}] recipients done."),
    "campaign.next_due": _state(
        "The next e-mail is due at {until}.", "fairpost campaign show {name} --workspace {workspace}"
    ),
    "campaign.held_back": _state(
        "Only e-mails that are held back are left: {in_doubt} in doubt, {parked} for paused recipients.",
        "fairpost campaign recipients {name} --workspace {workspace}",
    ),
    "campaign.ending": _state("About to complete."),
    "campaign.window_closed": _state(
        "Campaign {name} is outside its sending window or quota[: {why}]. It resumes at {until}.",
        "fairpost schedule show --workspace {workspace}",
    ),
    "address.invalid": _invalid("address", "must be an e-mail address, got {address}"),
    # ── e-mails ──
    "email.unknown": _unknown("There is no e-mail {id}.", "fairpost email list"),
    "email.not_cancellable": _conflict(
        "E-mail {id} is {state}. You can no longer cancel it.", "fairpost email show {id}"
    ),
    "email.not_retryable": _conflict(
        "E-mail {id} is {state}. You can only retry e-mails that failed or bounced.", "fairpost email show {id}"
    ),
    "email.not_in_doubt": _conflict("E-mail {id} is {state}, not in doubt.", "fairpost email show {id}"),
    # ── campaigns ──
    "campaign.unknown": _unknown(
        "There is no campaign {name} in workspace {workspace}.", "fairpost campaign list --workspace {workspace}"
    ),
    "campaign.not_a_draft": _conflict(
        "Campaign {name} is {state}, and only a draft can be changed. Make another one under a new name.",
        "fairpost campaign new --help",
    ),
    "campaign.wrong_state": _conflict(
        "Campaign {name} is {state}. You cannot {action} it.", "fairpost campaign show {name} --workspace {workspace}"
    ),
    "campaign.unknown_list": _invalid(
        "lists[{number}]",
        "names list {list}, which workspace {workspace} does not have",
        "fairpost prospects import --help",
    ),
    "campaign.unknown_sequence": _invalid(
        "sequence", "names sequence {sequence}, which workspace {workspace} does not have", "fairpost sequence list"
    ),
    "campaign.unknown_account": _invalid(
        "account", "names account {account}, which workspace {workspace} does not have"
    ),
    "campaign.unknown_pool": _invalid("pool", "names pool {pool}, which workspace {workspace} does not have"),
    "campaign.pool_without_address": _invalid(
        "pool", "names {pool}, which is lent without an address. A campaign needs an account of the workspace"
    ),
    "campaign.no_recipients": _conflict("There are no recipients on {lists}.", "fairpost prospects import --help"),
    "campaign.no_account": _conflict("There is no account {account} to send it.", "fairpost account add --help"),
    "campaign.empty_pool": _conflict("Pool {pool} has no account to send it.", "fairpost account add --help"),
    "campaign.pool_not_lent": _conflict(
        "Pool {pool} is not lent to workspace {workspace} with the address of its accounts.",
        "fairpost workspace show {workspace}",
    ),
    "campaign.no_steps": _conflict("Sequence {sequence} has no steps.", "fairpost sequence set {sequence} --help"),
    "campaign.missing_fields": _conflict(
        "{count} of its recipients lack a field that the templates need. Fill in the fields, give the template a fallback, "
        "or launch without these recipients.",
        "fairpost campaign launch {name} --workspace {workspace} --skip-incomplete",
    ),
    "campaign.template_exists": _conflict(
        "There is a template {name} already. Give the campaign another name.",
        "fairpost template show {name} --workspace {workspace}",
    ),
    "campaign.sequence_exists": _conflict(
        "There is a sequence {name} already. Give the campaign another name, or let it send that sequence.",
        "fairpost sequence show {name} --workspace {workspace}",
    ),
    # ── templates and sequences ──
    "template.unknown": _unknown(
        "There is no template {name} in workspace {workspace}.", "fairpost template list --workspace {workspace}"
    ),
    "template.no_subject": _invalid(
        "subject", "must be given: there is no template {name} in workspace {workspace} yet"
    ),
    "template.no_body": _invalid("{place}text", "must be given, or html"),
    "template.empty_part": _invalid("{part}", "must not be empty"),
    "template.broken": _mistakes("The template is not valid.", "fairpost template set --help"),
    "template.in_use": _conflict(
        "Template {name} is used by {sequences}. Give those sequences another template first.",
        "fairpost template show {name} --workspace {workspace}",
    ),
    "template.of_campaign": _conflict(
        "Template {name} belongs to a campaign and is changed with it.",
        "fairpost campaign list --workspace {workspace}",
    ),
    "sequence.unknown": _unknown(
        "There is no sequence {name} in workspace {workspace}.", "fairpost sequence list --workspace {workspace}"
    ),
    "sequence.unknown_template": _invalid(
        "steps[{number}].template", "names template {template}, which workspace {workspace} does not have"
    ),
    "sequence.in_use": _conflict(
        "Sequence {name} belongs to {campaigns}. Remove those campaigns first.",
        "fairpost sequence show {name} --workspace {workspace}",
    ),
    "sequence.of_campaign": _conflict(
        "Sequence {name} belongs to the campaign of that name. Choose another name.",
        "fairpost campaign show {name} --workspace {workspace}",
    ),
    "sequence.launched": _conflict(
        "Sequence {name} was launched with campaign {campaign} and keeps its steps. Write another one under a new name.",
        "fairpost sequence set --help",
    ),
    # ── workspaces ──
    "workspace.unknown": _unknown("There is no workspace {name}.", "fairpost workspace add {name}"),
    "region.unknown": _unknown(
        "No region is known for workspace {workspace}.", "fairpost region place {workspace} --help"
    ),
    "workspace.bad_name": _invalid(
        "name", "must be 1 to 100 small letters, digits, dots, dashes or underscores, beginning with a letter or digit"
    ),
    "workspace.reserved_name": _invalid("name", "must not be {name}, which is the service's own"),
    "workspace.placed_elsewhere": _conflict(
        "Workspace {workspace} lives in region {lives_in}, with all its e-mails, and cannot be moved to {region}.",
        "fairpost region workspaces",
    ),
    "workspace.already_suspended": _conflict(
        "Workspace {name} is suspended already.", "fairpost workspace show {name}"
    ),
    "workspace.not_suspended": _conflict("Workspace {name} is not suspended.", "fairpost workspace show {name}"),
    "loan.bad_pool": _invalid(
        "pools[{number}]",
        "must name a pool of yours, 1 to 100 characters without = , ; / and without @ at the beginning, got {pool}",
    ),
    "loan.bad_count": _invalid("pools[{number}]", "must name 1 to {most} senders, got {count}"),
    "loan.bad_sender": _invalid(
        "pools[{number}]", "must name addresses, domains, proven or account as senders, got {sender}"
    ),
    "loan.service_pool": _invalid(
        "pools[{number}]",
        "must not be {pool}, which sends the service's own e-mails, such as sign-in codes. "
        "Lend another pool, or give the service one of its own (FAIRPOST_SERVICE_POOL)",
    ),
    # ── keys ──
    "key.unknown": _unknown("There is no key {key} in workspace {workspace}.", "fairpost key list {workspace}"),
    "key.beyond_maker": _forbidden("A key cannot have scopes that its maker lacks: {scopes}."),
    "key.expires_in_past": _invalid("expires_at", "must lie in the future, got {expires_at}"),
    "key.rate_too_high": _invalid("per_minute", "must be at most {most}, the limit of the workspace"),
    "key.too_many": _conflict(
        "Workspace {workspace} has {most} keys already, and cannot have more.", "fairpost key list {workspace}"
    ),
    # ── domains ──
    "domain.unknown": _unknown(
        "There is no domain {domain} in workspace {workspace}.", "fairpost domain list {workspace}"
    ),
    "domain.invalid": _invalid("domain", "must be a domain of your own, like example.com, got {domain}"),
    "domain.too_many": _conflict(
        "Workspace {workspace} has {most} domains already, and cannot have more.", "fairpost domain list {workspace}"
    ),
    # ── members and admins ──
    "member.unknown": _unknown("Workspace {workspace} has no member {address}.", "fairpost member list {workspace}"),
    "member.known": _conflict("{address} is a member already.", "fairpost member reset {workspace} {address}"),
    "member.disabled": _conflict(
        "{address} is disabled. Enable this member first.", "fairpost member enable {workspace} {address}"
    ),
    "member.too_many_invitations": _rate_limited(
        "At most {a_day} invitations and password resets are sent per day, and {an_hour} per hour to one address."
    ),
    "admin.unknown": _unknown("There is no admin {address}.", "fairpost admin list"),
    "admin.known": _conflict("{address} is an admin already.", "fairpost admin reset {address}"),
    "admin.disabled": _conflict("{address} is disabled. Enable this admin first.", "fairpost admin enable {address}"),
    "session.unknown": _unknown("You have no session {session}."),
    "sign_in.none_waits": _unknown(
        "No sign-in of {address} waits for a code. Enter the password in the browser, then try again."
    ),
    "inbox.unknown_mail": _unknown("There is no mail {mail} in the inbox.", "fairpost inbox list"),
    "admin.last_admin": _conflict(
        "{address} is the last admin who can sign in. Invite another one first.", "fairpost admin invite --help"
    ),
    "person.bad_name": _invalid("name", "must be at most {most} characters on one line, without an address in it"),
    "person.bad_role": _invalid("role", "must be manager, sender or viewer for a member"),
    "person.bad_workspace": _invalid(
        "workspace",
        "must be 1 to 100 small letters, digits, dots, dashes or underscores, and not the service's own, got {workspace}",
    ),
    # ── logins of applications ──
    "login.unknown": _unknown("Role {login} acts for no workspace.", "fairpost db logins"),
    "login.no_role": _unknown(
        "There is no role {login} on this server. Create it first, as an administrator of the database: "
        "CREATE ROLE \"{login}\" LOGIN PASSWORD '…'.",
        "fairpost db grant {login}",
    ),
    "login.is_owner": _conflict(
        "Role {login} owns Fairpost's schema, or is a superuser. It can do everything already.", "fairpost db logins"
    ),
    # ── portals ──
    "portal.unknown": _unknown("There is no template {type} of portal {portal}.", "fairpost portal list"),
    "portal.not_overridden": _conflict(
        "Workspace {workspace} has no words of its own for {portal}/{type}.",
        "fairpost portal list --workspace {workspace}",
    ),
    "portal.broken": _mistakes("The template is not valid."),
    # ── schedules ──
    "schedule.invalid": _invalid("{field}", "{problem}", "fairpost schedule set --help"),
    "schedule.too_many_holidays": _invalid("holidays", "must be at most {most} days, got {count}"),
    "schedule.ramp_up_without_quota": _invalid(
        "daily_max",
        "must be set for a ramp-up, which grows to it",
        "fairpost schedule set --quota none --ramp-up none --workspace {workspace}",
    ),
    # ── accounts ──
    "account.not_found": _unknown("There is no account {account}.", "fairpost account list"),
    "account.exists": _conflict("There is an account {account} already.", "fairpost account show {account}"),
    "account.too_many": _conflict(
        "A workspace has at most {most} accounts.", "fairpost account list --workspace {workspace}"
    ),
    "account.has_mail": _conflict(
        "Account {account} still has e-mails: {in_hand} in hand, {in_doubt} in doubt, {pinned} waiting for it alone.",
        "fairpost email list --account {account}",
    ),
    "mailbox.taken": _conflict(
        "The mailbox of {address} is used by another account, perhaps in another workspace.", "fairpost account list"
    ),
    # ── senders ──
    "pause.end_in_past": _invalid("until", "must lie in the future, got {until}"),
    "hold.unknown": _unknown("There is no hold on {subject}.", "fairpost status"),
    "throttle.unknown": _unknown("There is no throttle on {subject}.", "fairpost user show {workspace} {user}"),
    "user.since_in_future": _invalid("since", "must not lie in the future, got {since}"),
    # ── suppressions ──
    "suppression.unknown": _unknown(
        "{address} is not suppressed in workspace {workspace}.", "fairpost suppress show {address}"
    ),
    "suppression.unknown_everywhere": _unknown(
        "{address} is not suppressed for all workspaces.", "fairpost suppress show {address}"
    ),
    "suppression.bad_lines": _mistakes(
        "{count} lines are not valid. Correct them, or import the list without them.",
        "fairpost suppress import --help",
    ),
    # ── prospects ──
    "prospect.unknown": _unknown(
        "There is no prospect {address} in workspace {workspace}.", "fairpost prospects list --workspace {workspace}"
    ),
    "prospect.id_taken": _conflict("The id {external_id} belongs to another prospect."),
    "prospect.bad_id": _invalid("external_id", 'must be on one line, without ":"'),
    "prospect.bad_timezone": _invalid("timezone", "must be a name like Europe/Berlin, got {timezone}"),
    "prospect.too_many_fields": _invalid("fields", "must have at most {most} bytes together"),
    "prospects.bad_lines": _mistakes(
        "{count} lines are not valid. Correct them, or import the list without them.",
        "fairpost prospects import --help",
    ),
    "list.unknown": _unknown(
        "There is no list {name} in workspace {workspace}.", "fairpost prospects lists --workspace {workspace}"
    ),
    "list.in_use": _conflict("List {name} is used by {campaigns}.", "fairpost campaign list --workspace {workspace}"),
    # ── what to do about errors ──
    "step.begin_empty": _step("To begin with an empty database instead, start it", "fairpost db start"),
    "step.start_database": _step("Start it again", "fairpost db start"),
    "step.migrate": _step("Then migrate", "fairpost db migrate"),
    "step.doctor": _step("See what to do", "fairpost doctor"),
    "step.list_regions": _step("Look at all regions", "fairpost region list"),
}
