"""`fairpost doctor`: checks for common problems and suggests fixes. Does not start or change anything."""

from typing import TYPE_CHECKING

import typer

from fairpost.cli.output import AsJson, plain, print_json
from fairpost.model.errors import FairpostError, VaultError
from fairpost.settings import Settings, read_settings, read_settings_file

if TYPE_CHECKING:
    import asyncpg

    from fairpost.observe.checkup import Check
    from fairpost.policy.findings import Environment, Findings, Machine
    from fairpost.store.store import Store
    from fairpost.vault.vault import Vault


def doctor(as_json: AsJson = False) -> None:
    """Check the installation and suggest fixes.

    Exits with code 1 if there is a problem, so you can use the command for monitoring.

    \b
    Example: fairpost doctor
    """
    import asyncio

    from fairpost.observe.checkup import Grade, check_up

    checks = check_up(asyncio.run(_examine(read_settings())))
    problems = sum(check.grade is Grade.PROBLEM for check in checks)
    if as_json:
        print_json({"ok": not problems, "checks": checks})
    else:
        _print(checks, problems=problems)
    if problems:
        raise typer.Exit(1)


def _print(checks: "list[Check]", *, problems: int) -> None:
    colors = {"ok": typer.colors.GREEN, "note": typer.colors.YELLOW, "problem": typer.colors.RED}
    for check in checks:
        mark = typer.style(f"{check.grade:<7}", fg=colors[check.grade])
        typer.echo(f"{mark}  {check.name}: {plain(check.text)}")
        if check.then:
            typer.echo(f"{'':<9}next: {plain(check.then)}")
    typer.echo("no problems found" if not problems else f"problems: {problems}")


async def _examine(settings: Settings) -> "Findings":
    from dataclasses import replace

    import asyncpg

    from fairpost.policy.findings import Findings
    from fairpost.startup.parts import connect, embedded, vault_of

    vault = vault_of(settings)
    nothing_yet = Findings(machine=_machine(settings, vault))
    url = settings.database_url or (embedded(settings).url if embedded(settings).is_ready() else None)
    if url is None:
        return replace(nothing_yet, unreachable="the embedded PostgreSQL is not running")
    try:
        async with connect(url) as conn:
            return await _inside(conn, nothing_yet, settings, vault)
    except (FairpostError, asyncpg.PostgresError) as error:
        return replace(nothing_yet, unreachable=str(error))


async def _inside(conn: "asyncpg.Connection", findings: "Findings", settings: Settings, vault: "Vault") -> "Findings":
    from dataclasses import replace

    from fairpost.observe.doctor import read_engine, read_schema, read_server
    from fairpost.store.store import Store

    findings = replace(findings, server=await read_server(conn), schema=await read_schema(conn))
    if findings.schema is None or not findings.schema.is_usable:
        return findings
    store = Store(conn)
    engine = await read_engine(
        store,
        settings.home,
        unopenable=await _unopenable(store, vault),
        environment=await _environment(store, settings, vault),
        service_pool=settings.service_pool,
        own_workspace=settings.workspace,
    )
    return replace(findings, engine=engine)


def _machine(settings: Settings, vault: "Vault") -> "Machine":
    from fairpost.observe.doctor import disks_of, mode_of
    from fairpost.policy.findings import Machine
    from fairpost.startup.parts import embedded, host_name

    places = [("FAIRPOST_HOME", settings.home)]
    if settings.database_url is None:
        places.append(("the embedded PostgreSQL", embedded(settings).status().data_dir))
    key_from, key_trouble = _key(vault)
    file = read_settings_file()
    return Machine(
        home=str(settings.home),
        home_mode=mode_of(settings.home),
        disks=disks_of(places),
        redirect_all=settings.redirect_all,
        host=host_name(settings),
        key_from=key_from,
        key_trouble=key_trouble,
        settings_file=str(file.path) if file.path else None,
        settings_file_mode=mode_of(file.path) if file.path else None,
        settings_file_has_secret=file.has_secret,
    )


def _key(vault: "Vault") -> tuple[str | None, str | None]:
    """Return the source of the master key, and any problem with the key."""
    ring = vault.keyring
    try:
        has_one = ring.current() is not None
    except VaultError as error:
        return None, str(error)
    if not has_one:
        return None, None
    return "FAIRPOST_SECRET_KEY" if ring.is_given else str(ring.file), None


async def _environment(store: "Store", settings: Settings, vault: "Vault") -> "Environment | None":
    from fairpost.policy.findings import Environment
    from fairpost.startup.environment import as_stored, changes_to, find, given_account, in_words, is_of_environment

    try:
        given = given_account(settings)
        if given is None:
            return None
        account = await find(store, given.name)
        if account is None or not is_of_environment(account):
            return Environment(account=given.name, is_there=account is not None)
        changes = changes_to(account, await as_stored(store, given), vault, home=settings.home)
    except FairpostError as error:
        return Environment(account=settings.smtp_account, trouble=str(error))
    return Environment(account=given.name, is_there=True, is_theirs=True, differs=in_words(changes))


async def _unopenable(store: "Store", vault: "Vault") -> list[str]:
    try:
        here = {key.id for key in vault.keyring.at_hand()}
    except VaultError:
        return []  # this problem is already reported
    return [secret.name for secret in await store.secrets() if secret.key_id not in here]
