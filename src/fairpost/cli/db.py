"""`fairpost db`: commands for the database. Only the embedded server can be started and stopped."""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from fairpost.cli.acting import act, act_on
from fairpost.cli.output import AsJson, print_json, print_pairs, print_table
from fairpost.model.errors import EmbeddedServerError, FairpostError
from fairpost.model.rights import how_to_grant, names
from fairpost.model.urls import as_login, without_password
from fairpost.settings import DAYS_MAX, Settings, read_settings

if TYPE_CHECKING:
    import asyncpg

    from fairpost.model.retention import DroppedMonth, OldMonth
    from fairpost.store.applications import Application
    from fairpost.store.migrations import Applied
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Start, stop, migrate and inspect the database.")

APP_LOGIN = "app"
ELSEWHERE = "The database is managed elsewhere (FAIRPOST_DATABASE_URL is set): {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    managed: str  # "embedded", or "elsewhere" for a different server
    running: bool
    url: str
    version: str | None = None
    data_dir: str | None = None
    log_file: str | None = None
    started_at: datetime | None = None
    schema_version: int | None = None
    pending: tuple[str, ...] | None = None
    size_bytes: int | None = None


@app.command()
def start(as_json: AsJson = False) -> None:
    """Start the embedded PostgreSQL.

    Also migrates the schema. Does nothing if PostgreSQL is already running.

    \b
    Example: fairpost db start
    """
    from fairpost.startup.parts import embedded, home_database_url

    settings = read_settings().at_home()  # the embedded server does not belong to a region
    if settings.database_url:
        typer.echo(ELSEWHERE.format(without_password(settings.database_url)))
        return
    was_running = embedded(settings).is_ready()
    url = home_database_url(settings)
    if as_json:
        print_json({"started": not was_running, "url": url})
    else:
        typer.echo(f"{'already running' if was_running else 'started'}: {url}")


@app.command()
def stop() -> None:
    """Stop the embedded PostgreSQL.

    Committed data is kept.

    \b
    Example: fairpost db stop
    """
    from fairpost.startup.parts import embedded

    settings = read_settings().at_home()  # the embedded server does not belong to a region
    if settings.database_url:
        typer.echo(ELSEWHERE.format(without_password(settings.database_url)))
        return
    server = embedded(settings)
    was_running = server.status().running
    server.stop()
    typer.echo("stopped" if was_running else "was not running")


@app.command()
def url(
    for_app: Annotated[
        bool,
        typer.Option(
            "--app",
            help="Print the URL for your application. The login in the URL can enqueue e-mails and create tables in the schema `public`.",
        ),
    ] = False,
) -> None:
    """Print the database URL for use in scripts.

    Prints nothing else and does not start the database.

    \b
    Example: psql "$(fairpost db url --app)"
    """
    settings = read_settings()
    typer.echo(_app_url(settings) if for_app else _url(settings))


@app.command()
def grant(
    login: Annotated[str, typer.Argument(metavar="ROLE", help="Your application's database role.")],
    workspaces: Annotated[
        list[str] | None,
        typer.Option(
            "--workspace", metavar="NAME", help="Workspace that the role may send for. Repeatable. [default: default]"
        ),
    ] = None,
    all_workspaces: Annotated[
        bool,
        typer.Option(
            "--all-workspaces",
            help="Allow any workspace, From address and account. Use this option only for your own applications.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Allow an application to enqueue over SQL.

    In the workspaces that you specify, the role can enqueue e-mails, read their status, cancel them, and register senders. Pools, accounts and From addresses are checked in the same way as for HTTP requests. The role cannot read tables. The command replaces earlier grants to the role.

    \b
    Example: fairpost db grant partner --workspace acme
    """
    from fairpost.actions import logins
    from fairpost.store.applications import ALL_WORKSPACES

    if all_workspaces and workspaces:
        raise FairpostError("specify either --workspace or --all-workspaces")
    wanted = [ALL_WORKSPACES] if all_workspaces else workspaces or ["default"]
    act(logins.grant, logins.GrantLogin(login=login, workspaces=wanted))
    if as_json:
        print_json({"login": login, "workspaces": wanted})
    else:
        typer.echo(f"{login} may enqueue for {'all workspaces' if all_workspaces else ', '.join(wanted)}")


@app.command()
def revoke(
    login: Annotated[str, typer.Argument(metavar="ROLE", help="An application's database role.")],
    as_json: AsJson = False,
) -> None:
    """Revoke an application's access.

    E-mails that the application has already enqueued remain in the queue.

    \b
    Example: fairpost db revoke partner
    """
    from fairpost.actions import logins

    act(logins.revoke, logins.NamedLogin(login=login))
    if as_json:
        print_json({"login": login, "workspaces": []})
    else:
        typer.echo(f"{login} no longer has access")


@app.command()
def logins(as_json: AsJson = False) -> None:
    """List applications that may enqueue over SQL.

    \b
    Example: fairpost db logins
    """
    from fairpost.cli.session import with_store
    from fairpost.store.applications import ALL_WORKSPACES, applications

    found = with_store(applications)
    if as_json:
        print_json(found)
    elif found:
        rows = [
            (each.login, "all" if ALL_WORKSPACES in each.workspaces else ", ".join(each.workspaces), _rights(each))
            for each in found
        ]
        print_table(("role", "workspaces", "rights"), rows)
    else:
        typer.echo("No application has access yet. Grant it: fairpost db grant ROLE")


def _rights(application: "Application") -> str:
    return "granted" if application.is_let_in else "missing; run: fairpost db migrate"


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[PSQL OPTION]...", help="Options to pass to psql.")
    ] = None,
) -> None:
    """Connect to the database with psql.

    Starts the embedded database if necessary.

    \b
    Example: fairpost db shell -c "SELECT count(*) FROM fairpost.queue"
    """
    import asyncio

    from fairpost.startup.parts import server_url

    program = _psql()
    where, environment = _without_secret(asyncio.run(server_url(read_settings())))
    os.execve(program, [program, *(arguments or ()), where], {**os.environ, **environment})  # noqa: S606 - runs psql in this process


@app.command()
def migrate(
    region: Annotated[
        str | None, typer.Option(metavar="NAME", help="Migrate this region's database. [default: FAIRPOST_REGION]")
    ] = None,
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Migrate the home database and all regions' databases.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the schema to the installed version.

    Applies all pending migrations in a single transaction and lists them. Without a region, migrates the home database.

    \b
    Example: fairpost db migrate
    """
    import asyncio

    settings = read_settings()
    if all_regions:
        if region:
            raise FairpostError("specify either --region or --all-regions")
        _migrate_all(settings, as_json=as_json)
        return
    done = asyncio.run(_migrate(settings.at(region) if region else settings))
    if as_json:
        print_json(done)
    else:
        _print_applied(done)


def _migrate_all(settings: Settings, *, as_json: bool) -> None:
    """Migrate all regions. An unresponsive region does not delay the others; it is named at the end."""
    import asyncio

    from fairpost.reasons.rendering import error_in_words

    places = [("home", settings.at_home())]
    places += [(name, settings.at(name)) for name in (settings.regions.names if settings.regions else ())]
    done: dict[str, Applied | None] = {}
    troubles = {}
    for name, each in places:
        try:
            done[name] = asyncio.run(_migrate(each))
        except FairpostError as error:
            done[name], troubles[name] = None, error_in_words(error)
        applied = done[name]
        if applied and not as_json:
            typer.echo(f"{name}:")
            _print_applied(applied)
    if as_json:
        print_json([{"database": name, "applied": done[name], "trouble": troubles.get(name)} for name, _ in places])
    if troubles:
        raise FairpostError(" ".join(f"Failed in region {name}: {trouble}" for name, trouble in troubles.items()))


def _print_applied(done: "Applied") -> None:
    for name in done.migrations:
        typer.echo(f"applied {name}")
    if done.functions:
        typer.echo("updated the functions")
    if not done.functions and not done.migrations:
        typer.echo("the schema is up to date")
    if done.missing:
        typer.echo(f"fairpost api cannot start yet. Missing: {names(done.missing)}")
        typer.echo(f"As a database administrator, run: {how_to_grant(done.missing)}")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the database's version, location, schema and size.

    Does not start the database.

    \b
    Example: fairpost db status --json
    """
    import asyncio

    found = asyncio.run(_status(read_settings()))
    if as_json:
        print_json(found)
        return
    print_pairs(
        [
            ("database", "embedded" if found.managed == "embedded" else "managed elsewhere"),
            ("running", "yes" if found.running else "no; start it: fairpost db start"),
            ("version", found.version and f"PostgreSQL {found.version}"),
            ("URL", found.url),
            ("data", found.data_dir),
            ("log", found.log_file),
            ("schema", _schema_in_words(found)),
            ("size", found.size_bytes and f"{found.size_bytes / 1_000_000:,.1f} MB"),
        ]
    )


@app.command()
def retain(
    days: Annotated[
        int | None,
        typer.Option(min=1, max=DAYS_MAX, help="Number of days of history to keep. [default: FAIRPOST_RETENTION_DAYS]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be dropped, without dropping anything.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Drop months of history that are older than the retention period.

    Engines do this once a day if FAIRPOST_RETENTION_DAYS is set.

    \b
    Example: fairpost db retain --days 400 --dry-run
    """
    from fairpost.cli.session import with_store

    wanted = days or read_settings().retention_days
    if wanted is None:
        raise FairpostError("Retention is not set. Specify --days, or set FAIRPOST_RETENTION_DAYS.")
    dropped, kept = with_store(lambda store: _retained(store, wanted, dry_run))
    if as_json:
        print_json({"dry_run": dry_run, "dropped": dropped, "kept": kept})
        return
    for month in dropped:
        typer.echo(
            f"{'would drop' if dry_run else 'dropped'} {month.month:%Y-%m}: {_size(month.bytes)}, {', '.join(month.partitions)}"
        )
    for month in kept:
        typer.echo(f"kept {month.month:%Y-%m}: {_size(month.bytes)}; {month.kept}")
    if not dropped and not kept:
        typer.echo(f"nothing to drop: no complete month of history is older than {wanted} days")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1_000_000:,.1f} MB"


async def _retained(
    store: "Store", days: int, dry_run: bool
) -> "tuple[list[OldMonth] | list[DroppedMonth], list[OldMonth]]":
    from fairpost.actions.installation import DropHistory, drop_history
    from fairpost.store import retention

    before = await store.now() - timedelta(days=days)
    if dry_run:
        months = await retention.old_months(store, before=before)
        return [m for m in months if m.kept is None], [m for m in months if m.kept is not None]
    done = await act_on(store, drop_history, DropHistory(before=before))
    if done.is_in_use:
        raise FairpostError(
            "A long-running transaction is using the history tables (see: fairpost doctor), so some months were kept. "
            "Try again later: fairpost db retain"
        )
    return done.dropped, done.kept


def _schema_in_words(found: DatabaseStatus) -> str | None:
    if found.pending is None:
        return None
    have = f"{found.schema_version:04}" if found.schema_version else "none yet"
    if not found.pending:
        return f"{have}, up to date"
    return f"{have}; pending: {', '.join(found.pending)}. Run: fairpost db migrate"


def _app_url(settings: Settings) -> str:
    import asyncio

    from fairpost.startup.parts import embedded

    if settings.database_url:
        raise FairpostError(
            "The database is managed elsewhere (FAIRPOST_DATABASE_URL is set). Create a login for your "
            "application on that server, then grant it access: fairpost db grant ROLE"
        )
    server = embedded(settings)
    if not server.is_ready():
        raise FairpostError("The embedded PostgreSQL is not running. Start it: fairpost db start")
    asyncio.run(_make_app_login(server.url))
    return as_login(server.url, APP_LOGIN)


async def _make_app_login(url: str) -> None:
    from fairpost.actions import logins
    from fairpost.store.store import Store

    async with Store.open(url) as store:
        await act_on(store, logins.create, logins.NamedLogin(login=APP_LOGIN))


def _url(settings: Settings) -> str:
    from fairpost.startup.parts import embedded

    return settings.database_url or embedded(settings).url


async def _migrate(settings: Settings) -> "Applied":
    from fairpost.startup.parts import connect, server_url
    from fairpost.store.migrations import migrate as bring_up_to_date

    async with connect(await server_url(settings)) as conn:
        return await bring_up_to_date(conn)


async def _status(settings: Settings) -> DatabaseStatus:
    from fairpost.startup.parts import connect, embedded

    if settings.database_url:
        async with connect(settings.database_url) as conn:
            inside = await _inside(conn)
        return DatabaseStatus(managed="elsewhere", running=True, url=without_password(settings.database_url), **inside)
    server = embedded(settings).status()
    outside: dict[str, Any] = {
        "managed": "embedded",
        "running": server.running,
        "url": server.url,
        "version": server.version,
        "data_dir": str(server.data_dir),
        "log_file": str(server.log_file),
        "started_at": server.started_at,
    }
    if not server.ready:
        return DatabaseStatus(**outside)
    async with connect(server.url) as conn:
        return DatabaseStatus(**{**outside, **await _inside(conn)})


async def _inside(conn: "asyncpg.Connection") -> dict[str, Any]:
    from fairpost.store import server_facts
    from fairpost.store.migrations import pending

    todo = await pending(conn)
    return {
        "version": await server_facts.version(conn),
        "schema_version": await server_facts.schema_version(conn),
        "pending": tuple(todo),
        "size_bytes": await server_facts.size_bytes(conn),
    }


def _psql() -> str:
    import shutil

    from fairpost.store.binaries import find_binaries

    try:
        ours = find_binaries().directory / "psql"
    except EmbeddedServerError:
        ours = None
    found = str(ours) if ours and ours.is_file() else shutil.which("psql")
    if found is None:
        raise FairpostError("psql was not found. Install it: apt install postgresql-client, or brew install libpq")
    return found


def _without_secret(url: str) -> tuple[str, dict[str, str]]:
    """Move the password to an environment variable, because all users on the machine can read a process's arguments."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, {}
    where = f"{url_user}@{parts.netloc.rpartition('@')[2]}" if (url_user := parts.username) else parts.netloc
    return urlunsplit(parts._replace(netloc=where)), {"PGPASSWORD": unquote(parts.password)}
