"""`fairpost account`: the sender accounts, their servers and their limits."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.account_blocks import blocks_facts, print_blocks, unblock
from fairpost.cli.account_share import share
from fairpost.cli.account_view import account_facts, print_account, print_accounts
from fairpost.cli.acting import act, act_on, in_words
from fairpost.cli.limit_options import LimitOptions, PresetOptions, chosen_limits, given_limits, with_given
from fairpost.cli.option_groups import expanded
from fairpost.cli.output import AsJson, note, print_json, print_table
from fairpost.cli.server_options import ServerOptions, given_server
from fairpost.cli.session import with_store
from fairpost.cli.verify_view import print_verification, verification_facts
from fairpost.model.account import LIMITS, AccountStatus
from fairpost.model.errors import FairpostError, NotFound, Refusal
from fairpost.model.names import NAME_RULE, POOL_RULE, is_name, is_pool
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairpost.model.account import Account
    from fairpost.model.transport import ServerSettings
    from fairpost.policy.facts import Facts
    from fairpost.store.store import Store
    from fairpost.transports.kind import Given
    from fairpost.transports.port import Tried


app = typer.Typer(no_args_is_help=True, help="Add, change, verify and pause sender accounts.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Account name: 1 to 100 letters, digits and ._-, for example sales. For a workspace's account: acme/sales.",
    ),
]
KNOWN_BY_MAX = 8
OPTIONS_OF_SERVER = {"smtp.host": "--smtp:", "smtp.imap": "--smtp:", "smtp.ca_file": "--smtp: ca_file"}
DisplayName = Annotated[str | None, typer.Option(help="Display name for the From header. Use '' for no name.")]


@app.command()
@expanded
def add(
    *,
    name: Name,
    from_: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Sender address.")],
    server: ServerOptions,
    pool: Annotated[str, typer.Option(help="Pool that the account belongs to.")] = "default",
    workspace: Annotated[
        str | None,
        typer.Option(
            help="Workspace that owns the account. The account's full name is WORKSPACE/NAME, and its pool belongs to the same workspace."
        ),
    ] = None,
    display_name: DisplayName = None,
    provider: PresetOptions,
    limits: LimitOptions,
    as_json: AsJson = False,
) -> None:
    """Add a sender account.

    An account without a server cannot send. This command does not connect to the server. To test the connection, run:
    fairpost account verify NAME. The account starts with its provider's limits. Any limit that you set overrides the
    provider's.

    \b
    Example: fairpost account add sales --from sales@example.com --smtp smtp+starttls://ann@smtp.example.com --ask-password
    """
    settings = read_settings()
    _require_name(name)
    _require_pool(pool)
    if workspace is not None:
        name, pool = f"{workspace}/{name}", f"{workspace}/{pool}"
    kind, given = given_server(name, server, is_new=True)
    whole, preset = chosen_limits(from_, provider, given_limits(limits), kind=kind, home=settings.home)
    facts = {"pool": pool, "display_name": _display_name(display_name), "limits": whole, "provider": preset}
    id_ = with_store(
        lambda store: _add(store, settings, name, address=from_, given=given, facts=facts),
        settings=settings,
    )
    if as_json:
        print_json({"id": id_, "name": name, "provider": preset})
    else:
        then = f"test it: fairpost account verify {name}" if given else "it has no server yet"
        whose = f", limits of {preset}" if preset else ""
        typer.echo(f"added {name} in pool {pool} ({whole.in_one_line()}{whose}); {then}")
    _note_dev_account(settings, name=name, pool=pool)


def _note_dev_account(settings: Settings, *, name: str, pool: str) -> None:
    """Print a note if the account `dev` serves the same pool, because `dev` delivers only to the development inbox."""
    from fairpost.startup.dev_account import NAME, POOL

    if settings.database_url is not None or pool != POOL or name == NAME:
        return
    if any(each.name == NAME for each in with_store(lambda store: store.accounts(), settings=settings)):
        note(
            f"Account {NAME} also serves pool {POOL} but delivers only to the development inbox. To send all of the "
            f"pool's mail for real, run: fairpost account remove {NAME}"
        )


@app.command("set")
@expanded
def set_(
    *,
    name: Name,
    from_: Annotated[str | None, typer.Option("--from", metavar="ADDRESS", help="Sender address.")] = None,
    server: ServerOptions,
    pool: Annotated[str | None, typer.Option(help="Pool that the account belongs to.")] = None,
    display_name: DisplayName = None,
    provider: PresetOptions,
    limits: LimitOptions,
) -> None:
    """Change a sender account. Omitted options keep their current values.

    If you change the server but not the host or user, the password is kept.

    \b
    Example: fairpost account set sales --ask-password
    """
    settings = read_settings()
    if pool is not None:
        _require_pool(pool)
        pool = _pool_of(name, pool)
    kind, given = given_server(name, server, is_new=False)
    changes = given_limits(limits)
    has_batch = "batch_max" in changes
    if provider.provider is not None or provider.look_up_mx:
        address = from_ or with_store(lambda store: store.account_named(name), settings=settings).address
        whole, preset = chosen_limits(address, provider, changes, kind=kind, home=settings.home)
        changes = {**asdict(whole), "provider": preset}
    if pool is not None:
        changes["pool"] = pool
    if display_name is not None:
        changes["display_name"] = _display_name(display_name)
    if not (changes or from_ is not None or given):
        raise FairpostError(f"Nothing to change. Specify at least one option: fairpost account set {name} --help")
    is_kept = with_store(
        lambda store: _change(store, settings, name, changes, address=from_, given=given),
        settings=settings,
    )
    then = f"; test it: fairpost account verify {name}" if given else ""
    typer.echo(f"changed {name}{then}")
    if is_kept and (from_ is not None or display_name is not None or given or has_batch):
        typer.echo(
            "This account is defined by environment variables. "
            "The next engine that starts will set it from FAIRPOST_SMTP_… again"
        )


@app.command("list")
def list_(
    workspace: Annotated[str | None, typer.Option(help="Only accounts in this workspace.")] = None,
    as_json: AsJson = False,
) -> None:
    """List accounts.

    Shows each account's server, status, limits, usage, next send time and engine.

    \b
    Example: fairpost account list --json
    """
    facts = with_store(lambda store: _read_facts(store, workspace))
    if as_json:
        print_json([account_facts(post, facts) for post in facts.accounts])
    elif facts.accounts:
        print_accounts(facts)
    else:
        typer.echo("No accounts yet. Add one: fairpost account add NAME --from ADDRESS --smtp URL")


@app.command()
def providers(as_json: AsJson = False) -> None:
    """List providers whose limits are known.

    To add or change providers, edit providers.toml in FAIRPOST_HOME.

    \b
    Example: fairpost account providers
    """
    from fairpost.providers.presets import read_presets

    presets = read_presets(read_settings().home / "providers.toml").values()
    if as_json:
        print_json([asdict(preset) for preset in presets])
    else:
        rows = [(p.name, p.title, p.limits.in_one_line(), _known_by([*p.domains, *p.mx])) for p in presets]
        print_table(("provider", "what", "limits", "known by"), rows, title="Providers")


def _known_by(names: list[str]) -> str:
    more = len(names) - KNOWN_BY_MAX
    return ", ".join(names[:KNOWN_BY_MAX]) + (f" and {more} more" if more > 0 else "")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show everything about one account, except its password.

    \b
    Example: fairpost account show sales
    """
    from fairpost.regions.sharing import share_of
    from fairpost.store.blocks import read_blocks

    facts = with_store(_read_facts)
    post = next((post for post in facts.accounts if post.account.name == name), None)
    if post is None:
        raise _no_account(name)
    share = with_store(lambda store: share_of(store, post.account.id))
    blocks = with_store(lambda store: read_blocks(store, now=facts.now, account=name))
    if as_json:
        shared = {"share_percent": share.percent if share else None}
        print_json({**account_facts(post, facts), **shared, "blocks": blocks_facts(blocks)})
        return
    print_account(post, facts)
    print_blocks(blocks, facts.now)
    if share:
        typer.echo(
            f"\nThis is {share.percent}% of the account's limits. Other regions have the rest (fairpost account share)."
        )


@app.command()
def verify(name: Name, as_json: AsJson = False) -> None:
    """Test an account's server and mailbox without sending mail.

    Tests the connection, TLS and login. If the account reads its mailbox, reading is tested too. If a step fails, the
    command prints what to do next and exits with code 1.

    \b
    Example: fairpost account verify sales
    """
    settings = read_settings()
    account = with_store(lambda store: store.account_named(name), settings=settings)
    tried, then = _try(account, settings)
    if as_json:
        print_json({"name": name, "ok": then is None, "steps": verification_facts(tried), "then": then})
    else:
        print_verification(tried)
        typer.echo(f"{name} can log in and send mail" if then is None else then)
    if then is not None:
        raise typer.Exit(1)


@app.command()
def pause(name: Name, reason: Annotated[str, typer.Option(help="Reason, shown by `fairpost status`.")]) -> None:
    """Pause an account. Any send already in progress will finish.

    \b
    Example: fairpost account pause sales --reason "new password on Monday"
    """
    from fairpost.actions import accounts as actions

    act(actions.pause, actions.PauseAccount(name=name, reason=reason))
    typer.echo(f"paused {name}")


@app.command()
def resume(
    name: Name,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Resume a suspended account without testing its server first.")
    ] = False,
) -> None:
    """Resume a paused or suspended account.

    A suspended account is tested first and remains suspended if the server still refuses it.

    \b
    Example: fairpost account resume sales
    """
    settings = read_settings()
    account = with_store(lambda store: store.account_named(name), settings=settings)
    if account.status is AccountStatus.SUSPENDED and not no_verify:
        tried, then = _try(account, settings)
        print_verification(tried)
        if then is not None:
            raise FairpostError(f'Account "{name}" remains suspended because its server is still not working. {then}')
    blocked = with_store(lambda store: _resume(store, name), settings=settings)
    typer.echo(f"{name} is active")
    if blocked:
        typer.echo(f"{blocked} workspaces are still blocked from using this account: fairpost account show {name}")


@app.command()
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
) -> None:
    """Remove an account and its password. The account's history is kept.

    You cannot remove an account while any of its e-mails are claimed, or while there are e-mails that only this account
    may send.

    \b
    Example: fairpost account remove sales --yes
    """
    if not yes:
        typer.confirm(f"Remove account {name} and its password?", abort=True, err=True)
    from fairpost.actions import accounts as actions

    act(actions.remove, actions.AccountNamed(name=name))
    typer.echo(f"removed {name}")


app.command()(unblock)
app.command()(share)


def _try(account: "Account", settings: Settings) -> "tuple[list[Tried], str | None]":
    """Test the server. Return the steps, and the next command if a step failed."""
    import asyncio

    from fairpost.startup.parts import host_name, network_guard, vault_of
    from fairpost.transports.verify import advice, try_account

    guard = network_guard(settings) if account.workspace is not None else None
    tried = asyncio.run(try_account(account, vault_of(settings), guard=guard, host=host_name(settings)))
    return tried, advice(tried, account.transport, account.name)


async def _require_allowed(name: str, server: "ServerSettings | None", settings: Settings) -> None:
    """Refuse servers that an engine would not use. The operator's own accounts may use any server."""
    from fairpost.actions.accounts import require_server
    from fairpost.startup.parts import network_guard

    if server is None or "/" not in name:
        return
    try:
        await require_server(server, network_guard(settings))
    except Refusal as refusal:
        raise FairpostError(
            f"{in_words(refusal.reason, OPTIONS_OF_SERVER)} "
            "To allow this server, set FAIRPOST_ALLOWED_NETWORKS or FAIRPOST_ALLOWED_PORTS for all engines and commands"
        ) from None


async def _read_facts(store: "Store", workspace: str | None = None) -> "Facts":
    """Read the facts about the accounts of one workspace or, by default, about all accounts.

    Waiting mail is counted across all workspaces, because a pool can be lent to several workspaces.
    """
    from dataclasses import replace

    from fairpost.observe.accounts import read_account_facts

    facts = await read_account_facts(store, workspace=None)
    own = [each for each in facts.accounts if workspace in (None, each.account.workspace)]
    return replace(facts, accounts=own)


async def _add(
    store: "Store",
    settings: Settings,
    name: str,
    *,
    address: str,
    given: "Given | None",
    facts: "Mapping[str, Any]",
) -> int:
    from fairpost.actions import accounts as actions
    from fairpost.startup.parts import vault_of
    from fairpost.vault.rotation import write_sealed

    mailbox = await _parsed(store, address)
    await _require_workspace(store, name)
    id_ = await store.next_account_id()
    server = given.server(name, None, mailbox=mailbox) if given else None
    await _require_allowed(name, server, settings)

    async def write(sealed: str | None, keys: "Sequence[str] | None") -> None:
        kept = server and replace(server, secret=sealed)
        request = actions.AddAccount(id=id_, name=name, address=mailbox, server=kept, keys=keys, **facts)
        await act_on(store, actions.add, request)

    if given is None or given.secret is None:
        await write(None, None)
    else:
        await write_sealed(store, vault_of(settings), given.secret, account_id=id_, write=write)
    return id_


async def _change(
    store: "Store",
    settings: Settings,
    name: str,
    changes: dict[str, Any],
    *,
    address: str | None,
    given: "Given | None",
) -> bool:
    """Change an account. Return whether engines configure the account from environment variables."""
    from fairpost.startup.environment import is_of_environment
    from fairpost.transports.registry import write_transport

    account = await store.account_named(name)
    with_given(account.limits, {each.name: changes[each.name] for each in LIMITS if each.name in changes})
    if address is not None:
        changes["address"] = await _parsed(store, address)
    mailbox = changes.get("address", account.address)
    server = given.server(name, account.transport, mailbox=mailbox) if given else None
    await _require_allowed(name, server, settings)
    if server is not None:
        changes["transport"] = write_transport(replace(server, secret=None))
        if server.secret is None:
            changes["secret"] = None  # overridden if a new secret is sealed
    await _write_secret(store, settings, account, changes, server, given.secret if given else None)
    return server is None and is_of_environment(account)


async def _write_secret(
    store: "Store",
    settings: Settings,
    account: "Account",
    changes: dict[str, Any],
    server: "ServerSettings | None",
    secret: str | None,
) -> None:
    """Write the changes and the newly sealed secret. If `secret` is None, the stored secret is kept."""
    from fairpost.actions import accounts as actions
    from fairpost.startup.parts import vault_of
    from fairpost.vault.rotation import write_sealed

    request = actions.ChangeAccount(name=account.name, changes=changes, server=server)
    if secret is None:
        await act_on(store, actions.change, request)
        return

    async def write(sealed: str, keys: "Sequence[str]") -> None:
        sealed_too = {**changes, "secret": sealed}
        await act_on(store, actions.change, replace(request, changes=sealed_too, keys=keys, has_new_secret=True))

    await write_sealed(store, vault_of(settings), secret, account_id=account.id, write=write)


async def _parsed(store: "Store", address: str) -> str:
    parsed = await store.parse_address(address)
    if parsed is None:
        raise FairpostError(f"--from must be an e-mail address, got {address!r}")
    return parsed


async def _resume(store: "Store", name: str) -> int:
    """Resume an account. Return the number of workspaces that are blocked from using the account."""
    from fairpost.actions import accounts as actions
    from fairpost.store.blocks import read_blocks

    await act_on(store, actions.resume, actions.AccountNamed(name=name))
    return len(await read_blocks(store, now=await store.now(), account=name))


def _no_account(name: str) -> NotFound:
    return NotFound(f"There is no account {name}. See: fairpost account list")


def _require_name(name: str) -> None:
    if "/" in name:
        workspace, _, own = name.partition("/")
        raise FairpostError(
            f"To add an account to a workspace, use --workspace: fairpost account add {own} --workspace {workspace}"
        )
    if not is_name(name):
        raise FairpostError(f"NAME must be {NAME_RULE}, got {name!r}")


async def _require_workspace(store: "Store", name: str) -> None:
    from fairpost.store.workspaces import workspace_named

    workspace, slash, _ = name.partition("/")
    if slash:
        await workspace_named(store, workspace)


def _pool_of(name: str, pool: str) -> str:
    """Return the full name of a pool in the same workspace. The prefix in `pool` is optional."""
    workspace, slash, _ = name.partition("/")
    return f"{workspace}/{pool.removeprefix(f'{workspace}/')}" if slash else pool


def _require_pool(pool: str) -> None:
    if not is_pool(pool):
        raise FairpostError(f"--pool must be {POOL_RULE}, got {pool!r}")


def _display_name(name: str | None) -> str | None:
    if name and (len(name) > 200 or not name.isprintable()):
        raise FairpostError(f"--display-name must be at most 200 characters on one line, got {name!r}")
    return name or None
