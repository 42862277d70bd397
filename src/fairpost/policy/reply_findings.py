"""What a server's reply can mean: the findings of `replies`, each with its class and scope."""

from enum import StrEnum
from typing import NamedTuple


class ReplyClass(StrEnum):
    ACCEPTED = "accepted"
    HARD_BOUNCE = "hard_bounce"  # this address does not accept mail and never will
    SOFT_BOUNCE = "soft_bounce"  # this address does not accept mail now
    AUTH = "auth"  # the account may not log in, or may not send
    RATE_LIMIT = "rate_limit"  # too much, too fast
    TRANSIENT = "transient"  # another temporary condition
    POLICY_SENDER = "policy_sender"  # refused because of who we are or how we send
    MESSAGE = "message"  # refused because of this message: its content, size or format
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """What a refusal is about. Anything outside this scope may continue unaffected."""

    RECIPIENT = "recipient"
    MESSAGE = "message"
    ACCOUNT = "account"
    PROVIDER = "provider"
    NETWORK = "network"


class Finding(NamedTuple):
    """The meaning of a phrase or code. `code` is stored with an e-mail and never changes. `why` may change."""

    code: str
    class_: ReplyClass
    scope: Scope
    why: str


_R, _S = ReplyClass, Scope

ACCEPTED = Finding("email.accepted", _R.ACCEPTED, _S.MESSAGE, "The server accepted the message")

GONE = Finding("email.address_unknown", _R.HARD_BOUNCE, _S.RECIPIENT, "The mailbox does not exist or is closed")
NO_DOMAIN = Finding(
    "email.domain_unknown",
    _R.HARD_BOUNCE,
    _S.RECIPIENT,
    "The recipient's domain does not exist or does not accept mail",
)
MALFORMED = Finding("email.address_invalid", _R.HARD_BOUNCE, _S.RECIPIENT, "The recipient's address is not valid")
PERHAPS_GONE = Finding(
    "email.address_refused", _R.HARD_BOUNCE, _S.RECIPIENT, "The server does not accept mail for this address"
)

FULL = Finding("email.mailbox_full", _R.SOFT_BOUNCE, _S.RECIPIENT, "The recipient's mailbox is full")
FLOODED = Finding(
    "email.mailbox_flooded",
    _R.SOFT_BOUNCE,
    _S.RECIPIENT,
    "The recipient is receiving too much mail right now",
)
AWAY = Finding(
    "email.mailbox_unavailable", _R.SOFT_BOUNCE, _S.RECIPIENT, "The recipient's mailbox is unavailable right now"
)

LOGIN = Finding("email.login_refused", _R.AUTH, _S.ACCOUNT, "The server rejected the account's login")
FORBIDDEN = Finding("email.account_forbidden", _R.AUTH, _S.ACCOUNT, "The account is not allowed to send this way")

QUOTA = Finding(
    "email.quota_used_up", _R.RATE_LIMIT, _S.ACCOUNT, "The account has reached its provider's sending limit"
)
TOO_FAST = Finding("email.rate_limited", _R.RATE_LIMIT, _S.PROVIDER, "We are sending mail to the server too fast")
TOO_MUCH_FOR_ONE = Finding(
    "email.recipient_rate_limited",
    _R.RATE_LIMIT,
    _S.RECIPIENT,
    "The server limits how much mail we can send to this recipient",
)

GREYLISTED = Finding(
    "email.greylisted",
    _R.TRANSIENT,
    _S.RECIPIENT,
    "The server uses greylisting and will accept a later attempt",
)
BUSY = Finding("email.server_busy", _R.TRANSIENT, _S.PROVIDER, "The server is unavailable right now")
UNREACHABLE = Finding(
    "email.connection_failed", _R.TRANSIENT, _S.NETWORK, "A connection failed, either here or at a later hop"
)

SENDER = Finding(
    "email.sender_refused", _R.POLICY_SENDER, _S.ACCOUNT, "The server does not accept mail from this sender address"
)
RELAY = Finding(
    "email.relaying_refused",
    _R.POLICY_SENDER,
    _S.ACCOUNT,
    "The server does not relay mail for this account",
)
UNPROVEN = Finding(
    "email.sender_unproven",
    _R.POLICY_SENDER,
    _S.ACCOUNT,
    "The mail is not authenticated by SPF, DKIM, DMARC or reverse DNS",
)
BLOCKED = Finding(
    "email.sender_blocked",
    _R.POLICY_SENDER,
    _S.ACCOUNT,
    "The server rejected us for reputation or policy reasons",
)
UNWANTED = Finding(
    "email.sender_unwanted", _R.POLICY_SENDER, _S.ACCOUNT, "The recipient does not accept mail from this sender"
)
NO_TLS = Finding(
    "email.encryption_required", _R.POLICY_SENDER, _S.ACCOUNT, "The server requires an encrypted connection"
)

CONTENT = Finding(
    "email.content_refused",
    _R.MESSAGE,
    _S.MESSAGE,
    "The server rejected the content as spam or for policy reasons",
)
FORMAT = Finding("email.format_refused", _R.MESSAGE, _S.MESSAGE, "The server does not accept messages in this format")
TOO_BIG = Finding("email.too_big", _R.MESSAGE, _S.MESSAGE, "The message is too large")
TOO_MANY = Finding(
    "email.too_many_recipients",
    _R.MESSAGE,
    _S.MESSAGE,
    "The message has more recipients than the server accepts at once",
)

LOOP = Finding("email.mail_loop", _R.UNKNOWN, _S.MESSAGE, "The mail is looping, or its route is misconfigured")
UNEXPLAINED = Finding(
    "email.refused", _R.UNKNOWN, _S.MESSAGE, "The server rejected the message without giving a reason"
)
NONSENSE = Finding("email.reply_unintelligible", _R.UNKNOWN, _S.MESSAGE, "The server sent an unexpected reply")

FINDINGS = tuple(each for each in tuple(globals().values()) if isinstance(each, Finding))

# Temporary, for a reason that concerns only this recipient. Three such replies in a row concern three recipients, not
# the account.
ITS_OWN = frozenset({FULL, FLOODED, TOO_MUCH_FOR_ONE, GREYLISTED})
