"""SPF as receivers evaluate it, with a dictionary in place of DNS."""

from dataclasses import dataclass

import pytest

from fairpost.policy.spf import Evaluated, Problem, Question, Result, evaluate


@dataclass(frozen=True)
class Answer:
    records: tuple[str, ...] = ()
    error: str = ""


Zone = dict[Question, list[str]]


def evaluated(zone: Zone, address: str = "192.0.2.7", *, silent: tuple[str, ...] = ()) -> Evaluated:
    evaluation = evaluate("shop.test", address)
    try:
        name, kind = next(evaluation)
        while True:
            answer = Answer(error="silent") if name in silent else Answer(tuple(zone.get((name.lower(), kind), ())))
            name, kind = evaluation.send(answer)
    except StopIteration as done:
        result: Evaluated = done.value
        return result


def result(record: str, more: Zone | None = None, *, address: str = "192.0.2.7") -> str:
    return evaluated({("shop.test", "TXT"): [record], **(more or {})}, address).result.value


HOSTS: Zone = {
    ("shop.test", "A"): ["192.0.2.7"],
    ("mail.test", "A"): ["192.0.2.9"],
    ("mail.test", "AAAA"): ["2001:db8::9"],
    ("shop.test", "MX"): ["mx.test", "."],
    ("mx.test", "A"): ["192.0.2.7"],
    ("ok.test", "TXT"): ["v=spf1 ip4:192.0.2.0/24 -all"],
    ("no.test", "TXT"): ["v=spf1 -all"],
    ("two.test", "TXT"): ["v=spf1 -all", "v=spf1 ~all"],
    ("7.2.0.192.in-addr.arpa", "PTR"): ["other.test.", "www.shop.test."],
    ("www.shop.test", "A"): ["192.0.2.7"],
    ("7.2.0.192._spf.shop.test", "A"): ["127.0.0.2"],
    ("postmaster.shop.test", "A"): ["127.0.0.2"],
}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("v=spf1", "neutral"),
        ("V=SPF1 IP4:192.0.2.0/24 -ALL", "pass"),
        ("v=spf1   ip4:192.0.2.7   -all", "pass"),
        ("v=spf1 ip4:192.0.2.8 -all", "fail"),
        ("v=spf1 ip6:::/0 ~all", "softfail"),
        ("v=spf1 ?all", "neutral"),
        ("v=spf1 -ip4:192.0.2.7 +all", "fail"),
        ("v=spf1 all -ip4:192.0.2.7", "pass"),
        ("v=spf1 a -all", "pass"),
        ("v=spf1 a:mail.test -all", "fail"),
        ("v=spf1 a:mail.test/24 -all", "pass"),
        ("v=spf1 a:mail.test/24//64 -all", "pass"),
        ("v=spf1 a//64 -all", "pass"),
        ("v=spf1 mx -all", "pass"),
        ("v=spf1 MX:Shop.Test/32 -all", "pass"),
        ("v=spf1 include:ok.test -all", "pass"),
        ("v=spf1 include:no.test ~all", "softfail"),
        ("v=spf1 -include:ok.test +all", "fail"),
        ("v=spf1 redirect=ok.test", "pass"),
        ("v=spf1 redirect=no.test", "fail"),
        ("v=spf1 redirect=no.test ?all", "neutral"),
        ("v=spf1 redirect=ok.test ip4:192.0.2.7", "pass"),
        ("v=spf1 exists:mail.test -all", "pass"),
        ("v=spf1 exists:%{ir}._spf.%{d} -all", "pass"),
        ("v=spf1 exists:%{l}.%{o2} -all", "pass"),
        ("v=spf1 exists:%{i}.none.test -all", "fail"),
        ("v=spf1 ptr -all", "pass"),
        ("v=spf1 ptr:mail.test -all", "fail"),
        ("v=spf1 unknown=thing moo=%{d} -all", "fail"),
    ],
)
def test_a_record_is_read_as_receivers_read_it(record: str, expected: str) -> None:
    assert result(record, HOSTS) == expected


@pytest.mark.parametrize(
    "term",
    [
        *(
            "ip4:192.0.2.300",
            "ip4:192.0.2.0/33",
            "ip4:192.0.2.0/255.255.255.0",
            "ip4:2001:db8::1",
            "ip4:",
            "ip4",
            "ip6:x",
        ),
        *("include", "include:", "include:%{x}.test", "include:nodot", "exists:%", "a:", "a:mail.test/33", "mx//129"),
        *(
            "all:x",
            "all/24",
            "nonsense",
            "+unknown:x",
            "redirect=",
            "redirect=a.test redirect=b.test",
            "-",
            "ip4:192.0.2.7;",
        ),
        *(
            "a:192.0.2.7",
            "mx:mail.test:25",
            "a:mail.test,",
            "exp=",
            "exp=nodot",
            "exp=a.test exp=b.test",
            "moo=%",
            "moo=%{x}",
        ),
        *(
            "a:mail\x00.test",
            "include:\x1b[31m.test",
            "moo=\x00",
            "moo=\u00fc",
            "a:m\u00e4il.test",
            "a:mail.test\t-all",
        ),
    ],
)
def test_an_error_of_syntax_breaks_the_record_even_behind_a_match(term: str) -> None:
    found = evaluated({("shop.test", "TXT"): [f"v=spf1 ip4:198.51.100.0/24 {term} -all"], **HOSTS})
    assert (found.result, found.problem) == (Result.PERMERROR, Problem.SYNTAX)
    assert result(f"v=spf1 ip4:192.0.2.7 {term} -all", HOSTS) == "permerror"


def test_records_are_counted_by_their_version() -> None:
    others = ["v=spf10 -all", "v=spf1-all", "spf2.0/pra +all", "google-site-verification=x"]
    assert evaluated({("shop.test", "TXT"): others}).result is Result.NONE
    found = evaluated({("shop.test", "TXT"): [*others, "v=spf1 ip4:192.0.2.7", "V=SPF1 -all"]})
    assert (found.result, found.problem, len(found.records)) == (Result.PERMERROR, Problem.MANY, 2)


def test_an_include_must_lead_to_one_valid_record() -> None:
    for target, problem in (("nowhere.test", Problem.TARGET), ("two.test", Problem.MANY)):
        for term in (f"include:{target}", f"redirect={target}"):
            found = evaluated({("shop.test", "TXT"): [f"v=spf1 {term}"], **HOSTS})
            assert (found.result, found.problem) == (Result.PERMERROR, problem)


def chain(length: int) -> Zone:
    """Includes that lead to a record which allows the address, `length` lookups deep."""
    zone: Zone = {(f"i{n}.test", "TXT"): [f"v=spf1 include:i{n + 1}.test -all"] for n in range(1, length)}
    last: Zone = {(f"i{length}.test", "TXT"): ["v=spf1 ip4:192.0.2.7 -all"]}
    return {("shop.test", "TXT"): ["v=spf1 include:i1.test -all"], **zone, **last}


def test_ten_lookups_are_followed_and_no_more() -> None:
    assert evaluated(chain(10)).result is Result.PASS
    found = evaluated(chain(11))
    assert (found.result, found.problem) == (Result.PERMERROR, Problem.LOOKUPS)
    assert result("v=spf1 include:shop.test -all") == "permerror"
    many = " ".join(["a:mail.test"] * 10)
    assert result(f"v=spf1 {many} -all", HOSTS) == "fail"
    assert result(f"v=spf1 {many} redirect=ok.test", HOSTS) == "permerror"
    assert result(f"v=spf1 ip4:192.0.2.7 {many} mx -all", HOSTS) == "pass", "the first match decides"


def test_hosts_without_addresses_are_tolerated_twice() -> None:
    zone: Zone = {("shop.test", "TXT"): ["v=spf1 a:x.test a:y.test ip4:192.0.2.7 -all"]}
    assert evaluated(zone).result is Result.PASS
    zone = {("shop.test", "TXT"): ["v=spf1 a:x.test a:y.test mx:z.test ip4:192.0.2.7 -all"]}
    found = evaluated(zone)
    assert (found.result, found.problem, found.detail) == (Result.PERMERROR, Problem.VOIDS, "z.test")


def test_an_mx_with_too_many_hosts_breaks_the_record() -> None:
    hosts = [f"mx{n}.test" for n in range(11)]
    assert result("v=spf1 mx -all", {("shop.test", "MX"): hosts}) == "permerror"


def test_a_silent_dns_is_a_passing_error() -> None:
    zone: Zone = {("shop.test", "TXT"): ["v=spf1 include:ok.test -all"], **HOSTS}
    assert evaluated(zone, silent=("shop.test",)).result is Result.TEMPERROR
    assert evaluated(zone, silent=("ok.test",)).result is Result.TEMPERROR
    ptr: Zone = {("shop.test", "TXT"): ["v=spf1 ptr -all"], **HOSTS}
    assert evaluated(ptr, silent=("7.2.0.192.in-addr.arpa",)).result is Result.FAIL


def test_addresses_of_both_versions_are_compared_with_their_own() -> None:
    assert result("v=spf1 a:mail.test -all", HOSTS, address="2001:db8::9") == "pass"
    assert result("v=spf1 a:mail.test//64 -all", HOSTS, address="2001:db8::1") == "pass"
    assert result("v=spf1 a:mail.test/0 -all", HOSTS, address="2001:db8::1") == "fail"
    assert result("v=spf1 ip4:192.0.2.7 -all", HOSTS, address="::ffff:192.0.2.7") == "pass"
    nibbles: Zone = {(".".join("20010db8" + "0" * 23 + "9") + ".ip6.test", "A"): ["127.0.0.2"]}
    assert result("v=spf1 exists:%{i}.%{v}.test -all", nibbles, address="2001:db8::9") == "pass"


def test_names_that_the_record_allows_are_remembered() -> None:
    zone: Zone = {("shop.test", "TXT"): ["v=spf1 a:mail.test include:no.test -all"], **HOSTS}
    assert evaluated(zone).names == {"mail.test", "no.test"}
