"""What servers say, and what they mean by it: the tables that `replies` walks through. Data only.

A new reply is taught by a row here and a line in tests/policy/replies.csv. Phrases stand between bars, and * for
some other words; every phrase begins at the beginning of a word, and is looked for in the text without its addresses and links.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from fairpost.model.report import Step


class ReplyClass(StrEnum):
    ACCEPTED = "accepted"
    HARD_BOUNCE = "hard_bounce"  # this address takes no mail, and will not
    SOFT_BOUNCE = "soft_bounce"  # this address takes no mail now
    AUTH = "auth"  # the account may not log in, or may not send
    RATE_LIMIT = "rate_limit"  # too much, too fast
    TRANSIENT = "transient"  # something else that passes
    POLICY_SENDER = "policy_sender"  # refused for who we are or how we send
    MESSAGE = "message"  # refused for this message: content, size, format
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """What a refusal is about, and so what may go on as if nothing had happened."""

    RECIPIENT = "recipient"
    MESSAGE = "message"
    ACCOUNT = "account"
    PROVIDER = "provider"
    NETWORK = "network"


class Finding(NamedTuple):
    class_: ReplyClass
    scope: Scope
    why: str


_R, _S = ReplyClass, Scope

ACCEPTED = Finding(_R.ACCEPTED, _S.MESSAGE, "The server took it")

GONE = Finding(_R.HARD_BOUNCE, _S.RECIPIENT, "There is no such mailbox, or it is closed")
NO_DOMAIN = Finding(_R.HARD_BOUNCE, _S.RECIPIENT, "The recipient's domain does not exist, or takes no mail")
MALFORMED = Finding(_R.HARD_BOUNCE, _S.RECIPIENT, "The recipient's address is not a valid one")
PERHAPS_GONE = Finding(_R.HARD_BOUNCE, _S.RECIPIENT, "The server does not take mail for this address")

FULL = Finding(_R.SOFT_BOUNCE, _S.RECIPIENT, "The recipient's mailbox is full")
FLOODED = Finding(
    _R.SOFT_BOUNCE, _S.RECIPIENT, "The recipient gets more mail at the moment than the server lets through"
)
AWAY = Finding(_R.SOFT_BOUNCE, _S.RECIPIENT, "The recipient's mailbox takes no mail at the moment")

LOGIN = Finding(_R.AUTH, _S.ACCOUNT, "The server does not accept the account's login")
FORBIDDEN = Finding(_R.AUTH, _S.ACCOUNT, "The account is not permitted to send this way")

QUOTA = Finding(_R.RATE_LIMIT, _S.ACCOUNT, "The account has used up what its provider lets it send for now")
TOO_FAST = Finding(_R.RATE_LIMIT, _S.PROVIDER, "The server gets more from us than it is ready to take")

GREYLISTED = Finding(
    _R.TRANSIENT, _S.PROVIDER, "The server puts off senders it does not know yet, and takes the next try"
)
BUSY = Finding(_R.TRANSIENT, _S.PROVIDER, "The server cannot take it at the moment")
UNREACHABLE = Finding(_R.TRANSIENT, _S.NETWORK, "The connection failed, or one further on")

SENDER = Finding(_R.POLICY_SENDER, _S.ACCOUNT, "The server does not take mail from this sender address")
RELAY = Finding(_R.POLICY_SENDER, _S.ACCOUNT, "The server does not pass on mail to others for this account")
UNPROVEN = Finding(
    _R.POLICY_SENDER, _S.ACCOUNT, "The mail is not proven to be the sender's: SPF, DKIM, DMARC or reverse DNS"
)
BLOCKED = Finding(_R.POLICY_SENDER, _S.ACCOUNT, "The server refuses us for our reputation, or by its policy")
NO_TLS = Finding(_R.POLICY_SENDER, _S.ACCOUNT, "The server wants the connection encrypted")

CONTENT = Finding(_R.MESSAGE, _S.MESSAGE, "The server does not want this content: it takes it for spam, or forbids it")
FORMAT = Finding(_R.MESSAGE, _S.MESSAGE, "The server cannot take a message of this form")
TOO_BIG = Finding(_R.MESSAGE, _S.MESSAGE, "The message is too big")
TOO_MANY = Finding(_R.MESSAGE, _S.MESSAGE, "The message has more recipients than the server takes at once")

LOOP = Finding(_R.UNKNOWN, _S.MESSAGE, "The mail goes round in circles, or its way is not set up")
UNEXPLAINED = Finding(_R.UNKNOWN, _S.MESSAGE, "The server refused it and did not say why")
NONSENSE = Finding(_R.UNKNOWN, _S.MESSAGE, "The server gave an answer that means nothing here")

# By the codes alone. 521 is the server's whole answer to us (RFC 7504), whatever enhanced code is added.
BY_CODE: dict[int, Finding] = {
    521: BLOCKED,
    525: LOGIN,
    530: LOGIN,
    534: LOGIN,
    535: LOGIN,
    538: LOGIN,
    556: NO_DOMAIN,
}

# Before RCPT TO nobody was named but us; before DATA nothing was seen of the content.
BEFORE_RECIPIENTS = frozenset(
    {Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.TLS, Step.AUTH, Step.MAIL},
)
BEFORE_CONTENT = BEFORE_RECIPIENTS | {Step.RCPT}


class Phrases(NamedTuple):
    pattern: re.Pattern[str]
    finding: Finding
    only: str = ""  # "4" or "5": only in replies of this kind


def _row(finding: Finding, *phrases: str, only: str = "") -> Phrases:
    gap = r".{0,40}?"  # bounded, so that no text takes long
    each = (phrase for line in phrases for phrase in line.split(" | "))
    options = "|".join(gap.join(map(re.escape, phrase.split("*"))) for phrase in each)
    return Phrases(re.compile(rf"(?<![a-z0-9])(?:{options})"), finding, only)


# Text that corrects the codes: it is plain, and the codes that come with it are often wrong. The first that fits counts.
PLAIN: tuple[Phrases, ...] = (
    _row(
        FLOODED,
        "receiving mail too quickly | receiving email too quickly | receiving mail at a rate",
        "receiving email at a rate | recipient has exceeded | recipient thread limit",
        "to this recipient per hour",
    ),
    _row(
        TOO_BIG,
        "message size | message too large | message too big | message is too large | message is too big",
        "too much mail data | header size",
    ),
    _row(FORMAT, "duplicate header"),
    _row(GONE, "disabled recipient"),
    _row(AWAY, "temporary locked", "temporarily locked", "mailbox is frozen"),
    _row(GREYLISTED, "greylist", "graylist", "grey-list", "gray-list", "grey list", "gray list"),
    _row(BUSY, "organization queue quota"),
    _row(TOO_FAST, "recipients received this hour", "too many recipients this hour", "limits for how many messages"),
    _row(TOO_MANY, "too many recipients", "in a separate transaction"),
    _row(
        QUOTA,
        "daily * limit | daily limit | daily * quota | hourly * limit | 24-hour * limit | sending limit",
        "sending quota | sending rate | relay limit | outgoing limit | submissionquota | message quota",
        "message limit reached | email limit is reached | limit for sending | maximum credits",
        "mail rate exceeded | emails per second | emails per hour | emails per day | messages per hour",
        "messages per day | per 24 hours | too many emails | sender has exceeded",
        "concurrent connections limit exceeded | concurrent smtp connections",
    ),
    # For good it is a locked account: a refused login like any other.
    _row(QUOTA, "too many login", "too many failed login", "too many auth", "too many failed auth", only="4"),
    _row(
        TOO_FAST,
        "rate limit | rate-limit | ratelimit | throttl | too many connections | too many concurrent",
        "too many sessions | too many messages | too many recent messages | too many spams | too much mail",
        "too fast | too quickly | too frequent | too often | frequency limited | reached its limit",
        "unusual rate | unexpected volume | excessive volume | temporarily deferred | permanently deferred",
        "slow down | max message per connection | maximum number of concurrent connections",
    ),
    _row(
        FULL,
        "mailbox full | mailbox is full | mailbox for user is full | inbox full | inbox is full",
        "account is full | over quota | over-quota | overquota | quota exceeded | quotaexceeded",
        "quota violation | exceeded * quota | exceeds * quota | mailbox size limit | mailbox size exceeded",
        "out of storage | exceeded storage allocation | boite * pleine",
    ),
    _row(
        RELAY,
        "relay access denied | relay denied | relaying denied | relay not permitted | relaying not permitted",
        "relay not allowed | relaying not allowed | relay prohibited | relaying prohibited | relaying disallowed",
        "open relay | insecure mail relay | unable to relay | not permitted to relay | as a relay",
        "credentials for relay | allowed rcpthosts | turn on smtp authentication",
    ),
    _row(
        SENDER,
        "sender address | sender rejected | sender denied | sender verify failed | invalid sender",
        "bad outbound sender | blocked senders | domain of sender | sender domain | sender's domain",
        "sending domain | mailfrom domain | sender signature | sender identity | from address | sendasdenied",
        "send as | not owned by | mail from must equal | not allowed to send | address is not verified | spoof",
        "anti-spoof",
    ),
    _row(
        UNPROVEN,
        "spf | dkim | dmarc | unauthenticated | ptr record | dns ptr | reverse dns | reverse hostname",
        "cannot find your hostname | ip name lookup failed | mismatches client ip | helo command rejected",
        "helo domain",
    ),
    _row(BLOCKED, "unusual sending activity"),  # Zoho: the account is stopped until somebody unlocks it
    _row(NO_TLS, "starttls command first", "starttls first", "tls required", "requires tls", "encryption required"),
)

# Text that breaks a tie, where neither codes nor phase tell.
TIES: tuple[Phrases, ...] = (
    _row(CONTENT, "spamhaus dbl", "likely unsolicited"),
    _row(GONE, "recipient account is"),
    _row(
        BLOCKED,
        "block list | blocklist | block listed | blacklist | black list | dnsbl | rbl | blocked using",
        "blocked by | blocked for | is blocked | block for spam | (ip based | (domain based | host network",
        "listed in | listed at | listed by | reputation | spam sender | client host | connections not accepted",
        "connections will not be accepted | traffic not accepted | administrative prohibition",
        "authentication required | authrequired | not authorized",
    ),
    _row(
        CONTENT,
        "spam | virus | malware | phish | infected | unsolicited | suspicious | content | attachment | banned:",
        "dt:spm",  # NetEase
        "security issue | security policies | message filtered | message rejected | message not allowed",
        "mail rejected | local policy | policy reasons | policy restrictions",
    ),
    _row(FORMAT, "rfc 5322", "rfc 2822", "rfc compliant", "header", "malformed"),
    _row(
        GONE,
        "5.4.1 * recipient address rejected",  # Microsoft: not in the directory
        "all recipient addresses rejected | user unknown | unknown user | unknown recipient | recipient unknown",
        "recipient not found | address unknown | addressee unknown | no such user | no such recipient",
        "no such mailbox | no such address | no mailbox | not found by smtp address lookup | user not found",
        "mailbox not found | user*not exist | user*n't exist | mailbox*not exist | mailbox*n't exist",
        "account*not exist | account*n't exist | address*not exist | address*n't exist | recipient*not exist",
        "doesn't have a * account | user*no longer | mailbox*no longer | account*no longer | address*no longer",
        "recipient*no longer | is no longer valid | mailbox disabled | mailbox is disabled | account disabled",
        "account is disabled | account has been disabled | is inactive | inactive mailbox | inactive user",
        "inactive email | rejected: inactive | invalid mailbox | invalid recipient | invalid-recipient",
        "invalid rcpt | marked as invalid | not a valid mailbox | not a valid email | not a registered",
        "not in recipient list | not our customer | not our user | in my badrcptto | user not local",
        "user has moved",
        "policy rejection on the target",  # Yandex: the recipient's account was closed
    ),
    _row(
        NO_DOMAIN,
        "unrouteable address | unroutable address | host unknown | no such domain | domain not found",
        "does not accept mail",
    ),
    _row(
        MALFORMED,
        "bad address syntax | recipient address rejected: need fully-qualified | recipient address reserved",
    ),
    # What the standard writes beside 550 and 553, and what many servers write whatever they mean.
    _row(PERHAPS_GONE, "mailbox unavailable", "mailbox not available", "mailbox name", "invalid address"),
)

# Words that say only that somebody minds. Before the content was seen it is us, afterwards the message.
REFUSAL = re.compile(
    r"(?<![a-z])(?:blocked|denied|policy|prohibit|forbidden|not permitted|not accepted|banned|service refused|spamhaus)"
)


def _codes(rows: tuple[tuple[str, Finding], ...]) -> dict[str, Finding]:
    """Each code on its own; of two rows for a code the first counts."""
    found: dict[str, Finding] = {}
    for codes, finding in rows:
        for code in _spelled_out(codes):
            found.setdefault(code, finding)
    return found


def _spelled_out(codes: str) -> Iterator[str]:
    for code in codes.split():
        kind, subject, details = code.split(".")
        first, _, last = details.partition("-")
        for detail in range(int(first), int(last or first) + 1):
            yield from (f"{k}.{subject}.{detail}" for k in ("45" if kind == "x" else kind))


# By enhanced status code: RFC 3463, RFC 7372, the IANA registry, and what Google and Microsoft add.
# A code that is not here (x.7.1, x.2.0, x.3.0, x.5.0…) says too little on its own.
BY_ENHANCED: dict[str, Finding] = _codes(
    (
        ("x.1.0", PERHAPS_GONE),
        ("x.1.1 x.1.4 x.1.6 x.1.10", GONE),  # 5.1.10 at Microsoft: not in the directory; else a domain without mail
        ("x.1.2", NO_DOMAIN),
        ("x.1.3", MALFORMED),
        ("x.1.7 x.1.8", SENDER),
        ("x.1.20", FORMAT),  # Microsoft: several From addresses
        ("x.1.90", QUOTA),  # Microsoft: recipients of the day
        ("5.1.350-351", GONE),  # Microsoft: unknown further on
        ("x.2.1", GONE),
        ("x.2.2", FULL),
        ("x.2.3", TOO_BIG),
        ("x.2.121-122", FLOODED),  # Microsoft: messages an hour to this recipient
        ("5.3.1", BUSY),  # the whole system is full: that passes
        ("x.3.3", FORMAT),
        ("x.3.4", TOO_BIG),
        ("5.3.5 5.4.6 5.4.14", LOOP),
        ("5.4.4 5.4.310", NO_DOMAIN),
        ("5.4.7 5.4.300-319", UNREACHABLE),  # tried in vain further on, until the time was up
        ("5.4.5", QUOTA),  # Google; by the RFC a congested network, which 4.4.5 still is
        ("x.5.3", TOO_MANY),
        ("x.6.0-20", FORMAT),
        ("x.7.2", BLOCKED),
        ("x.7.3 x.7.8 x.7.57 x.7.139", LOGIN),
        ("x.7.5-7", FORMAT),  # signatures and encryption of the message
        ("x.7.9", BLOCKED),  # outside of a login only Yahoo says it: "policy reasons"
        ("x.7.10", NO_TLS),
        ("x.7.16", TOO_BIG),
        ("x.7.17-18", GONE),  # RFC 7293: the mailbox or the domain is another person's now
        ("x.7.20-27 x.7.29-32 x.7.40", UNPROVEN),
        ("x.7.28", TOO_FAST),
        ("x.7.60", SENDER),
        ("x.7.64", RELAY),
        ("x.7.100-136", BLOCKED),  # Microsoft: the recipient takes mail from some senders only
        ("x.7.232-233", QUOTA),
        ("x.7.504-505", GONE),
        ("x.7.509 x.7.515", UNPROVEN),
        ("x.7.512", FORMAT),
        ("4.7.500-699", TOO_FAST),
        ("5.7.500-750", BLOCKED),
    )
)

# By Google's reason, in lower case: of the API, and (with _) of the token endpoint.
BY_REASON: dict[str, Finding] = {
    "autherror": LOGIN,
    "invalidcredentials": LOGIN,
    "unauthorized": LOGIN,
    "invalid_grant": LOGIN,
    "invalid_client": LOGIN,
    "invalid_request": LOGIN,
    "unauthorized_client": FORBIDDEN,
    "access_denied": FORBIDDEN,
    "admin_policy_enforced": FORBIDDEN,
    "invalid_scope": FORBIDDEN,
    "accessnotconfigured": FORBIDDEN,
    "delegationdenied": FORBIDDEN,
    "domainpolicy": FORBIDDEN,
    "failedprecondition": FORBIDDEN,  # the mailbox has no Gmail, or the key acts for no mailbox
    "forbidden": FORBIDDEN,
    "insufficientpermissions": FORBIDDEN,
    "dailylimitexceeded": QUOTA,
    "limitexceeded": QUOTA,
    "quotaexceeded": QUOTA,
    "ratelimitexceeded": QUOTA,
    "userratelimitexceeded": QUOTA,
    "resourceexhausted": QUOTA,
    "backenderror": BUSY,
    "internalerror": BUSY,
    "server_error": BUSY,
    "temporarily_unavailable": BUSY,
    "invalidargument": FORMAT,
    "parseerror": FORMAT,
    "uploadtoolarge": TOO_BIG,
}

# By the HTTP status alone; what is not here says nothing, and 5xx is the server's own trouble.
BY_STATUS: dict[int, Finding] = {
    401: LOGIN,
    403: FORBIDDEN,
    408: BUSY,
    409: BUSY,
    413: TOO_BIG,
    429: QUOTA,
}
