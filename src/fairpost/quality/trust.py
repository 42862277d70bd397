"""Checks the unsubscribe headers and the authentication results."""

import re
from collections.abc import Iterator, Sequence

from fairpost.quality.findings import Finding, bad, count, cut, good, note, values_of
from fairpost.quality.links import host_of
from fairpost.quality.reading import Reading

SIGNATURES_MAX = 20
ONE_CLICK = "List-Unsubscribe=One-Click"


def check_unsubscribe(reading: Reading) -> Iterator[Finding]:
    value, post = (values_of(reading, name) for name in ("list-unsubscribe", "list-unsubscribe-post"))
    ways = [way.partition(">")[0].strip() for way in ", ".join(value).split("<")[1:]]
    has_https = any(way.lower().startswith("https://") and host_of(way) for way in ways)
    has_mailto = any(way.lower().startswith("mailto:") for way in ways)
    if not value and _is_bulk(reading):
        yield bad(
            "unsubscribe",
            "There is no List-Unsubscribe header, and Gmail, Yahoo and Microsoft reject bulk mail without it. Set FAIRPOST_PUBLIC_URL.",
            fault="missing",
        )
    elif not value:
        yield note(
            "unsubscribe",
            "There is no List-Unsubscribe header. Bulk mail needs it; a receipt or a password e-mail does not.",
        )
    elif any(way.lower().startswith("http:") for way in ways):
        yield bad("unsubscribe", "List-Unsubscribe has an unencrypted link. Use HTTPS.")
    elif has_https:
        yield good("unsubscribe", f"List-Unsubscribe has an https link{' and a mailto' if has_mailto else ''}.")
    elif has_mailto and _is_bulk(reading):
        yield bad(
            "unsubscribe",
            "List-Unsubscribe has only a mailto link, and Gmail and Yahoo reject bulk mail without an https link. Set FAIRPOST_PUBLIC_URL.",
            fault="missing",
        )
    elif has_mailto:
        yield note(
            "unsubscribe",
            "List-Unsubscribe has only a mailto link. Gmail and Yahoo require an https link in bulk mail. Add one.",
        )
    else:
        yield bad(
            "unsubscribe",
            f"List-Unsubscribe has neither an https link nor a mailto link in angle brackets: {cut(value[0])!r}. Use the format <https://…>.",
        )
    yield from _one_click(post, has_https=has_https, has_any=bool(value))


def _is_bulk(reading: Reading) -> bool:
    return bool(reading.header("list-id")) or reading.header("precedence").lower() in ("bulk", "list")


def _one_click(post: Sequence[str], *, has_https: bool, has_any: bool) -> Iterator[Finding]:
    if not post:
        if has_any:
            yield note(
                "one-click",
                f"There is no List-Unsubscribe-Post header, so recipients cannot unsubscribe with one click. Add: {ONE_CLICK}",
            )
    elif list(post) != [ONE_CLICK]:
        yield bad(
            "one-click",
            f"List-Unsubscribe-Post must be {ONE_CLICK}, but is {cut(', '.join(post))!r}. Correct it.",
        )
    elif not has_https:
        yield bad("one-click", "List-Unsubscribe-Post needs an https link in List-Unsubscribe (RFC 8058). Add one.")
    else:
        yield good("one-click", "One-click unsubscribe works (RFC 8058). DKIM must sign both headers.")


_RESULT = re.compile(r"(?<![\w.-])(dkim|spf|dmarc|arc|dkim-atps|bimi) ?= ?([a-z]{1,20})\b", re.IGNORECASE)
_TAG = re.compile(r"(?:^|;) ?([a-z]{1,3}) ?= ?([^;\s]{1,253})")


def check_authentication(reading: Reading) -> Iterator[Finding]:
    names = ("dkim-signature", "authentication-results", "received-spf", "arc-seal")
    signatures, results, spf, seals = (values_of(reading, name)[:SIGNATURES_MAX] for name in names)
    if not (signatures or results or spf or seals):
        yield note(
            "authentication",
            "There is no signature and no SPF, DKIM or DMARC result. This is normal at this point, because mail servers add them in transit.",
        )
    for value in signatures:
        tags = dict(_TAG.findall(value))
        if "d" in tags and "s" in tags:
            yield good(
                "authentication",
                f"Signed with DKIM for {cut(tags['d'])}, key {cut(tags['s'])}. The signature itself is not verified here.",
            )
        else:
            yield bad(
                "authentication",
                "A DKIM-Signature has no domain (d=) or no key (s=). Check the program that signs your mail.",
            )
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
    said = ", ".join(f"{name}={cut(word, 20)}" for name, word in results) or "nothing known"
    words = {word for _, word in results}
    if words & {"fail", "softfail", "permerror", "policy"}:
        return bad("authentication", f"{header} says {said}. Check the sender domain's DNS records.")
    if words and words <= {"pass"}:
        return good("authentication", f"{header} says {said}.")
    return note("authentication", f"{header} says {said}. If a check did not pass, look at the DNS records.")
