"""Phrases that servers use, and what they mean, as tables for `replies`.

To support a new reply, add a row here and a line in tests/policy/replies.csv. `reply_phrases` explains how phrases are
written, `reply_words` contains words in many languages, and `reply_codes` contains the meanings of codes.
"""

import re

from fairpost.model.report import Step
from fairpost.policy import reply_words as words
from fairpost.policy.reply_findings import (
    AWAY,
    BLOCKED,
    BUSY,
    CONTENT,
    FLOODED,
    FORBIDDEN,
    FORMAT,
    FULL,
    GONE,
    GREYLISTED,
    LOGIN,
    LOOP,
    MALFORMED,
    NO_DOMAIN,
    NO_TLS,
    PERHAPS_GONE,
    QUOTA,
    RELAY,
    SENDER,
    TOO_BIG,
    TOO_FAST,
    TOO_MANY,
    TOO_MUCH_FOR_ONE,
    UNPROVEN,
    UNREACHABLE,
    UNWANTED,
)
from fairpost.policy.reply_phrases import Phrases, beside, row

# Before RCPT TO, the server has not seen any recipient. Before DATA, the server has not seen the content.
BEFORE_RECIPIENTS = frozenset(
    {Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.TLS, Step.AUTH, Step.MAIL},
)
BEFORE_CONTENT = BEFORE_RECIPIENTS | {Step.RCPT}
AFTER_RECIPIENTS = frozenset({Step.DATA, Step.BODY, Step.DOT})

# Japanese carriers check users at RCPT TO. After the content, "unknown user" comes from a user's own filter.
SAYS_UNKNOWN_TO_UNWANTED = re.compile(r"@(?:docomo|ezweb|softbank|i\.softbank)\.ne\.jp|@au\.com")

# Phrases that rule out a dead recipient: they blame us, another address, or a temporary condition. A reply that
# contains one of them does not suppress the recipient, whatever else it says. The first match counts.
SPARING: tuple[Phrases, ...] = (
    row(NO_DOMAIN, "mail exchanger or ip address | missing the proper dns entries"),  # the recipient's
    row(BUSY, "couldn't create | could not create | cannot create | can't create"),  # a program that delivers locally
    row(
        SENDER,
        "sender | sending user | sending account | originator | return address | return path | return-path | reply-to",
        "bounce address | envelope-from | envelope from | mail from | from header | your address | your mailbox",
        "your email address | your e-mail address",
    ),
    row(TOO_MANY, "number of rcpts | number of recipients"),
    row(BLOCKED, "too many | too much | excessive | from host | google groups"),
    row(UNWANTED, "members only | members may | member of this | you are not a member | posting"),
    row(FORBIDDEN, "your account | your subscription | license"),
    row(LOGIN, "your password | authenticat"),
    row(UNPROVEN, "reverse | ptr! | dns record | helo | dmarc | dkim | spf! | ipv6 | ipv4"),
    row(
        BLOCKED,
        "your ip | your host | your server | your mail server | your network | your domain | your location | your isp",
        "sending ip | ip address | adresse ip | indirizzo ip | ip-adresse | client host | client address",
        "connecting ip | connecting host | remote host is | blacklist | black list | black-list | blocklist | block list",
        "blocked using | dnsbl | rbl! | spamhaus | spamcop | sorbs | reputation | banned | not permitted",
        "ip地址 | 发信ip | 黑名单",
    ),
    row(CONTENT, "spam | virus | malware | phish"),
    row(FORMAT, "message-id | vrfy | command disabled | address family"),
    row(FULL, "quota"),
    row(
        AWAY,
        "temporary: | temporarily | timeout | timed out | again later | try later | retry later | spater erneut",
        "spater noch | plus tard | mas tarde | piu tardi | попробуйте позже | повторите попытку | 稍后 | しばらく",
    ),
)

# Text that overrides the codes: its meaning is clear, but the codes sent with it are often wrong. The first match
# counts.
PLAIN: tuple[Phrases, ...] = (
    row(
        FLOODED,
        "receiving mail too quickly | receiving email too quickly | receiving mail at a rate",
        "receiving email at a rate | recipient has exceeded | recipient thread limit",
        "to this recipient per hour | mailbox received too | mailbox is receiving too | recipient is receiving too",
    ),
    row(SENDER, "unresolvable*from | from*unresolvable"),
    row(
        TOO_MUCH_FOR_ONE,
        "limit * for this recipient | limit * for recipient | limit * to this recipient | limit * for this mailbox",
        "limit * for this user | limit * for this address | many messages to this recipient",
        "many messages for this recipient | many mails to this recipient | many emails to this recipient",
        "recipient's rate | recipient's*rate limit | recipient's limit | per-recipient * limit | per recipient limit | this recipient too often | same recipient",
    ),
    row(
        TOO_BIG,
        "message size | message too large | message too big | message is too large | message is too big",
        "message body is too big | too much mail data | header size | mail size | mailsize | exceeds size limit",
        "size limits | maximum message size",
    ),
    row(FULL, "mailbox size | mailbox exceeds | mailbox has exceeded"),
    row(TOO_BIG, "size exceed | maximum size"),
    row(FORMAT, "duplicate header"),
    row(
        BUSY,
        "organization queue quota | insufficient system | insufficient disk | mail system storage",
        "mail system is full | system load | too much load | out of memory | queue unavailable | queue is full | database",
        "server was temporarily | server is temporarily | server temporarily | failure sending mail",
    ),
    row(GREYLISTED, "greylist | graylist | grey-list | gray-list | grey list | gray list | postgrey"),
    row(
        TOO_FAST,
        "recipients received this hour | too many recipients this hour | limits for how many messages",
        "too many recipients from | too many recipient attempts | excessive unknown recipients | excessive userid unknowns",
    ),
    row(
        TOO_MANY,
        "too many recipients | number of recipients | number of rcpts | in a separate transaction | maximum * recipients reached | recipients per message",
        "recipients limit exceeded | rcpt limit | recipient limit | too many rcpt | maximum number of recipients | only one recipient | one recipient at a time",
    ),
    row(
        FULL,
        "too many messages on the server | too many messages in * mailbox | mailbox * too many messages",
        "zuviele mails auf | zu viele mails auf",
    ),
    row(
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
    row(
        QUOTA,
        "too many login | too many failed login | too many auth | too many failed auth | too much fail auth",
        only="4",
    ),
    row(
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
    beside(TOO_FAST, words.FLOW, words.EXCESS),
    row(LOOP, "too many hops | too many received | hop count | received:"),
    row(FULL, "over*quota | quota violation | exceeded*quota | exceeds*quota | exceeding*quota | quota*exceed"),
    row(
        FULL,
        "overquota | over-quota | quotaexceeded | quota limit exceeded | disk quota | mailbox size limit | storage quota",
        "mailbox size exceeded | out of storage | exceeded storage allocation | exceeds allowed size | storage limit",
        "storage full | storage space | exceeded the size limit | space not enough | not have enough space | file too large",
    ),
    beside(FULL, words.RECIPIENT, words.FULL),
    row(FULL, "quota | diskspace | enough disk space | space has | message count | mail count"),
    row(
        TOO_FAST,
        "too many | too much | limit exceeded | limit reached | limits exceeded | zu viele | zu oft | zu schnell",
        "muitas | muitos | te veel | zbyt wiele | zbyt wielu | cok fazla | 过于频繁 | 过多 | 太多 | 頻繁 | 多すぎ",
        only="4",
    ),
    row(
        RELAY,
        "relay access denied | relay denied | relaying denied | relay not permitted | relaying not permitted",
        "relay not allowed | relaying not allowed | relay prohibited | relaying prohibited | relaying disallowed",
        "relaying to * prohibited | relay operation rejected | relay disabled | relaying disabled | unauthorized relay",
        "not configured to relay | open relay | openrelay | insecure mail relay | unable to relay | not permitted to relay",
        "we do not relay | no relaying | as a relay | credentials for relay | allowed rcpthosts",
        "turn on smtp authentication | bypassing * mail relay",
    ),
    row(
        BLOCKED,
        "your ip*block | your ip*list | your ip*ban | your ip*welcome | your ip*reject | your ip*denied | your ip*refused",
        "your domain*block | your domain*blacklist | your country",
    ),
    row(
        UNWANTED,
        "delivery restriction | resolver.rst | restrictedtorecip | want your mail | want your email | user refused | recipient refused",
        "rejected by recipient | rejected by the recipient | rejected by this user | rejected by user | by user's reject",
        "blocked by the recipient | blocked by recipient | blacklisted by recipient | recipient's list of senders | requires that you verify",
        "受信拒否 | 수신거부 | 수신 거부",
    ),
    row(
        FORBIDDEN,
        "sending for this account | sending from this account | account * not * send | your account*suspended",
        "your account*disabled | your account*blocked | your account*locked | your account*expired | your account*closed",
        "your account*inactive | your subscription | your license | your plan | outgoing*suspended | outgoing*disabled",
        "outgoing*blocked | outbound*suspended | outbound*disabled | sending * has been disabled | sending * is disabled",
        "sending * suspended | sending blocked | sending is blocked | account is not permitted to send",
        "smtp access * disabled | only registered users",
    ),
    row(
        LOGIN,
        "requires authentication | requires smtp auth | authentication required | authentication is required | auth required | auth is required | auth failed",
        "authentication fail | authentication credentials invalid | must authenticate | please authenticate | auth first",
        "auth command first | authorization required | not authenticated | login required | invalid credentials",
        "invalid login | reauthenticate | re-authenticate | credentials are",
    ),
    row(
        SENDER,
        "sender address | sender rejected | sender denied | sender refused | sender verif | verify sender | verify the sender | invalid sender | fake sender",
        "unauthorized sender | unknown sender | sender unknown | from this sender | sender ip | sender is rejected | sender was rejected | sender is not allowed | sender not allowed | null sender | sender email",
        "sender name | sender header | check your from | from/sender | bad outbound sender | blocked senders | domain of sender | sender domain | sender's domain | rfc.5321 from",
        "sending domain | mailfrom domain | from domain | sender signature | sender identity | from address | sendasdenied",
        "send as | not owned by | mail from must equal | from and auth not the same | mail from is mismatched | verify mailfrom | not allowed to send",
        "address is not verified | spoof | anti-spoof | emetteur | expediteur | absender | remitente | remetente",
        "mittente | отправител | 发件人 | 寄件者 | 送信元",
    ),
    row(
        UNPROVEN,
        "spf | dkim | dmarc | domainkeys | unauthenticated | ptr record | dns ptr | reverse dns | reverse hostname | rdns",
        "reverse lookup | cannot find your hostname | ip name lookup failed | ip name possibly forged | mismatches client ip",
        "helo command rejected | helo domain | helo name | helo should | in your helo | invalid helo | bad helo",
        "authentication checks | authentication information | authentication level | authentication results",
        "dns records | invalid dns mx | not meet ipv6 | resource record | can't be resolved | cannot be resolved | must resolve",
    ),
    row(BLOCKED, "unusual sending activity"),  # Zoho: the account is stopped until it is unlocked
    row(
        NO_TLS,
        "starttls command first | starttls first | starttls required | starttls is required | tls required",
        "tls is required! | tls-connection is required | requires tls | encryption required",
    ),
    row(
        GONE,
        "disabled recipient | suppression list | inactivity | no recipient activity | long-time inactiv | per inutilizzo | wegen inaktivitat | por inactividad",
        "por inatividade | pour inactivite | por falta de uso | из-за неактивности",
        only="5",
    ),
    row(
        AWAY,
        "not currently being accepted | not currently accepting | temporary locked | temporarily locked | mailbox is frozen | unverified address | due to a recipient error",
    ),
    beside(AWAY, words.RECIPIENT, words.SUSPENDED, is_close=True),
    row(
        NO_DOMAIN,
        "dns query name does not exist | nonexistent domain | non-existent domain | nonexistentdomain | querymx enotfound",
        "had no relevant answers | code nxdomain | host does not accept mail | domain does not accept mail",
        "missing the proper dns entries",  # cPanel
        only="5",
    ),
    # Names that cannot be looked up now. Names that do not exist are in the table of ties.
    row(
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
    row(UNREACHABLE, "connect*connection refused | : connection refused"),
    row(
        UNREACHABLE,
        "connection refused | unreachable | no dns | dns resol | dns error | dns fail | dns lookup",
        only="4",
    ),
    row(
        UNREACHABLE,
        "retry timeout | message expired | envelope expired | delivery time expired | queue.expired | queue too long",
        "could not deliver for | could not be delivered for | could not send message for | have been failing",
        "retry time not reached | too long in queue | giving up after",
    ),
)

# Text that breaks a tie if neither the codes nor the phase is decisive.
TIES: tuple[Phrases, ...] = (
    row(
        CONTENT, "spamhaus dbl | likely unsolicited | file extension | file type | spam content | spam pattern | a url"
    ),
    row(
        GONE,
        "recipient account is | not listed in | is no longer valid | not in my validrcpt | resolver.adr.recipnotfound",
    ),
    row(
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
    row(
        CONTENT,
        "spam | antispam | junk | virus | malware | phish | infected | unsolicited | suspicious | banned: | bulk | quarantin | surbl",
        "dt:spm",  # NetEase
        "uribl | html | url! | filter rule | filtering | message is blocked | message has been blocked | message was blocked",
        "in the message | security issue | security reason | security policies | bounce attack | antyspam | 垃圾邮件",
    ),
    row(BLOCKED, "blocked by | blocked for | is blocked | not authorized | currently blocked | due to abuse"),
    row(
        FORMAT,
        "rfc 5322 | rfc 2822 | rfc 822 | rfc5322 | rfc2822 | rfc822 | rfc compliant | not conform | not comply | header | malformed | mime | invalid data in message | messages without",
        "to: field | 8-bit data | missing from | bare lf | bare cr | long line | line too long | line is too long",
        "parse message | parse the message | subject",
    ),
    row(
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
    row(
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
    beside(GONE, words.RECIPIENT, words.NONEXISTENT),
    beside(GONE, words.RECIPIENT, words.CLOSED + words.DISABLED, is_close=True),
    Phrases(r"(?<![\w@.-])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,5} (?:does not|doesn't) exist", NO_DOMAIN, "5"),
    row(
        MALFORMED,
        "fully-qualified | fully qualified | fully - qualified | characters in address | characters in the address | illegal character | bad address syntax | recipient syntax | bad recipient | recipient address rejected: need fully-qualified | recipient address reserved",
    ),
    row(
        CONTENT,
        "content | attach | message filtered | message rejected | message refused | message not allowed | mail rejected",
        "policy violation | local policy | policy reasons | policy restrictions | email policy",
    ),
    row(
        LOOP,
        "mail loop | forwarding loop | looping | loops back | loop detected | points back to | points to local",
        "forwarded more than",
    ),
    # The standard text for 550 and 553, which many servers send for almost any reason.
    row(
        PERHAPS_GONE,
        "mailbox unavailable | mailbox is unavailable | mailbox not available | mailbox name | invalid address",
        "mailbox * unavailable | recipient rejected | recipient address rejected. | no mailbox by that name",
        "recipient is not accepted | recipient has been denied | server rejected recipients",
    ),
    beside(PERHAPS_GONE, words.RECIPIENT, words.UNAVAILABLE, is_close=True),
    row(RELAY, "relay! | relaying!"),
    row(
        BUSY,
        "currently unavailable | temporarily unavailable | not be saved | not be stored | internal error | internal server",
        "temporary error | temporary failure | temporary problem | error writing",
    ),
)

# A mailbox that exists but is disabled, unless the text also calls it unknown. Used only if the finding is a dead address.
SWITCHED_OFF: tuple[Phrases, ...] = (
    beside(GONE, words.RECIPIENT, words.NONEXISTENT),
    beside(AWAY, words.RECIPIENT, (*words.DISABLED, "blocked | bloque | bloqueada"), is_close=True),
    beside(
        AWAY,
        words.RECIPIENT,
        (
            "is disabled | was disabled | been disabled | is inactive | been inactive | is deactivated | been deactivated",
        ),
    ),
    row(AWAY, "receiving disabled | receiving is disabled | inactivity | no recipient activity | long-time inactiv"),
    row(AWAY, "per inutilizzo | wegen inaktivitat | por inactividad | por inatividade | pour inactivite"),
)

# For text without a code that a program wrote about its connection, if nothing else matches.
UNCODED: tuple[Phrases, ...] = (
    row(
        UNREACHABLE,
        "timeout | timed out | time out | connect | socket | dial | dns | resolv | tls | ssl | certificate | handshake",
        "network | unreachable | host | proxy | reset by peer | end of file | eof!",
    ),
    row(BUSY, "error | fail | temporar | try again | later | deferred | delayed | busy"),
)

# Phrases of plain refusal. Before the server has seen the content, they are about us; afterwards, about the message.
REFUSAL = re.compile(
    r"(?<![a-z])(?:blocked|denied|policy|prohibit|forbidden|not permitted|not accepted|banned|service refused|spamhaus)"
)
REFUSAL_OF_CONTENT = re.compile(r"(?<![a-z])(?:reject|refused|refusing|declined|not allowed)")  # only after the content

# API replies without a reason, or with an unknown one.
API_TIES: tuple[Phrases, ...] = (
    row(
        FORBIDDEN,
        "insufficient authentication scopes | insufficient permission | insufficient privileges | not have permission",
        "not enabled | precondition check failed | delegation denied | access is denied | account * suspended",
    ),
    row(
        LOGIN,
        "invalid authentication | invalid credentials | login required | invalid grant | token * expired | token * revoked",
        "authentication credential",
    ),
    row(TOO_BIG, "too large"),
)
