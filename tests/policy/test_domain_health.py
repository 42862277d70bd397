"""What receivers would make of a domain's records."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fairpost.model.dkim import LOCKED_FOR, Algorithm, DkimKey
from fairpost.model.transport import Tls
from fairpost.policy.dkim_records import Published, published
from fairpost.policy.domain_health import (
    DnsRecord,
    Grade,
    Looked,
    NamedAddress,
    SendingHost,
    Spf,
    judge,
    worst,
)

NOW = datetime(2030, 1, 31, tzinfo=UTC)
HOST = SendingHost(name="mail.shop.example", addresses=("192.0.2.7",))
KEY = DkimKey(id=1, domain="shop.example", selector="s1", algorithm=Algorithm.RSA, public="AAAA", created_at=NOW)
ACTIVE = DkimKey(
    id=1, domain="shop.example", selector="s1", algorithm=Algorithm.RSA, public="AAAA", created_at=NOW, active_at=NOW
)
GOOD = Looked(
    spf=Spf(records=("v=spf1 ip4:192.0.2.0/24 -all",), networks=frozenset({"192.0.2.0/24"})),
    dmarc=("v=DMARC1; p=reject",),
    mx=("mx.shop.example",),
    hosts=(HOST,),
)


def codes(looked: Looked, keys: tuple[DkimKey, ...] = (ACTIVE,), seen: Published = Published.THERE) -> dict[str, str]:
    findings = judge("shop.example", looked, keys, {"s1": seen}, now=NOW)
    return {each.what: each.reason.code.removeprefix("domain.") for each in findings}


def spf(looked: Spf, host: SendingHost = HOST) -> str:
    return codes(Looked(spf=looked, hosts=(host,)))["spf"]


def test_a_domain_that_has_all_is_good() -> None:
    findings = judge("shop.example", GOOD, (ACTIVE,), {"s1": Published.THERE}, now=NOW)
    assert worst(findings) is Grade.GOOD
    assert {each.record for each in findings} == {None}


def test_a_domain_that_has_nothing_is_told_what_to_publish() -> None:
    findings = {each.what: each for each in judge("shop.example", Looked(hosts=(HOST,)), (KEY,), {}, now=NOW)}
    assert worst(list(findings.values())) is Grade.BAD
    records = {what: each.record and (each.record.name, each.record.value) for what, each in findings.items()}
    assert records == {
        "spf": ("shop.example", "v=spf1 a:mail.shop.example ~all"),
        "dkim": ("s1._domainkey.shop.example", "v=DKIM1; k=rsa; p=AAAA"),
        "dmarc": ("_dmarc.shop.example", "v=DMARC1; p=none"),
        "mx": None,
    }


def test_spf_must_be_one_record_that_includes_the_host() -> None:
    one = ("v=spf1 include:x.test ~all",)
    google = SendingHost(name="smtp.google.com")
    cases = {
        "spf_many": Spf(records=("v=spf1 -all", "v=spf1 ~all")),
        "spf_allows_all": Spf(records=("v=spf1 +all",), allows_all=True),
        "spf_lookups": Spf(records=one, lookups=11),
        "spf_without_host": Spf(records=one, networks=frozenset({"198.51.100.0/24"})),
        "dns_silent": Spf(error="no usable answer"),
    }
    assert {code: spf(given) for code, given in cases.items()} == {code: code for code in cases}
    assert spf(Spf(records=one, names=frozenset({"_spf.google.com"})), google) == "spf_good"
    assert spf(Spf(records=one, networks=frozenset({"2001:db8::/32"})), HOST) == "spf_without_host"


def test_a_missing_host_is_added_before_what_is_said_of_all_others() -> None:
    looked = Looked(spf=Spf(records=("v=spf1 mx -all",)), hosts=(SendingHost(name="smtp.google.com"), HOST))
    finding = judge("shop.example", looked, (), {}, now=NOW)[0]
    assert finding.record is not None
    assert finding.record.value == "v=spf1 mx include:_spf.google.com a:mail.shop.example -all"


def test_dkim_is_good_where_we_or_all_providers_sign() -> None:
    signs = SendingHost(name="smtp.google.com", signs=True)
    assert codes(GOOD)["dkim"] == "dkim_good"
    assert codes(GOOD, seen=Published.MISSING)["dkim"] == "dkim_unpublished"
    assert codes(GOOD, seen=Published.UNKNOWN)["dkim"] == "dkim_good", "the DNS that is silent proves nothing"
    assert codes(GOOD, (KEY,))["dkim"] == "dkim_pending"
    assert codes(GOOD, ())["dkim"] == "dkim_missing"
    assert codes(Looked(hosts=(signs,)), ())["dkim"] == "dkim_by_provider"
    assert codes(Looked(hosts=(signs, HOST)), ())["dkim"] == "dkim_missing"


def test_dkim_is_bad_while_an_engine_cannot_open_the_key() -> None:
    assert codes(GOOD, (replace(ACTIVE, locked_at=NOW),))["dkim"] == "key_locked"
    assert codes(GOOD, (replace(ACTIVE, locked_at=NOW - LOCKED_FOR),))["dkim"] == "dkim_good"
    assert codes(GOOD, (replace(ACTIVE, locked_at=NOW, retired_at=NOW), ACTIVE))["dkim"] == "dkim_good"


def test_dmarc_must_be_one_record_with_a_policy() -> None:
    cases = {
        (): "dmarc_missing",
        ("v=DMARC1; p=none", "v=DMARC1; p=none"): "dmarc_broken",
        ("v=DMARC1",): "dmarc_broken",
        ("v=DMARC1;p=Quarantine ; rua=mailto:x@y.test",): "dmarc_good",
    }
    assert {given: codes(Looked(dmarc=given))["dmarc"] for given in cases} == cases


def test_a_key_is_published_when_its_record_is_there_as_people_paste_it() -> None:
    cases = {
        "v=DKIM1; k=rsa; p=AAAA": Published.THERE,
        "v=DKIM1;k=rsa;p=AA AA;": Published.THERE,
        "p=AAAA": Published.THERE,
        "v=DKIM1; k=ed25519; p=AAAA": Published.OTHER,
        "v=DKIM1; k=rsa; p=": Published.OTHER,
        "something else": Published.OTHER,
    }
    assert {text: published(KEY, [text]) for text in cases} == cases
    assert published(KEY, []) is Published.MISSING
    assert published(KEY, [], error="silent") is Published.UNKNOWN


def host(*addresses: str, **more: Any) -> SendingHost:
    return SendingHost(name="mail.shop.example", addresses=addresses, is_own=True, **more)


def found(what: str, *hosts: SendingHost) -> tuple[str, Grade] | None:
    findings = judge("shop.example", replace(GOOD, hosts=hosts), (ACTIVE,), {"s1": Published.THERE}, now=NOW)
    return next(
        ((each.reason.code.removeprefix("domain."), each.grade) for each in findings if each.what == what), None
    )


def test_a_private_server_sends_from_an_address_that_is_not_known() -> None:
    assert found("spf", host("10.0.0.5"), host("fd00::5")) == ("spf_relayed", Grade.GOOD)
    assert found("spf", host("10.0.0.5"), host("192.0.2.7")) == ("spf_good", Grade.GOOD)
    assert found("spf", host("10.0.0.5"), host("198.51.100.7")) == ("spf_without_host", Grade.WARNING)
    nothing = judge("shop.example", Looked(hosts=(host("10.0.0.5"), SendingHost(name="192.0.2.9"))), (), {}, now=NOW)
    assert nothing[0].record is not None
    assert nothing[0].record.value == "v=spf1 ip4:192.0.2.9 ~all"


def test_addresses_of_own_servers_have_names_that_lead_back() -> None:
    good = NamedAddress(address="192.0.2.7", name="mail.shop.example", is_confirmed=True)
    nameless, strange = NamedAddress(address="192.0.2.8"), NamedAddress(address="192.0.2.9", name="x.other.example")
    silent = NamedAddress(address="192.0.2.9", error="no answer")
    cases = {
        (good,): ("ptr_good", Grade.GOOD),
        (good, nameless): ("ptr_missing", Grade.WARNING),
        (strange,): ("ptr_unconfirmed", Grade.WARNING),
        (silent,): ("dns_silent", Grade.UNKNOWN),
        (): None,
    }
    assert {names: found("ptr", host("192.0.2.7", names=names)) for names in cases} == cases
    looked = replace(GOOD, hosts=(host("192.0.2.8", names=(nameless,)),))
    finding = next(each for each in judge("shop.example", looked, (), {}, now=NOW) if each.what == "ptr")
    assert finding.record == DnsRecord(name="8.2.0.192.in-addr.arpa", type="PTR", value="mail.shop.example.")


def test_the_worst_server_decides_about_tls() -> None:
    servers = {each: host("192.0.2.7", tls=each) for each in Tls}
    assert found("tls", *servers.values()) == ("tls_none", Grade.WARNING)
    assert found("tls", servers[Tls.TRUSTED], servers[Tls.UNTRUSTED]) == ("tls_untrusted", Grade.WARNING)
    assert found("tls", servers[Tls.TRUSTED], servers[Tls.UNREACHABLE]) == ("tls_unknown", Grade.UNKNOWN)
    assert found("tls", servers[Tls.TRUSTED], host("192.0.2.7")) == ("tls_good", Grade.GOOD)
    assert found("tls", host("192.0.2.7")) is None
