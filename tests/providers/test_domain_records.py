"""What the DNS says about a domain, asked of a server on this machine."""

import dns.message
import dns.rcode
import dns.rrset

from fairpost.policy.domain_health import Looked, SendingHost
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
        ("_spf.relay.test", "TXT"): [
            '"v=spf1 ip4:198.51.100.0/24 ip6:2001:db8::/32 ip4:nonsense -ip4:203.0.113.9 ~all"'
        ],
        ("end.test", "TXT"): ['"v=spf1 ip4:203.0.113.1 +all"'],
        ("smtp.relay.test", "A"): ["198.51.100.9"],
    }
    looked, _ = await looked_at("shop.test", records, "smtp.relay.test")
    networks = {"192.0.2.1", "192.0.2.2", "198.51.100.0/24", "2001:db8::/32", "203.0.113.1"}
    assert looked.spf.networks == networks
    assert looked.spf.names == {"shop.test", "_spf.relay.test", "end.test"}
    assert (looked.spf.lookups, looked.spf.allows_all) == (4, False)
    assert len(looked.spf.records) == 1
    assert looked.hosts[0].addresses == ("198.51.100.9",)


async def test_an_spf_record_that_includes_itself_ends() -> None:
    looked, server = await looked_at(
        "loop.test", {("loop.test", "TXT"): ['"v=spf1 include:loop.test include:loop.test -all"']}
    )
    assert looked.spf.lookups > 10
    assert len(server.asked) < 60


async def test_dmarc_is_taken_from_the_nearest_above() -> None:
    records: Zone = {
        ("_dmarc.shop.test", "TXT"): ['"v=DMARC1; p=reject"', '"unrelated"'],
        ("shop.test", "MX"): ["10 mx.shop.test.", "20 mx2.shop.test."],
    }
    looked, server = await looked_at("a.news.shop.test", records)
    assert looked.dmarc == ("v=DMARC1; p=reject",)
    assert "_dmarc.test. TXT" not in server.asked
    above, _ = await looked_at("shop.test", records)
    assert set(above.mx) == {"mx.shop.test", "mx2.shop.test"}


async def test_a_dns_that_fails_is_no_missing_record() -> None:
    def broken(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.set_rcode(dns.rcode.SERVFAIL)
        return answer.to_wire()

    async with nameserver(broken) as server:
        looked = await look_at("shop.test", [], resolver=server.resolver)
    assert all((looked.spf.error, looked.dmarc_error, looked.mx_error))


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
