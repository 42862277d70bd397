"""Delivery reports in prose: a program's notice for people, followed by the returned message or its headers.

Each program has its own phrases, but all notices have the same structure. Notices begin with text for people, list the
failed addresses with the server's reply for each, and end with a line that separates the notice from the returned
message. The rules in this module follow that structure.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from fairpost.returns.addresses import ADDRESS, address_of, addresses_in, same
from fairpost.returns.mail import MESSAGES, Headers, Mail, Part, read_mail

NOTICE_CHARS_MAX = 30_000
RECIPIENTS_MAX = 100

_PARTING = re.compile(
    r"^[ \t]*(?:[-=_*#|+][-=_*#|+ ]{1,80}|>{1,3} )?[ \t]*(?:"
    r"(?:below|after|following) this (?:line|text|message)|(?:the )?(?:header|headers|body|text|start|beginning) of (?:the |your )?(?:original|message|returned)"
    r"|(?:your |the )?(?:original|unsent|returned|undelivered|failed|rejected) (?:message|mail|e-?mail)(?: headers?| header)?(?: (?:follows|is (?:included|attached)|was|text))?[ \t]*[-=:.*]*[ \t]*$"
    r"|message headers? follow|(?:this|here|following|included|attached) is a copy|enclosed (?:is|are) |(?:a )?copy of (?:the|your) (?:original )?message"
    r"|message contents? follows?|(?:your|the) (?:original )?message (?:follows|headers?)|forwarded message|undelivered message follows"
    r"|the header of the original|original message"
    r"|(?:der |die )?(?:header|kopfzeilen|text) der (?:urspr[uü]nglichen|original)|(?:die )?(?:urspr[uü]ngliche|original)[ -]?nachricht|message d'origine|message original|mensaje original|messaggio originale"
    r"|mensagem original|oorspronkelijk(?:e)? bericht|oryginalna wiadomo[sś][cć]|исходное (?:сообщение|письмо)|原始邮件|原邮件|元のメッセージ"
    r").*$",
    re.IGNORECASE | re.MULTILINE,
)
_HEADER_LINE = re.compile(
    r"^(?:reporting-mta|final-recipient|original-recipient|received|return-path|dkim-signature|mime-version|x-originating-ip|message-id|x-mailer)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)

_DAEMONS = re.compile(
    r"mailer-?daemon|post_?-?master|mail[ ._-]?deliver\w*|mail[ ._-]?(?:sub)?system|mdaemon|mail[ ._-]?(?:administrator|admin)\b|delivery[ ._-]?(?:sub|status)"
    r"|double-?bounce|mail[ ._-]?router|ndr administrator|system administrator|microsoft ?exchange|mail server at|autoresponder-bounce|notification[ ._-]?system",
    re.IGNORECASE,
)
# Phrases in subjects and text, by language.
_UNDELIVERED = (
    r"undeliver|bounce|return(?:ed|ing) (?:mail|message|to sender)|mail (?:delivery|rejected)"
    r"|unzustellbar|(?:nicht|unmöglich) (?:zugestellt|zuzustellen|zustellbar)|kon niet worden (?:afgeleverd|bezorgd)|niet (?:worden )?(?:afgeleverd|bezorgd)|onbestelbaar"
    r"|non (?:remis|distribu|délivré)|pas (?:pu )?(?:être|etre) (?:remis|distribu|livr|délivré)|échec (?:de la (?:remise|distribution)|d'envoi)"
    r"|no (?:se )?(?:ha |puede |pudo )?(?:podido |pudo )?(?:ser )?entreg|imposible entregar|devuelto|não (?:pôde |foi |é possível )?(?:ser )?entreg|falha na entrega|devolvid"
    r"|non (?:è|e) stato (?:possibile|recapitat)|non recapita|impossibile recapitare|mancat[oa] (?:recapito|consegna)"
    r"|nie (?:może |mogła |została |można )?(?:zostać |być )?dostarczon|nie można dostarczyć|niedostarcz|nedoručen|nelze doručit|nedoručiteln|kézbesíthetetlen|sikertelen kézbesítés|nelivrabil|nu (?:poate|a putut) fi livrat"
    r"|gick inte att leverera|kunde inte levereras|(?:kunne|kan) ikke leveres|ei voitu toimittaa|ei toimitettu|toimitus epäonnistui|teslim edileme|iletileme|недоставл|не удалось доставить|не (?:было |может быть )?доставлен|не вдалося доставити"
    r"|αδύνατη η παράδοση|δυνατή η παράδοση|配信|配達|送信できま|送達|退信|退回|未送达|未傳遞|未传递|無法|无法|反送|배달되지|배달 (?:실패|불가)|전송 실패|전달되지|반송"
)
_SUBJECTS = re.compile(
    rf"{_UNDELIVERED}|non[- ]?deliver|delivery (?:status|failure|failed|report|notif|error|problem|delay|incomplete|unsuccessful|has failed)|deliver(?:y|ed)? fail|not delivered"
    r"|returned? (?:mail|to sender|e-?mail)|failure (?:notice|delivery|notif)|fail(?:ed|ure) (?:mail|delivery|to deliver)|mail (?:could not|cannot|not) "
    r"|mail (?:system|failure|status|error|returned)|could not be delivered|couldn'?t be delivered|message status|error sending|message you sent|(?:delivery|mail|message|e-?mail) (?:error|failure|failed|delayed|rejected|bounced)"
    r"|échec|echec|zustellung|エラー|недостав",
    re.IGNORECASE,
)
_NOTICES = re.compile(
    rf"{_UNDELIVERED}|(?:could|can|was|were|has|have|had|is|are|did)(?:n'?t| ?not)(?: yet)?(?: be| been)? (?:delivered|deliver|sent|reach|be reached)|unable to (?:deliver|send)|not able to deliver"
    r"|(?:failed|failure|error|trouble|problem)s?\W{0,3}(?:in |while |when |to |occurred )*(?:deliver|sending|send)|deliver\w* (?:\w+ ){0,6}(?:failed|failure|error|unsuccessful|aborted|delayed|has been (?:delayed|suspended))"
    r"|following (?:address|recipient|e-?mail|destination|user)\w*(?:\(e?s\))? |permanent(?:ly)? (?:error|fail|fatal)|fatal errors|transcript of session"
    r"|mail refused|did not reach|recipients? (?:unknown|rejected|failed)|(?:user|mailbox|recipient|address) (?:unknown|full|not found|unavailable)|no such user|unknown (?:user|recipient)"
    r"|以下のメール|宛先",
    re.IGNORECASE,
)
# Notices repeat these header fields of the message, whose content has nothing to do with the failure.
_REPEATED = re.compile(
    r"^[ \t>*]{0,8}(?:subject|message-id|date|sent|betreff|objet|asunto|oggetto|assunto|onderwerp|temat|件名|主题|тема)[ \t]{0,3}[:：].*$",
    re.IGNORECASE | re.MULTILINE,
)
# The text immediately before an address that a notice is about.
_BEFORE = re.compile(
    r"(?:rcpt to|recipients?|recipient\(s\)|address(?:es)?|address\(es\)|deliver\w*(?: your)?(?: e?-?mail| message)?(?: to)?|mailbox|failed (?:for|to)|error (?:for|on|from)|sent to"
    r"|message to|mail to|mailed to|reach|user|account|errors?|destinataires?|empf[aä]nger|destinatarios?|destinatari|ontvanger|gateway for|forward\w* to|send (?:your )?(?:mail|message) to|宛先|to)"
    r"[\s:=*•>-]{0,6}[<\"'\[(]?(?:mailto:)?$",
    re.IGNORECASE,
)
_AFTER_OWN = re.compile(
    r"(?:(?<!expanded )(?<!generated )from|sender|(?<!generated )by|contact|mail from|originator|reply[ -]to|please (?:e-?mail|write to|send)|postmaster|envelope-from|questions? to|help|abuse|via)[\s:=*]{0,4}[<\"'(\[]?(?:mailto:)?$",
    re.IGNORECASE,
)


# An alias, followed by the address to which the e-mail was sent.
_ORIGIN = re.compile(r"(?:expanded from|generated (?:from|by))[\s:]{0,4}[<\"']?$", re.IGNORECASE)


class Notice(NamedTuple):
    text: str  # the notice without the returned message
    returned: Headers | None  # headers of the returned message


class Failed(NamedTuple):
    address: str
    text: str  # the part of the notice that concerns this address


def read_notice(mail: Mail) -> Notice:
    text = mail.text
    cut = _cut(text)
    notice = _REPEATED.sub("", text[:cut])[:NOTICE_CHARS_MAX]
    inner = _returned_part(mail)
    if inner is not None:
        return Notice(notice, inner)
    below = read_mail(text[cut:].encode("utf-8", "replace")[:100_000]).headers if cut < len(text) else None
    return Notice(notice, below if below and below.fields else _embedded(text[cut:]))


def _cut(text: str) -> int:
    """Returns where the returned message begins. A separator at the very start of a notice is ignored."""
    marks = [
        match.start() for pattern in (_PARTING, _HEADER_LINE) if (match := pattern.search(text, min(len(text), 40)))
    ]
    return min(marks, default=len(text))


def _embedded(text: str) -> Headers | None:
    """Returns the headers below the separator, which may be indented or quoted."""
    match = re.search(r"^[ \t>|]{0,8}[A-Za-z][\w-]{1,40}[ \t]*:[ \t]?\S", text, re.MULTILINE)
    if match is None:
        return None
    lines = [
        line.lstrip(">| ") if not line.startswith("\t") else line for line in text[match.start() :].split("\n")[:400]
    ]
    headers = read_mail("\n".join(lines).encode("utf-8", "replace")).headers
    return headers if headers.fields else None


def _returned_part(mail: Mail) -> Headers | None:
    for part in mail.parts:
        if part.kind in MESSAGES or part.kind.startswith("message/rfc822"):
            return _message_headers(part)
    for part in mail.parts[1:]:
        if (
            part.kind.startswith("text/")
            and part.headers["content-type"]
            and (cut := _HEADER_LINE.match(part.text().lstrip()))
        ):
            return read_mail(part.text().lstrip()[cut.start() :].encode("utf-8", "replace")).headers
        if not part.headers["content-type"] and "received" in part.headers:
            return part.headers
    return None


def _message_headers(part: Part) -> Headers:
    """Returns a message's headers. Some programs omit the part's own header, whereas others add a blank line before
    it.
    """
    return part.message().headers


def is_from_daemon(mail: Mail) -> bool:
    """Returns whether a mail server wrote this message, judging by its sender or its X-Failed-Recipients header."""
    headers = mail.headers
    sender = " ".join((headers.decoded("from"), headers["sender"], headers["return-path"]))
    return "x-failed-recipients" in headers or not headers["from"] or bool(_DAEMONS.search(sender))


def sounds_like_report(mail: Mail, notice: Notice) -> bool:
    """Returns whether a message is about undelivered mail, judging by its sender, subject and text, and by whether it
    returns a message.
    """
    headers = mail.headers
    if "x-failed-recipients" in headers or "delivery-status" in mail.parameters.lower():
        return True
    titled, says = bool(_SUBJECTS.search(headers.decoded("subject"))), bool(_NOTICES.search(notice.text[:4_000]))
    if is_from_daemon(mail) and notice.returned is not None and not _is_answer(headers):
        return True
    is_daemon = is_from_daemon(mail) or headers["return-path"].replace(" ", "") == "<>"
    return (is_daemon and (titled or says)) or (titled and says and not _is_answer(headers))


def _is_answer(headers: Headers) -> bool:
    return bool(re.match(r"\s*(?:re|aw|sv|antw|rif|odp)\s*:", headers["subject"], re.IGNORECASE))


def failed_in(mail: Mail, notice: Notice) -> list[Failed]:
    named = addresses_in(", ".join(mail.headers.all("x-failed-recipients")))
    text = notice.text
    ours = _ours(mail, notice.returned)
    sent_to = _sent_to(notice.returned)
    found = named or _ranked(text, ours=ours, sent_to=sent_to) or sent_to[:1]
    return parted(text, found[:RECIPIENTS_MAX])


def _ours(mail: Mail, returned: Headers | None) -> list[str]:
    fields = [mail.headers[name] for name in ("to", "from", "return-path", "delivered-to", "reply-to")]
    if returned is not None:
        fields += [returned[name] for name in ("from", "return-path", "sender", "reply-to")]
    return [address for field in fields for address in addresses_in(field)]


def _sent_to(returned: Headers | None) -> list[str]:
    fields = (returned["to"], returned["x-original-to"], returned["cc"]) if returned is not None else ()
    return [address for field in fields for address in addresses_in(field)]


def _ranked(text: str, *, ours: Iterable[str], sent_to: list[str]) -> list[str]:
    """Returns the addresses that a notice is about: those in the usual places or, if there are none, all addresses that
    do not belong to the sender.
    """
    ranks: dict[str, int] = {}
    lowered = {address.lower() for address in sent_to}
    aliases = set[str]()
    before = ""
    for match in ADDRESS.finditer(text):
        address, at = match[1].rstrip("."), match.start(1)
        if before.lower() not in lowered and _ORIGIN.search(text[max(0, at - 30) : at]):
            aliases.add(before)
        ranks[address] = max(ranks.get(address, 0), _rank(text, at, address, ours))
        before = address
        if len(ranks) > 10 * RECIPIENTS_MAX:
            break
    ranks = {address: rank for address, rank in ranks.items() if address not in aliases}
    for address in ranks:
        ranks[address] += 2 if address.lower() in lowered and ranks[address] else 0
    floor = min(max(ranks.values(), default=0), 3)
    return list({address.lower(): address for address, rank in ranks.items() if 0 < floor <= rank}.values())


def _rank(text: str, at: int, address: str, ours: Iterable[str]) -> int:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    before = text[max(0, at - 60) : at]
    is_own = any(same(address, own) for own in ours) or bool(_AFTER_OWN.search(before))
    leads = not re.sub(
        r"[\s<>\"'*•·#+-]|^\(?\d{1,3}[.)]|[45]\d\d|\d\.\d\.\d+|to:|mailto:|smtp:|rfc822;", "", line.lower()
    )
    if is_own:
        return 1 if leads else 0
    if leads or _BEFORE.search(before):
        return 3
    return 2


def parted(text: str, addresses: list[str]) -> list[Failed]:
    """Returns each address with the lines from its first mention up to the next address."""
    starts = sorted((len(text) - len(about(text, address)), address) for address in addresses)
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return [
        Failed(address, text[start:end] or text[start:]) for (start, address), end in zip(starts, ends, strict=False)
    ]


def about(text: str, address: str) -> str:
    """Returns the part of the text that concerns an address. This part starts at the line that begins with the address,
    or else at the first line that contains the address. If there is no such line, the part is the whole text.
    """
    pattern = re.escape(address[:200])
    match = re.search(rf"^[ \t<\"'*•>-]{{0,20}}{pattern}", text, re.IGNORECASE | re.MULTILINE) or re.search(
        pattern, text, re.IGNORECASE
    )
    return text[text.rfind("\n", 0, match.start() + 1) + 1 :] if match else text


def sender_of(mail: Mail) -> str:
    return address_of(mail.headers["from"]) or address_of(mail.headers["return-path"])
