"""Phrases that servers use, and what they mean, as tables for `replies`.

To support a new reply, add a row here and a line in tests/policy/replies.csv. Bars separate phrases, and * stands for
some other words. Every phrase must start at the beginning of a word. A phrase that ends with ! must also end at the end
of a word. Phrases are matched against the text without its addresses and links. A row of `_beside` instead requires two
things near each other, in either order: the subject and what is said about it. Their words, in many languages, are in
`reply_words`.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from fairpost.model.report import Step
from fairpost.policy import reply_words as words


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
    """What a refusal is about. Everything else may continue unaffected."""

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
TOO_FAST = Finding("email.rate_limited", _R.RATE_LIMIT, _S.PROVIDER, "The server is receiving mail from us too fast")
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
    "The server rejected us because of our reputation or its policy",
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
    "The server rejected the content as spam or because of its policy",
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

# Temporary, for a reason that concerns only this recipient. Three in a row concern three recipients, not the account.
ITS_OWN = frozenset({FULL, FLOODED, TOO_MUCH_FOR_ONE, GREYLISTED})

# By the codes alone. 521 is the server's complete answer (RFC 7504), regardless of the enhanced code sent with it.
BY_CODE: dict[int, Finding] = {
    521: BLOCKED,
    525: LOGIN,
    530: LOGIN,
    534: LOGIN,
    535: LOGIN,
    538: LOGIN,
    556: NO_DOMAIN,
}

# Before RCPT TO, the server has not seen any recipient. Before DATA, it has not seen the content.
BEFORE_RECIPIENTS = frozenset(
    {Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.TLS, Step.AUTH, Step.MAIL},
)
BEFORE_CONTENT = BEFORE_RECIPIENTS | {Step.RCPT}
AFTER_RECIPIENTS = frozenset({Step.DATA, Step.BODY, Step.DOT})

# Japanese carriers check users at RCPT TO. After the content, "unknown user" comes from a user's own filter.
SAYS_UNKNOWN_TO_UNWANTED = re.compile(r"@(?:docomo|ezweb|softbank|i\.softbank)\.ne\.jp|@au\.com")


@dataclass(frozen=True)
class Phrases:
    expression: str
    finding: Finding
    only: str = ""  # "4" or "5": the row applies only to replies of this class

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern.

        It is compiled on first use, because compiling all patterns takes a tenth of a second and most processes read no
        replies.
        """
        return re.compile(self.expression)


def fold(text: str) -> str:
    """Convert to lower case without accents, like the phrases: "Boîte" becomes "boite"."""
    folded = text.upper().casefold()
    if folded.isascii():
        return folded
    return "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))


_GAP = r".{0,40}?"  # bounded so that matching is always fast
_CLOSE = r"[^a-z0-9]{1,3}(?:[a-z]{1,16}[^a-z0-9]{1,3}){0,3}?"  # some short words: "mailbox HAS BEEN disabled"


def _options(phrases: tuple[str, ...]) -> str:
    each = (fold(phrase) for line in phrases for phrase in line.split(" | "))
    return "|".join(_option(phrase) for phrase in each)


def _option(phrase: str) -> str:
    end = r"(?![a-z0-9])" if phrase.endswith("!") else ""
    return _GAP.join(map(re.escape, phrase.removesuffix("!").split("*"))) + end


def _row(finding: Finding, *phrases: str, only: str = "") -> Phrases:
    return Phrases(rf"(?<![a-z0-9])(?:{_options(phrases)})", finding, only)


def _beside(
    finding: Finding, whom: tuple[str, ...], what: tuple[str, ...], *, is_close: bool = False, only: str = ""
) -> Phrases:
    """Return phrases that match two things near each other. With `is_close`, at most two or three words may separate
    them, for a `what` with many uses.
    """
    one, other = (rf"(?<![a-z0-9])(?:{_options(each)})" for each in (whom, what))
    gap = rf"[a-z]{{0,2}}(?:{_CLOSE}|[^a-z0-9]{{0,2}})" if is_close else _GAP
    return Phrases(f"{one}{gap}{other}|{other}{gap}{one}", finding, only)


# Phrases that rule out a dead recipient: they blame us, another address, or a temporary condition. A reply that
# contains one of them does not suppress the recipient, whatever else it says. The first match counts.
SPARING: tuple[Phrases, ...] = (
    _row(NO_DOMAIN, "mail exchanger or ip address | missing the proper dns entries"),  # the recipient's
    _row(BUSY, "couldn't create | could not create | cannot create | can't create"),  # a program that delivers locally
    _row(
        SENDER,
        "sender | sending user | sending account | originator | return address | return path | return-path | reply-to",
        "bounce address | envelope-from | envelope from | mail from | from header | your address | your mailbox",
        "your email address | your e-mail address",
    ),
    _row(TOO_MANY, "number of rcpts | number of recipients"),
    _row(BLOCKED, "too many | too much | excessive | from host | google groups"),
    _row(UNWANTED, "members only | members may | member of this | you are not a member | posting"),
    _row(FORBIDDEN, "your account | your subscription | license"),
    _row(LOGIN, "your password | authenticat"),
    _row(UNPROVEN, "reverse | ptr! | dns record | helo | dmarc | dkim | spf! | ipv6 | ipv4"),
    _row(
        BLOCKED,
        "your ip | your host | your server | your mail server | your network | your domain | your location | your isp",
        "sending ip | ip address | adresse ip | indirizzo ip | ip-adresse | client host | client address",
        "connecting ip | connecting host | remote host is | blacklist | black list | black-list | blocklist | block list",
        "blocked using | dnsbl | rbl! | spamhaus | spamcop | sorbs | reputation | banned | not permitted",
        "ip地址 | 发信ip | 黑名单",
    ),
    _row(CONTENT, "spam | virus | malware | phish"),
    _row(FORMAT, "message-id | vrfy | command disabled | address family"),
    _row(FULL, "quota"),
    _row(
        AWAY,
        "temporary: | temporarily | timeout | timed out | again later | try later | retry later | spater erneut",
        "spater noch | plus tard | mas tarde | piu tardi | попробуйте позже | повторите попытку | 稍后 | しばらく",
    ),
)

# Text that overrides the codes: its meaning is clear, but the codes sent with it are often wrong. The first match
# counts.
PLAIN: tuple[Phrases, ...] = (
    _row(
        FLOODED,
        "receiving mail too quickly | receiving email too quickly | receiving mail at a rate",
        "receiving email at a rate | recipient has exceeded | recipient thread limit",
        "to this recipient per hour | mailbox received too | mailbox is receiving too | recipient is receiving too",
    ),
    _row(SENDER, "unresolvable*from | from*unresolvable"),
    _row(
        TOO_MUCH_FOR_ONE,
        "limit * for this recipient | limit * for recipient | limit * to this recipient | limit * for this mailbox",
        "limit * for this user | limit * for this address | many messages to this recipient",
        "many messages for this recipient | many mails to this recipient | many emails to this recipient",
        "recipient's rate | recipient's*rate limit | recipient's limit | per-recipient * limit | per recipient limit | this recipient too often | same recipient",
    ),
    _row(
        TOO_BIG,
        "message size | message too large | message too big | message is too large | message is too big",
        "message body is too big | too much mail data | header size | mail size | mailsize | exceeds size limit",
        "size limits | maximum message size",
    ),
    _row(FULL, "mailbox size | mailbox exceeds | mailbox has exceeded"),
    _row(TOO_BIG, "size exceed | maximum size"),
    _row(FORMAT, "duplicate header"),
    _row(
        BUSY,
        "organization queue quota | insufficient system | insufficient disk | mail system storage",
        "mail system is full | system load | too much load | out of memory | queue unavailable | queue is full | database",
        "server was temporarily | server is temporarily | server temporarily | failure sending mail",
    ),
    _row(GREYLISTED, "greylist | graylist | grey-list | gray-list | grey list | gray list | postgrey"),
    _row(
        TOO_FAST,
        "recipients received this hour | too many recipients this hour | limits for how many messages",
        "too many recipients from | too many recipient attempts | excessive unknown recipients | excessive userid unknowns",
    ),
    _row(
        TOO_MANY,
        "too many recipients | number of recipients | number of rcpts | in a separate transaction | maximum * recipients reached | recipients per message",
        "recipients limit exceeded | rcpt limit | recipient limit | too many rcpt | maximum number of recipients | only one recipient | one recipient at a time",
    ),
    _row(
        FULL,
        "too many messages on the server | too many messages in * mailbox | mailbox * too many messages",
        "zuviele mails auf | zu viele mails auf",
    ),
    _row(
        QUOTA,
        "daily * limit | daily limit | daily * quota | hourly * limit | hourly limit | 24-hour * limit | sending limit",
        "sending quota | sending rate | send rate | sending frequency | relay limit | relay quota | outgoing limit | outgoing * quota | outgoing * limit",
        "submissionquota | submission quota | message quota | message limit reached | email limit is reached",
        "limit for sending | limit for your account | limits for your account | maximum credits | mail rate exceeded | emails per | e-mails per | mails per | messages per hour",
        "messages per day | messages per minute | per 24 hours | within 24 hours | too many emails | too many e-mails",
        "past 24 | last 24 | in 24 hours | over 24 hours | sender throttled | sender is throttled",
        "failures per hour | you are sending too | sender has exceeded | sender rate | reached your | exceeded your",
        "limite de envio | limite d'envoi | versandlimit | limite di invio | limit wysyl | лимит отправ | 发信数量 | 发送频率",
        "wait to send more | send more emails | rate limit increase",
        "concurrent connections limit exceeded | concurrent smtp connections | unusual amount of",
    ),
    # If the refusal is permanent, the account is locked, which counts as a refused login.
    _row(
        QUOTA,
        "too many login | too many failed login | too many auth | too many failed auth | too much fail auth",
        only="4",
    ),
    _row(
        TOO_FAST,
        "rate limit | rate-limit | ratelimit | rate * exceed | throttl | too many connections | too many concurrent",
        "too many sessions | too many simultaneous | too many messages | too many recent messages | too many mails",
        "too many spams | too many errors | too many bad | too many unrecogni | too many commands | too many requests",
        "too many transactions | too many deliveries | too much mail | too much traffic | too fast | too quickly",
        "too frequent | too often | frequency limited | frequency limit | reached its limit | connection limit",
        "connections limit | unusual rate | unexpected volume | excessive volume | excessive mail | excessive rate",
        "temporarily deferred | permanently deferred | slow down | slower | max message per connection",
        "maximum number of concurrent connections | maximum number of connections | messages per connection",
        "messages for this session | trop de | zu viele verbindungen | zu viele nachrichten | demasiad | troppi | troppe",
        "hl:icc | hl:ifc | mi:cel | mi:dmc | mi:ccl | mi:sfq | rp:cel | rp:drc | rp:ccl | rp:qrc",  # NetEase
        "слишком много | слишком часто | 并发连接 | 超出限制 | 超过了 | 超过限制 | 频率 | 너무 많",
    ),
    _beside(TOO_FAST, words.FLOW, words.EXCESS),
    _row(LOOP, "too many hops | too many received | hop count | received:"),
    _row(FULL, "over*quota | quota violation | exceeded*quota | exceeds*quota | exceeding*quota | quota*exceed"),
    _row(
        FULL,
        "overquota | over-quota | quotaexceeded | quota limit exceeded | disk quota | mailbox size limit | storage quota",
        "mailbox size exceeded | out of storage | exceeded storage allocation | exceeds allowed size | storage limit",
        "storage full | storage space | exceeded the size limit | space not enough | not have enough space | file too large",
    ),
    _beside(FULL, words.RECIPIENT, words.FULL),
    _row(FULL, "quota | diskspace | enough disk space | space has | message count | mail count"),
    _row(
        TOO_FAST,
        "too many | too much | limit exceeded | limit reached | limits exceeded | zu viele | zu oft | zu schnell",
        "muitas | muitos | te veel | zbyt wiele | zbyt wielu | cok fazla | 过于频繁 | 过多 | 太多 | 頻繁 | 多すぎ",
        only="4",
    ),
    _row(
        RELAY,
        "relay access denied | relay denied | relaying denied | relay not permitted | relaying not permitted",
        "relay not allowed | relaying not allowed | relay prohibited | relaying prohibited | relaying disallowed",
        "relaying to * prohibited | relay operation rejected | relay disabled | relaying disabled | unauthorized relay",
        "not configured to relay | open relay | openrelay | insecure mail relay | unable to relay | not permitted to relay",
        "we do not relay | no relaying | as a relay | credentials for relay | allowed rcpthosts",
        "turn on smtp authentication | bypassing * mail relay",
    ),
    _row(
        BLOCKED,
        "your ip*block | your ip*list | your ip*ban | your ip*welcome | your ip*reject | your ip*denied | your ip*refused",
        "your domain*block | your domain*blacklist | your country",
    ),
    _row(
        UNWANTED,
        "delivery restriction | resolver.rst | restrictedtorecip | want your mail | want your email | user refused | recipient refused",
        "rejected by recipient | rejected by the recipient | rejected by this user | rejected by user | by user's reject",
        "blocked by the recipient | blocked by recipient | blacklisted by recipient | recipient's list of senders | requires that you verify",
        "受信拒否 | 수신거부 | 수신 거부",
    ),
    _row(
        FORBIDDEN,
        "sending for this account | sending from this account | account * not * send | your account*suspended",
        "your account*disabled | your account*blocked | your account*locked | your account*expired | your account*closed",
        "your account*inactive | your subscription | your license | your plan | outgoing*suspended | outgoing*disabled",
        "outgoing*blocked | outbound*suspended | outbound*disabled | sending * has been disabled | sending * is disabled",
        "sending * suspended | sending blocked | sending is blocked | account is not permitted to send",
        "smtp access * disabled | only registered users",
    ),
    _row(
        LOGIN,
        "requires authentication | requires smtp auth | authentication required | authentication is required | auth required | auth is required | auth failed",
        "authentication fail | authentication credentials invalid | must authenticate | please authenticate | auth first",
        "auth command first | authorization required | not authenticated | login required | invalid credentials",
        "invalid login | reauthenticate | re-authenticate | credentials are",
    ),
    _row(
        SENDER,
        "sender address | sender rejected | sender denied | sender refused | sender verif | verify sender | verify the sender | invalid sender | fake sender",
        "unauthorized sender | unknown sender | sender unknown | from this sender | sender ip | sender is rejected | sender was rejected | sender is not allowed | sender not allowed | null sender | sender email",
        "sender name | sender header | check your from | from/sender | bad outbound sender | blocked senders | domain of sender | sender domain | sender's domain | rfc.5321 from",
        "sending domain | mailfrom domain | from domain | sender signature | sender identity | from address | sendasdenied",
        "send as | not owned by | mail from must equal | from and auth not the same | mail from is mismatched | verify mailfrom | not allowed to send",
        "address is not verified | spoof | anti-spoof | emetteur | expediteur | absender | remitente | remetente",
        "mittente | отправител | 发件人 | 寄件者 | 送信元",
    ),
    _row(
        UNPROVEN,
        "spf | dkim | dmarc | domainkeys | unauthenticated | ptr record | dns ptr | reverse dns | reverse hostname | rdns",
        "reverse lookup | cannot find your hostname | ip name lookup failed | ip name possibly forged | mismatches client ip",
        "helo command rejected | helo domain | helo name | helo should | in your helo | invalid helo | bad helo",
        "authentication checks | authentication information | authentication level | authentication results",
        "dns records | invalid dns mx | not meet ipv6 | resource record | can't be resolved | cannot be resolved | must resolve",
    ),
    _row(BLOCKED, "unusual sending activity"),  # Zoho: the account is stopped until it is unlocked
    _row(
        NO_TLS,
        "starttls command first | starttls first | starttls required | starttls is required | tls required",
        "tls is required! | tls-connection is required | requires tls | encryption required",
    ),
    _row(
        GONE,
        "disabled recipient | suppression list | inactivity | no recipient activity | long-time inactiv | per inutilizzo | wegen inaktivitat | por inactividad",
        "por inatividade | pour inactivite | por falta de uso | из-за неактивности",
        only="5",
    ),
    _row(
        AWAY,
        "not currently being accepted | not currently accepting | temporary locked | temporarily locked | mailbox is frozen | unverified address | due to a recipient error",
    ),
    _beside(AWAY, words.RECIPIENT, words.SUSPENDED, is_close=True),
    _row(
        NO_DOMAIN,
        "dns query name does not exist | nonexistent domain | non-existent domain | nonexistentdomain | querymx enotfound",
        "had no relevant answers | code nxdomain | host does not accept mail | domain does not accept mail",
        "missing the proper dns entries",  # cPanel
        only="5",
    ),
    # Names that cannot be looked up now. Names that do not exist are in the table of ties.
    _row(
        UNREACHABLE,
        "host not found, try again | name server * timeout | name server timeout | host name lookup fail | servfail",
        "unexpected name server reply | dns query failed | dns * timeout | dns resolving | temporary failure in name",
        "dial tcp | getaddrinfo | no such host is known | server misbehaving | etimeout",
        "name or service not known | nodename nor servname | enotfound | eai_again",
        "connection timed out | connection timeout | connection refused [ | connection reset | connection dropped",
        "connection lost | connection aborted | connection closed by | connection with * broken | connection failed",
        "connection was lost | lost connection | timed out while | operation timed out | timed out during | i/o timeout",
        "io timeout | handle timeout | read error | write error from | socket error | broken pipe | no route to host",
        "network is unreachable | network unreachable | host is unreachable | host unreachable | network error",
        "no answer from host | econnrefused | etimedout | econnreset | ehostunreach | enetunreach | epipe | esocket",
        "greeting never received | could not connect | unable to connect | couldn't connect | can't connect",
        "cannot connect | failed to connect | connect error | not accept our requests to connect | initiate smtp",
        "establish * connection | domain is not reachable | server is not reachable | not responding | unresponsive",
        "cannot start tls | tls handshake | handshake fail | ssl handshake | ssl_connect | tls is required, but",
        "certificate verif | certificate not trusted | self signed cert | self-signed cert | certificate has expired",
        "certificate validation",
    ),
    _row(UNREACHABLE, "connect*connection refused | : connection refused"),
    _row(
        UNREACHABLE,
        "connection refused | unreachable | no dns | dns resol | dns error | dns fail | dns lookup",
        only="4",
    ),
    _row(
        UNREACHABLE,
        "retry timeout | message expired | envelope expired | delivery time expired | queue.expired | queue too long",
        "could not deliver for | could not be delivered for | could not send message for | have been failing",
        "retry time not reached | too long in queue | giving up after",
    ),
)

# Text that breaks a tie if neither codes nor phase decide.
TIES: tuple[Phrases, ...] = (
    _row(
        CONTENT, "spamhaus dbl | likely unsolicited | file extension | file type | spam content | spam pattern | a url"
    ),
    _row(
        GONE,
        "recipient account is | not listed in | is no longer valid | not in my validrcpt | resolver.adr.recipnotfound",
    ),
    _row(
        BLOCKED,
        "block list | blocklist | block listed | blacklist | black list | black-list | dnsbl | rbl | blocked using",
        "block for spam | (ip based | (domain based | host network | listed in | listed at | listed by | listed on",
        "found on one or more | reputation | client host | client address | spam sender | spammer | sending spam",
        "spam source | spam origin | spam abuse | spam from | connections not accepted | connections will not be accepted",
        "not accepting connections | not accept connections | not allowed to connect | connection rejected",
        "traffic not accepted | administrative prohibition | administratively denied | invalid ip | bad ip | black ip | ip is rejected",
        "your ip | your access | your location | your host is not | is filtered | dynamic-ip | dial-up | dynamic ip",
        "banned send | sender * banned | score too low | 黑名单 | on our block",
    ),
    _row(
        CONTENT,
        "spam | antispam | junk | virus | malware | phish | infected | unsolicited | suspicious | banned: | bulk | quarantin | surbl",
        "dt:spm",  # NetEase
        "uribl | html | url! | filter rule | filtering | message is blocked | message has been blocked | message was blocked",
        "in the message | security issue | security reason | security policies | bounce attack | antyspam | 垃圾邮件",
    ),
    _row(BLOCKED, "blocked by | blocked for | is blocked | not authorized | currently blocked | due to abuse"),
    _row(
        FORMAT,
        "rfc 5322 | rfc 2822 | rfc 822 | rfc5322 | rfc2822 | rfc822 | rfc compliant | not conform | not comply | header | malformed | mime | invalid data in message | messages without",
        "to: field | 8-bit data | missing from | bare lf | bare cr | long line | line too long | line is too long",
        "parse message | parse the message | subject",
    ),
    _row(
        NO_DOMAIN,
        "unrouteable | unroutable | host unknown | unknown host | unknown domain name | domain must exist | illegal host | no such domain | no such host | domain not found",
        "domain name not found | domain does not exist | domain doesn't exist | domain doesnt exist | domain * not exist | nxdomain",
        "host not found | host * not found | no mx record | no mx | null mx | nullmx | null-mx | indicated no smtp service",
        "no mail hosts | handle mail for | does not accept mail | accepts no mail | mail exchanger | any host | host name is unknown | invalid host name",
        "non-existent host | nonexistent host | non-existent domain | nonexistent domain | valid mx",
        "no data known | no data by dns | bad destination system | domain * no longer | domain * expired | domaine inconnu",
        "domain unbekannt | dominio inexistente | dominio no existe | dominio nao existe | dominio non esiste | домен не | 域名不存在",
        "domain existiert nicht | domane existiert nicht | domaine inexistant | domaine n'existe | domein bestaat niet | domena nie istnieje",
    ),
    _row(
        GONE,
        "5.4.1 * recipient address rejected",  # Microsoft: not in the directory
        "all recipient addresses rejected | no such user | no such mail | no such recipient | no such address | no such email",
        "no such e-mail | no such account | no such person | no such alias | no such local | no such member | no such name | no such id!",
        "no mailbox | no mail box | no longer an employee | no longer employed | no longer works | no one with | nobody here | no valid recipient | email not exist | email does not exist | email not found",
        "email doesn't exist | email unknown",
        "not a registered | not in recipient list | not our customer | not our user | not user of | user not local",
        "doesn't have a * account | in my badrcptto | user has moved | marked as invalid | invalid-recipient",
        "receiving disabled | receiving is disabled | cannot deliver mail for | have no mail",
        "unavailable mail user | invalid final delivery | no longer accepts mail | address error | does no exist",
        "not found in ldap | not listed in * directory | not in route | not accept incoming | not accepting email for",
        "previously hard-bounced | previously bounced | undeliverable address | address is undeliverable",
        "userunknown | badrcptto | not present in directory | mailbox not present | is not a known user | no account by that name",
        "not an active address | not a local address | recipient is not local | recipient not ok!",
        "no one at this address | not have a user by | dicha persona | nessun utente | missing home directory | can't accept user",
        "address has been replaced | recipients was undeliverable",
        "policy rejection on the target",  # Yandex: the recipient's account was closed
    ),
    _beside(GONE, words.RECIPIENT, words.NONEXISTENT),
    _beside(GONE, words.RECIPIENT, words.CLOSED + words.DISABLED, is_close=True),
    Phrases(r"(?<![\w@.-])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,5} (?:does not|doesn't) exist", NO_DOMAIN, "5"),
    _row(
        MALFORMED,
        "fully-qualified | fully qualified | fully - qualified | characters in address | characters in the address | illegal character | bad address syntax | recipient syntax | bad recipient | recipient address rejected: need fully-qualified | recipient address reserved",
    ),
    _row(
        CONTENT,
        "content | attach | message filtered | message rejected | message refused | message not allowed | mail rejected",
        "policy violation | local policy | policy reasons | policy restrictions | email policy",
    ),
    _row(
        LOOP,
        "mail loop | forwarding loop | looping | loops back | loop detected | points back to | points to local",
        "forwarded more than",
    ),
    # The standard text for 550 and 553, which many servers send for almost any reason.
    _row(
        PERHAPS_GONE,
        "mailbox unavailable | mailbox is unavailable | mailbox not available | mailbox name | invalid address",
        "mailbox * unavailable | recipient rejected | recipient address rejected. | no mailbox by that name",
        "recipient is not accepted | recipient has been denied | server rejected recipients",
    ),
    _beside(PERHAPS_GONE, words.RECIPIENT, words.UNAVAILABLE, is_close=True),
    _row(RELAY, "relay! | relaying!"),
    _row(
        BUSY,
        "currently unavailable | temporarily unavailable | not be saved | not be stored | internal error | internal server",
        "temporary error | temporary failure | temporary problem | error writing",
    ),
)

# A mailbox that exists but is disabled, unless the text also calls it unknown. Used only if the finding is a dead address.
SWITCHED_OFF: tuple[Phrases, ...] = (
    _beside(GONE, words.RECIPIENT, words.NONEXISTENT),
    _beside(AWAY, words.RECIPIENT, (*words.DISABLED, "blocked | bloque | bloqueada"), is_close=True),
    _beside(
        AWAY,
        words.RECIPIENT,
        (
            "is disabled | was disabled | been disabled | is inactive | been inactive | is deactivated | been deactivated",
        ),
    ),
    _row(AWAY, "receiving disabled | receiving is disabled | inactivity | no recipient activity | long-time inactiv"),
    _row(AWAY, "per inutilizzo | wegen inaktivitat | por inactividad | por inatividade | pour inactivite"),
)

# For text without a code that a program wrote about its connection, if nothing else matches.
UNCODED: tuple[Phrases, ...] = (
    _row(
        UNREACHABLE,
        "timeout | timed out | time out | connect | socket | dial | dns | resolv | tls | ssl | certificate | handshake",
        "network | unreachable | host | proxy | reset by peer | end of file | eof!",
    ),
    _row(BUSY, "error | fail | temporar | try again | later | deferred | delayed | busy"),
)

# Phrases of plain refusal. Before the server has seen the content, they are about us; afterwards, about the message.
REFUSAL = re.compile(
    r"(?<![a-z])(?:blocked|denied|policy|prohibit|forbidden|not permitted|not accepted|banned|service refused|spamhaus)"
)
REFUSAL_OF_CONTENT = re.compile(r"(?<![a-z])(?:reject|refused|refusing|declined|not allowed)")  # if after the content


def _codes(rows: tuple[tuple[str, Finding], ...]) -> dict[str, Finding]:
    """Return a separate entry for each code. If two rows have the same code, the first one applies."""
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


# By enhanced status code: RFC 3463, RFC 7372, the IANA registry, and additions by Google and Microsoft.
# A code that is missing here (x.7.1, x.2.0, x.3.0, x.5.0…) is not specific enough on its own.
BY_ENHANCED: dict[str, Finding] = _codes(
    (
        ("x.1.0", PERHAPS_GONE),
        ("x.1.1 x.1.4 x.1.6 x.1.10", GONE),  # 5.1.10 at Microsoft: not in the directory; else: domain without mail
        ("x.1.2", NO_DOMAIN),
        ("x.1.3", MALFORMED),
        ("x.1.7 x.1.8", SENDER),
        ("x.1.20", FORMAT),  # Microsoft: several From addresses
        ("x.1.90", QUOTA),  # Microsoft: recipients per day
        ("5.1.350-351", GONE),  # Microsoft: unknown at a later hop
        ("x.2.1", GONE),
        ("x.2.2", FULL),
        ("x.2.3", TOO_BIG),
        ("x.2.121-122", FLOODED),  # Microsoft: messages per hour to this recipient
        ("5.3.1", BUSY),  # the whole system is full, which is temporary
        ("x.3.3", FORMAT),
        ("x.3.4", TOO_BIG),
        ("5.3.5 5.4.6 5.4.14", LOOP),
        ("5.4.4 5.4.310", NO_DOMAIN),
        ("5.4.7 5.4.300-319", UNREACHABLE),  # a later hop tried until its time limit was reached
        ("5.4.5", QUOTA),  # Google; the RFC means a congested network, as 4.4.5 still does
        ("x.5.3", TOO_MANY),
        ("x.6.0-20", FORMAT),
        ("x.7.2", BLOCKED),
        ("x.7.3 x.7.8 x.7.12 x.7.57 x.7.139", LOGIN),
        ("x.7.13-14", FORBIDDEN),
        ("x.7.5-7", FORMAT),  # the message's signatures and encryption
        ("x.7.9", BLOCKED),  # outside of a login, only Yahoo uses it: "policy reasons"
        ("x.7.10", NO_TLS),
        ("x.7.16", TOO_BIG),
        ("x.7.17-18", GONE),  # RFC 7293: the mailbox or the domain has a new owner
        ("x.7.20-27 x.7.29-32 x.7.40", UNPROVEN),
        ("x.7.28", TOO_FAST),
        ("x.7.60", SENDER),
        ("x.7.64", RELAY),
        ("x.7.100-136", BLOCKED),  # Microsoft: the recipient accepts mail only from some senders
        ("x.7.232-233", QUOTA),
        ("x.7.504-505", GONE),
        ("x.7.509 x.7.515", UNPROVEN),
        ("x.7.512", FORMAT),
        ("5.7.520", CONTENT),
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
    "failedprecondition": FORBIDDEN,  # the mailbox does not have Gmail, or the key does not act for a mailbox
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

# By the status name, in lower case: used by Google if it gives no reason.
BY_STATUS_NAME: dict[str, Finding] = {
    "unauthenticated": LOGIN,
    "permission_denied": FORBIDDEN,
    "failed_precondition": FORBIDDEN,
    "resource_exhausted": QUOTA,
    "invalid_argument": FORMAT,
    "out_of_range": FORMAT,
    "unavailable": BUSY,
    "deadline_exceeded": BUSY,
    "internal": BUSY,
    "aborted": BUSY,
    "cancelled": BUSY,
}

# By the code in the error body of Microsoft Graph, in lower case.
BY_GRAPH_CODE: dict[str, Finding] = {
    "invalidauthenticationtoken": LOGIN,
    "unauthenticated": LOGIN,
    "unauthorized": LOGIN,
    "authenticationerror": LOGIN,
    "tokenexpired": LOGIN,
    "tokennotfound": LOGIN,
    "errorinvalidtoken": LOGIN,
    "interaction_required": LOGIN,
    "login_required": LOGIN,
    "consent_required": FORBIDDEN,
    "accessdenied": FORBIDDEN,
    "authorization_requestdenied": FORBIDDEN,
    "authorization_identitynotfound": FORBIDDEN,
    "erroraccessdenied": FORBIDDEN,
    "erroraccountsuspend": FORBIDDEN,
    "erroraccountsuspended": FORBIDDEN,
    "erroraccountsuspendshowtierupgrade": FORBIDDEN,
    "errorinvaliduser": FORBIDDEN,
    "errormessagesubmissionblocked": FORBIDDEN,
    "errormissingemailaddress": FORBIDDEN,
    "errornonexistentmailbox": FORBIDDEN,
    "forbidden": FORBIDDEN,
    "mailboxnotenabledforrestapi": FORBIDDEN,
    "mailboxnotsupportedforrestapi": FORBIDDEN,
    "orgnotfound": FORBIDDEN,
    "request_resourcenotfound": FORBIDDEN,
    "resourcenotfound": FORBIDDEN,
    "errorsendasdenied": SENDER,
    "errorsendonbehalfdenied": SENDER,
    "activitylimitreached": QUOTA,
    "applicationthrottled": QUOTA,
    "commandconcurrencylimitreached": QUOTA,
    "errorexceededconnectioncount": QUOTA,
    "errorexceededmessagelimit": QUOTA,
    "errorexceededrecipientlimit": QUOTA,
    "errorquotaexceeded": QUOTA,  # the account's own mailbox is full: nothing can be saved in it
    "errorsubmissionquotaexceeded": QUOTA,
    "mailboxconcurrency": QUOTA,
    "quotalimitreached": QUOTA,
    "toomanyrequests": QUOTA,
    "badgateway": BUSY,
    "errorbatchprocessingstopped": BUSY,
    "errorconnectionfailed": BUSY,
    "errorinsufficientresources": BUSY,
    "errorinternalservererror": BUSY,
    "errorinternalservertransienterror": BUSY,
    "errormailboxfailover": BUSY,
    "errormailboxmoveinprogress": BUSY,
    "errormailboxstoreunavailable": BUSY,
    "errorserverbusy": BUSY,
    "errortimeoutexpired": BUSY,
    "gatewaytimeout": BUSY,
    "generalexception": BUSY,
    "internalservererror": BUSY,
    "servicenotavailable": BUSY,
    "serviceunavailable": BUSY,
    "timeout": BUSY,
    "unknownerror": BUSY,
    "badrequest": FORMAT,
    "errorinvalidargument": FORMAT,
    "errorinvalidproperty": FORMAT,
    "errorinvalidrecipients": FORMAT,  # the reply does not say which recipients
    "errorinvalidrequest": FORMAT,
    "errormimecontentinvalid": FORMAT,
    "errormimecontentinvalidbase64string": FORMAT,
    "errorschemavalidation": FORMAT,
    "invalidrequest": FORMAT,
    "requestbodyread": FORMAT,
    "errorattachmentsizelimitexceeded": TOO_BIG,
    "errormessagesizeexceeded": TOO_BIG,
    "requestentitytoolarge": TOO_BIG,
}

# API replies without a reason, or with an unknown one.
API_TIES: tuple[Phrases, ...] = (
    _row(
        FORBIDDEN,
        "insufficient authentication scopes | insufficient permission | insufficient privileges | not have permission",
        "not enabled | precondition check failed | delegation denied | access is denied | account * suspended",
    ),
    _row(
        LOGIN,
        "invalid authentication | invalid credentials | login required | invalid grant | token * expired | token * revoked",
        "authentication credential",
    ),
    _row(TOO_BIG, "too large"),
)

# By the HTTP status alone. A missing status has no meaning, and 5xx is the server's own problem.
BY_STATUS: dict[int, Finding] = {
    401: LOGIN,
    403: FORBIDDEN,
    402: FORBIDDEN,
    408: BUSY,
    409: BUSY,
    413: TOO_BIG,
    423: BUSY,
    425: BUSY,
    429: QUOTA,
}
