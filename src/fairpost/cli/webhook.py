"""`fairpost webhook`: endpoints that events are posted to."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.arguments import moment, span, tag_values
from fairpost.cli.output import AsJson, iso, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.model.event import EventKind
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairpost.actions.acting import Action
    from fairpost.actions.webhooks import NamedWebhook
    from fairpost.model.public_ids import PublicIds
    from fairpost.model.webhook import Delivery, Webhook
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Post signed events to your endpoints.")

R = TypeVar("R", bound="NamedWebhook")
T = TypeVar("T")

ARGUMENTS = {"url": "URL", "types": "--type"}
Url = Annotated[str, typer.Argument(metavar="URL", help="HTTPS URL. Plain HTTP is allowed only on private networks.")]
Id = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Webhook ID, for example wh_….")]
Workspace = Annotated[str | None, typer.Option(help="Workspace. [default: FAIRPOST_WORKSPACE]")]
Everywhere = Annotated[
    bool, typer.Option("--everywhere", help="Use an operator webhook, which receives events from all workspaces.")
]
Types = Annotated[
    list[EventKind] | None, typer.Option("--type", metavar="TYPE", help="Event type. Repeatable. [default: all]")
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="Only events with this tag.")]
Description = Annotated[str | None, typer.Option(help="Description of the webhook.")]


@app.command()
def add(
    url: Url,
    types: Types = None,
    tags: Tags = None,
    description: Description = None,
    workspace: Workspace = None,
    everywhere: Everywhere = False,
    as_json: AsJson = False,
) -> None:
    """Add an endpoint and show its secret once.

    Future events are posted to the endpoint, signed as defined by the Standard Webhooks specification.

    \b
    Example: fairpost webhook add https://example.com/hooks --type email.bounced --type email.complained
    """
    from fairpost.actions import webhooks
    from fairpost.startup.parts import network_guard, vault_of

    settings = read_settings()
    request = webhooks.AddWebhook(
        workspace=_scope(workspace, everywhere),
        url=url,
        description=description or "",
        kinds=[str(each) for each in types or ()],
        tags=tag_values(tags) or {},
        guard=network_guard(settings),
        vault=vault_of(settings),
    )

    async def work(store: "Store") -> tuple[Any, "PublicIds"]:
        return await act_on(store, webhooks.add, request, fields=ARGUMENTS), await store.public_ids()

    added, ids = with_store(work)
    _print_secret(added.webhook, added.secret, ids, as_json=as_json)


@app.command("list")
def list_webhooks(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """List endpoints in one or all workspaces.

    \b
    Example: fairpost webhook list --workspace acme
    """
    from fairpost.store import webhooks as stored

    async def work(store: "Store") -> "tuple[list[Webhook], PublicIds]":
        found = await (stored.webhooks_of(store, workspace) if workspace else stored.all_webhooks(store))
        return found, await store.public_ids()

    found, ids = with_store(work)
    if as_json:
        print_json([_as_dict(each, ids) for each in found])
    elif found:
        print_table(
            ("webhook", "workspace", "url", "types", "state", "delivered"),
            (
                (
                    _called(each, ids),
                    each.workspace or "all",
                    each.url,
                    ", ".join(each.kinds) or "all",
                    each.state,
                    iso(each.delivered_at) if each.delivered_at else "never",
                )
                for each in found
            ),
        )
    else:
        typer.echo("No webhook endpoints yet. Add one: fairpost webhook add URL")


@app.command()
def show(webhook: Id, as_json: AsJson = False) -> None:
    """Show an endpoint's events and health.

    \b
    Example: fairpost webhook show wh_3k9x2m7qa1b2c
    """
    from fairpost.reasons.rendering import brief

    found, ids = with_store(lambda store: _found(store, webhook))
    if as_json:
        print_json(_as_dict(found, ids))
        return
    typer.echo(f"{_called(found, ids)}  {found.url}")
    if found.description:
        typer.echo(f"  {found.description}")
    typer.echo(f"  workspace: {found.workspace or 'all'}")
    typer.echo(f"  types: {', '.join(found.kinds) or 'all'}")
    if found.tags:
        typer.echo(f"  tags: {', '.join(f'{name}={value}' for name, value in found.tags.items())}")
    typer.echo(f"  state: {found.state}")
    if found.failing_since:
        typer.echo(f"  failing since {found.failing_since:%Y-%m-%d %H:%M:%S %Z}")
    if found.why:
        typer.echo(f"  last failure: {brief(found.why)}")
    if found.next_at:
        typer.echo(f"  next attempt: {found.next_at:%Y-%m-%d %H:%M:%S %Z}")


@app.command()
def edit(
    webhook: Id,
    url: Annotated[str | None, typer.Option(help="New URL.")] = None,
    types: Types = None,
    all_types: Annotated[bool, typer.Option("--all-types", help="Deliver events of all types.")] = False,
    tags: Tags = None,
    all_tags: Annotated[bool, typer.Option("--all-tags", help="Deliver events regardless of tags.")] = False,
    description: Description = None,
    as_json: AsJson = False,
) -> None:
    """Change an endpoint's URL or the events that it receives.

    \b
    Example: fairpost webhook edit wh_3k9x2m7qa1b2c --type email.bounced
    """
    from fairpost.actions import webhooks
    from fairpost.startup.parts import network_guard

    guard = network_guard(read_settings())
    kinds = [] if all_types else None if types is None else [str(each) for each in types]
    changed, ids = _act(
        webhooks.edit,
        webhook,
        lambda id_: webhooks.EditWebhook(
            id=id_,
            called=webhook,
            url=url,
            description=description,
            kinds=kinds,
            tags={} if all_tags else tag_values(tags),
            guard=guard,
        ),
    )
    _print(changed, ids, "changed", as_json=as_json)


@app.command()
def pause(webhook: Id, as_json: AsJson = False) -> None:
    """Pause an endpoint. The endpoint's events are kept and will be delivered later.

    \b
    Example: fairpost webhook pause wh_3k9x2m7qa1b2c
    """
    from fairpost.actions import webhooks

    _act_on_named(webhooks.pause, webhook, "paused", as_json=as_json)


@app.command()
def resume(webhook: Id, as_json: AsJson = False) -> None:
    """Resume a paused or disabled endpoint. Delivery resumes where it stopped.

    \b
    Example: fairpost webhook resume wh_3k9x2m7qa1b2c
    """
    from fairpost.actions import webhooks

    _act_on_named(webhooks.resume, webhook, "resumed", as_json=as_json)


@app.command()
def remove(webhook: Id, as_json: AsJson = False) -> None:
    """Remove an endpoint and its log.

    \b
    Example: fairpost webhook remove wh_3k9x2m7qa1b2c
    """
    from fairpost.actions import webhooks

    _act_on_named(webhooks.remove, webhook, "removed", as_json=as_json)


@app.command()
def rotate(
    webhook: Id,
    overlap: Annotated[
        timedelta,
        typer.Option(
            parser=span,
            metavar="SPAN",
            help="Time during which requests are also signed with the old secret.",
            show_default="1d",
        ),
    ] = "1d",  # type: ignore[assignment]
    as_json: AsJson = False,
) -> None:
    """Replace an endpoint's secret and show the new one once.

    Until the overlap ends, requests carry both signatures.

    \b
    Example: fairpost webhook rotate wh_3k9x2m7qa1b2c --overlap 2h
    """
    from fairpost.actions import webhooks
    from fairpost.startup.parts import vault_of

    vault = vault_of(read_settings())
    done, ids = _act(
        webhooks.rotate,
        webhook,
        lambda id_: webhooks.RotateWebhook(id=id_, called=webhook, vault=vault, overlap=overlap),
    )
    _print_secret(done.webhook, done.secret, ids, as_json=as_json)


@app.command("test")
def post_test(webhook: Id, as_json: AsJson = False) -> None:
    """Post one test event and print the response.

    \b
    Example: fairpost webhook test wh_3k9x2m7qa1b2c
    """
    from fairpost.actions import webhooks
    from fairpost.reasons.rendering import brief
    from fairpost.startup.parts import network_guard, vault_of

    settings = read_settings()
    guard, vault = network_guard(settings), vault_of(settings)
    done, _ = _act(
        webhooks.test, webhook, lambda id_: webhooks.TestWebhook(id=id_, called=webhook, guard=guard, vault=vault)
    )
    answered = done.answered
    if as_json:
        print_json({"message_id": done.message_id, "is_delivered": answered.is_delivered, "answered": answered})
    elif answered.why is None:
        typer.echo(f"delivered: {answered.status} in {answered.duration_ms} ms")
    else:
        raise FairpostError(f"Not delivered: {brief(answered.why)}.")


@app.command()
def replay(
    webhook: Id,
    since: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Redeliver all events since this time.")
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="Redeliver all events after this cursor.")] = None,
    as_json: AsJson = False,
) -> None:
    """Redeliver events, keeping their IDs.

    \b
    Example: fairpost webhook replay wh_3k9x2m7qa1b2c --since 2030-01-31T09:00:00Z
    """
    from fairpost.actions import webhooks

    if (since is None) == (cursor is None):
        raise FairpostError("Specify either --since or --cursor.")
    hook, ids = _act(
        webhooks.replay, webhook, lambda id_: webhooks.ReplayWebhook(id=id_, called=webhook, since=since, cursor=cursor)
    )
    _print(hook, ids, "replaying", as_json=as_json)


@app.command()
def log(
    webhook: Id,
    delivery: Annotated[
        str | None, typer.Argument(metavar="DELIVERY", help="Show this delivery, including its body.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed requests.")] = False,
    most: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of results.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show requests to an endpoint and its responses, newest first.

    The log covers the past seven days.

    \b
    Example: fairpost webhook log wh_3k9x2m7qa1b2c --failed
    """
    from fairpost.reasons.rendering import brief
    from fairpost.store import webhooks as stored

    if delivery is not None:
        _show_delivery(webhook, delivery, as_json=as_json)
        return

    async def work(store: "Store") -> "tuple[list[Delivery], PublicIds]":
        found, ids = await _found(store, webhook)
        return await stored.deliveries(store, found, before=2**63 - 1, most=most, is_failed=failed), ids

    found, ids = with_store(work)
    if as_json:
        print_json([_entry(each, ids) for each in found])
    elif found:
        print_table(
            ("delivery", "at", "type", "message", ">attempt", ">status", ">ms", "outcome"),
            (
                (
                    _entry(each, ids)["delivery"],
                    f"{each.at:%Y-%m-%d %H:%M:%S}",
                    each.kind,
                    each.message_id,
                    each.attempt,
                    each.status or "",
                    each.duration_ms,
                    brief(each.why) if each.why else "delivered",
                )
                for each in found
            ),
        )
    else:
        typer.echo("No requests.")


@app.command()
def listen(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1. With 0, a free port is used.")] = 4100,
    secret: Annotated[str | None, typer.Option(help="Secret to verify signatures with, for example whsec_….")] = None,
    status: Annotated[int, typer.Option(min=200, max=599, help="HTTP status to respond with.")] = 200,
) -> None:
    """Receive, verify and print webhooks, for development.

    \b
    Example: fairpost webhook listen --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
    """
    import asyncio

    from fairpost.webhooks.receiver import Received, serve
    from fairpost.webhooks.signing import key_of

    try:
        key = None if secret is None else key_of(secret)
    except ValueError:
        raise FairpostError("--secret must be a webhook secret, for example whsec_….") from None

    def show(received: Received) -> None:
        verdict = {None: "not verified: no --secret", True: "verified", False: "WRONG SIGNATURE"}[received.is_signed]
        typer.echo(f"{received.message_id}  {verdict}")
        typer.echo(plain(received.text))

    try:
        asyncio.run(serve(port, key=key, status=status, show=show, ready=lambda url: typer.echo(f"listening: {url}")))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        raise FairpostError(f"Cannot listen on 127.0.0.1:{port}: {error.strerror}.") from None


# ── shared ────────────────────────────────────────────────────────────────────────────────────────────────


def _scope(workspace: str | None, everywhere: bool) -> str | None:
    if everywhere:
        if workspace is not None:
            raise FairpostError("Specify either --workspace or --everywhere.")
        return None
    return workspace or read_settings().workspace


def _act(action: "Action[R, T]", webhook: str, request: "Callable[[int], R]") -> "tuple[T, PublicIds]":
    async def work(store: "Store") -> "tuple[T, PublicIds]":
        ids = await store.public_ids()
        return await act_on(store, action, request(_number(webhook, ids)), fields=ARGUMENTS), ids

    return with_store(work)


def _act_on_named(action: "Action[NamedWebhook, Webhook]", webhook: str, done: str, *, as_json: bool) -> None:
    from fairpost.actions.webhooks import NamedWebhook

    hook, ids = _act(action, webhook, lambda id_: NamedWebhook(id=id_, called=webhook))
    _print(hook, ids, done, as_json=as_json)


def _number(webhook: str, ids: "PublicIds") -> int:
    from fairpost.model.public_ids import Kind

    number = ids.private(Kind.WEBHOOK, webhook)
    return -1 if number is None else number


async def _found(store: "Store", webhook: str) -> "tuple[Webhook, PublicIds]":
    from fairpost.store import webhooks as stored

    ids = await store.public_ids()
    found = await stored.find(store, _number(webhook, ids))
    if found is None:
        raise FairpostError(f"There is no webhook {webhook}. See: fairpost webhook list")
    return found, ids


def _called(webhook: "Webhook", ids: "PublicIds") -> str:
    from fairpost.model.public_ids import Kind

    return ids.public(Kind.WEBHOOK, webhook.id)


def _as_dict(webhook: "Webhook", ids: "PublicIds") -> dict[str, object]:
    names = ("workspace", "url", "description", "tags", "state", "created_at", "paused_at", "disabled_at")
    facts = {name: getattr(webhook, name) for name in (*names, "failing_since", "next_at", "delivered_at", "why")}
    return {"webhook": _called(webhook, ids), "types": webhook.kinds, **facts}


def _print(webhook: "Webhook", ids: "PublicIds", done: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_dict(webhook, ids))
    else:
        typer.echo(f"{done} {_called(webhook, ids)} {webhook.url}")


def _print_secret(webhook: "Webhook", secret: str, ids: "PublicIds", *, as_json: bool) -> None:
    if as_json:
        print_json({**_as_dict(webhook, ids), "secret": secret})
        return
    typer.echo(f"{_called(webhook, ids)} {webhook.url}")
    typer.echo(f"secret: {secret}")
    typer.echo("store it now: it will not be shown again")
    typer.echo(f"next: fairpost webhook test {_called(webhook, ids)}")


def _entry(delivery: "Delivery", ids: "PublicIds") -> dict[str, object]:
    from fairpost.model.public_ids import Kind

    names = ("at", "message_id", "kind", "attempt", "status", "why", "duration_ms", "answer")
    facts = {name: getattr(delivery, name) for name in names}
    return {"delivery": ids.public(Kind.DELIVERY, delivery.id), **facts}


def _show_delivery(webhook: str, delivery: str, *, as_json: bool) -> None:
    from fairpost.model.public_ids import Kind
    from fairpost.observe.webhooks import request_of
    from fairpost.store import webhooks as stored

    async def work(store: "Store") -> "tuple[Delivery, str | None, PublicIds]":
        hook, ids = await _found(store, webhook)
        found = await stored.delivery(store, hook, ids.private(Kind.DELIVERY, delivery) or -1)
        if found is None:
            raise FairpostError(f"There is no delivery {delivery}. See: fairpost webhook log {webhook}")
        return found, await request_of(store, hook, found, ids), ids

    found, body, ids = with_store(work)
    if as_json:
        print_json({**_entry(found, ids), "request": body})
        return
    typer.echo(f"{found.at:%Y-%m-%d %H:%M:%S %Z}  {found.kind}  {found.message_id}  attempt {found.attempt}")
    typer.echo(f"request: {body or 'the event is no longer stored'}")
    typer.echo(f"response: {found.status or 'none'} {found.answer}")
