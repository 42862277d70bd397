"""What DNS says about a domain, looked up on a local server."""

import dns.message
import dns.rcode
import dns.reversename
import dns.rrset

from fairpost.policy.domain_health import Looked, SendingHost
from fairpost.policy.spf import Problem, Result
from fairpost.providers.domain_records import look_at
from tests.providers.test_domain_proof import Nameserver, Reply, nameserver

Zone = dict[tuple[str, str], list[str]]


def zone(records: Zone) -> Reply:
    def reply(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        name, kind = query.question[0].name, query.question[0].rdtype.name
        found = records.get((name.to_text(omit_final_dot=True), kind))
        if found:
            answer.answer.append(dns.rrset.from_text(name, 300, "IN", kind, *found))
        elif not any(known == name.to_text(omit_final_dot=True) for known, _ in records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer.to_wire()

    return reply


async def looked_at(domain: str, records: Zone, *hosts: str) -> tuple[Looked, Nameserver]:
    async with nameserver(zone(records)) as server:
        sending = [SendingHost(name=host) for host in hosts]
        return await look_at(domain, sending, resolver=server.resolver), server


async def test_spf_is_followed_through_includes_hosts_and_redirects() -> None:
    records: Zone = {
        ("shop.test", "TXT"): [
            '"google-site-verification=x"',
            '"v=spf1 a mx:other.test include:_spf.relay.test" " redirect=end.test"',
        ],
        ("shop.test", "A"): ["192.0.2.1"],
        ("other.test", "MX"): ["10 mx.other.test."],
        ("mx.other.test", "A"): ["192.0.2.2"],
        ("_spf.relay.test", "TXT"): ['"v=spf1 ip4:198.51.100.0/24 ip6:2001:db8::/32 -ip4:203.0.113.9 ~all"'],
        ("end.test", "TXT"): ['"v=spf1 ip4:203.0.113.1 +all"'],
        ("smtp.relay.test", "A"): ["198.51.100.9"],
    }
    looked, _ = await looked_at("shop.test", records, "smtp.relay.test")
    (spf,) = looked.spf
    assert spf.addresses["198.51.100.9"].result is Result.PASS
    assert spf.stranger.result is Result.PASS, "the redirect ends with +all"
    assert spf.stranger.names == {"shop.test", "_spf.relay.test", "end.test"}
    assert len(spf.stranger.records) == 1
    assert looked.hosts[0].addresses == ("198.51.100.9",)


async def test_an_spf_record_that_includes_itself_ends() -> None:
    looked, server = await looked_at(
        "loop.test", {("loop.test", "TXT"): ['"v=spf1 include:loop.test include:loop.test -all"']}
    )
    assert looked.spf[0].stranger.problem is Problem.LOOKUPS
    assert server.asked.count("loop.test. TXT") == 1


async def test_spf_is_evaluated_for_the_envelope_sender_and_addresses_of_both_versions() -> None:
    records: Zone = {
        ("shop.test", "TXT"): ['"v=spf1 -all"'],
        ("bounces.test", "TXT"): ['"v=spf1 ip4:192.0.2.0/24 -all"'],
        ("mail.shop.test", "A"): ["192.0.2.1", "10.0.0.1"],
        ("mail.shop.test", "AAAA"): ["2001:db8::1"],
    }
    async with nameserver(zone(records)) as server:
        hosts = [SendingHost(name="mail.shop.test", envelope="bounces.test")]
        own, bounces = (await look_at("shop.test", hosts, resolver=server.resolver)).spf
    assert (own.domain, own.addresses) == ("shop.test", {})
    found = {address: each.result.value for address, each in bounces.addresses.items()}
    assert (bounces.domain, found) == ("bounces.test", {"192.0.2.1": "pass", "2001:db8::1": "fail"})


async def test_dmarc_is_taken_from_the_domain_or_its_organisation() -> None:
    records: Zone = {
        ("_dmarc.shop.test", "TXT"): ['"v=DMARC1; p=reject"', '"unrelated"'],
        ("_dmarc.news.shop.test", "TXT"): ['"v=DMARC1; p=none"'],
        ("_dmarc.wrong.test", "TXT"): ['"v=dmarc1; p=none"'],
        ("shop.test", "MX"): ["10 mx.shop.test.", "20 mx2.shop.test."],
    }
    looked, server = await looked_at("a.news.shop.test", records)
    assert (looked.dmarc, looked.is_dmarc_inherited) == (("v=DMARC1; p=reject",), True)
    assert "_dmarc.test. TXT" not in server.asked
    between, _ = await looked_at("news.shop.test", records)
    assert (between.dmarc, between.is_dmarc_inherited) == (("v=DMARC1; p=none",), False)
    wrong, _ = await looked_at("wrong.test", records)
    assert wrong.dmarc == ("v=dmarc1; p=none",), "needed to report that it is broken"
    above, _ = await looked_at("shop.test", records)
    assert set(above.mx) == {"mx.shop.test", "mx2.shop.test"}


async def test_a_dns_that_fails_is_no_missing_record() -> None:
    def broken(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.set_rcode(dns.rcode.SERVFAIL)
        return answer.to_wire()

    async with nameserver(broken) as server:
        looked = await look_at("shop.test", [], resolver=server.resolver)
    assert looked.spf[0].stranger.result is Result.TEMPERROR
    assert all((looked.spf[0].stranger.detail, looked.dmarc_error, looked.mx_error))


async def test_public_addresses_of_own_servers_are_looked_up_both_ways() -> None:
    records: Zone = {
        ("mail.shop.test", "A"): ["192.0.2.1", "192.0.2.2", "192.0.2.3", "10.0.0.1"],
        ("1.2.0.192.in-addr.arpa", "PTR"): ["mail.shop.test."],
        ("2.2.0.192.in-addr.arpa", "PTR"): ["other.test."],
        ("other.test", "A"): ["192.0.2.99"],
    }
    async with nameserver(zone(records)) as server:
        hosts = [SendingHost(name="mail.shop.test", is_own=True), SendingHost(name="mail.shop.test")]
        own, providers = (await look_at("shop.test", hosts, resolver=server.resolver)).hosts
    found = {each.address: (each.name, each.is_confirmed) for each in own.names}
    assert found == {
        "192.0.2.1": ("mail.shop.test", True),
        "192.0.2.2": ("other.test", False),
        "192.0.2.3": ("", False),
    }
    assert providers.names == ()


async def test_an_address_given_as_a_server_is_compared_as_the_dns_writes_it() -> None:
    reverse = dns.reversename.from_address("2001:db8::1").to_text(omit_final_dot=True)
    records: Zone = {
        ("shop.test", "TXT"): ['"v=spf1 ip6:2001:db8::1 -all"'],
        (reverse, "PTR"): ["mail.shop.test."],
        ("mail.shop.test", "AAAA"): ["2001:0DB8:0::1"],
    }
    async with nameserver(zone(records)) as server:
        looked = await look_at("shop.test", [SendingHost(name="2001:DB8:0::1", is_own=True)], resolver=server.resolver)
    assert looked.hosts[0].names[0].is_confirmed
    assert looked.spf[0].addresses["2001:db8::1"].result is Result.PASS


async def test_names_of_strangers_are_asked_for_as_they_are() -> None:
    """A backslash in a record is a character, no escape."""
    record = r'"v=spf1 a:x\\300.test a:x\\046.test exists:x\\.test -all"'
    looked, server = await looked_at("shop.test", {("shop.test", "TXT"): [record]})
    assert looked.spf[0].stranger.problem is Problem.VOIDS
    assert r"x\\300.test. A" in server.asked


async def test_many_records_and_endless_aliases_are_looked_through() -> None:
    def reply(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        name, kind = query.question[0].name, query.question[0].rdtype.name
        if name.to_text() == "shop.test." and kind == "TXT":
            others = [f'"{n} {"x" * 200}"' for n in range(100)]
            answer.answer.append(
                dns.rrset.from_text(name, 300, "IN", "TXT", *others, '"v=spf1 include:loop.test -all"')
            )
        else:  # an alias that leads back to itself
            answer.answer.append(dns.rrset.from_text(name, 300, "IN", "CNAME", f"x.{name}"))
            answer.answer.append(dns.rrset.from_text(f"x.{name}", 300, "IN", "CNAME", str(name)))
        return answer.to_wire()

    async with nameserver(reply) as server:
        looked = await look_at("shop.test", [SendingHost(name="mail.shop.test")], resolver=server.resolver)
    assert len(looked.spf[0].stranger.records) == 1
    assert looked.spf[0].stranger.result is Result.TEMPERROR
    assert looked.dmarc_error
    assert looked.mx_error
