"""Each check is a problem, a note or fine, depending on its facts. There is no database: facts in, grades out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairpost.model.account import Account, AccountRuntime, AccountStatus, Limits, Usage
from fairpost.model.ids import AccountId
from fairpost.model.reason import Reason
from fairpost.model.rights import MissingRight, RightKind
from fairpost.observe.checkup import Check, Grade, check_up
from fairpost.policy.domain_health import Finding as DomainFinding
from fairpost.policy.domain_health import Grade as Health
from fairpost.policy.facts import Claims, Facts, Pause, Route
from fairpost.policy.findings import CheckedDomain, Disk, Engine, Findings, Holdback, Machine, Schema, Server
from fairpost.policy.restored import First, Restored, Sound
from fairpost.transports.smtp.settings import SmtpSettings
from tests.facts import missing

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
ISOLATION, READ_ONLY = "default_transaction_isolation", "default_transaction_read_only"
SERVER = SmtpSettings(host="mail.test", port=587)


def post(**more: Any) -> AccountRuntime:
    account = Account(
        **{
            "id": AccountId(1),
            "name": "sales",
            "address": "sales@post.test",
            "display_name": None,
            "pool": "default",
            "status": AccountStatus.ACTIVE,
            "status_reason": None,
            "limits": Limits(),
            "usage": Usage(last_begun_at=NOW),
            "transport": SERVER,
            **more,
        }
    )
    return AccountRuntime(account=account, owner="w1", until=NOW + timedelta(seconds=30))


FACTS = Facts(now=NOW, engines={"w1"}, accounts=[post()], routes=[Route(route="default", waiting=3)])
WELL = Findings(
    machine=Machine(
        home="/home/ann/.fairpost",
        home_mode=0o755,
        disks=[Disk(what="FAIRPOST_HOME", path="/home", free_bytes=50_000_000_000)],
    ),
    server=Server(
        version="18.1",
        major=18,
        settings={"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on"},
        skew_s=0.01,
    ),
    schema=Schema(role="ann"),
    engine=Engine(facts=FACTS),
)


def machine(**more: Any) -> Findings:
    return replace(WELL, machine=replace(WELL.machine, **more))


def server(**more: Any) -> Findings:
    assert WELL.server
    return replace(WELL, server=replace(WELL.server, **more))


def schema(**more: Any) -> Findings:
    return replace(WELL, schema=Schema(role="ann", **more))


def lacking(kind: RightKind, what: str) -> Findings:
    return schema(missing=[MissingRight(kind=kind, what=what, sql="GRANT it TO ann")])


def engine(**more: Any) -> Findings:
    assert WELL.engine
    return replace(WELL, engine=replace(WELL.engine, **more))


def facts(**more: Any) -> Findings:
    return engine(facts=replace(FACTS, **more))


def only(findings: Findings) -> Check:
    """Returns the only check that is not fine."""
    (check,) = [check for check in check_up(findings) if check.grade is not Grade.OK]
    assert check.then
    return check


def test_when_all_is_well_every_check_says_so() -> None:
    checks = check_up(WELL)
    assert {check.grade for check in checks} == {Grade.OK}
    assert all(check.then is None for check in checks)
    assert len(checks) > 15


def domain(name: str, *grades: Health, is_own: bool = True) -> CheckedDomain:
    findings = [
        DomainFinding(what="mx", grade=grade, reason=Reason("domain.mx_missing", domain=name)) for grade in grades
    ]
    return CheckedDomain(workspace="acme", domain=name, findings=findings, is_own=is_own)


@pytest.mark.parametrize(("mode", "has_secret"), [(0o640, True), (0o600, True), (0o644, False)])
def test_a_settings_file_is_fine_if_others_cannot_read_it(mode: int, has_secret: bool) -> None:
    found = machine(settings_file="/etc/f.toml", settings_file_mode=mode, settings_file_has_secret=has_secret)
    assert {check.grade for check in check_up(found)} == {Grade.OK}
    assert "settings file" in {check.name for check in check_up(found)}


AGED = Holdback(what="a transaction of ann", then="end it", age_s=400)
OLD = replace(AGED, age_s=8_000)


@pytest.mark.parametrize(
    ("findings", "name", "grade", "fact"),
    [
        (machine(home_mode=0o777), "home", Grade.PROBLEM, "/home/ann/.fairpost"),
        (machine(home_mode=0o775), "home", Grade.PROBLEM, "/home/ann/.fairpost"),
        (machine(disks=[Disk(what="x", path="/x", free_bytes=900_000_000)]), "disk", Grade.NOTE, "0.9 GB"),
        (machine(disks=[Disk(what="x", path="/x", free_bytes=100_000_000)]), "disk", Grade.PROBLEM, "0.1 GB"),
        (machine(key_trouble="Others can read it."), "master key", Grade.PROBLEM, "Others"),
        (
            machine(settings_file="/etc/f.toml", settings_file_mode=0o644, settings_file_has_secret=True),
            "settings file",
            Grade.NOTE,
            "/etc/f.toml",
        ),
        (machine(redirect_all="team@x.test"), "redirect", Grade.NOTE, "team@x.test"),
        (server(major=13, version="13.9"), "version", Grade.PROBLEM, "13.9"),
        (server(settings={"fsync": "off"}), "durability", Grade.PROBLEM, "turned off: fsync"),
        (server(settings={"synchronous_commit": "off"}), "durability", Grade.PROBLEM, "synchronous_commit"),
        (server(settings={"full_page_writes": "off"}), "durability", Grade.PROBLEM, "full_page_writes"),
        (
            server(settings={ISOLATION: "serializable"}, resets={ISOLATION: "ALTER ROLE ann RESET x"}),
            "isolation",
            Grade.PROBLEM,
            "serializable",
        ),
        (server(settings={READ_ONLY: "on"}, resets={READ_ONLY: "ALTER ROLE ann RESET x"}), "writes", Grade.PROBLEM, ""),
        (server(is_standby=True), "writes", Grade.PROBLEM, "standby"),
        (server(encoding="SQL_ASCII"), "encoding", Grade.PROBLEM, "SQL_ASCII"),
        (server(settings={"autovacuum": "off"}), "autovacuum", Grade.PROBLEM, "autovacuum"),
        (server(settings={"track_counts": "off"}), "autovacuum", Grade.PROBLEM, "track_counts"),
        (server(skew_s=-5), "clock", Grade.NOTE, "5.0 s"),
        (server(skew_s=61), "clock", Grade.PROBLEM, "61.0 s"),
        (server(transactions=[AGED]), "open transactions", Grade.NOTE, "7 minutes"),
        (
            server(transactions=[AGED, OLD]),
            "open transactions",
            Grade.PROBLEM,
            "2 hours",
        ),
        (server(sees_sessions=False), "open transactions", Grade.NOTE, ""),
        (server(prepared=[OLD]), "prepared transactions", Grade.PROBLEM, "a transaction of ann"),
        (server(slots=[Holdback(what="s", then="t", kept_bytes=2 * 10**9)]), "replication slots", Grade.NOTE, "2.0 GB"),
        (
            server(slots=[Holdback(what="s", then="t", kept_bytes=10**11)]),
            "replication slots",
            Grade.PROBLEM,
            "100.0 GB",
        ),
        (server(is_pooled=True), "connection", Grade.NOTE, "PgBouncer"),
        (schema(pending=["0004 pauses"]), "schema", Grade.PROBLEM, "0004 pauses"),
        (schema(trouble="made by a newer version"), "schema", Grade.PROBLEM, "newer"),
        (schema(is_readable=False), "schema", Grade.PROBLEM, ""),
        (lacking(RightKind.OWNER, "bob"), "role", Grade.PROBLEM, "bob"),
        (lacking(RightKind.LOGIN, "SELECT ON fairpost.queue"), "rights", Grade.PROBLEM, "SELECT ON fairpost.queue"),
        (lacking(RightKind.TENANT, "SET ROLE t"), "tenant role", Grade.PROBLEM, "SET ROLE t"),
        (
            engine(lineage=Restored((Reason("database.gone_back", written_at=NOW),))),
            "identity",
            Grade.PROBLEM,
            "gone back",
        ),
        (engine(sees_identity=False), "identity", Grade.NOTE, ""),
        (engine(unopenable=["sales"]), "passwords", Grade.PROBLEM, "sales"),
        (engine(domains=[domain("shop.test", Health.GOOD, Health.BAD)]), "domains", Grade.PROBLEM, "shop.test"),
        (engine(domains=[domain("b.test", Health.BAD, is_own=False)]), "domains", Grade.NOTE, "b.test"),
        (engine(domains=[domain("c.test", Health.WARNING)]), "domains", Grade.NOTE, "c.test"),
        (facts(accounts=[post(), post(name="b", status=AccountStatus.PAUSED)]), "accounts", Grade.NOTE, "b is paused"),
        (facts(accounts=[post(), post(name="b", transport=None)]), "accounts", Grade.PROBLEM, "b "),
        (facts(accounts=[post(), post(name="b", pool="x", transport=None)]), "accounts", Grade.NOTE, "b "),
        (
            facts(
                accounts=[
                    post(),
                    post(
                        name="b",
                        status=AccountStatus.SUSPENDED,
                        status_reason=Reason("account.paused_by_hand", note="wrong password"),
                    ),
                ]
            ),
            "accounts",
            Grade.PROBLEM,
            "wrong password",
        ),
        (
            facts(claimed={AccountId(1): Claims(in_doubt=1, undecided=1)}),
            "mail",
            Grade.PROBLEM,
            "1 e-mail",
        ),
        (facts(claimed={AccountId(1): Claims(in_doubt=2)}), "mail", Grade.NOTE, "2 e-mails"),
        (facts(routes=[Route(route="news", waiting=1)]), "mail", Grade.PROBLEM, "news"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_each_trouble_is_named_with_what_to_do(findings: Findings, name: str, grade: Grade, fact: str) -> None:
    check = only(findings)
    assert (check.name, check.grade) == (name, grade)
    assert fact in check.text


def test_no_server_at_all_still_reports_the_machine() -> None:
    findings = Findings(machine=WELL.machine, unreachable="nothing answers")
    check = only(findings)
    assert (check.name, check.text) == ("database", "nothing answers")
    assert "fairpost db start" in (check.then or "")
    assert len(check_up(findings)) > 2


@pytest.mark.parametrize(("restored", "grade"), [(False, Grade.NOTE), (True, Grade.PROBLEM)])
def test_a_pause_comes_first_and_is_a_problem_only_if_it_was_automatic(restored: bool, grade: Grade) -> None:
    pause = Pause(
        since=NOW,
        until=None,
        reason=Reason("everything.paused_by_hand", note="wrong prices"),
        paused_by="ann",
        restored=restored,
    )
    first = check_up(facts(pause=pause))[0]
    assert (first.name, first.grade, first.then) == ("pause", grade, "fairpost resume --all")


def problems(findings: Findings) -> list[str]:
    return [check.name for check in check_up(findings) if check.grade is Grade.PROBLEM]


def test_no_engine_is_a_note_and_waiting_mail_makes_it_a_problem() -> None:
    undriven = replace(post(), owner=None, until=None)
    idle = only(engine(facts=replace(FACTS, engines=(), accounts=[undriven], routes=[])))
    assert (idle.name, idle.grade, idle.then) == ("engine", Grade.NOTE, "fairpost work")
    assert problems(engine(facts=replace(FACTS, engines=(), accounts=[undriven]))) == ["engine"]
    later = Route(route="default", waiting=1, due=False, next_at=NOW + timedelta(days=1))
    assert problems(engine(facts=replace(FACTS, engines=(), accounts=[undriven], routes=[later]))) == ["engine"]
    left = {AccountId(1): Claims(sending=1)}
    assert problems(engine(facts=replace(FACTS, engines=(), accounts=[undriven], routes=[], claimed=left))) == [
        "engine"
    ]
    pause = Pause(
        since=NOW, until=None, reason=Reason("everything.paused_by_hand", note="wrong prices"), paused_by="ann"
    )
    assert problems(engine(facts=replace(FACTS, engines=(), accounts=[undriven], pause=pause))) == []


def test_an_engine_that_drives_no_account_although_mail_is_ready_is_reported() -> None:
    check = only(engine(facts=replace(FACTS, accounts=[replace(post(), owner=None, until=None)])))
    assert (check.name, check.grade) == ("mail", Grade.NOTE)


def test_mail_that_waits_makes_a_missing_account_a_problem() -> None:
    assert problems(facts(accounts=[])) == ["accounts"]


def test_missing_privileges_are_listed_with_their_grants_up_to_a_limit() -> None:
    rights = [
        MissingRight(kind=RightKind.TENANT, what=f"right {n}", sql=f"GRANT {n} TO t" if n else None) for n in range(8)
    ]
    check = only(schema(missing=rights))
    assert missing(check.then or "", "GRANT 1 TO t", "GRANT 5 TO t", "fairpost db migrate") == []
    assert "GRANT 6" not in (check.then or "")
    assert only(schema(missing=rights[:1])).then == "fairpost db migrate"


def test_without_any_account_that_is_said_once() -> None:
    check = only(facts(accounts=[], routes=[]))
    assert (check.name, check.grade) == ("accounts", Grade.NOTE)


def test_an_unused_database_is_fine() -> None:
    assert {check.grade for check in check_up(engine(lineage=First()))} == {Grade.OK}
    assert {check.grade for check in check_up(engine(lineage=Sound()))} == {Grade.OK}
