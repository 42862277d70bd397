"""Evaluate SPF as receivers do (RFC 7208), for one address and one domain. No I/O.

`evaluate` is a generator: it yields the DNS questions in the order in which a receiver asks them, is sent the answers,
and returns the result. An error anywhere in a record ends the evaluation, however deeply the includes are nested.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Protocol

LOOKUPS_MAX = 10  # maximum number of terms that cause DNS queries; beyond it, receivers treat the record as broken
VOIDS_MAX = 2  # maximum number of queries without an answer
MX_MAX = 10
PTR_MAX = 10

Question = tuple[str, str]  # a name and a record type


class Answer(Protocol):
    """The answer to a DNS query. The answer has no records if the name does not exist, and an `error` if the query
    failed.
    """

    @property
    def records(self) -> tuple[str, ...]: ...
    @property
    def error(self) -> str: ...


class Result(StrEnum):
    NONE = "none"
    NEUTRAL = "neutral"
    PASS = "pass"  # noqa: S105 - it is the word of the RFC
    FAIL = "fail"
    SOFTFAIL = "softfail"
    TEMPERROR = "temperror"
    PERMERROR = "permerror"


class Problem(StrEnum):
    """Why the result is a permanent error."""

    MANY = "many"  # the domain has several records
    SYNTAX = "syntax"
    LOOKUPS = "lookups"
    VOIDS = "voids"
    TARGET = "target"  # an include or redirect leads to a domain without a record


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A result. `records` are the domain's own SPF records. `detail` is the term at fault or the DNS error. `names` are
    the hosts and domains allowed by the part of the record that has been evaluated.
    """

    result: Result
    problem: Problem | None = None
    detail: str = ""
    records: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    text: str
    result: Result
    name: str
    value: str
    prefixes: tuple[int, int] = (32, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    terms: Sequence[_Term]
    redirect: str | None


class _Ended(Exception):
    def __init__(self, result: Result, problem: Problem | None = None, detail: str = "") -> None:
        super().__init__(detail)
        self.result, self.problem, self.detail = result, problem, detail


def evaluate(domain: str, address: str) -> Generator[Question, Answer, Evaluated]:
    """Evaluate SPF as if this address delivered mail from postmaster@domain."""
    walk = _Walk(domain, ip_address(address))
    try:
        result = yield from walk.check_host(domain)
    except _Ended as ended:
        return walk.evaluated(ended.result, ended.problem, ended.detail)
    return walk.evaluated(result)


class _Walk:
    def __init__(self, sender: str, address: IPv4Address | IPv6Address) -> None:
        self._sender = sender
        self._address = getattr(address, "ipv4_mapped", None) or address
        self._lookups = 0
        self._voids = 0
        self._names = set[str]()
        self._own: tuple[str, ...] | None = None

    def evaluated(self, result: Result, problem: Problem | None = None, detail: str = "") -> Evaluated:
        return Evaluated(
            result=result, problem=problem, detail=detail, records=self._own or (), names=frozenset(self._names)
        )

    def check_host(self, domain: str) -> Generator[Question, Answer, Result]:
        found = yield domain, "TXT"
        _fail_on(found)
        records = tuple(each for each in found.records if is_spf(each))
        if self._own is None:
            self._own = records
        if not records:
            return Result.NONE
        if len(records) > 1:
            raise _Ended(Result.PERMERROR, Problem.MANY, domain)
        record = _parsed(records[0])
        for term in record.terms:
            if (yield from self._matches(term, domain)):
                return term.result
        if record.redirect is None:
            return Result.NEUTRAL
        return (yield from self._follow(record.redirect, domain, term=f"redirect={record.redirect}"))

    def _follow(self, target: str, domain: str, *, term: str) -> Generator[Question, Answer, Result]:
        self._count()
        name = self._expanded(target, domain, term=term)
        result = yield from self.check_host(name)
        self._names.add(name)
        if result is Result.NONE:
            raise _Ended(Result.PERMERROR, Problem.TARGET, term)
        return result

    def _matches(self, term: _Term, domain: str) -> Generator[Question, Answer, bool]:
        match term.name:
            case "all":
                return True
            case "ip4" | "ip6":
                return self._address in ip_network(term.value, strict=False)
            case "include":
                return (yield from self._follow(term.value, domain, term=term.text)) is Result.PASS
        self._count()
        name = self._expanded(term.value, domain, term=term.text) if term.value else domain
        match term.name:
            case "a":
                self._names.add(name)
                return self._is_among((yield from self._addresses(name)), term.prefixes)
            case "mx":
                return (yield from self._matches_mx(name, term))
            case "exists":
                return bool((yield from self._asked(name, "A")))
            case _:
                return (yield from self._matches_ptr(name))

    def _matches_mx(self, name: str, term: _Term) -> Generator[Question, Answer, bool]:
        hosts = [host for host in (yield from self._asked(name, "MX")) if _is_name(host)]
        if len(hosts) > MX_MAX:
            raise _Ended(Result.PERMERROR, Problem.LOOKUPS, term.text)
        for host in hosts:
            if self._is_among((yield from self._addresses(host)), term.prefixes):
                return True
        return False

    def _matches_ptr(self, name: str) -> Generator[Question, Answer, bool]:
        """A name matches if it resolves to the address. Errors count as no match."""
        hosts = (yield self._address.reverse_pointer, "PTR").records
        for host in (each.rstrip(".").lower() for each in hosts[:PTR_MAX]):
            is_below = f".{host}".endswith(f".{name.lower()}") and _is_name(host)
            if is_below and self._is_among((yield host, self._kind).records, (32, 128)):
                return True
        return False

    @property
    def _kind(self) -> str:
        return "A" if self._address.version == 4 else "AAAA"

    def _addresses(self, name: str) -> Generator[Question, Answer, tuple[str, ...]]:
        return (yield from self._asked(name, self._kind))

    def _is_among(self, addresses: Sequence[str], prefixes: tuple[int, int]) -> bool:
        prefix = prefixes[0] if self._address.version == 4 else prefixes[1]
        return any(self._address in ip_network(f"{each}/{prefix}", strict=False) for each in addresses)

    def _asked(self, name: str, kind: str) -> Generator[Question, Answer, tuple[str, ...]]:
        found = yield name, kind
        _fail_on(found)
        if not found.records:
            self._voids += 1
            if self._voids > VOIDS_MAX:
                raise _Ended(Result.PERMERROR, Problem.VOIDS, name)
        return found.records

    def _count(self) -> None:
        self._lookups += 1
        if self._lookups > LOOKUPS_MAX:
            raise _Ended(Result.PERMERROR, Problem.LOOKUPS)

    def _expanded(self, text: str, domain: str, *, term: str) -> str:
        """Return the name with its macros expanded. If the name is too long, labels on the left are removed."""
        name = _MACRO.sub(lambda macro: self._filled(macro, domain), text).rstrip(".")
        while len(name) > NAME_CHARS_MAX and "." in name:
            name = name.partition(".")[2]
        if not _is_name(name):
            raise _Ended(Result.PERMERROR, Problem.SYNTAX, term)
        return name

    def _filled(self, macro: re.Match[str], domain: str) -> str:
        if macro["sign"]:
            return {"%": "%", "_": " ", "-": "%20"}[macro["sign"]]
        is_v4 = self._address.version == 4
        value = {
            "s": f"postmaster@{self._sender}",
            "l": "postmaster",
            "o": self._sender,
            "d": domain,
            "i": str(self._address) if is_v4 else ".".join(self._address.exploded.replace(":", "")),
            "p": "unknown",
            "v": "in-addr" if is_v4 else "ip6",
            "h": self._sender,
        }[macro["letter"].lower()]
        parts = re.split(f"[{re.escape(macro['split'] or '.')}]", value)
        parts = parts[::-1] if macro["reverse"] else parts
        return ".".join(parts[-int(macro["keep"]) :] if macro["keep"] else parts)


NAME_CHARS_MAX = 253
_LABEL = re.compile(r"[!-~]{1,63}")
_RESULTS = {"+": Result.PASS, "-": Result.FAIL, "~": Result.SOFTFAIL, "?": Result.NEUTRAL, "": Result.PASS}
_MECHANISM = re.compile(r"(?P<sign>[-+~?]?)(?P<name>all|include|a|mx|ptr|ip4|ip6|exists)(?P<rest>[:/].*)?", re.I)
_MODIFIER = re.compile(r"(?P<name>[a-z][\w.-]*)=(?P<value>.*)", re.I | re.ASCII)
_VISIBLE = re.compile(r"[!-$&-~]*")
_END = re.compile(r"(?:\.(?!\d+\.?$)[a-z\d](?:[a-z\d-]*[a-z\d])?\.?|%\{[^{}]*\}|%[%_-])\Z", re.I | re.ASCII)
_PREFIXES = re.compile(r"(?:/(?P<v4>\d{1,2}))?(?://(?P<v6>\d{1,3}))?", re.ASCII)
_MACRO = re.compile(
    r"%(?:\{(?P<letter>[slodiphv])(?P<keep>[1-9]\d{0,2})?(?P<reverse>r?)(?P<split>[-.+,/_=]*)\}|(?P<sign>[%_-]))",
    re.I | re.ASCII,
)


def is_spf(record: str) -> bool:
    return record[:6].lower() == "v=spf1" and record[6:7] in ("", " ")


def _fail_on(found: Answer) -> None:
    if found.error:
        raise _Ended(Result.TEMPERROR, None, found.error)


def _parsed(record: str) -> _Record:
    """Parse a record. Like receivers, check the syntax of the whole record first."""
    terms, modifiers = list[_Term](), dict[str, str]()
    for text in record.split(" ")[1:]:
        if not text:
            continue
        if mechanism := _MECHANISM.fullmatch(text):
            terms.append(_term(mechanism))
        elif (modifier := _MODIFIER.fullmatch(text)) and _is_well_formed(modifier, modifiers):
            modifiers[modifier["name"].lower()] = modifier["value"]
        else:
            raise _Ended(Result.PERMERROR, Problem.SYNTAX, text)
    redirect = modifiers.get("redirect")
    return _Record(terms=terms, redirect=None if any(term.name == "all" for term in terms) else redirect)


def _is_well_formed(modifier: re.Match[str], earlier: Mapping[str, str]) -> bool:
    """Unknown modifiers have no effect and may be repeated, but their values must be well-formed."""
    if (name := modifier["name"].lower()) in ("redirect", "exp"):
        return name not in earlier and _is_spec(modifier["value"])
    return _is_text(modifier["value"])


def _term(found: re.Match[str]) -> _Term:
    name, rest = found["name"].lower(), found["rest"] or ""
    value, prefixes = rest.removeprefix(":"), (32, 128)
    if name in ("a", "mx"):
        end = next(each for each in _PREFIXES.finditer(rest) if each.end() == len(rest))
        value = rest[: end.start()].removeprefix(":")
        prefixes = int(end["v4"] or 32), int(end["v6"] or 128)
    is_given = bool(rest) and rest[0] == ":" and bool(value)
    is_well = {
        "all": not rest,
        "ip4": is_given and _is_network(value, version=4),
        "ip6": is_given and _is_network(value, version=6),
        "include": is_given and _is_spec(value),
        "exists": is_given and _is_spec(value),
        "ptr": not rest or (is_given and _is_spec(value)),
        "a": _is_spec(value) if value else not rest.startswith(":"),
    }
    is_well["mx"] = is_well["a"]
    if not is_well[name] or prefixes[0] > 32 or prefixes[1] > 128:
        raise _Ended(Result.PERMERROR, Problem.SYNTAX, found[0])
    return _Term(text=found[0], result=_RESULTS[found["sign"]], name=name, value=value, prefixes=prefixes)


def _is_spec(text: str) -> bool:
    """Return whether the text is a name, which may contain macros and must end with a macro or a top-level domain."""
    return _is_text(text) and bool(_END.search(text))


def _is_text(text: str) -> bool:
    return bool(_VISIBLE.fullmatch(_MACRO.sub("", text)))


def _is_network(text: str, *, version: int) -> bool:
    if "/" in text and not re.fullmatch(r"0|[1-9]\d{0,2}", text.partition("/")[2]):
        return False
    try:
        return ip_network(text, strict=False).version == version
    except ValueError:
        return False


def _is_name(name: str) -> bool:
    labels = name.removesuffix(".").split(".")
    return len(name) <= NAME_CHARS_MAX and len(labels) > 1 and all(_LABEL.fullmatch(label) for label in labels)
