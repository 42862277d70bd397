"""`fairpost account`: the sender accounts. No mail leaves them yet: the scripted transport is all there is."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.output import AsJson, print_json, print_table, when
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fairpost.model.account import Limits
    from fairpost.policy.diagnosis import Post
    from fairpost.postgres.store import Store

app = typer.Typer(no_args_is_help=True, help="Add, list, pause and resume sender accounts.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits and ._- (1..100), like sales.")]


@app.command()
def add(
    name: Name,
    from_: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="The address it sends from.")],
    pool: Annotated[str, typer.Option(help="The pool it serves.")] = "default",
    display_name: Annotated[str | None, typer.Option(help="The name shown beside the address.")] = None,
    delay_ms: Annotated[int, typer.Option(min=0, max=86_400_000, help="Least time between two sends, in ms.")] = 0,
    hourly: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Most sends an hour; none: no limit.")
    ] = None,
    daily: Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="Most sends a day; none: no limit.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=1000, help="Most e-mails claimed at once.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Add a sender account.

    \b
    Example: fairpost account add sales --from sales@example.com --hourly 100
    """
    from fairpost.model.account import Limits

    limits = Limits(delay_ms=delay_ms, hourly_max=hourly, daily_max=daily, batch_max=batch_size)
    id_ = with_store(
        lambda store: _add(store, name, address=from_, pool=pool, display_name=display_name, limits=limits)
    )
    if as_json:
        print_json({"id": id_, "name": name})
    else:
        typer.echo(f"added {name}, which serves the pool {pool}")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the accounts.

    Status, limits, what they have used of them, when they may send next, and who drives them.

    \b
    Example: fairpost account list --json
    """
    from fairpost.observe.status import read_posts

    async def read(store: "Store") -> "tuple[list[Post], datetime]":
        return await read_posts(store), await store.value("SELECT clock_timestamp()")

    posts, now = with_store(read)
    if as_json:
        print_json([account_facts(post, now) for post in posts])
    elif posts:
        print_accounts(posts, now)
    else:
        typer.echo("no accounts yet; add one: fairpost account add NAME --from ADDRESS")


@app.command()
def pause(name: Name, reason: Annotated[str, typer.Option(help="Why: shown by `fairpost status`.")]) -> None:
    """Stop an account before its next send.

    \b
    Example: fairpost account pause sales --reason "new password on Monday"
    """
    with_store(lambda store: _set_status(store, name, "paused", reason))
    typer.echo(f"paused {name}")


@app.command()
def resume(name: Name) -> None:
    """Let a paused or suspended account send again.

    \b
    Example: fairpost account resume sales
    """
    with_store(lambda store: _set_status(store, name, "active", None))
    typer.echo(f"{name} is active")


def account_facts(post: "Post", now: "datetime") -> dict[str, Any]:
    """One account, for JSON."""
    account = post.account
    may_send_at, why = _next(post, now)
    return {
        "id": account.id,
        "name": account.name,
        "address": account.address,
        "display_name": account.display_name,
        "pool": account.pool,
        "status": account.status,
        "status_reason": account.status_reason,
        "limits": asdict(account.limits),
        "hour_used": _used(post, now)[0],
        "day_used": _used(post, now)[1],
        "sent_total": post.sent_total,
        "driven_by": post.owner if post.is_driven(now) else None,
        "lease_until": post.until if post.is_driven(now) else None,
        "may_send_at": may_send_at,
        "may_send_why": why,
    }


def print_accounts(posts: "Sequence[Post]", now: "datetime") -> None:
    columns = ("account", "pool", "status", ">hour", ">day", ">sent", "may send", "driven by")
    print_table(columns, (_row(post, now) for post in posts), title="Accounts")


def _row(post: "Post", now: "datetime") -> tuple[object, ...]:
    account, limits = post.account, post.account.limits
    hour, day = _used(post, now)
    may_send_at, why = _next(post, now)
    return (
        account.name,
        account.pool,
        f"{account.status}: {account.status_reason}" if account.status_reason else account.status,
        f"{hour}/{limits.hourly_max}" if limits.hourly_max else hour,
        f"{day}/{limits.daily_max}" if limits.daily_max else day,
        post.sent_total,
        f"{when(may_send_at, now)}, {why}" if may_send_at else ("now" if account.status == "active" else ""),
        f"{post.owner}, until {when(post.until, now)}" if post.is_driven(now) else "nobody",
    )


def _used(post: "Post", now: "datetime") -> tuple[int, int]:
    from fairpost.policy.limits import roll_windows

    usage = roll_windows(post.account.usage, now=now)
    return usage.hour_used, usage.day_used


def _next(post: "Post", now: "datetime") -> "tuple[datetime | None, str | None]":
    """The next moment its limits allow a send, and which limit it waits for; None when it is now."""
    from fairpost.policy.limits import NotBefore, admit

    admitted = admit(post.account.limits, post.account.usage, now=now)
    return (admitted.moment, admitted.reason) if isinstance(admitted, NotBefore) else (None, None)


async def _add(
    store: "Store", name: str, *, address: str, pool: str, display_name: str | None, limits: "Limits"
) -> int:
    import re

    from asyncpg import UniqueViolationError

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise FairpostError(
            f"NAME must be 1..100 letters, digits and ._-, beginning with a letter or digit, got {name!r}"
        )
    if pool.startswith("@") or not 1 <= len(pool) <= 100 or not pool.isprintable():
        raise FairpostError(f"--pool must be 1..100 characters on one line, not beginning with @, got {pool!r}")
    parsed = await store.value("SELECT fairpost.parse_address(to_jsonb($1::text)) ->> 'address'", address)
    if parsed is None:
        raise FairpostError(f"--from must be an e-mail address, got {address!r}")
    try:
        return await store.add_account(name, address=parsed, pool=pool, display_name=display_name, limits=limits)
    except UniqueViolationError:
        raise FairpostError(f"There is an account {name} already. See: fairpost account list") from None


async def _set_status(store: "Store", name: str, status: str, reason: str | None) -> None:
    found = await store.value(
        "UPDATE fairpost.accounts SET status = $2, status_reason = $3 WHERE name = $1 RETURNING id",
        *(name, status, reason),
    )
    if found is None:
        raise NotFound(f"There is no account {name}. See: fairpost account list")
