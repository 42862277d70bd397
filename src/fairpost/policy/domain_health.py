"""Judge what receivers can see about the domain in From: SPF, DKIM, DMARC, MX, and the names and TLS of its servers. No
I/O.

SPF is evaluated for the host that connects to the receiver, and a server that accepts our mail may relay it from
another address. Therefore, a server counts as included if SPF passes for its own addresses, or if the record includes a
name that belongs to the same organization.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address, ip_network

from fairpost.model.dkim import Algorithm, DkimKey, KeyState
from fairpost.model.reason import Reason
from fairpost.model.transport import Tls
from fairpost.policy.dkim_records import Published, read_tags
from fairpost.policy.spf import LOOKUPS_MAX, Evaluated, Problem, Result

SHOWN_CHARS_MAX = 200
STRANGER = "240.0.0.1"  # a reserved address that sends no mail, so if SPF passes for it, SPF passes for every address


class Grade(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"  # a reason for Gmail, Yahoo or Microsoft to refuse bulk mail
    UNKNOWN = "unknown"  # the DNS query failed


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsRecord:
    """A record to publish, and where to publish it."""

    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    what: str  # spf, dkim, dmarc, mx, ptr, tls
    grade: Grade
    reason: Reason
    record: DnsRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spf:
    """A domain's SPF results for our servers' addresses, and for an address that sends none of the domain's mail."""

    domain: str
    stranger: Evaluated
    addresses: Mapping[str, Evaluated] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAddress:
    """The name that DNS returns for an address. `is_confirmed` means that the name resolves to the address."""

    address: str
    name: str = ""
    is_confirmed: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingHost:
    """A server that sends the domain's mail.

    `signs` means that the server adds DKIM signatures itself. `is_own` means that the server does not belong to a known
    provider. For such a server, `names` lists the names of its public addresses. If `tls` is None, TLS was not checked.
    `envelope` is the domain of the envelope sender, if that differs from the domain in From.
    """

    name: str
    addresses: tuple[str, ...] = ()
    envelope: str = ""
    signs: bool = False
    is_own: bool = False
    names: tuple[NamedAddress, ...] = ()
    tls: Tls | None = None

    @property
    def is_private(self) -> bool:
        """Whether all of the server's addresses are private. Receivers then see a different address, which is not known
        here.
        """
        return bool(self.addresses) and not any(is_public(address) for address in self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The DNS answers. `spf` lists the domain's own result, followed by those of other envelope domains. `dmarc` lists
    the records of the domain or, if `is_dmarc_inherited`, those of its organizational domain.
    """

    spf: tuple[Spf, ...] = ()
    dmarc: tuple[str, ...] = ()
    is_dmarc_inherited: bool = False
    dmarc_error: str = ""
    mx: tuple[str, ...] = ()
    mx_error: str = ""
    hosts: tuple[SendingHost, ...] = ()


def judge(
    domain: str, looked: Looked, keys: Sequence[DkimKey], published: Mapping[str, Published], *, now: datetime
) -> list[Finding]:
    """Judge the domain.

    `keys` are the domain's own keys and, if none of them signs, those of the parent domain that sign instead.
    """
    spf = [_spf(each, domain, looked.hosts) for each in looked.spf]
    dkim = _locked(domain, keys, now) or _dkim(domain, looked.hosts, keys, published)
    return [
        *spf,
        dkim,
        _dmarc(domain, looked, keys if dkim.grade is not Grade.BAD else (), spf),
        _mx(domain, looked),
        *_ptr(domain, looked.hosts),
        *_tls(domain, looked.hosts),
    ]


def worst(findings: Sequence[Finding]) -> Grade:
    order = (Grade.BAD, Grade.WARNING, Grade.UNKNOWN, Grade.GOOD)
    return min((each.grade for each in findings), key=order.index, default=Grade.UNKNOWN)


def _spf(spf: Spf, sender: str, hosts: Sequence[SendingHost]) -> Finding:
    """Judge the record for the servers whose envelope senders are in its domain. `sender` is the domain in From."""
    domain, stranger = spf.domain, spf.stranger
    sending = [host for host in hosts if (host.envelope or sender) == domain]
    known = [host for host in sending if not host.is_private]
    missing = [host for host in known if not is_included(spf, host)]
    results = [spf.addresses[each] for host in missing for each in host.addresses if each in spf.addresses]
    errors = [each for each in (*results, stranger) if each.result is Result.TEMPERROR]
    broken = [each for each in (*results, stranger) if each.problem]
    if not stranger.records:
        if errors:
            return _unknown("spf", domain, errors[0].detail)
        value = " ".join(["v=spf1", *(_mechanism(host) for host in known), "~all"])
        record = DnsRecord(name=domain, type="TXT", value=value)
        return Finding(what="spf", grade=Grade.BAD, reason=Reason("domain.spf_missing", domain=domain), record=record)
    if stranger.result is Result.PASS:
        return Finding(what="spf", grade=Grade.BAD, reason=Reason("domain.spf_allows_all", domain=domain))
    if broken:
        is_passed = bool(known) and not missing  # if so, the broken term comes after those that allow our servers
        grade = Grade.WARNING if is_passed else Grade.BAD
        return Finding(what="spf", grade=grade, reason=_broken(domain, broken[0]))
    if missing and not errors:
        names = ", ".join(_named(spf, host) for host in missing)
        record = DnsRecord(name=domain, type="TXT", value=_with(stranger.records[0], missing))
        reason = Reason("domain.spf_without_host", domain=domain, hosts=names)
        return Finding(what="spf", grade=Grade.WARNING, reason=reason, record=record)
    if errors and (missing or not known):
        return _unknown("spf", domain, errors[0].detail)
    if sending and not known:
        names = ", ".join(host.name for host in sending)
        return Finding(what="spf", grade=Grade.GOOD, reason=Reason("domain.spf_relayed", domain=domain, hosts=names))
    return Finding(what="spf", grade=Grade.GOOD, reason=Reason("domain.spf_good", domain=domain))


def _broken(domain: str, evaluated: Evaluated) -> Reason:
    match evaluated.problem:
        case Problem.MANY if len(evaluated.records) > 1:
            return Reason("domain.spf_many", domain=domain, count=len(evaluated.records))
        case Problem.LOOKUPS:
            return Reason("domain.spf_lookups", domain=domain, most=LOOKUPS_MAX)
        case Problem.VOIDS:
            return Reason("domain.spf_voids", domain=domain, name=shown(evaluated.detail))
        case _:
            return Reason("domain.spf_broken", domain=domain, term=shown(evaluated.detail))


def shown(text: str) -> str:
    """Return untrusted text on one line, safe for a terminal, a page or the database, and limited in length."""
    safe = "".join(char if char.isprintable() else "?" for char in text[:SHOWN_CHARS_MAX])
    return f"{safe}…" if len(text) > SHOWN_CHARS_MAX else safe


def is_included(spf: Spf, host: SendingHost) -> bool:
    """A server may send from any of its addresses, so SPF must pass for every address that receivers can see."""
    evaluated = [spf.addresses[each] for each in host.addresses if each in spf.addresses]
    if evaluated and all(each.result is Result.PASS for each in evaluated):
        return True
    names = spf.stranger.names.union(*(each.names for each in evaluated))
    known = _INCLUDES.get(organisation(host.name), "")
    return known in names or any(organisation(name) == organisation(host.name) for name in names)


def _named(spf: Spf, host: SendingHost) -> str:
    """Return the server's name, with its failing addresses if other addresses pass."""
    failing = [
        each for each in host.addresses if each in spf.addresses and spf.addresses[each].result is not Result.PASS
    ]
    passing = [each for each in host.addresses if each in spf.addresses and each not in failing]
    return f"{host.name} ({', '.join(failing)})" if passing else host.name


def _with(record: str, hosts: Sequence[SendingHost]) -> str:
    """Return the record with these hosts added before its rule for all other hosts."""
    words = record.split()
    at = next((n for n, word in enumerate(words) if word.lstrip("+-~?").lower() == "all"), len(words))
    return " ".join([*words[:at], *(_mechanism(host) for host in hosts), *words[at:]])


_PRIVATE = tuple(
    ip_network(each)
    for each in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10", "::1/128"),
    )
)
_INCLUDES = {
    "google.com": "_spf.google.com",
    "gmail.com": "_spf.google.com",
    "office365.com": "spf.protection.outlook.com",
}


def _mechanism(host: SendingHost) -> str:
    known = _INCLUDES.get(organisation(host.name))
    if is_address(host.name):
        return f"ip{ip_address(host.name).version}:{host.name}"
    return f"include:{known}" if known else f"a:{host.name}"


_SHARED = frozenset(
    {"ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ltd", "mil", "ne", "net", "or", "org", "plc", "sch"}
)
_SHARED_IN = frozenset({"asn.au", "id.au", "me.uk", "nhs.uk"})


def organisation(name: str) -> str:
    """Return the domain that an organization registers: two labels, or three for suffixes such as co.uk or com.au."""
    labels = name.lower().rstrip(".").split(".")
    is_shared = (
        len(labels) > 2 and len(labels[-1]) == 2 and (labels[-2] in _SHARED or ".".join(labels[-2:]) in _SHARED_IN)
    )
    return ".".join(labels[-3 if is_shared else -2 :])


def _locked(domain: str, keys: Sequence[DkimKey], now: datetime) -> Finding | None:
    key = next((key for key in keys if key.is_locked(now)), None)
    if key is None:
        return None
    reason = Reason("domain.key_locked", domain=domain, selector=key.selector)
    return Finding(what="dkim", grade=Grade.BAD, reason=reason)


def _dkim(
    domain: str, hosts: Sequence[SendingHost], keys: Sequence[DkimKey], published: Mapping[str, Published]
) -> Finding:
    active = [key for key in keys if key.state is KeyState.ACTIVE]
    gone = [key for key in active if published.get(key.selector) in (Published.MISSING, Published.OTHER)]
    if gone:
        key = gone[0]
        record = DnsRecord(name=key.record_name, type="TXT", value=key.record_value)
        reason = Reason("domain.dkim_unpublished", domain=domain, selector=key.selector)
        return Finding(what="dkim", grade=Grade.BAD, reason=reason, record=record)
    if active and all(key.algorithm is Algorithm.ED25519 for key in active):
        return Finding(what="dkim", grade=Grade.BAD, reason=Reason("domain.dkim_without_rsa", domain=domain))
    if active and active[0].domain != domain:
        reason = Reason("domain.dkim_by_parent", domain=domain, parent=active[0].domain)
        return Finding(what="dkim", grade=Grade.GOOD, reason=reason)
    if active:
        return Finding(what="dkim", grade=Grade.GOOD, reason=Reason("domain.dkim_good", domain=domain))
    if hosts and all(host.signs for host in hosts):
        return Finding(what="dkim", grade=Grade.GOOD, reason=Reason("domain.dkim_by_provider", domain=domain))
    pending = next((key for key in keys if key.state is KeyState.PENDING), None)
    if pending is not None:
        record = DnsRecord(name=pending.record_name, type="TXT", value=pending.record_value)
        reason = Reason("domain.dkim_pending", domain=domain, selector=pending.selector)
        return Finding(what="dkim", grade=Grade.BAD, reason=reason, record=record)
    return Finding(what="dkim", grade=Grade.BAD, reason=Reason("domain.dkim_missing", domain=domain))


_POLICIES = ("none", "quarantine", "reject")


def _dmarc(domain: str, looked: Looked, keys: Sequence[DkimKey], spf: Sequence[Finding]) -> Finding:
    """Judge the DMARC record, and whether mail passes DMARC. `keys` are the keys with valid signatures, and `spf` holds
    the SPF findings so far.
    """
    if looked.dmarc_error:
        return _unknown("dmarc", domain, looked.dmarc_error)
    record = DnsRecord(name=f"_dmarc.{domain}", type="TXT", value="v=DMARC1; p=none")
    if not looked.dmarc:
        return Finding(
            what="dmarc", grade=Grade.BAD, reason=Reason("domain.dmarc_missing", domain=domain), record=record
        )
    tags = read_tags(looked.dmarc[0])
    policies = [tags.get("p", "").lower(), tags.get("sp", tags.get("p", "")).lower()]
    is_broken = tags.get("v") != "DMARC1" or any(each not in _POLICIES for each in policies)
    if len(looked.dmarc) > 1 or is_broken:
        return Finding(
            what="dmarc", grade=Grade.BAD, reason=Reason("domain.dmarc_broken", domain=domain), record=record
        )
    policy = policies[1] if looked.is_dmarc_inherited else policies[0]
    unaligned = _unaligned(domain, looked.hosts, keys, tags, is_spf_failing=any(_is_failing(each) for each in spf))
    return unaligned or Finding(
        what="dmarc", grade=Grade.GOOD, reason=Reason("domain.dmarc_good", domain=domain, policy=policy)
    )


def _is_failing(spf: Finding) -> bool:
    is_bad = spf.grade is Grade.BAD and spf.reason.code != "domain.spf_allows_all"
    return is_bad or spf.reason.code == "domain.spf_without_host"


def _unaligned(
    domain: str,
    hosts: Sequence[SendingHost],
    keys: Sequence[DkimKey],
    tags: Mapping[str, str],
    *,
    is_spf_failing: bool,
) -> Finding | None:
    """DMARC passes if a signature or SPF passes, and the signing domain or the envelope sender matches From.

    If the record is strict (s), the match must be exact.
    """
    signing = next((key.domain for key in keys if key.state is KeyState.ACTIVE), "")
    by_provider = bool(hosts) and all(host.signs for host in hosts)  # the signing domain is not known here
    is_signed = by_provider or _is_aligned(domain, signing, is_strict=tags.get("adkim", "r").lower() == "s")
    is_strict = tags.get("aspf", "r").lower() == "s"
    elsewhere = [
        host.envelope for host in hosts if not _is_aligned(domain, host.envelope or domain, is_strict=is_strict)
    ]
    if is_signed:
        return None
    if elsewhere:
        reason = Reason("domain.dmarc_unaligned", domain=domain, envelope=elsewhere[0])
        return Finding(what="dmarc", grade=Grade.BAD, reason=reason)
    if is_spf_failing:
        return Finding(what="dmarc", grade=Grade.BAD, reason=Reason("domain.dmarc_fails", domain=domain))
    if not signing:
        return None
    reason = Reason("domain.dmarc_strict", domain=domain, signing=signing)
    return Finding(what="dmarc", grade=Grade.WARNING, reason=reason)


def _is_aligned(domain: str, other: str, *, is_strict: bool) -> bool:
    return other == domain if is_strict else bool(other) and organisation(other) == organisation(domain)


def _mx(domain: str, looked: Looked) -> Finding:
    if looked.mx_error:
        return _unknown("mx", domain, looked.mx_error)
    if not [host for host in looked.mx if host not in ("", ".")]:
        return Finding(what="mx", grade=Grade.WARNING, reason=Reason("domain.mx_missing", domain=domain))
    return Finding(what="mx", grade=Grade.GOOD, reason=Reason("domain.mx_good", domain=domain))


def _ptr(domain: str, hosts: Sequence[SendingHost]) -> Iterator[Finding]:
    """Judge the PTR records of sending servers that have public addresses and do not belong to a known provider.

    A finding is only a warning, because servers may send from addresses other than those on which they listen.
    """
    named = [each for host in hosts for each in host.names]
    if not named:
        return
    wrong = next((each for each in named if not each.is_confirmed), None)
    if wrong is None:
        yield Finding(what="ptr", grade=Grade.GOOD, reason=Reason("domain.ptr_good", domain=domain))
    elif wrong.error:
        yield _unknown("ptr", domain, wrong.error)
    else:
        host = next(host for host in hosts if wrong in host.names)
        code = "domain.ptr_unconfirmed" if wrong.name else "domain.ptr_missing"
        told = {"name": wrong.name} if wrong.name else {}
        reason = Reason(code, domain=domain, address=wrong.address, **told)
        yield Finding(what="ptr", grade=Grade.WARNING, reason=reason, record=_confirming(wrong, host, domain))


def _confirming(wrong: NamedAddress, host: SendingHost, domain: str) -> DnsRecord:
    """Return the record that confirms the name.

    If the name belongs to another organization, the record sets a different name.
    """
    if wrong.name and organisation(wrong.name) in (organisation(domain), organisation(host.name)):
        return DnsRecord(name=wrong.name, type="AAAA" if ":" in wrong.address else "A", value=wrong.address)
    target = f"mail.{domain}." if is_address(host.name) else f"{host.name}."
    return DnsRecord(name=ip_address(wrong.address).reverse_pointer, type="PTR", value=target)


_TLS = {
    Tls.NONE: ("domain.tls_none", Grade.WARNING),
    Tls.UNTRUSTED: ("domain.tls_untrusted", Grade.WARNING),
    Tls.UNREACHABLE: ("domain.tls_unknown", Grade.UNKNOWN),
    Tls.TRUSTED: ("domain.tls_good", Grade.GOOD),
}


def _tls(domain: str, hosts: Sequence[SendingHost]) -> Iterator[Finding]:
    """Report the worst TLS result of all servers that were checked."""
    for tls, (code, grade) in _TLS.items():
        found = dict.fromkeys(host.name for host in hosts if host.tls is tls)
        if found:
            yield Finding(what="tls", grade=grade, reason=Reason(code, domain=domain, hosts=", ".join(found)))
            return


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Return whether receivers may see the address.

    A server with a private address sends from a different, public one.
    """
    return not any(ip_address(address) in network for network in _PRIVATE)


def _unknown(what: str, domain: str, error: str) -> Finding:
    return Finding(what=what, grade=Grade.UNKNOWN, reason=Reason("domain.dns_silent", domain=domain, error=error))
