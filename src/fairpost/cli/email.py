"""`fairpost email`: send, list, show, retry, cancel and resolve e-mails, and list returned mail."""

import json
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairpost.cli.acting import act_on, actor, value_of
from fairpost.cli.arguments import Metadata, Tag, email_id, email_state, moment, tag_values
from fairpost.cli.output import AsJson, error_line, iso, jsonable, note, plain, print_json, print_pairs, print_table
from fairpost.cli.progress import progress
from fairpost.cli.session import with_store
from fairpost.cli.user_view import next_steps, stop_facts, stop_lines
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.states import MEANING, OUTBOX_WORDS, DoubtPolicy, EmailClass, State, sequence_word
from fairpost.reasons.rendering import brief_or_none
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from fairpost.accept.enqueue import Attachment, EmailFields, Enqueued
    from fairpost.model.public_ids import PublicIds
    from fairpost.observe.emails import Attempt, ListedEmail, ShownEmail
    from fairpost.observe.life import Doubt, Life, Moment, Obstacle
    from fairpost.observe.search import Found, Matches
    from fairpost.policy.facts import Stop
    from fairpost.store.returned import ReturnedMail
    from fairpost.store.store import Store

    Act = Callable[[Store, EmailId, str], Awaitable[str]]

app = typer.Typer(no_args_is_help=True, help="Send, list, find, retry, cancel and resolve e-mails.")

ATTACHMENT_BYTES_MAX = 26_214_400  # limit per file; the database checks the total size
BODY_LINES_SHOWN_MAX = 20

Id = Annotated[str, typer.Argument(parser=email_id, metavar="ID", help="E-mail ID: the number or the public ID.")]
Ids = Annotated[list[str], typer.Argument(parser=email_id, metavar="ID...", help="One or more IDs.")]
Before = Annotated[
    str | None,
    typer.Option(
        parser=email_id, metavar="ID", help="Only e-mails older than the one with this ID, for the next page."
    ),
]


From = Annotated[
    str | None, typer.Option("--from", metavar="ADDRESS", help="Sender address. [default: the account's address]")
]
EmailClassOption = Annotated[
    EmailClass | None,
    typer.Option("--class", help="E-mail class. [default: bulk with --stream, else urgent]"),
]
DueAt = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="Earliest time to send, for example 2030-01-31T09:00:00Z."),
]
ExpiresAt = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="Latest time to send, for example 2030-01-31T09:10:00Z."),
]
Attach = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", exists=True, dir_okay=False, readable=True, help="File to attach. Repeatable."),
]


@app.command()
def send(
    to: Annotated[list[str], typer.Option(metavar="ADDRESS", help="Recipient. Repeatable.")],
    subject: Annotated[str, typer.Option(help="Subject line, which can be empty.")],
    text: Annotated[str | None, typer.Option(help="Plain text. Use --text, --html or both.")] = None,
    html: Annotated[str | None, typer.Option(help="HTML.")] = None,
    from_: From = None,
    cc: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="Cc recipient. Repeatable.")] = None,
    bcc: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="Bcc recipient. Repeatable.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Workspace. [default: FAIRPOST_WORKSPACE]")] = None,
    user: Annotated[str | None, typer.Option(help="User on whose behalf the e-mail is sent.")] = None,
    stream: Annotated[str | None, typer.Option(help="Campaign or newsletter that the e-mail belongs to.")] = None,
    email_class: EmailClassOption = None,
    pool: Annotated[str | None, typer.Option(help="Pool whose accounts send the e-mail. [default: default]")] = None,
    account: Annotated[str | None, typer.Option(help="Send only from this account instead of from a pool.")] = None,
    due_at: DueAt = None,
    expires_at: ExpiresAt = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key. A key can be used for only one e-mail.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="E-mail type, for example hub_forgot_password.")] = None,
    tag: Tag = None,
    metadata: Metadata = None,
    attach: Attach = None,
    as_json: AsJson = False,
) -> None:
    """Queue an e-mail.

    \b
    Example: fairpost email send --to ann@example.com --subject Hello --text "Hi Ann"
    """
    fields: EmailFields = {
        "to": to,
        "subject": subject,
        "text": text,
        "html": html,
        "from_": from_,
        "cc": cc,
        "bcc": bcc,
        "workspace": workspace or read_settings().workspace,
        "user": user,
        "stream": stream,
        "email_class": email_class,
        "pool": pool,
        "account": account,
        "due_at": due_at,
        "expires_at": expires_at,
        "idempotency_key": key,
        "type": type_,
        "tags": tag_values(tag),
        "metadata": metadata,
        "attachments": [_attachment(path) for path in attach or ()] or None,
    }
    _print_queued(*_enqueue(fields), as_json=as_json)


def _print_queued(queued: "Enqueued", public_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": queued.id, "public_id": public_id, "new": queued.new})
    elif queued.new:
        typer.echo(f"queued {queued.id}")
    else:
        typer.echo(f"already queued as {queued.id}: this idempotency key was used before. Nothing was changed")


@app.command("list")
def list_(
    state: Annotated[
        list[Any] | None,
        typer.Option(parser=email_state, metavar="STATE", help="Only e-mails in this state. Repeatable."),
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="Only e-mails in this workspace. [default: all]")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of e-mails.")] = 50,
    before: Before = None,
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only e-mails to this address.")] = None,
    key: Annotated[str | None, typer.Option(help="Only the e-mail with this idempotency key.")] = None,
    campaign: Annotated[str | None, typer.Option(help="Only e-mails from this campaign.")] = None,
    user: Annotated[str | None, typer.Option(help="Only e-mails from this user.")] = None,
    stream: Annotated[str | None, typer.Option(help="Only e-mails in this stream.")] = None,
    account: Annotated[str | None, typer.Option(help="Only e-mails that this account has claimed or sent.")] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="Only e-mails of this type, for example hub_forgot_password.")
    ] = None,
    tag: Tag = None,
    since: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="Only e-mails accepted at this time or later."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Only e-mails accepted before this time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List e-mails, newest first.

    Lists waiting and finished e-mails together. For --state, use one of Fairpost's states, or a sequence state in capitals: SCHEDULED, RETRY_SCHEDULED, SENDING, SENT, PERMANENTLY_FAILED or CANCELLED. Filters by key, campaign, user, stream, type or tag apply to one workspace, which you choose with --workspace or FAIRPOST_WORKSPACE.

    \b
    Example: fairpost email list --state failed --state bounced --limit 20
             fairpost email list --type hub_forgot_password --state failed --since 2030-01-31T00:00:00Z
    """
    from fairpost.observe.search import Wanted, search_emails

    wanted = Wanted(
        to=to,
        key=key,
        campaign=campaign,
        user=user,
        stream=stream,
        account=account,
        type=type_,
        tags=tag_values(tag),
        since=since,
        until=until,
    )
    whose = workspace or (read_settings().workspace if wanted.is_of_one_workspace else None)

    async def work(store: "Store") -> "tuple[Matches, PublicIds]":
        below = None if before is None else await _meant(store, before)
        found = await search_emails(store, wanted, workspace=whose, states=state, before=below, most=limit)
        return found, await store.public_ids()

    _print_found(*with_store(work), limit, as_json=as_json)


@app.command()
def find(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="E-mail ID, address, idempotency key or campaign name.")],
    workspace: Annotated[str | None, typer.Option(help="Only e-mails in this workspace. [default: all]")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of e-mails.")] = 50,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Find e-mails by ID, address, idempotency key or campaign.

    Tries the text as an ID, address, key and campaign, in this order, and shows which kind matched. Searches by key or campaign cover one workspace, which you choose with --workspace or FAIRPOST_WORKSPACE.

    \b
    Example: fairpost email find ann@example.com
    """
    from fairpost.observe.search import Understood, find_emails

    home = read_settings().workspace

    async def work(store: "Store") -> "tuple[Found, PublicIds]":
        ids = await store.public_ids()
        id_ = ids.email_id(text.strip(), or_number=True)
        below = None if before is None else await _meant(store, before)
        return await find_emails(store, text, id_=id_, workspace=workspace, home=home, before=below, most=limit), ids

    found, ids = with_store(work)
    if as_json:
        print_json({"understood": found.understood, "emails": [_for_programs(email, ids) for email in found.emails]})
        return
    if found.understood is Understood.NOTHING:
        typer.echo("no e-mails")
        return
    typer.echo(f"by {found.understood}:")
    _print_found(found, ids, limit, as_json=False)


@app.command()
def returned(
    workspace: Annotated[
        str | None, typer.Option(help="Only mail about this workspace's e-mails. [default: all]")
    ] = None,
    uncertain: Annotated[
        bool, typer.Option("--uncertain", help="Only mail that could not be reliably matched to an e-mail.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of messages.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List bounces, complaints and replies, newest first.

    \b
    Example: fairpost email returned --uncertain
    """
    from fairpost.store import returned as stored

    async def work(store: "Store") -> "tuple[list[ReturnedMail], PublicIds]":
        found = await stored.listed(store, workspace=workspace, only_uncertain=uncertain, most=limit)
        return found, await store.public_ids()

    found, ids = with_store(work)
    rows = [
        {
            "at": iso(each.at),
            "email": ids.email(each.email_id) if each.email_id is not None else None,
            "workspace": each.workspace,
            "address": each.address,
            "effect": each.effect,
            "reason": brief_or_none(Reason(each.reason, **each.params)),
            "reason_code": each.reason,
            "back_on": each.back_on.isoformat() if each.back_on else None,
            "is_applied": each.is_applied,
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("at", "e-mail", "address", "effect", "why"),
        [(row["at"], row["email"] or "uncertain", row["address"], row["effect"], row["reason"]) for row in rows],
    )


@app.command()
def show(id_: Id, as_json: AsJson = False) -> None:
    """Show everything about one e-mail.

    Shows the e-mail's state, content and timeline, what is blocking it, and each attempt with its code, reply and
    response time.

    \b
    Example: fairpost email show 1861234567890123456
    """
    from fairpost.observe.emails import show_email, stops_of
    from fairpost.observe.life import life_of

    async def work(store: "Store") -> "tuple[ShownEmail, list[Stop], Life, PublicIds]":
        ids = await store.public_ids()
        with _called(id_):
            email = await show_email(store, await _meant(store, id_))
        return email, await stops_of(store, email), await life_of(store, email, ids=ids), ids

    email, stops, life, ids = with_store(work)
    if as_json:
        known = _for_programs(email, ids)
        print_json(
            {
                **known,
                "meaning": MEANING[email.state],
                "held_back_by": [stop_facts(stop) for stop in stops],
                "life": life,
            }
        )
    else:
        _print_email(email, ids, stops, life)


@app.command()
def retry(
    ids: Annotated[
        list[str] | None,
        typer.Argument(parser=email_id, metavar="[ID...]", help="One or more IDs. Alternatively, use --reason."),
    ] = None,
    reason: Annotated[
        Literal["email.account_suspended", "account_suspended"] | None,
        typer.Option(help="Retry all e-mails that failed for this reason."),
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="With --reason: only e-mails in this workspace.")] = None,
    account: Annotated[
        str | None, typer.Option(help="With --reason: only e-mails that must be sent from this account.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --reason: count the e-mails without retrying them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Retry e-mails that failed or bounced.

    Each e-mail gets at least one more attempt. With --reason, retries all e-mails that failed for that reason, a few
    hundred per commit. E-mails for an account that is still suspended are not retried.

    \b
    Example: fairpost email retry --reason email.account_suspended --account sales --dry-run
    """
    if (reason is None) == (not ids) or (reason is None and (workspace or account or dry_run or as_json)):
        raise typer.BadParameter("specify IDs or --reason; the other options require --reason")
    if reason is None:
        _for_each(ids or [], _retry)
    else:
        _retry_all(reason, workspace, account, is_dry=dry_run, as_json=as_json)


def _retry_all(reason: str, workspace: str | None, account: str | None, *, is_dry: bool, as_json: bool) -> None:
    from fairpost.actions.emails import FailedRetried, RetryFailed, retry_failed

    async def work(store: "Store") -> FailedRetried:
        wanted = RetryFailed(reason=reason, workspace=workspace, account=account, is_dry=True)
        found = await act_on(store, retry_failed, wanted)
        if is_dry or not found.retried:
            return found
        with progress("retrying", found.retried) as reach:
            return await act_on(store, retry_failed, replace(wanted, is_dry=False, progress=reach))

    done = with_store(work)
    retried, left = done.retried, done.still_suspended
    if as_json:
        print_json(
            {"retried": 0 if is_dry else retried, "would_retry": retried if is_dry else 0, "still_suspended": left}
        )
        return
    typer.echo(f"{'would retry' if is_dry else 'retried'} {retried:,}")
    if left:
        note(
            f"{left:,} more were not retried because their account is suspended or removed. First run: fairpost account resume NAME"
        )


@app.command()
def cancel(ids: Ids) -> None:
    """Cancel e-mails that have not been sent yet.

    \b
    Example: fairpost email cancel 1861234567890123456
    """
    _for_each(ids, _cancel)


@app.command()
def resolve(
    id_: Id,
    decision: Annotated[
        Literal["sent", "failed", "resend"],
        typer.Option(
            "--as",
            help="What to do with the e-mail: mark it as sent, mark it as failed, or send it again and risk a duplicate.",
        ),
    ],
) -> None:
    """Resolve an e-mail that is in doubt.

    \b
    Example: fairpost email resolve 1861234567890123456 --as resend
    """

    from fairpost.actions.emails import ResolveEmail
    from fairpost.actions.emails import resolve as resolved

    async def work(store: "Store") -> None:
        request = ResolveEmail(id=await _meant(store, id_), decision=decision)
        value_of(await resolved(actor(), request, store), id=id_)

    with_store(work)
    typer.echo(f"resolved {id_}: {'queued again' if decision == 'resend' else decision}")


def _enqueue(fields: "EmailFields") -> "tuple[Enqueued, str]":
    import asyncio

    from fairpost.accept.enqueue import enqueue
    from fairpost.startup.parts import connect, prepare_database
    from fairpost.store.email_rows import public_id

    async def run() -> "tuple[Enqueued, str]":
        async with connect(await prepare_database(read_settings())) as conn:
            queued: Enqueued = await enqueue(conn, **fields)
            return queued, await public_id(conn, queued.id)

    return asyncio.run(run())


def _attachment(path: Path) -> "Attachment":
    import mimetypes

    from fairpost.accept.enqueue import Attachment

    if path.stat().st_size > ATTACHMENT_BYTES_MAX:
        raise FairpostError(
            f"{path} is too large: {path.stat().st_size:,} bytes. The maximum size of an attachment is "
            f"{ATTACHMENT_BYTES_MAX:,} bytes."
        )
    return Attachment(path.name, path.read_bytes(), content_type=mimetypes.guess_type(path.name)[0])


def _for_each(ids: Sequence[str], act: "Act") -> None:
    """Process each e-mail separately. If one fails, the others are still processed, and the failure is reported at the
    end.
    """

    async def work(store: "Store") -> list[str | FairpostError]:
        return [await _outcome(act, store, id_) for id_ in ids]

    outcomes = with_store(work)
    for outcome in outcomes:
        if isinstance(outcome, FairpostError):
            error_line(str(outcome))
        else:
            typer.echo(outcome)
    if any(isinstance(outcome, FairpostError) for outcome in outcomes):
        raise typer.Exit(1)


async def _outcome(act: "Act", store: "Store", id_: str) -> str | FairpostError:
    try:
        return await act(store, await _meant(store, id_), id_)
    except FairpostError as error:
        return error


async def _retry(store: "Store", email: EmailId, id_: str) -> str:
    from fairpost.actions.emails import RetryEmail, retry

    moved = value_of(await retry(actor(), RetryEmail(id=email), store), id=id_)
    if moved.before is State.BOUNCED:
        return f"retried {id_}; its address is suppressed. To send to it again, run: fairpost suppress remove ADDRESS"
    return f"retried {id_}"


async def _cancel(store: "Store", email: EmailId, id_: str) -> str:
    from fairpost.actions.emails import CancelEmail, cancel

    value_of(await cancel(actor(), CancelEmail(id=email), store), id=id_)
    return f"cancelled {id_}"


async def _meant(store: "Store", text: str) -> EmailId:
    """Return the e-mail's ID. Raises NotFound if no e-mail in this database can have that ID."""
    id_ = (await store.public_ids()).email_id(text, or_number=True)
    if id_ is None:
        raise _unknown(text)
    return id_


@contextmanager
def _called(text: str) -> "Iterator[None]":
    """Report an unknown ID as the user typed it."""
    try:
        yield
    except NotFound:
        raise _unknown(text) from None


def _unknown(id_: EmailId | str) -> NotFound:
    return NotFound(f"There is no e-mail {id_}. See: fairpost email list")


def _for_programs(email: "ListedEmail | ShownEmail", ids: "PublicIds") -> dict[str, Any]:
    """Return the e-mail as JSON.

    Field names are the same as in SQL and HTTP. The state is also given in outbox and sequence terms.

    `id` is the number in SQL. `public_id` is the ID in HTTP and in the e-mail's headers.
    """
    fields = jsonable(email)
    fields = {"id": fields.pop("id"), "public_id": ids.email(email.id), **fields}
    words = {"outbox": OUTBOX_WORDS[email.state], "sequence_status": sequence_word(email.state, email.attempts)}
    return {**fields, "class": fields.pop("email_class"), **words}


def _print_found(found: "Matches", ids: "PublicIds", limit: int, *, as_json: bool) -> None:
    emails = found.emails
    if as_json:
        print_json([_for_programs(email, ids) for email in emails])
    elif emails:
        print_table(("id", "state", "workspace", "to", "subject", ">tried", "due"), map(_row, emails))
    else:
        typer.echo("no e-mails" if found.looked_to is None else "no matching e-mails among the newest")
    if found.looked_to is not None:
        note(f"older e-mails were not searched; continue with: --before {found.looked_to}")
    elif emails and len(emails) == limit and not as_json:
        note(f"more: --before {emails[-1].id}")


def _row(email: "ListedEmail") -> tuple[object, ...]:
    first, *others = [recipient.address for recipient in email.recipients]
    to = f"{first} +{len(others)}" if others else first
    subject = email.subject if email.subject is not None else "(content deleted)"
    tried = f"{email.attempts}/{email.attempts_max}"
    return (
        email.id,
        email.state,
        email.workspace,
        to,
        subject,
        tried,
        f"{email.due_at:%Y-%m-%d %H:%M:%S}" if email.due_at else "later",
    )


def _print_email(email: "ShownEmail", ids: "PublicIds", stops: "Sequence[Stop]", life: "Life") -> None:
    print_pairs(
        [
            ("id", email.id),
            ("public ID", ids.email(email.id)),
            ("state", f"{email.state}: {MEANING[email.state]}"),
            (
                "other names",
                f"{OUTBOX_WORDS[email.state]} (outbox), {sequence_word(email.state, email.attempts)} (sequence)",
            ),
            ("reason", brief_or_none(email.reason)),
            *stop_lines(stops),
            *(("next", step) for step in next_steps(stops)),
            *(
                ("waits for", _obstacle(each))
                for each in life.stands_in_the_way
                if each.kind not in ("hold", "throttle")
            ),
            *_people(email),
            ("subject", email.subject),
            ("workspace", email.workspace),
            ("user", email.user),
            ("stream", email.stream),
            ("class", email.email_class),
            ("type", email.type),
            ("tags", ", ".join(f"{name}={value}" for name, value in email.tags.items())),
            ("metadata", json.dumps(email.metadata, ensure_ascii=False) if email.metadata else None),
            ("sent through", _route(email.route)),
            ("account", email.account),
            *_times(email),
            ("attempts", f"{email.attempts} of {email.attempts_max}"),
            ("if in doubt", "send again" if email.on_doubt is DoubtPolicy.RESEND else "hold"),
            ("key", email.idempotency_key),
            ("message ID", email.message_id),
            ("thread ID", email.thread_id),
            *((f"header {name}", value) for name, value in email.headers.items()),
            ("fields", ", ".join(f"{name}={value}" for name, value in email.fields.items())),
            *(("attached", f"{f.filename} ({f.content_type}, {f.bytes:,} bytes)") for f in email.attachments),
        ]
    )
    _print_body("text", email.text)
    _print_body("html", email.html)
    if email.log:
        typer.echo()
        columns = (">attempt", "account", "begun", "outcome", ">code", ">ms", "reply")
        print_table(columns, [_attempt_row(attempt) for attempt in email.log], title="Attempts")
    typer.echo()
    print_table(("at", "what", "account"), map(_moment_row, life.moments), title="Life")
    if life.doubt:
        _print_doubt(life.doubt)


def _print_doubt(doubt: "Doubt") -> None:
    typer.echo()
    print_pairs(
        [
            ("known", doubt.reached),
            ("asked", doubt.asked),
            ("look for", f"a message whose Message-ID begins with {doubt.message_id_begins}"),
            ("by default", doubt.policy),
            *((f"--as {choice.decision}", choice.means) for choice in doubt.choices),
        ]
    )


def _obstacle(obstacle: "Obstacle") -> str:
    return f"{obstacle.words}, until {iso(obstacle.until)}" if obstacle.until else obstacle.words


def _moment_row(moment: "Moment") -> tuple[object, ...]:
    at = f"{moment.at:%Y-%m-%d %H:%M:%S}" if moment.at else "later"
    words = f"{moment.words}: {moment.meaning}" if moment.meaning else moment.words
    return at, words, moment.account


def _people(email: "ShownEmail") -> list[tuple[str, object]]:
    named = [(r.kind, f"{r.name} <{r.address}>" if r.name else r.address) for r in email.recipients]
    sender = email.sender and (
        f"{email.sender.name} <{email.sender.address}>" if email.sender.name else email.sender.address
    )
    everybody = {recipient.address for recipient in email.recipients}
    still = ", ".join(email.remaining) if set(email.remaining) != everybody else None
    return [("from", sender or "the account's own address"), *named, ("not yet sent to", still)]


def _times(email: "ShownEmail") -> list[tuple[str, object]]:
    moments = ("created_at", "due_at", "expires_at", "claimed_at", "begun_at", "finished_at")
    return [(name.removesuffix("_at"), iso(at)) for name in moments if (at := getattr(email, name))]


def _route(route: str) -> str:
    return f"only account {route[1:]}" if route.startswith("@") else f"pool {route}"


def _print_body(kind: str, body: str | None) -> None:
    if not body:
        return
    lines = body.splitlines()
    typer.echo(f"\n{kind}:")
    for line in lines[:BODY_LINES_SHOWN_MAX]:
        typer.echo(f"  {plain(line)}")
    if len(lines) > BODY_LINES_SHOWN_MAX:
        typer.echo(f"  … and {len(lines) - BODY_LINES_SHOWN_MAX} more lines (to show them all: --json)")


def _attempt_row(attempt: "Attempt") -> tuple[object, ...]:
    begun = f"{attempt.begun_at:%Y-%m-%d %H:%M:%S}"
    return attempt.n, attempt.account, begun, attempt.outcome, attempt.code, attempt.response_ms, attempt.reply
