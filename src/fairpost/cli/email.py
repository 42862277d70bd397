"""`fairpost email`: put single e-mails into the queue, look at them, and decide what becomes of them."""

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairpost.cli.acting import act_on, actor, value_of
from fairpost.cli.arguments import email_id, email_state, moment
from fairpost.cli.output import AsJson, error_line, iso, jsonable, note, plain, print_json, print_pairs, print_table
from fairpost.cli.progress import progress
from fairpost.cli.session import with_store
from fairpost.cli.user_view import next_steps, stop_facts, stop_lines
from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.ids import EmailId
from fairpost.model.states import MEANING, OUTBOX_WORDS, DoubtPolicy, EmailClass, State, sequence_word
from fairpost.reasons.rendering import brief_or_none
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from fairpost.accept.enqueue import Attachment, EmailFields, Enqueued
    from fairpost.model.public_ids import PublicIds
    from fairpost.observe.emails import Attempt, ListedEmail, ShownEmail, Stop
    from fairpost.observe.life import Life, Moment, Obstacle
    from fairpost.observe.search import Found, Matches
    from fairpost.store.store import Store

    Act = Callable[[Store, EmailId, str], Awaitable[str]]

app = typer.Typer(no_args_is_help=True, help="Send, list, find, show, retry, cancel and resolve e-mails.")

ATTACHMENT_BYTES_MAX = 26_214_400  # of all together; the database checks the sum
BODY_LINES_SHOWN_MAX = 20

Id = Annotated[str, typer.Argument(parser=email_id, metavar="ID", help="The e-mail's id, public or not.")]
Ids = Annotated[list[str], typer.Argument(parser=email_id, metavar="ID...", help="One id or more.")]
Before = Annotated[
    str | None, typer.Option(parser=email_id, metavar="ID", help="Only older ones: the last id of a page.")
]


@app.command()
def send(
    to: Annotated[list[str], typer.Option(metavar="ADDRESS", help="To whom; may be given again.")],
    subject: Annotated[str, typer.Option(help="The subject; may be empty.")],
    text: Annotated[str | None, typer.Option(help="The plain text. Text or html is needed.")] = None,
    html: Annotated[str | None, typer.Option(help="The HTML.")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="ADDRESS", help="The sender. [default: the account's own]")
    ] = None,
    cc: Annotated[list[str] | None, typer.Option(metavar="ADDRESS", help="Copy to; may be given again.")] = None,
    bcc: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Hidden copy to; may be given again.")
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="The workspace. [default: FAIRPOST_WORKSPACE]")] = None,
    user: Annotated[str | None, typer.Option(help="The user it is sent for.")] = None,
    stream: Annotated[str | None, typer.Option(help="The campaign or newsletter it belongs to.")] = None,
    email_class: Annotated[
        EmailClass | None, typer.Option("--class", help="[default: bulk with a --stream, else urgent]")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="The pool of accounts that sends it. [default: default]")] = None,
    account: Annotated[str | None, typer.Option(help="The one account that sends it, instead of a pool.")] = None,
    due_at: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Not before: 2030-01-31T09:00:00Z.")
    ] = None,
    expires_at: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Not after: 2030-01-31T09:10:00Z.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same key is one e-mail, for good.")] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, readable=True, help="A file; may be given again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put an e-mail into the queue.

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
        "attachments": [_attachment(path) for path in attach or ()] or None,
    }
    queued, public_id = _enqueue(fields)
    if as_json:
        print_json({"id": queued.id, "public_id": public_id, "new": queued.new})
    elif queued.new:
        typer.echo(f"queued {queued.id}")
    else:
        typer.echo(f"already queued {queued.id}: its key was used before, and nothing was written")


@app.command("list")
def list_(
    state: Annotated[
        list[Any] | None,
        typer.Option(parser=email_state, metavar="STATE", help="Only these states; may be given again."),
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="Only this workspace. [default: all]")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    before: Before = None,
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only for this address.")] = None,
    key: Annotated[str | None, typer.Option(help="Only the one with this idempotency key.")] = None,
    campaign: Annotated[str | None, typer.Option(help="Only of this campaign.")] = None,
    user: Annotated[str | None, typer.Option(help="Only of this user.")] = None,
    stream: Annotated[str | None, typer.Option(help="Only of this stream.")] = None,
    account: Annotated[str | None, typer.Option(help="Only those that this account has, or had last.")] = None,
    since: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Accepted at this moment or later.")
    ] = None,
    until: Annotated[datetime | None, typer.Option(parser=moment, metavar="TIME", help="Accepted before.")] = None,
    as_json: AsJson = False,
) -> None:
    """List e-mails, the newest first.

    A state is one of ours, or a word of sequences in capitals: SCHEDULED, RETRY_SCHEDULED, SENDING, SENT, PERMANENTLY_FAILED, CANCELLED.
    Those that wait and those that are finished, together. A key, a campaign, a user and a stream are a workspace's own:
    without --workspace, of FAIRPOST_WORKSPACE.

    \b
    Example: fairpost email list --state failed --state bounced --limit 20
    """
    from fairpost.observe.search import Wanted, search_emails

    wanted = Wanted(
        to=to, key=key, campaign=campaign, user=user, stream=stream, account=account, since=since, until=until
    )
    whose = workspace or (read_settings().workspace if wanted.is_of_one_workspace else None)

    async def work(store: "Store") -> "tuple[Matches, PublicIds]":
        below = None if before is None else await _meant(store, before)
        found = await search_emails(store, wanted, workspace=whose, states=state, before=below, most=limit)
        return found, await store.public_ids()

    _print_found(*with_store(work), limit, as_json=as_json)


@app.command()
def find(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="An id, an address, a key or a campaign's name.")],
    workspace: Annotated[str | None, typer.Option(help="Only this workspace. [default: all]")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Find e-mails by an id, an address, a key or a campaign.

    The first of these that there is counts, and is said. Keys and campaigns are a workspace's own: without --workspace, of
    FAIRPOST_WORKSPACE.

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
def show(id_: Id, as_json: AsJson = False) -> None:
    """Show everything about one e-mail.

    Its state and what that means, what holds it back, its content, each attempt with its code, reply and response time, and
    its life, moment by moment.

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
        list[str] | None, typer.Argument(parser=email_id, metavar="[ID...]", help="One id or more, or --reason.")
    ] = None,
    reason: Annotated[
        Literal["email.account_suspended", "account_suspended"] | None,
        typer.Option(help="All that failed for this reason, instead of single ones."),
    ] = None,
    workspace: Annotated[str | None, typer.Option(help="With --reason: only of this workspace.")] = None,
    account: Annotated[str | None, typer.Option(help="With --reason: only those that this account must send.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --reason: only say how many there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue e-mails again that failed or bounced.

    Each gets at least one attempt more. With a reason, all of them, some hundreds in a commit; those whose account is still
    suspended stay as they are.

    \b
    Example: fairpost email retry --reason email.account_suspended --account sales --dry-run
    """
    if (reason is None) == (not ids) or (reason is None and (workspace or account or dry_run or as_json)):
        raise typer.BadParameter("give ids, or --reason; the other options go with --reason")
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
        note(f"{left:,} more stay failed while their account is suspended or gone; first: fairpost account resume NAME")


@app.command()
def cancel(ids: Ids) -> None:
    """Take e-mails out of the queue before they are sent.

    \b
    Example: fairpost email cancel 1861234567890123456
    """
    _for_each(ids, _cancel)


@app.command()
def resolve(
    id_: Id,
    decision: Annotated[
        Literal["sent", "failed", "resend"],
        typer.Option("--as", help="It was sent; give it up; or send it again, at the risk of a second copy."),
    ],
) -> None:
    """Decide what becomes of an e-mail in doubt.

    \b
    Example: fairpost email resolve 1861234567890123456 --as resend
    """

    from fairpost.actions.emails import ResolveEmail
    from fairpost.actions.emails import resolve as resolved

    async def work(store: "Store") -> None:
        request = ResolveEmail(id=await _meant(store, id_), decision=decision)
        value_of(await resolved(actor(), request, store), id=id_)

    with_store(work)
    typer.echo(f"resolved {id_}: {'it waits to be sent again' if decision == 'resend' else decision}")


def _enqueue(fields: "EmailFields") -> "tuple[Enqueued, str]":
    import asyncio

    from fairpost.accept.enqueue import enqueue
    from fairpost.startup.parts import connect, prepare_database

    async def run() -> "tuple[Enqueued, str]":
        async with connect(await prepare_database(read_settings())) as conn:
            queued: Enqueued = await enqueue(conn, **fields)
            return queued, await conn.fetchval("SELECT fairpost.public_id($1)", queued.id)

    return asyncio.run(run())


def _attachment(path: Path) -> "Attachment":
    import mimetypes

    from fairpost.accept.enqueue import Attachment

    if path.stat().st_size > ATTACHMENT_BYTES_MAX:
        raise FairpostError(
            f"{path} has {path.stat().st_size:,} bytes; attachments have {ATTACHMENT_BYTES_MAX:,} at most."
        )
    return Attachment(path.name, path.read_bytes(), content_type=mimetypes.guess_type(path.name)[0])


def _for_each(ids: Sequence[str], act: "Act") -> None:
    """Each on its own: one that cannot be done does not keep the others from it, and is told at the end."""

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
        return f"retried {id_}; its address is on the suppression list until you type: fairpost suppress remove ADDRESS"
    return f"retried {id_}"


async def _cancel(store: "Store", email: EmailId, id_: str) -> str:
    from fairpost.actions.emails import CancelEmail, cancel

    value_of(await cancel(actor(), CancelEmail(id=email), store), id=id_)
    return f"cancelled {id_}"


async def _meant(store: "Store", text: str) -> EmailId:
    """Raises NotFound: no e-mail of this database can have this id."""
    id_ = (await store.public_ids()).email_id(text, or_number=True)
    if id_ is None:
        raise _unknown(text)
    return id_


@contextmanager
def _called(text: str) -> "Iterator[None]":
    """What is not there is named as it was given."""
    try:
        yield
    except NotFound:
        raise _unknown(text) from None


def _unknown(id_: EmailId | str) -> NotFound:
    return NotFound(f"There is no e-mail {id_}. Find the one you mean: fairpost email list")


def _for_programs(email: "ListedEmail | ShownEmail", ids: "PublicIds") -> dict[str, Any]:
    """With the names of SQL and HTTP, and the state also in the words of an outbox and of sequences. `id` is the number, as SQL has it;
    `public_id` is what HTTP and the e-mail's own headers say."""
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
        typer.echo("no e-mails" if found.looked_to is None else "no e-mails among the newest")
    if found.looked_to is not None:
        note(f"older ones were not looked at; go on: --before {found.looked_to}")
    elif emails and len(emails) == limit and not as_json:
        note(f"more: --before {emails[-1].id}")


def _row(email: "ListedEmail") -> tuple[object, ...]:
    first, *others = [recipient.address for recipient in email.recipients]
    to = f"{first} +{len(others)}" if others else first
    subject = email.subject if email.subject is not None else "(content gone)"
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
            ("public id", ids.email(email.id)),
            ("state", f"{email.state}: {MEANING[email.state]}"),
            (
                "in other words",
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
            ("goes through", _route(email.route)),
            ("account", email.account),
            *_times(email),
            ("attempts", f"{email.attempts} of {email.attempts_max}"),
            ("if in doubt", "send again" if email.on_doubt is DoubtPolicy.RESEND else "ask a person"),
            ("key", email.idempotency_key),
            ("message id", email.message_id),
            ("thread id", email.thread_id),
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
        doubt = life.doubt
        typer.echo()
        print_pairs(
            [
                ("known", doubt.reached),
                ("asked", doubt.asked),
                ("look for", f"a message whose Message-ID begins with {doubt.message_id_begins}"),
                ("if nobody decides", doubt.policy),
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
    return [("from", sender or "the account's own address"), *named, ("still to get it", still)]


def _times(email: "ShownEmail") -> list[tuple[str, object]]:
    moments = ("created_at", "due_at", "expires_at", "claimed_at", "begun_at", "finished_at")
    return [(name.removesuffix("_at"), iso(at)) for name in moments if (at := getattr(email, name))]


def _route(route: str) -> str:
    return f"the account {route[1:]} only" if route.startswith("@") else f"the pool {route}"


def _print_body(kind: str, body: str | None) -> None:
    if not body:
        return
    lines = body.splitlines()
    typer.echo(f"\n{kind}:")
    for line in lines[:BODY_LINES_SHOWN_MAX]:
        typer.echo(f"  {plain(line)}")
    if len(lines) > BODY_LINES_SHOWN_MAX:
        typer.echo(f"  … and {len(lines) - BODY_LINES_SHOWN_MAX} lines more (all of it: --json)")


def _attempt_row(attempt: "Attempt") -> tuple[object, ...]:
    begun = f"{attempt.begun_at:%Y-%m-%d %H:%M:%S}"
    return attempt.n, attempt.account, begun, attempt.outcome, attempt.code, attempt.response_ms, attempt.reply
