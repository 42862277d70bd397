"""How to get rid of it, and whose it is."""

import re
from collections.abc import Iterator, Sequence

from fairpost.dev.inbox.checks.findings import Finding, bad, count, cut, good, note, values_of
from fairpost.dev.inbox.checks.links import host_of
from fairpost.dev.inbox.reading import Reading

SIGNATURES_MAX = 20
ONE_CLICK = "List-Unsubscribe=One-Click"


def check_unsubscribe(reading: Reading) -> Iterator[Finding]:
    value, post = (values_of(reading, name) for name in ("list-unsubscribe", "list-unsubscribe-post"))
    ways = [way.partition(">")[0].strip() for way in ", ".join(value).split("<")[1:]]
    has_https = any(way.lower().startswith("https://") and host_of(way) for way in ways)
    has_mailto = any(way.lower().startswith("mailto:") for way in ways)
    if not value:
        yield note(
            "unsubscribe",
            "There is no List-Unsubscribe. Mail that many people get needs it; a receipt or a password mail does not.",
        )
    elif any(way.lower().startswith("http:") for way in ways):
        yield bad("unsubscribe", "List-Unsubscribe leads to http. Use https.")
    elif has_https:
        yield good("unsubscribe", f"List-Unsubscribe has an https link{' and a mailto' if has_mailto else ''}.")
    elif has_mailto:
        yield note(
            "unsubscribe",
            "List-Unsubscribe has a mailto alone. Gmail and Yahoo want an https link of mail that many people get: add one.",
        )
    else:
        yield bad(
            "unsubscribe",
            f"List-Unsubscribe has neither an https link nor a mailto in angle brackets: {cut(value[0])!r}. Write <https://…>.",
        )
    yield from _one_click(post, has_https=has_https, has_any=bool(value))


def _one_click(post: Sequence[str], *, has_https: bool, has_any: bool) -> Iterator[Finding]:
    if not post:
        if has_any:
            yield note(
                "one-click",
                f"There is no List-Unsubscribe-Post, so nobody can unsubscribe with one click. Add: {ONE_CLICK}",
            )
    elif list(post) != [ONE_CLICK]:
        yield bad(
            "one-click",
            f"List-Unsubscribe-Post must be {ONE_CLICK}, and is {cut(', '.join(post))!r}. Write exactly that, once.",
        )
    elif not has_https:
        yield bad("one-click", "List-Unsubscribe-Post needs an https link in List-Unsubscribe (RFC 8058). Add one.")
    else:
        yield good("one-click", "One click unsubscribes (RFC 8058). Both headers must be among those that DKIM signs.")


_RESULT = re.compile(r"(?<![\w.-])(dkim|spf|dmarc|arc|dkim-atps|bimi) ?= ?([a-z]{1,20})\b", re.IGNORECASE)
_TAG = re.compile(r"(?:^|;) ?([a-z]{1,3}) ?= ?([^;\s]{1,253})")


def check_authentication(reading: Reading) -> Iterator[Finding]:
    names = ("dkim-signature", "authentication-results", "received-spf", "arc-seal")
    signatures, results, spf, seals = (values_of(reading, name)[:SIGNATURES_MAX] for name in names)
    if not (signatures or results or spf or seals):
        yield note(
            "authentication",
            "No signature and no results of SPF, DKIM or DMARC. That is usual here: the servers that it goes through add them.",
        )
    for value in signatures:
        tags = dict(_TAG.findall(value))
        if "d" in tags and "s" in tags:
            yield good(
                "authentication",
                f"Signed with DKIM for {cut(tags['d'])}, key {cut(tags['s'])}. Whether it is valid is not checked here.",
            )
        else:
            yield bad("authentication", "A DKIM-Signature names no domain (d=) or no key (s=). Look at what signs it.")
    for value in results:
        yield _judged(
            "Authentication-Results",
            [(name.lower(), word.lower()) for name, word in _RESULT.findall(value)[:SIGNATURES_MAX]],
        )
    for value in spf:
        yield _judged("Received-SPF", [("spf", value.partition(" ")[0].lower())])
    if seals:
        yield _judged(
            f"ARC ({count(len(seals), 'seal')})", [("cv", dict(_TAG.findall(seals[0])).get("cv", "nothing").lower())]
        )


def _judged(header: str, results: Sequence[tuple[str, str]]) -> Finding:
    said = ", ".join(f"{name}={cut(word, 20)}" for name, word in results) or "nothing that is known"
    words = {word for _, word in results}
    if words & {"fail", "softfail", "permerror", "policy"}:
        return bad("authentication", f"{header} says {said}. Look at the DNS records of the sender's domain.")
    if words and words <= {"pass"}:
        return good("authentication", f"{header} says {said}.")
    return note("authentication", f"{header} says {said}. Where something did not pass, look at the DNS records.")
