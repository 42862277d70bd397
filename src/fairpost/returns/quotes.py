"""The text that a person wrote, without quotes or a signature."""

import re

LINES_MAX = 2_000

_INTRODUCED = re.compile(
    r"^[ \t]*(?:"
    r"(?:on|am|le|el|il|em|op|dnia|w dniu|den)\b.{4,300}(?:wrote|schrieb\b.{0,80}|a écrit|a ecrit|escribió|escribio|ha scritto|escreveu|schreef\b.{0,80}|napisał\(?a?\)?|pisze|skrev).{0,20}:?"
    r"|.{1,200}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|napisał|написал)\s?:"
    r"|-{2,}\s*(?:original (?:message|appointment)|forwarded message|ursprüngliche nachricht|originalnachricht|message d'origine|message original|mensaje original|messaggio originale|mensagem original|oorspronkelijk bericht|oryginalna wiadomość|wiadomość oryginalna).*"
    r"|_{10,}"
    r"|(?:from|von|de|da|van|od)\s?: .*@.*"
    r")[ \t]*$",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(
    r"^-- ?$|^(?:sent from my |gesendet von mein|von meinem .{2,30} gesendet|envoyé de mon |enviado desde mi |inviato da|enviado do meu |verzonden vanaf mijn |wysłane z )",
    re.IGNORECASE,
)


def written(text: str) -> str:
    """Returns the person's own text, which is everything before the first line that introduces a quote, except quoted
    lines.
    """
    kept: list[str] = []
    lines = text.replace("\r\n", "\n").split("\n")[:LINES_MAX]
    for number, line in enumerate(lines):
        folded = f"{line} {lines[number + 1].strip()}" if number + 1 < len(lines) else line
        if _is_introduction(line, folded) or _SIGNATURE.match(line.strip()):
            break
        if not line.lstrip().startswith(">"):
            kept.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _is_introduction(line: str, folded: str) -> bool:
    """Returns whether the line introduces a quote. Mail programs wrap "On … wrote:" over two lines."""
    if len(line) > 400:
        return False
    is_begun = bool(re.match(r"\s*(?:on|am|le|el|il|em|op|dnia|w dniu)\b.{4,}", line, re.IGNORECASE))
    return bool(_INTRODUCED.match(line)) or (is_begun and len(folded) < 400 and bool(_INTRODUCED.match(folded)))
