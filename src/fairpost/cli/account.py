"""`fairpost account`: the sender accounts, their servers and their limits."""

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.account_blocks import blocks_facts, print_blocks, unblock
from fairpost.cli.account_share import share
from fairpost.cli.account_view import account_facts, print_account, print_accounts
from fairpost.cli.gmail_options import GmailGiven, GmailOptions, given_gmail, with_gmail
from fairpost.cli.limit_options import LimitOptions, chosen_limits, given_limits, limits_in_words, with_given
from fairpost.cli.oauth_options import OauthOptions, given_grant, require_plain_secret, with_grant, with_kept_grant
from fairpost.cli.option_groups import expanded
from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.cli.passwords import ServerOptions, given_password
from fairpost.cli.session import with_store
from fairpost.cli.trial import advice, has_passed, print_trial, trial_facts
from fairpost.model.account import AccountStatus, Limits
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.transport import ServerSettings, SmtpSettings, write_transport
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fairpost.model.account import Account
    from fairpost.model.oauth import OauthSettings
    from fairpost.policy.diagnosis import Post
    from fairpost.postgres.store import Removal, Store
    from fairpost.transport.trial import Tried

app = typer.Typer(no_args_is_help=True, help="Add, change, verify, pause, resume and remove sender accounts.")

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Letters, digits and ._- (1..100), like sales; a workspace's: acme/sales."),
]
KNOWN_BY_MAX = 8
DisplayName = Annotated[str | None, typer.Option(help="The name shown beside the address; '' for none.")]


@app.command()
@expanded
def add(
    *,
    name: Name,
    from_: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="The address it sends from.")],
    server: ServerOptions,
    oauth: OauthOptions,
    gmail: GmailOptions,
    pool: Annotated[str, typer.Option(help="The pool it serves.")] = "default",
    workspace: Annotated[
        str | None, typer.Option(help="To whom it belongs: it becomes WORKSPACE/NAME, in a pool of that workspace's.")
    ] = None,
    display_name: DisplayName = None,
    limits: LimitOptions,
    as_json: AsJson = False,
) -> None:
    """Add a sender account.

    Without a server it cannot send. Nothing is connected to: fairpost account verify NAME does that. It begins with its
    provider's limits, and each number you give replaces one of them.

    \b
    Example: fairpost account add sales --from sales@example.com --smtp smtp+starttls://ann@smtp.example.com --ask-password
    """
    settings = read_settings()
    _require_name(name)
    _require_pool(pool)
    if workspace is not None:
        name, pool = f"{workspace}/{name}", f"{workspace}/{pool}"
    smtp, password, granted = _server(server, oauth)
    api = given_gmail(name, gmail, beside=bool(smtp or password))
    whole, preset = chosen_limits(from_, limits, is_api=api is not None, home=settings.home)
    facts = {"pool": pool, "display_name": _display_name(display_name), "limits": whole, "provider": preset}
    id_ = with_store(
        lambda store: _add(
            store,
            settings,
            name,
            address=from_,
            server=with_gmail(None, api, name=name) if api else smtp,
            password=api.secret if api else password,
            granted=granted,
            facts=facts,
        ),
        settings=settings,
    )
    if as_json:
        print_json({"id": id_, "name": name, "provider": preset})
    else:
        then = f"try its server: fairpost account verify {name}" if smtp or api else "it has no server yet"
        whose = f", as {preset} begins" if preset else ""
        typer.echo(f"added {name}, which serves the pool {pool} ({limits_in_words(whole)}{whose}); {then}")


@app.command("set")
@expanded
def set_(
    *,
    name: Name,
    from_: Annotated[str | None, typer.Option("--from", metavar="ADDRESS", help="The address it sends from.")] = None,
    server: ServerOptions,
    oauth: OauthOptions,
    gmail: GmailOptions,
    pool: Annotated[str | None, typer.Option(help="The pool it serves.")] = None,
    display_name: DisplayName = None,
    limits: LimitOptions,
) -> None:
    """Change a sender account, only what is given.

    The password stays when the server changes, as long as host and user are the same.

    \b
    Example: fairpost account set sales --ask-password
    """
    settings = read_settings()
    if pool is not None:
        _require_pool(pool)
        pool = _pool_of(name, pool)
    smtp, password, granted = _server(server, oauth, has_one=True)
    api = given_gmail(name, gmail, beside=bool(smtp or password))
    changes = given_limits(limits)
    if limits.provider is not None or limits.look_up_mx:
        address = from_ or with_store(lambda store: store.account_named(name), settings=settings).address
        whole, preset = chosen_limits(address, limits, is_api=api is not None, home=settings.home)
        changes = {**asdict(whole), "provider": preset}
    if pool is not None:
        changes["pool"] = pool
    if display_name is not None:
        changes["display_name"] = _display_name(display_name)
    if not (changes or from_ is not None or smtp or password or api):
        raise FairpostError(f"Nothing to change. Give an option: fairpost account set {name} --help")
    is_kept = with_store(
        lambda store: _change(
            store, settings, name, changes, address=from_, server=smtp, password=password, granted=granted, api=api
        ),
        settings=settings,
    )
    then = f"; try its server: fairpost account verify {name}" if smtp or password or api else ""
    typer.echo(f"changed {name}{then}")
    if is_kept and (from_ is not None or display_name is not None or password or limits.batch_size is not None):
        typer.echo("It comes from the environment: the next engine that starts goes by FAIRPOST_SMTP_… again")


@app.command("list")
def list_(
    workspace: Annotated[str | None, typer.Option(help="Only those that belong to this workspace.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the accounts.

    Server, status, limits, what they have used of them, when they may send next, and who drives them.

    \b
    Example: fairpost account list --json
    """
    posts, now = with_store(lambda store: _read_posts(store, workspace))
    if as_json:
        print_json([account_facts(post, now) for post in posts])
    elif posts:
        print_accounts(posts, now)
    else:
        typer.echo("no accounts yet; add one: fairpost account add NAME --from ADDRESS --smtp URL")


@app.command()
def providers(as_json: AsJson = False) -> None:
    """List the providers whose limits are known.

    Add your own, or change these, in providers.toml of Fairpost's home.

    \b
    Example: fairpost account providers
    """
    from fairpost.providers.presets import read_presets

    presets = read_presets(read_settings().home / "providers.toml").values()
    if as_json:
        print_json([asdict(preset) for preset in presets])
    else:
        rows = [(p.name, p.title, limits_in_words(p.limits), _known_by([*p.domains, *p.mx])) for p in presets]
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
    from fairpost.postgres.blocks import read_blocks
    from fairpost.regions.sharing import share_of

    posts, now = with_store(_read_posts)
    post = next((post for post in posts if post.account.name == name), None)
    if post is None:
        raise _no_account(name)
    share = with_store(lambda store: share_of(store, post.account.id))
    blocks = with_store(lambda store: read_blocks(store, now=now, account=name))
    if as_json:
        shared = {"share_percent": share.percent if share else None}
        print_json({**account_facts(post, now), **shared, "blocks": blocks_facts(blocks)})
        return
    print_account(post, now)
    print_blocks(blocks, now)
    if share:
        typer.echo(
            f"\nThese are {share.percent} % of its limits; other regions have the rest (fairpost account share)."
        )


@app.command()
def verify(name: Name, as_json: AsJson = False) -> None:
    """Try an account's server: connect, TLS, login. No mail is sent.

    Ends with 1 when a step fails, and says what to type next.

    \b
    Example: fairpost account verify sales
    """
    settings = read_settings()
    account = with_store(lambda store: store.account_named(name), settings=settings)
    tried, then = _try(account, settings)
    if as_json:
        print_json({"name": name, "ok": then is None, "steps": trial_facts(tried), "then": then})
    else:
        print_trial(tried)
        typer.echo(f"{name} can log in and send" if then is None else then)
    if then is not None:
        raise typer.Exit(1)


@app.command()
def pause(name: Name, reason: Annotated[str, typer.Option(help="Why: shown by `fairpost status`.")]) -> None:
    """Stop an account before its next send.

    \b
    Example: fairpost account pause sales --reason "new password on Monday"
    """
    with_store(lambda store: _set_status(store, name, AccountStatus.PAUSED, reason))
    typer.echo(f"paused {name}")


@app.command()
def resume(
    name: Name,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not try the server of a suspended account first.")
    ] = False,
) -> None:
    """Let a paused or suspended account send again.

    A suspended one is tried first, and stays suspended when its server still refuses it.

    \b
    Example: fairpost account resume sales
    """
    settings = read_settings()
    account = with_store(lambda store: store.account_named(name), settings=settings)
    if account.status is AccountStatus.SUSPENDED and not no_verify:
        tried, then = _try(account, settings)
        print_trial(tried)
        if then is not None:
            raise FairpostError(f'Account "{name}" stays suspended: its server cannot be used yet. {then}')
    blocked = with_store(lambda store: _resume(store, name), settings=settings)
    typer.echo(f"{name} is active")
    if blocked:
        typer.echo(f"{blocked} workspaces are still blocked on it: fairpost account show {name}")


@app.command()
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove an account, with its password. What it has sent stays in history.

    Refused while it has e-mails in hand, or e-mails wait for it alone.

    \b
    Example: fairpost account remove sales --yes
    """
    if not yes:
        typer.confirm(f"Remove the account {name} and its password?", abort=True, err=True)
    done = with_store(lambda store: store.remove_account(name))
    if not done.known:
        raise _no_account(name)
    if not done.removed:
        raise FairpostError(_why_not_removed(name, done))
    typer.echo(f"removed {name}")


app.command()(unblock)
app.command()(share)


def _server(
    options: ServerOptions, oauth: OauthOptions, *, has_one: bool = False
) -> "tuple[SmtpSettings | None, str | None, OauthSettings | None]":
    """The server that was given, the secret to seal, and how it logs in by OAuth, each None where it was not.
    `has_one`: the account may have a server."""
    from fairpost.transport.urls import parse_smtp_url

    url = parse_smtp_url(options.smtp) if options.smtp is not None else None
    password = given_password(options, in_url=url.password if url else None)
    grant = given_grant(oauth, password)
    if grant is not None:
        if url is None and not has_one:
            raise FairpostError("--oauth needs a server. Give it: --smtp smtp+starttls://HOST")
        return (url.settings if url else None), grant.secret, grant.settings
    if url is None and password is not None and not has_one:
        raise FairpostError("A password needs a server. Give it: --smtp smtp+starttls://USER@HOST")
    if url is not None and url.settings.user is None and password is not None:
        raise FairpostError("A password needs a user. Write it into the URL: --smtp smtp+starttls://USER@HOST")
    if url is not None and url.settings.user is not None and password is None and not has_one:
        raise FairpostError("The URL has a user, so a password is needed. Add: --ask-password")
    return (url.settings if url else None), password, None


def _try(account: "Account", settings: Settings) -> "tuple[list[Tried], str | None]":
    """The steps, and what to type next where one failed."""
    import asyncio

    from fairpost.app import vault_of
    from fairpost.transport.account_trial import try_account

    tried = asyncio.run(try_account(account, vault_of(settings)))
    return tried, None if has_passed(tried) else advice(tried, account.transport, account.name)


async def _read_posts(store: "Store", workspace: str | None = None) -> "tuple[list[Post], datetime]":
    from fairpost.observe.status import read_posts

    return await read_posts(store, workspace=workspace), await store.value("SELECT clock_timestamp()")


async def _add(
    store: "Store",
    settings: Settings,
    name: str,
    *,
    address: str,
    server: ServerSettings | None,
    password: str | None,
    granted: "OauthSettings | None",
    facts: "Mapping[str, Any]",
) -> int:
    from asyncpg import UniqueViolationError

    from fairpost.app import vault_of
    from fairpost.vault.rotation import write_sealed

    mailbox = await _parsed(store, address)
    await _require_workspace(store, name)
    facts = {**facts, "address": mailbox, "id_": (id_ := await store.next_account_id())}
    if isinstance(server, SmtpSettings) and granted is not None:
        server = with_grant(server, granted, mailbox=mailbox)

    async def write(sealed: str | None, keys: "Sequence[str] | None") -> None:
        await store.add_account(name, **facts, transport=server and replace(server, secret=sealed), keys=keys)

    try:
        if password is None:
            await write(None, None)
        else:
            await write_sealed(store, vault_of(settings), password, account_id=id_, write=write)
    except UniqueViolationError:
        raise FairpostError(f"There is an account {name} already. See: fairpost account list") from None
    return id_


async def _change(
    store: "Store",
    settings: Settings,
    name: str,
    changes: dict[str, Any],
    *,
    address: str | None,
    server: SmtpSettings | None,
    password: str | None,
    granted: "OauthSettings | None",
    api: GmailGiven | None,
) -> bool:
    """Whether it is one that engines keep as their environment has it."""
    from fairpost.environment import is_of_environment

    account = await store.account_named(name)
    with_given(account.limits, {name: changes[name] for name in {f.name for f in fields(Limits)} & set(changes)})
    if address is not None:
        changes["address"] = await _parsed(store, address)
    if api is not None:
        changes["transport"] = write_transport(with_gmail(account.transport, api, name=name))
        await _write_secret(store, settings, account, changes, api.secret)
        return False
    server = _with_login(account, server, password, granted, mailbox=changes.get("address", account.address))
    if server is not None:
        changes["transport"] = write_transport(server)
        if server.user is None:
            changes["secret"] = None
    if password is None:
        _require_password(account, server)
    else:
        _require_user(account, server)
    await _write_secret(store, settings, account, changes, password)
    return "transport" not in changes and is_of_environment(account)


async def _write_secret(
    store: "Store", settings: Settings, account: "Account", changes: dict[str, Any], secret: str | None
) -> None:
    """The changes, with the secret sealed beside them. None: what is sealed stays."""
    from fairpost.app import vault_of
    from fairpost.vault.rotation import write_sealed

    if secret is None:
        await _write_changes(store, account.name, changes)
        return

    async def write(sealed: str, keys: "Sequence[str]") -> None:
        await _write_changes(store, account.name, {**changes, "secret": sealed}, keys=keys)

    await write_sealed(store, vault_of(settings), secret, account_id=account.id, write=write)


def _with_login(
    account: "Account",
    server: SmtpSettings | None,
    password: str | None,
    granted: "OauthSettings | None",
    *,
    mailbox: str,
) -> SmtpSettings | None:
    """The server with how it logs in by OAuth, where that was given or stays."""
    if granted is None:
        if server is None and password is not None:
            require_plain_secret(account)
        return with_kept_grant(account, server, password)
    kept = server or account.transport
    if not isinstance(kept, SmtpSettings):
        raise FairpostError(f"Account {account.name} has no SMTP server. Add: --smtp smtp+starttls://HOST")
    return with_grant(kept, granted, mailbox=mailbox)


def _require_password(account: "Account", server: SmtpSettings | None) -> None:
    """What was given for one server is not handed to another by mistake."""
    if server is None or server.user is None:
        return
    old = account.transport
    is_same = isinstance(old, SmtpSettings) and (old.host, old.user) == (server.host, server.user)
    if not (is_same and isinstance(old, SmtpSettings) and old.secret):
        raise FairpostError("Another host or user needs its password with it. Add: --ask-password")


def _require_user(account: "Account", server: SmtpSettings | None) -> None:
    kept = server or account.transport
    if not isinstance(kept, SmtpSettings) or kept.user is None:
        raise FairpostError(
            f"Account {account.name} has no server with a user, so a password is of no use. "
            f"Give both: fairpost account set {account.name} --smtp smtp+starttls://USER@HOST --ask-password"
        )


async def _parsed(store: "Store", address: str) -> str:
    parsed = await store.parse_address(address)
    if parsed is None:
        raise FairpostError(f"--from must be an e-mail address, got {address!r}")
    return parsed


async def _set_status(store: "Store", name: str, status: AccountStatus, reason: str | None) -> None:
    await _write_changes(store, name, {"status": status, "status_reason": reason})


async def _resume(store: "Store", name: str) -> int:
    """How many are blocked on it."""
    from fairpost.postgres.blocks import read_blocks

    await _set_status(store, name, AccountStatus.ACTIVE, None)
    return len(await read_blocks(store, now=await store.now(), account=name))


async def _write_changes(
    store: "Store", name: str, changes: "Mapping[str, Any]", *, keys: "Sequence[str] | None" = None
) -> None:
    if await store.change_account(name, changes, keys=keys) is None:
        raise _no_account(name)


def _no_account(name: str) -> NotFound:
    return NotFound(f"There is no account {name}. See: fairpost account list")


def _why_not_removed(name: str, done: "Removal") -> str:
    parts = [
        f"{_emails(done.in_hand)} in its hands: pause it (fairpost account pause {name} --reason removing) and wait"
        if done.in_hand
        else "",
        f"{_emails(done.in_doubt)} in doubt: fairpost email list --state in_doubt, then fairpost email resolve ID --as …"
        if done.in_doubt
        else "",
        f"{_emails(done.pinned)} waiting for it alone: let it send them, or fairpost email cancel ID"
        if done.pinned
        else "",
    ]
    return f"Account {name} cannot be removed yet: {'; '.join(part for part in parts if part)}."


def _emails(n: int) -> str:
    return "1 e-mail is" if n == 1 else f"{n:,} e-mails are"


def _require_name(name: str) -> None:
    import re

    if "/" in name:
        workspace, _, own = name.partition("/")
        raise FairpostError(
            f"An account of a workspace is added with its own name: fairpost account add {own} --workspace {workspace}"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise FairpostError(
            f"NAME must be 1..100 letters, digits and ._-, beginning with a letter or digit, got {name!r}"
        )


async def _require_workspace(store: "Store", name: str) -> None:
    from fairpost.postgres.workspaces import workspace_named

    workspace, slash, _ = name.partition("/")
    if slash:
        await workspace_named(store, workspace)


def _pool_of(name: str, pool: str) -> str:
    """Of a workspace's account: one of the same workspace, whose name may be left out."""
    workspace, slash, _ = name.partition("/")
    return f"{workspace}/{pool.removeprefix(f'{workspace}/')}" if slash else pool


def _require_pool(pool: str) -> None:
    if pool.startswith("@") or not 1 <= len(pool) <= 100 or not pool.isprintable():
        raise FairpostError(f"--pool must be 1..100 characters on one line, not beginning with @, got {pool!r}")


def _display_name(name: str | None) -> str | None:
    if name and (len(name) > 200 or not name.isprintable()):
        raise FairpostError(f"--display-name must be at most 200 characters on one line, got {name!r}")
    return name or None
