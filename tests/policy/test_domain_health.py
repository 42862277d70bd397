"""How receivers judge a domain's records."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fairpost.model.dkim import LOCKED_FOR, Algorithm, DkimKey
from fairpost.model.transport import Tls
from fairpost.policy.dkim_records import Published, published
from fairpost.policy.domain_health import (
    SHOWN_CHARS_MAX,
    STRANGER,
    DnsRecord,
    Grade,
    Looked,
    NamedAddress,
    SendingHost,
    Spf,
    judge,
    worst,
)
from fairpost.policy.spf import Evaluated, Result
from tests.policy.test_spf import Zone, evaluated

NOW = datetime(2030, 1, 31, tzinfo=UTC)
HOST = SendingHost(name="mail.shop.example", addresses=("192.0.2.7",))
KEY = DkimKey(id=1, domain="shop.example", selector="s1", algorithm=Algorithm.RSA, public="AAAA", created_at=NOW)
ACTIVE = DkimKey(
    id=1, domain="shop.example", selector="s1", algorithm=Algorithm.RSA, public="AAAA", created_at=NOW, active_at=NOW
)


def of_record(*records: str, domain: str = "shop.test", more: Zone | None = None) -> Spf:
    """Returns how receivers judge the records, for every address used in these tests."""
    zone: Zone = {("shop.test", "TXT"): list(records), **(more or {})}
    stranger, *found = [evaluated(zone, each) for each in (STRANGER, *ADDRESSES)]
    return Spf(domain=domain, stranger=stranger, addresses=dict(zip(ADDRESSES, found, strict=True)))


ADDRESSES = ("192.0.2.7", "198.51.100.7", "2001:db8::7", "192.0.2.8", "192.0.2.9")
GOOD = Looked(
    spf=(of_record("v=spf1 ip4:192.0.2.0/24 -all", domain="shop.example"),),
    dmarc=("v=DMARC1; p=reject",),
    mx=("mx.shop.example",),
    hosts=(HOST,),
)
NOTHING = Looked(spf=(of_record(domain="shop.example"),), hosts=(HOST,))


def codes(looked: Looked, keys: tuple[DkimKey, ...] = (ACTIVE,), seen: Published = Published.THERE) -> dict[str, str]:
    findings = judge("shop.example", looked, keys, {"s1": seen}, now=NOW)
    return {each.what: each.reason.code.removeprefix("domain.") for each in findings}


def spf(*records: str, more: Zone | None = None, hosts: tuple[SendingHost, ...] = (HOST,)) -> tuple[str, Grade]:
    looked = replace(GOOD, spf=(of_record(*records, domain="shop.example", more=more),), hosts=hosts)
    finding = judge("shop.example", looked, (ACTIVE,), {}, now=NOW)[0]
    return finding.reason.code.removeprefix("domain."), finding.grade


def test_a_domain_that_has_all_is_good() -> None:
    findings = judge("shop.example", GOOD, (ACTIVE,), {"s1": Published.THERE}, now=NOW)
    assert worst(findings) is Grade.GOOD
    assert {each.record for each in findings} == {None}


def test_a_domain_that_has_nothing_is_told_what_to_publish() -> None:
    findings = {each.what: each for each in judge("shop.example", NOTHING, (KEY,), {}, now=NOW)}
    assert worst(list(findings.values())) is Grade.BAD
    records = {what: each.record and (each.record.name, each.record.value) for what, each in findings.items()}
    assert records == {
        "spf": ("shop.example", "v=spf1 a:mail.shop.example ~all"),
        "dkim": ("s1._domainkey.shop.example", "v=DKIM1; k=rsa; p=AAAA"),
        "dmarc": ("_dmarc.shop.example", "v=DMARC1; p=none"),
        "mx": None,
    }


def test_spf_must_be_one_record_that_includes_the_host() -> None:
    relay: Zone = {("_spf.google.com", "TXT"): ["v=spf1 ip4:198.51.100.0/24 -all"]}
    include = "v=spf1 include:_spf.google.com ~all"
    assert spf("v=spf1 ip4:192.0.2.7 -all") == ("spf_good", Grade.GOOD)
    assert spf() == ("spf_missing", Grade.BAD)
    assert spf("v=spf1 -all", "v=spf1 ~all") == ("spf_many", Grade.BAD)
    assert spf("v=spf1 +all") == spf("v=spf1 ip4:0.0.0.0/0 -all") == ("spf_allows_all", Grade.BAD)
    assert spf("v=spf1 include:shop.test -all") == ("spf_lookups", Grade.BAD)
    assert spf("v=spf1 a:x.test a:y.test a:z.test -all") == ("spf_voids", Grade.BAD)
    assert spf("v=spf1 ip4:192.0.2.300 -all") == spf("v=spf1 include:none.test ~all") == ("spf_broken", Grade.BAD)
    assert spf("v=spf1 ip4:198.51.100.0/24 -all") == ("spf_without_host", Grade.WARNING)
    assert spf("v=spf1 -ip4:192.0.2.7 ip4:192.0.2.0/24 -all") == ("spf_without_host", Grade.WARNING)
    for name in ("smtp.google.com", "smtp.gmail.com"):
        assert spf(include, more=relay, hosts=(SendingHost(name=name),)) == ("spf_good", Grade.GOOD)
    assert spf(include, more=relay) == ("spf_without_host", Grade.WARNING)


def test_a_name_below_a_shared_suffix_is_another_organisation() -> None:
    zone: Zone = {("spf.other.co.uk", "TXT"): ["v=spf1 ip4:198.51.100.0/24 -all"]}
    for name, code in (("mail.shop.co.uk", "spf_without_host"), ("mail.other.co.uk", "spf_good")):
        assert spf("v=spf1 include:spf.other.co.uk -all", more=zone, hosts=(SendingHost(name=name),))[0] == code


def test_an_error_behind_our_own_server_is_only_a_warning() -> None:
    assert spf("v=spf1 ip4:192.0.2.7 include:none.test -all") == ("spf_broken", Grade.WARNING)


def test_every_address_of_a_server_must_pass() -> None:
    both = replace(HOST, addresses=("192.0.2.7", "2001:db8::7"))
    looked = replace(GOOD, hosts=(both,))
    finding = judge("shop.example", looked, (ACTIVE,), {}, now=NOW)[0]
    assert finding.reason.params["hosts"] == "mail.shop.example (2001:db8::7)"
    assert spf("v=spf1 ip4:192.0.2.7 ip6:2001:db8::/32 -all", hosts=(both,))[0] == "spf_good"


def test_a_dns_that_fails_proves_nothing_about_spf() -> None:
    silent = Evaluated(result=Result.TEMPERROR, detail="no answer")
    for known in (silent, replace(silent, records=("v=spf1 include:x.test -all",))):
        looked = replace(GOOD, spf=(Spf(domain="shop.example", stranger=known, addresses={"192.0.2.7": known}),))
        assert codes(looked)["spf"] == "dns_silent"


def test_spf_is_that_of_the_envelope_sender() -> None:
    host = replace(HOST, envelope="bounces.example")
    of_bounces = of_record("v=spf1 ip4:198.51.100.0/24 -all", domain="bounces.example")
    looked = replace(GOOD, hosts=(host,), spf=(of_record("v=spf1 -all", domain="shop.example"), of_bounces))
    found = [each for each in judge("shop.example", looked, (ACTIVE,), {}, now=NOW) if each.what == "spf"]
    assert [(each.reason.code, each.reason.params["domain"]) for each in found] == [
        ("domain.spf_good", "shop.example"),
        ("domain.spf_without_host", "bounces.example"),
    ]
    assert found[1].record is not None
    assert found[1].record.name == "bounces.example"


def test_a_missing_host_is_added_before_what_is_said_of_all_others() -> None:
    looked = replace(
        *(GOOD,),
        spf=(of_record("v=spf1 ip4:198.51.100.1 -all", domain="shop.example"),),
        hosts=(SendingHost(name="smtp.google.com"), HOST),
    )
    finding = judge("shop.example", looked, (), {}, now=NOW)[0]
    assert finding.record is not None
    assert finding.record.value == "v=spf1 ip4:198.51.100.1 include:_spf.google.com a:mail.shop.example -all"


def test_dkim_is_good_where_we_or_all_providers_sign() -> None:
    signs = SendingHost(name="smtp.google.com", signs=True)
    assert codes(GOOD)["dkim"] == "dkim_good"
    assert codes(GOOD, seen=Published.MISSING)["dkim"] == "dkim_unpublished"
    assert codes(GOOD, seen=Published.UNKNOWN)["dkim"] == "dkim_good", "a DNS that does not answer proves nothing"
    assert codes(GOOD, (KEY,))["dkim"] == "dkim_pending"
    assert codes(GOOD, ())["dkim"] == "dkim_missing"
    assert codes(Looked(hosts=(signs,)), ())["dkim"] == "dkim_by_provider"
    assert codes(Looked(hosts=(signs, HOST)), ())["dkim"] == "dkim_missing"


def test_a_signature_that_few_receivers_verify_is_not_enough() -> None:
    modern = replace(ACTIVE, id=2, selector="s2", algorithm=Algorithm.ED25519)
    assert codes(GOOD, (modern,))["dkim"] == "dkim_without_rsa"
    assert codes(GOOD, (modern, ACTIVE))["dkim"] == "dkim_good"


def test_dmarc_fails_where_neither_dkim_nor_spf_passes() -> None:
    records = {
        "": "dmarc_fails",
        "v=spf1 ip4:198.51.100.1 -all": "dmarc_fails",
        "v=spf1 include:none.test -all": "dmarc_fails",
        "v=spf1 ip4:192.0.2.7 include:none.test -all": "dmarc_good",
        "v=spf1 ip4:192.0.2.7 -all": "dmarc_good",
        "v=spf1 +all": "dmarc_good",
    }
    for record, code in records.items():
        found = of_record(*([record] if record else []), domain="shop.example")
        looked = replace(GOOD, spf=(found,))
        assert codes(looked, ())["dmarc"] == codes(looked, seen=Published.MISSING)["dmarc"] == code, record
        assert codes(looked)["dmarc"] == "dmarc_good", "a signature is enough"


def test_text_from_the_dns_is_harmless_and_short() -> None:
    for term in ("a:\x00.test", "include:\x1b[31m.test", "x=\u009b", "\u202e", "y" * 60_000):
        looked = replace(GOOD, spf=(of_record(f"v=spf1 {term} -all", domain="shop.example"),))
        (reason,) = [each.reason for each in judge("shop.example", looked, (), {}, now=NOW) if each.what == "spf"]
        shown = str(reason.params["term"])
        assert shown.isprintable()
        assert len(shown) <= SHOWN_CHARS_MAX + 1


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
    assert codes(Looked(dmarc=("v=dmarc1; p=none",)))["dmarc"] == "dmarc_broken", "receivers distinguish case"
    assert codes(Looked(dmarc=("v=DMARC1; p=none; sp=maybe",)))["dmarc"] == "dmarc_broken"


def test_a_subdomain_takes_the_policy_for_subdomains() -> None:
    for record, is_inherited, policy in (
        ("v=DMARC1; p=reject; sp=none", True, "none"),
        ("v=DMARC1; p=reject; sp=none", False, "reject"),
        ("v=DMARC1; p=quarantine", True, "quarantine"),
    ):
        looked = replace(GOOD, dmarc=(record,), is_dmarc_inherited=is_inherited)
        finding = next(each for each in judge("shop.example", looked, (), {}, now=NOW) if each.what == "dmarc")
        assert finding.reason.params["policy"] == policy


def dmarc(record: str, key: DkimKey, *, envelope: str = "", signs: bool = False) -> tuple[str, Grade]:
    looked = replace(
        GOOD, dmarc=(f"v=DMARC1; p=reject; {record}",), hosts=(replace(HOST, envelope=envelope, signs=signs),)
    )
    findings = judge("news.shop.example", looked, (key,), {"s1": Published.THERE}, now=NOW)
    return next((each.reason.code.removeprefix("domain."), each.grade) for each in findings if each.what == "dmarc")


def test_alignment_is_strict_where_the_record_says_so() -> None:
    own, parent = replace(ACTIVE, domain="news.shop.example"), ACTIVE
    good, strict, unaligned = (
        ("dmarc_good", Grade.GOOD),
        ("dmarc_strict", Grade.WARNING),
        ("dmarc_unaligned", Grade.BAD),
    )
    assert dmarc("", parent) == dmarc("adkim=r; aspf=r", parent) == good
    assert dmarc("adkim=s", own) == dmarc("adkim=s; aspf=s", own) == good
    assert dmarc("adkim=s", parent) == strict
    assert dmarc("ADKIM=S", parent, envelope="b.shop.example") == strict
    assert dmarc("adkim=s; aspf=s", parent, envelope="b.shop.example") == unaligned
    assert dmarc("", KEY, envelope="bounces.example") == unaligned, (
        "no key signs, and the envelope is in another domain"
    )
    assert dmarc("", parent, envelope="bounces.example") == good
    assert dmarc("adkim=s", KEY, envelope="bounces.example", signs=True) == good, "the provider's signature is unknown"


def test_a_subdomain_that_its_parent_signs_for_is_signed() -> None:
    for seen, code in ((Published.THERE, "domain.dkim_by_parent"), (Published.MISSING, "domain.dkim_unpublished")):
        findings = judge("news.shop.example", GOOD, (ACTIVE,), {"s1": seen}, now=NOW)
        assert [each.reason.code for each in findings if each.what == "dkim"] == [code]


def test_a_key_is_published_when_its_record_is_there_as_people_paste_it() -> None:
    cases = {
        "v=DKIM1; k=rsa; p=AAAA": Published.THERE,
        "v=DKIM1;k=rsa;p=AA AA;": Published.THERE,
        "p=AAAA": Published.THERE,
        "v=DKIM1; k=ed25519; p=AAAA": Published.OTHER,
        "v=DKIM1; k=rsa; p=": Published.OTHER,
        "something else": Published.OTHER,
        "v=DKIM1; h=sha1:sha256; s=email; p=AAAA": Published.THERE,
        "v=DKIM1; h=sha1; p=AAAA": Published.OTHER,
        "v=DKIM1; s=other; p=AAAA": Published.OTHER,
        "v=DKIM1; p=AAAA; p=BBBB": Published.OTHER,
    }
    assert {text: published(KEY, [text]) for text in cases} == cases
    assert published(KEY, ["p=AAAA", "v=spf1 -all"]) is Published.THERE
    assert published(KEY, ["p=AAAA", "v=DKIM1; p=BBBB"]) is Published.OTHER, "receivers may use either"
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
    nothing = judge(
        "shop.example", replace(NOTHING, hosts=(host("10.0.0.5"), SendingHost(name="192.0.2.9"))), (), {}, now=NOW
    )
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
