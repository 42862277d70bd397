"""Which addresses and ports workspaces' servers may have."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.policy.networks import SMTP_PORTS, Network, objection, port_refusal, refusal
from tests.facts import missing

FORBIDDEN = {
    "0.0.0.0": "not a host address",
    "0.1.2.3": "a reserved address",
    "10.0.0.5": "a private address",
    "10.255.255.255": "a private address",
    "100.64.0.1": "an address in a carrier's internal network",
    "100.100.100.200": "an address in a carrier's internal network",
    "127.0.0.1": "a loopback address",
    "127.255.255.254": "a loopback address",
    "168.63.129.16": "an address for the cloud's internal services",
    "169.254.0.1": "a link-local address",
    "169.254.169.254": "an address for the cloud's internal services",
    "172.16.0.1": "a private address",
    "172.31.255.255": "a private address",
    "192.0.0.192": "a reserved address",
    "192.0.2.1": "an address for documentation",
    "192.88.99.1": "a reserved address",
    "192.168.1.1": "a private address",
    "198.18.0.1": "a reserved address",
    "198.19.255.255": "a reserved address",
    "198.51.100.7": "an address for documentation",
    "203.0.113.7": "an address for documentation",
    "224.0.0.1": "a multicast address",
    "239.255.255.255": "a multicast address",
    "240.0.0.1": "a reserved address",
    "255.255.255.255": "the broadcast address",
    "::": "not a host address",
    "::1": "a loopback address",
    "::ffff:127.0.0.1": "a loopback address",
    "::ffff:10.0.0.5": "a private address",
    "::127.0.0.1": "a reserved address",  # IPv4-compatible
    "::ffff:0:127.0.0.1": "a reserved address",  # IPv4-translated
    "64:ff9b::7f00:1": "a loopback address",  # NAT64
    "64:ff9b::a9fe:a9fe": "an address for the cloud's internal services",
    "64:ff9b:1::8.8.8.8": "a reserved address",  # local-use NAT64
    "100::1": "a reserved address",
    "2001:0:808:808:0:0:f7f7:f7f7": "a reserved address",  # Teredo, whatever it wraps
    "2001:20::1": "a reserved address",
    "2001:db8::1": "an address for documentation",
    "2002:7f00:1::1": "a loopback address",  # 6to4
    "2002:a00:5::": "a private address",
    "2a00:1450::5efe:10.0.0.5": "a private address",  # ISATAP
    "2a00:1450::200:5efe:10.0.0.5": "a private address",
    "3fff::1": "an address for documentation",
    "4000::1": "a reserved address",
    "5f00::1": "a reserved address",
    "fc00::1": "a private address",
    "fd00:ec2::254": "a private address",  # Amazon's metadata
    "fe80::1": "a link-local address",
    "fe80::1%eth0": "a link-local address",
    "fec0::1": "a site-local address",
    "ff02::1": "a multicast address",
}
PUBLIC = (
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.17",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2002:808:808::1",
    "2a00:1450:4001:82a::2005",
    "2a00:1450::5efe:8.8.8.8",
)

ipv4 = st.ip_addresses(v=4).map(lambda ip: IPv4Address(int(ip)))
ipv6 = st.ip_addresses(v=6).map(lambda ip: IPv6Address(int(ip)))
everywhere: tuple[Network, ...] = (ip_network("0.0.0.0/0"), ip_network("::/0"))


def test_addresses_that_are_not_public_are_refused_by_kind() -> None:
    refused = {text: (str(ip_address(text)), kind) for text, kind in FORBIDDEN.items()}
    assert {
        text: lacks for text, facts in refused.items() if (lacks := missing(refusal(ip_address(text), ()), *facts))
    } == {}


@pytest.mark.parametrize("text", PUBLIC)
def test_the_public_internet_is_free(text: str) -> None:
    assert refusal(ip_address(text), ()) is None


def test_an_operator_can_allow_any_network() -> None:
    assert [text for text in FORBIDDEN if refusal(ip_address(text), everywhere) is not None] == []


def test_allowed_networks_are_no_wider_than_written() -> None:
    allowed = (ip_network("10.1.0.0/16"), ip_network("fd00:1::/32"))
    assert refusal(ip_address("10.1.255.255"), allowed) is None
    assert refusal(ip_address("::ffff:10.1.2.3"), allowed) is None
    assert refusal(ip_address("fd00:1::5"), allowed) is None
    for outside in ("10.2.0.0", "10.0.255.255", "127.0.0.1", "fd00:2::", "::ffff:10.2.0.1"):
        assert refusal(ip_address(outside), allowed) is not None


def test_all_of_ipv6_does_not_mean_what_is_ipv4_in_truth() -> None:
    assert refusal(ip_address("::ffff:127.0.0.1"), (ip_network("::/0"),)) is not None


@given(ipv4 | ipv6)
def test_addresses_that_python_considers_not_global_are_refused(ip: IPv4Address | IPv6Address) -> None:
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        is_nat64 = isinstance(ip, IPv6Address) and ip in ip_network("64:ff9b::/96")  # judged by the wrapped address
        is_mapped = isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None
        assert is_nat64 or is_mapped or refusal(ip, ()) is not None


@given(ipv4)
def test_a_wrapped_address_is_judged_like_the_one_it_wraps(ip: IPv4Address) -> None:
    number = int(ip)
    wrappings = (
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0x64FF9B << 96 | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
        IPv6Address(0x2A00 << 112 | 0x5EFE << 32 | number),
    )
    assert {objection(wrapping, ()) for wrapping in wrappings} == {objection(ip, ())}


@given(ipv4 | ipv6, st.integers(min_value=0, max_value=128))
def test_a_network_that_is_allowed_frees_its_own_addresses(ip: IPv4Address | IPv6Address, bits: int) -> None:
    network = ip_network((int(ip).to_bytes(ip.max_prefixlen // 8, "big"), min(bits, ip.max_prefixlen)), strict=False)
    is_mapped = isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None
    assert is_mapped or refusal(ip, (network,)) is None


def test_only_the_ports_of_mail_are_free() -> None:
    assert [port for port in range(1, 65_536) if port_refusal(port) is None] == sorted(SMTP_PORTS)
    assert missing(port_refusal(5432), "5432", "465, 587, 2525") == []
    assert port_refusal(1025, {1025}) is None
