"""Checks for common problems. Each result is graded as OK, a note, or a problem with its next step.

The facts are defined in findings.py, and observe/doctor.py reads them. policy/conditions.py explains why e-mails are
waiting. This module only grades the reasons.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from fairpost.model.durations import say_roughly
from fairpost.model.reason import Value
from fairpost.model.rights import MIGRATE, RightKind, how_to_grant, names
from fairpost.model.transport import ENVIRONMENT, ServerSettings
from fairpost.observe.reading import ReadingState, reading_of
from fairpost.policy.conditions import PAUSED, Condition, Tone, diagnose, of_account, of_pause
from fairpost.policy.domain_health import Grade as Health
from fairpost.policy.facts import Facts
from fairpost.policy.findings import Disk, Engine, Environment, Findings, Holdback, Machine, Schema, Server
from fairpost.policy.restored import FailedOver, First, Restored, Sound
from fairpost.reasons.rendering import brief, sentence, shown

OLDEST_SERVER = 14
SKEW_S_NOTE, SKEW_S_PROBLEM = 2.0, 30.0
OPEN_S_NOTE, OPEN_S_PROBLEM = 300.0, 3_600.0  # an open transaction blocks vacuum
FREE_BYTES_NOTE, FREE_BYTES_PROBLEM = 1_000_000_000, 200_000_000
KEPT_BYTES_NOTE, KEPT_BYTES_PROBLEM = 1_000_000_000, 20_000_000_000
NAMED_MAX = 5

# Without these settings, a crash may lose committed data, and e-mails may be sent twice.
DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
FOR_VACUUM = ("autovacuum", "track_counts")


class Grade(StrEnum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check. `then` is the next command or step, or None if nothing needs to be done. `code` is the
    condition's code.
    """

    name: str
    grade: Grade
    text: str
    then: str | None = None
    code: str | None = None


def check_up(findings: Findings) -> list[Check]:
    return [
        *_shouts(findings),
        *_machine(findings.machine),
        *(_server(findings.server) if findings.server else [_unreachable(findings)]),
        *(_schema(findings.schema) if findings.schema else []),
        *(_engine(findings.engine) if findings.engine else []),
    ]


# ── pauses and redirection ───────────────────────────────────────────────────────────────────────────────


def _shouts(findings: Findings) -> Iterable[Check]:
    pause = findings.engine.facts.pause if findings.engine else None
    if pause:
        found = shown(of_pause(pause))
        grade = Grade.PROBLEM if pause.restored else Grade.NOTE
        yield Check(name="pause", grade=grade, text=found.text, then=found.then, code=found.code)
    elif findings.engine:
        yield _ok("pause", "nothing is paused")
    if findings.machine.redirect_all:
        yield Check(
            name="redirect",
            grade=Grade.NOTE,
            text=f"EVERY E-MAIL IS SENT TO {findings.machine.redirect_all} instead of its recipients",
            then="unset FAIRPOST_REDIRECT_ALL, unless this is a staging system",
        )


# ── the machine ──────────────────────────────────────────────────────────────────────────────────────────


def _machine(machine: Machine) -> Iterable[Check]:
    yield _home(machine)
    yield _host(machine)
    for disk in machine.disks:
        yield _disk(disk)
    yield _key(machine)
    if machine.settings_file:
        yield _settings_file(machine, machine.settings_file)


def _home(machine: Machine) -> Check:
    if machine.home_mode is None:
        return _ok("home", f"{machine.home} will be created when needed")
    if machine.home_mode & 0o022:
        return _problem("home", f"other users can write to {machine.home}", f"chmod go-w {shlex.quote(machine.home)}")
    return _ok("home", machine.home)


def _host(machine: Machine) -> Check:
    if machine.host is None:
        return _ok(
            "host name", "not set: mail servers see this machine's address. To set a name, use FAIRPOST_EHLO_NAME"
        )
    return _ok("host name", f"mail servers see {machine.host}")


def _disk(disk: Disk) -> Check:
    text = f"{disk.free_bytes / 1_000_000_000:,.1f} GB free for {disk.what} ({disk.path})"
    grade = _grade(-disk.free_bytes, note=-FREE_BYTES_NOTE, problem=-FREE_BYTES_PROBLEM)
    return Check(name="disk", grade=grade, text=text, then="free some space" if grade is not Grade.OK else None)


def _key(machine: Machine) -> Check:
    if machine.key_trouble:
        return _problem(
            "master key", machine.key_trouble, "correct the master key: accounts with a password cannot send"
        )
    return _ok(
        "master key",
        f"from {machine.key_from}" if machine.key_from else "none yet: it is created with the first password",
    )


def _settings_file(machine: Machine, path: str) -> Check:
    if machine.settings_file_has_secret and (machine.settings_file_mode or 0) & 0o004:
        return Check(
            name="settings file",
            grade=Grade.NOTE,
            text=f"{path} contains a secret, and all users on this machine can read it",
            then=f"chmod o-rwx {shlex.quote(path)}",
        )
    return _ok("settings file", path)


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────


def _unreachable(findings: Findings) -> Check:
    then = "start the server, or check FAIRPOST_DATABASE_URL; to start the embedded server: fairpost db start"
    return _problem("database", findings.unreachable or "PostgreSQL is not responding", then)


def _server(server: Server) -> Iterable[Check]:
    yield _ok("database", "answers")
    yield _version(server)
    yield _writable(server)
    yield _encoding(server)
    yield _durability(server)
    yield _isolation(server)
    yield _clock(server)
    yield _vacuum(server)
    yield _open_transactions(server)
    yield from _holdbacks("prepared transactions", server.prepared, "none is left open")
    yield from _holdbacks("replication slots", server.slots, "none blocks cleanup")
    yield _pooler(server)


def _version(server: Server) -> Check:
    if server.major < OLDEST_SERVER:
        return _problem("version", f"PostgreSQL {server.version} is too old", f"upgrade it to {OLDEST_SERVER} or newer")
    return _ok("version", f"PostgreSQL {server.version}")


def _writable(server: Server) -> Check:
    if server.is_standby:
        then = "set FAIRPOST_DATABASE_URL to the primary server, or to all servers with target_session_attrs=primary"
        return _problem("writes", "this server is a standby: nothing can be enqueued, sent or changed", then)
    if server.settings.get("default_transaction_read_only") == "on":
        reset = server.resets["default_transaction_read_only"]
        return _problem(
            "writes",
            "transactions are read-only by default: nothing can be enqueued, sent or changed",
            f"SET default_transaction_read_only = off; {reset}" if reset.startswith("ALTER") else reset,
        )
    return _ok("writes", "allowed")


def _encoding(server: Server) -> Check:
    if server.encoding != "UTF8":
        return _problem(
            "encoding",
            f"the database's encoding is {server.encoding}, which cannot store all e-mails",
            "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8', and set FAIRPOST_DATABASE_URL to it",
        )
    return _ok("encoding", server.encoding)


def _durability(server: Server) -> Check:
    off = [name for name in DURABLE if server.settings.get(name) == "off"]
    if off:
        return _problem(
            "durability",
            f"turned off: {', '.join(off)}. After a crash, e-mails may be sent twice",
            "; ".join(f"ALTER SYSTEM RESET {name}" for name in off) + "; then: SELECT pg_reload_conf()",
        )
    return _ok("durability", "commits survive a crash")


def _isolation(server: Server) -> Check:
    level = server.settings.get("default_transaction_isolation", "read committed")
    if level != "read committed":
        return _problem(
            "isolation",
            f"the default isolation level is {level}, but engines need read committed",
            server.resets["default_transaction_isolation"],
        )
    return _ok("isolation", level)


def _clock(server: Server) -> Check:
    text = f"the clocks of this machine and the database server differ by {abs(server.skew_s):.1f} s"
    grade = _grade(abs(server.skew_s), note=SKEW_S_NOTE, problem=SKEW_S_PROBLEM)
    return Check(
        name="clock", grade=grade, text=text, then="synchronise both clocks with NTP" if grade is not Grade.OK else None
    )


def _vacuum(server: Server) -> Check:
    off = [name for name in FOR_VACUUM if server.settings.get(name) == "off"]
    if off:
        then = "; ".join(f"ALTER SYSTEM RESET {name}" for name in off) + "; then: SELECT pg_reload_conf()"
        return _problem("autovacuum", f"turned off: {', '.join(off)}. Claims become slower over time", then)
    return _ok("autovacuum", "on")


def _open_transactions(server: Server) -> Check:
    if server.transactions:
        return _held_back("open transactions", server.transactions)
    if not server.sees_sessions:
        return Check(
            name="open transactions",
            grade=Grade.NOTE,
            text="transactions of other roles are not visible",
            then="GRANT pg_read_all_stats TO the role that Fairpost uses",
        )
    return _ok("open transactions", "none of them is long-running")


def _holdbacks(name: str, found: Sequence[Holdback], fine: str) -> Iterable[Check]:
    yield _held_back(name, found) if found else _ok(name, fine)


def _held_back(name: str, found: Sequence[Holdback]) -> Check:
    worst = max(found, key=lambda one: (one.age_s or 0, one.kept_bytes or 0))
    grade = max(
        _grade(worst.age_s or 0, note=OPEN_S_NOTE, problem=OPEN_S_PROBLEM),
        _grade(worst.kept_bytes or 0, note=KEPT_BYTES_NOTE, problem=KEPT_BYTES_PROBLEM),
        key=list(Grade).index,
    )
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"{worst.what}{_since(worst)}{more}"
    return Check(name=name, grade=grade, text=text, then=worst.then if grade is not Grade.OK else None)


def _since(one: Holdback) -> str:
    age = f", open for {say_roughly(one.age_s)}: it blocks vacuum" if one.age_s is not None else ""
    kept = f", retains {one.kept_bytes / 1_000_000_000:,.1f} GB of WAL" if one.kept_bytes is not None else ""
    return age + kept


def _pooler(server: Server) -> Check:
    if server.is_pooled:
        return Check(
            name="connection",
            grade=Grade.NOTE,
            text="the URL connects through a pooler such as PgBouncer: engines receive no NOTIFY, so they poll every FAIRPOST_POLL_INTERVAL instead",
            then="optional: to send within milliseconds, give engines a direct URL to PostgreSQL",
        )
    return _ok("connection", "direct")


# ── the schema ───────────────────────────────────────────────────────────────────────────────────────────


def _schema(schema: Schema) -> Iterable[Check]:
    yield _state(schema)
    of_tenant = [right for right in schema.missing if right.kind is RightKind.TENANT]
    of_owner = [right for right in schema.missing if right.kind is RightKind.OWNER]
    of_login = [right for right in schema.missing if right.kind is RightKind.LOGIN]
    if of_owner:
        then = f"connect as the owner (FAIRPOST_DATABASE_URL), or run as an administrator: {how_to_grant(of_owner)}"
        yield _problem("role", f"the schema belongs to {names(of_owner)}, but the current role is {schema.role}", then)
    else:
        yield _ok("role", schema.role)
    if of_login:
        yield _problem("rights", f"{schema.role} lacks {names(of_login)}", how_to_grant(of_login))
    elif not of_owner:
        yield _ok("rights", "sufficient for engines and commands")
    if of_tenant:
        yield _problem("tenant role", f"HTTP requests lack {names(of_tenant)}", how_to_grant(of_tenant))
    elif schema.is_usable:
        yield _ok("tenant role", "sufficient for HTTP requests")


def _state(schema: Schema) -> Check:
    if not schema.is_readable:
        return _problem("schema", "the version cannot be read", "grant the missing rights listed below")
    if schema.trouble:
        return _problem("schema", schema.trouble, f"fix this, then run: {MIGRATE}")
    if schema.pending:
        return _problem("schema", f"not up to date (pending: {', '.join(schema.pending)})", MIGRATE)
    return _ok("schema", "up to date")


# ── engines, accounts and logins ─────────────────────────────────────────────────────────────────────────


def _engine(engine: Engine) -> Iterable[Check]:
    yield _restored(engine)
    yield _running(engine)
    yield from _accounts(engine)
    yield from _mailboxes(engine.facts)
    if engine.environment is not None:
        yield _given(engine.environment)
    yield from _left_behind(engine)
    yield from _passwords(engine)
    yield from _shut_out(engine)
    yield from _borrowed(engine)
    yield from _domains(engine)
    yield from _mail(engine)


def _restored(engine: Engine) -> Check:
    match engine.lineage:
        case Restored(signs):
            text = f"the database was restored or copied: {'; '.join(map(brief, signs))}"
            return _problem(
                "identity",
                text,
                "the next engine starts paused. When you have checked the queue: fairpost resume --all",
            )
        case First() | Sound() | FailedOver() if not engine.sees_identity:
            return Check(
                name="identity",
                grade=Grade.NOTE,
                text="this role cannot identify its server, so a restore is only detected by engines that ran before it",
                then="if possible, GRANT EXECUTE ON FUNCTION pg_control_system() TO the role that Fairpost uses",
            )
        case First():
            return _ok("identity", "no engine has used this database yet")
        case Sound() | FailedOver():
            return _ok("identity", "unchanged")
        case _:
            assert_never(engine.lineage)


def _running(engine: Engine) -> Check:
    facts = engine.facts
    if facts.engines:
        at_work = {each.owner for each in facts.accounts if facts.is_driven(each)}
        return _ok("engine", f"{len(facts.engines)} running, {len(at_work)} active")
    waiting = _waiting(facts)
    if waiting and not facts.pause:
        check = _problem("engine", f"no engine is running, but {waiting:,} e-mails are waiting", "fairpost work")
    else:
        check = _note("engine", "no engine is running, so nothing is being sent", "fairpost work")
    return replace(check, code="engine.none")


def _waiting(facts: Facts) -> int:
    """Returns the number of e-mails still to be sent, including held and scheduled ones."""
    total = facts.total()
    return sum(route.waiting for route in facts.routes) + total.claimed + total.sending


def _accounts(engine: Engine) -> Iterable[Check]:
    facts = engine.facts
    if not facts.accounts:
        then = "fairpost account add NAME --from ADDRESS --smtp URL"
        grade = Grade.PROBLEM if _waiting(facts) else Grade.NOTE
        text = "none: nothing can be sent"
        yield Check(name="accounts", grade=grade, text=text, then=then, code="account.none")
        return
    decisive = {_subject(each): each for each in diagnose(facts)}
    found: dict[str, list[Condition]] = {}
    for condition in _stuck(facts):
        found.setdefault(condition.code, []).append(decisive.get(_subject(condition), condition))
    for alike in found.values():
        yield _alike(sorted(alike, key=lambda each: -each.waiting), facts)
    if not found:
        yield _ok("accounts", f"{len(facts.accounts)}, all can send")


def _stuck(facts: Facts) -> list[Condition]:
    """Returns the conditions of accounts that need manual action, whether or not e-mails are waiting for them."""
    found = [of_account(runtime, facts, has_mail=False) for runtime in facts.accounts]
    return [each for each in found if each.is_stuck and each.code.startswith("account.")]


def _mailboxes(facts: Facts) -> Iterable[Check]:
    """Yields one row for each reason why mailboxes cannot be read or, if there is no such reason, one row with the
    number of mailboxes that are read.
    """
    readings = [one for each in facts.accounts if (one := reading_of(each, facts.now))]
    found: dict[str, list[Condition]] = {}
    for each in readings:
        if each.is_troubled:
            found.setdefault(each.condition.code, []).append(each.condition)
    for first, *others in found.values():
        told = shown(first)
        more = f" Also: {_some([str(each.reason.params['account']) for each in others])}." if others else ""
        grade = Grade.PROBLEM if first.tone is Tone.FAULT else Grade.NOTE
        yield Check(name="mailboxes", grade=grade, text=f"{told.text}{more}", then=told.then, code=told.code)
    if readings and not found:
        off = sum(each.state is ReadingState.OFF for each in readings)
        unknown = f"; {off} off, so their late bounces and replies are not detected" if off else ""
        yield _ok("mailboxes", f"{len(readings) - off} read{unknown}")


def _subject(condition: Condition) -> tuple[str, Value]:
    return condition.code, condition.reason.params.get("account")


def _alike(accounts: Sequence[Condition], facts: Facts) -> Check:
    """Returns one row for all accounts in the same condition. The row contains a sentence about the first account, and
    the names of the others.

    The row counts as a problem if e-mails are waiting for any of these accounts.
    """
    worst, *others = accounts
    names = [str(each.reason.params["account"]) for each in accounts]
    wanted = {route.route for route in facts.routes}
    alike = [each.account for each in facts.accounts if each.account.name in names]
    is_wanted = any(each.pool in wanted or f"@{each.name}" in wanted for each in alike)
    is_fault = worst.tone is Tone.FAULT and (is_wanted or worst.code != "account.no_server")
    is_bad = is_fault or bool(worst.waiting)
    told = shown(worst)
    more = f" Also: {_some(names[1:])}." if others else ""
    grade = Grade.PROBLEM if is_bad and not (facts.pause and worst.tone is Tone.STOPPED) else Grade.NOTE
    return Check(name="accounts", grade=grade, text=f"{told.text}{more}", then=told.then, code=told.code)


def _given(found: Environment) -> Check:
    name = found.account
    if found.trouble:
        return _problem("environment", found.trouble, "correct the variables and restart the engine")
    if not found.is_there:
        then = "start an engine with the variables that are set here: fairpost work"
        return _note("environment", f"no engine has created the account {name} from FAIRPOST_SMTP_HOST yet", then)
    if not found.is_theirs:
        return _problem(
            "environment",
            f"account {name} is managed manually: FAIRPOST_SMTP_HOST has no effect",
            f"fairpost account remove {name}; or choose a different name in FAIRPOST_SMTP_ACCOUNT; or unset FAIRPOST_SMTP_HOST",
        )
    if found.differs:
        then = "restart the engine with the variables that are set here: fairpost work"
        return _note("environment", f"account {name} differs from the environment variables: {found.differs}", then)
    return _ok("environment", f"account {name} matches the environment variables")


def _left_behind(engine: Engine) -> Iterable[Check]:
    """Reports accounts created from environment variables that are not set here.

    The engine may still have these variables.
    """
    given = engine.environment.account if engine.environment else None
    servers = {each.account.name: each.account.transport for each in engine.facts.accounts}
    names = [
        name
        for name, server in servers.items()
        if isinstance(server, ServerSettings) and server.origin == ENVIRONMENT and name != given
    ]
    if names:
        text = f"created from variables that are not set here, and still sending: {_some(names)}"
        yield _note(
            "environment", text, f"if no engine uses these variables any more: fairpost account remove {names[0]}"
        )


def _shut_out(engine: Engine) -> Iterable[Check]:
    if engine.shut_out:
        yield _problem(
            "logins",
            f"cannot enqueue: {_some(engine.shut_out)}",
            f"fairpost db migrate; or, if the login no longer exists: fairpost db revoke {engine.shut_out[0]}",
        )


def _borrowed(engine: Engine) -> Iterable[Check]:
    if engine.borrowers:
        pool, first = engine.service_pool, engine.borrowers[0]
        yield _note(
            "workspaces",
            f"these workspaces send through pool {pool}, which is for sign-in codes and notices: {_some(engine.borrowers)}",
            f"lend a different pool: fairpost workspace pools {first} --pool POOL",
        )


def _domains(engine: Engine) -> Iterable[Check]:
    """Returns the worst finding of each domain. Only findings on the operator's own domains are problems, because all
    other domains belong to workspaces.
    """
    order = (Health.BAD, Health.WARNING)
    found = [
        (order.index(finding.grade), domain, finding)
        for domain in engine.domains
        if (finding := min(domain.findings, key=lambda each: _rank(each.grade), default=None)) is not None
        and finding.grade in order
    ]
    found.sort(key=lambda each: (each[0], not each[1].is_own, each[1].workspace, each[1].domain))
    for rank, domain, finding in found[:NAMED_MAX]:
        is_problem = order[rank] is Health.BAD and domain.is_own
        yield Check(
            name="domains",
            grade=Grade.PROBLEM if is_problem else Grade.NOTE,
            text=sentence(finding.reason),
            then=f"fairpost domain check --workspace {domain.workspace} {domain.domain}",
            code=finding.reason.code,
        )
    if len(found) > NAMED_MAX:
        yield _note(
            "domains", f"{len(found) - NAMED_MAX} more have findings", "fairpost domain list --workspace WORKSPACE"
        )
    if engine.domains and not found:
        yield _ok("domains", f"{len(engine.domains)} checked, no problems found")


def _rank(grade: Health) -> int:
    return (Health.BAD, Health.WARNING, Health.UNKNOWN, Health.GOOD).index(grade)


def _passwords(engine: Engine) -> Iterable[Check]:
    if engine.unopenable:
        yield _problem(
            "passwords",
            f"encrypted with a key that is missing here: {_some(engine.unopenable)}",
            "set FAIRPOST_SECRET_KEY to the right key, or run: fairpost secrets rotate --drop-unreadable",
        )


# ── why mail waits, graded ───────────────────────────────────────────────────────────────────────────────

_TOLD_ABOVE = (*PAUSED, "account.none", "engine.none")


def _mail(engine: Engine) -> Iterable[Check]:
    facts = engine.facts
    told_above = _TOLD_ABOVE if facts.engines else (*_TOLD_ABOVE, "mail.stranded")
    of_accounts = {_subject(each) for each in _stuck(facts)}
    diagnosed = diagnose(facts)
    found = [each for each in diagnosed if each.code not in told_above and _subject(each) not in of_accounts]
    for each in found:
        told = shown(each)
        is_bad = each.is_stuck and not each.code.startswith(("hold.", "campaign.paused"))
        grade = Grade.PROBLEM if is_bad and not facts.pause else Grade.NOTE
        yield Check(name="mail", grade=grade, text=told.text, then=told.then or None, code=told.code)
    if not diagnosed:
        waiting = _waiting(facts)
        yield _ok("mail", f"{waiting:,} waiting, none blocked" if waiting else "nothing is waiting")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _grade(value: float, *, note: float, problem: float) -> Grade:
    if value >= problem:
        return Grade.PROBLEM
    return Grade.NOTE if value >= note else Grade.OK


def _ok(name: str, text: str) -> Check:
    return Check(name=name, grade=Grade.OK, text=text)


def _note(name: str, text: str, then: str) -> Check:
    return Check(name=name, grade=Grade.NOTE, text=text, then=then)


def _problem(name: str, text: str, then: str) -> Check:
    return Check(name=name, grade=Grade.PROBLEM, text=text, then=then)
