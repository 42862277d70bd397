"""Judge what receivers find about a domain in From: SPF, DKIM, DMARC, MX, and names and TLS of its servers. No I/O.

SPF passes or fails for the host that connects to the receiver, and a server that accepts our mail may relay it from
another address. So a server counts as included if its own addresses are, or if a name of the same organization is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address, ip_network

from fairpost.model.dkim import DkimKey, KeyState
from fairpost.model.reason import Reason
from fairpost.model.transport import Tls
from fairpost.policy.dkim_records import Published, read_tags

SPF_LOOKUPS_MAX = 10  # RFC 7208: with more, receivers treat the record as broken


class Grade(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"  # Gmail, Yahoo or Microsoft refuse bulk mail for it
    UNKNOWN = "unknown"  # the DNS did not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsRecord:
    """A record to publish, and where."""

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
    """The SPF records of a domain.

    `records` are those that begin with v=spf1. `networks` and `names` are what they allow, with all includes.
    """

    records: tuple[str, ...] = ()
    networks: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    lookups: int = 0
    allows_all: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAddress:
    """The name that DNS has for an address. `is_confirmed` means that the name leads back to the address."""

    address: str
    name: str = ""
    is_confirmed: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingHost:
    """A server that sends the domain's mail.

    `signs` means that it adds DKIM signatures itself, `is_own` that it belongs to no known provider. `names` covers the
    public addresses of an own server. If `tls` is None, the server was not asked.
    """

    name: str
    addresses: tuple[str, ...] = ()
    signs: bool = False
    is_own: bool = False
    names: tuple[NamedAddress, ...] = ()
    tls: Tls | None = None

    @property
    def is_private(self) -> bool:
        """Receivers see another address, which is not known here."""
        return bool(self.addresses) and not any(is_public(address) for address in self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The DNS answers. `dmarc` is the record of the domain, or of the nearest parent domain that has one."""

    spf: Spf = field(default_factory=Spf)
    dmarc: tuple[str, ...] = ()
    dmarc_error: str = ""
    mx: tuple[str, ...] = ()
    mx_error: str = ""
    hosts: tuple[SendingHost, ...] = ()


def judge(
    domain: str, looked: Looked, keys: Sequence[DkimKey], published: Mapping[str, Published], *, now: datetime
) -> list[Finding]:
    return [
        _spf(domain, looked),
        _locked(domain, keys, now) or _dkim(domain, looked.hosts, keys, published),
        _dmarc(domain, looked),
        _mx(domain, looked),
        *_ptr(domain, looked.hosts),
        *_tls(domain, looked.hosts),
    ]


def worst(findings: Sequence[Finding]) -> Grade:
    order = (Grade.BAD, Grade.WARNING, Grade.UNKNOWN, Grade.GOOD)
    return min((each.grade for each in findings), key=order.index, default=Grade.UNKNOWN)


def _spf(domain: str, looked: Looked) -> Finding:
    spf, missing = (
        looked.spf,
        tuple(host for host in looked.hosts if not host.is_private and not is_included(looked.spf, host)),
    )
    if spf.error and not spf.records:
        return _unknown("spf", domain, spf.error)
    if not spf.records:
        value = " ".join(["v=spf1", *(_mechanism(host) for host in looked.hosts if not host.is_private), "~all"])
        record = DnsRecord(name=domain, type="TXT", value=value)
        return Finding(what="spf", grade=Grade.BAD, reason=Reason("domain.spf_missing", domain=domain), record=record)
    if len(spf.records) > 1:
        reason = Reason("domain.spf_many", domain=domain, count=len(spf.records))
        return Finding(what="spf", grade=Grade.BAD, reason=reason)
    if spf.allows_all:
        return Finding(what="spf", grade=Grade.BAD, reason=Reason("domain.spf_allows_all", domain=domain))
    if spf.lookups > SPF_LOOKUPS_MAX:
        reason = Reason("domain.spf_lookups", domain=domain, count=spf.lookups, most=SPF_LOOKUPS_MAX)
        return Finding(what="spf", grade=Grade.BAD, reason=reason)
    if spf.error:
        return _unknown("spf", domain, spf.error)
    if missing:
        hosts = ", ".join(host.name for host in missing)
        record = DnsRecord(name=domain, type="TXT", value=_with(spf.records[0], missing))
        reason = Reason("domain.spf_without_host", domain=domain, hosts=hosts)
        return Finding(what="spf", grade=Grade.WARNING, reason=reason, record=record)
    if looked.hosts and all(host.is_private for host in looked.hosts):
        hosts = ", ".join(host.name for host in looked.hosts)
        return Finding(what="spf", grade=Grade.GOOD, reason=Reason("domain.spf_relayed", domain=domain, hosts=hosts))
    return Finding(what="spf", grade=Grade.GOOD, reason=Reason("domain.spf_good", domain=domain))


def is_included(spf: Spf, host: SendingHost) -> bool:
    if any(_organisation(name) == _organisation(host.name) for name in spf.names):
        return True
    networks = [ip_network(each, strict=False) for each in spf.networks]
    return any(ip_address(address) in network for address in host.addresses for network in networks)


def _with(record: str, hosts: Sequence[SendingHost]) -> str:
    """Return the record with these hosts added before its rule for all others."""
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
    known = _INCLUDES.get(_organisation(host.name))
    if is_address(host.name):
        return f"ip{ip_address(host.name).version}:{host.name}"
    return f"include:{known}" if known else f"a:{host.name}"


def _organisation(name: str) -> str:
    """Return the last two labels, which identify a provider but do not decide who owns a domain."""
    return ".".join(name.lower().rstrip(".").split(".")[-2:])


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


def _dmarc(domain: str, looked: Looked) -> Finding:
    """Judge the DMARC record. Our mail is also aligned by SPF: the envelope sender is the address in From."""
    if looked.dmarc_error:
        return _unknown("dmarc", domain, looked.dmarc_error)
    record = DnsRecord(name=f"_dmarc.{domain}", type="TXT", value="v=DMARC1; p=none")
    if not looked.dmarc:
        return Finding(
            what="dmarc", grade=Grade.BAD, reason=Reason("domain.dmarc_missing", domain=domain), record=record
        )
    if len(looked.dmarc) > 1 or read_tags(looked.dmarc[0]).get("p", "").lower() not in ("none", "quarantine", "reject"):
        return Finding(
            what="dmarc", grade=Grade.BAD, reason=Reason("domain.dmarc_broken", domain=domain), record=record
        )
    policy = read_tags(looked.dmarc[0])["p"].lower()
    return Finding(what="dmarc", grade=Grade.GOOD, reason=Reason("domain.dmarc_good", domain=domain, policy=policy))


def _mx(domain: str, looked: Looked) -> Finding:
    if looked.mx_error:
        return _unknown("mx", domain, looked.mx_error)
    if not [host for host in looked.mx if host not in ("", ".")]:
        return Finding(what="mx", grade=Grade.WARNING, reason=Reason("domain.mx_missing", domain=domain))
    return Finding(what="mx", grade=Grade.GOOD, reason=Reason("domain.mx_good", domain=domain))


def _ptr(domain: str, hosts: Sequence[SendingHost]) -> Iterator[Finding]:
    """Judge the PTR records of own servers with public addresses.

    A finding is only a warning, because servers may send from other addresses than they listen on.
    """
    named = [each for host in hosts for each in host.names]
    if not named:
        return
    wrong = next((each for each in named if not each.is_confirmed), None)
    if wrong is None:
        yield Finding(what="ptr", grade=Grade.GOOD, reason=Reason("domain.ptr_good", domain=domain))
    elif wrong.error:
        yield _unknown("ptr", domain, wrong.error)
    elif wrong.name:
        reason = Reason("domain.ptr_unconfirmed", domain=domain, address=wrong.address, name=wrong.name)
        kind = "AAAA" if ":" in wrong.address else "A"
        yield Finding(
            what="ptr",
            grade=Grade.WARNING,
            reason=reason,
            record=DnsRecord(name=wrong.name, type=kind, value=wrong.address),
        )
    else:
        host = next(host for host in hosts if wrong in host.names)
        reason = Reason("domain.ptr_missing", domain=domain, address=wrong.address)
        name = f"{ip_address(wrong.address).reverse_pointer}"
        target = f"mail.{domain}." if is_address(host.name) else f"{host.name}."
        record = DnsRecord(name=name, type="PTR", value=target)
        yield Finding(what="ptr", grade=Grade.WARNING, reason=reason, record=record)


_TLS = {
    Tls.NONE: ("domain.tls_none", Grade.WARNING),
    Tls.UNTRUSTED: ("domain.tls_untrusted", Grade.WARNING),
    Tls.UNREACHABLE: ("domain.tls_unknown", Grade.UNKNOWN),
    Tls.TRUSTED: ("domain.tls_good", Grade.GOOD),
}


def _tls(domain: str, hosts: Sequence[SendingHost]) -> Iterator[Finding]:
    """Judge the worst of the servers that were asked."""
    for tls, (code, grade) in _TLS.items():
        found = [host.name for host in hosts if host.tls is tls]
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
    """Return whether receivers may see the address. A server at another address sends from elsewhere."""
    return not any(ip_address(address) in network for network in _PRIVATE)


def _unknown(what: str, domain: str, error: str) -> Finding:
    return Finding(what=what, grade=Grade.UNKNOWN, reason=Reason("domain.dns_silent", domain=domain, error=error))
