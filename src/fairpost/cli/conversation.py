"""`fairpost conversation`: replies, grouped by person."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.output import AsJson, iso, plain, print_json, print_table
from fairpost.cli.session import with_store
from fairpost.model.errors import FairpostError
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.actions.conversations import Named, NotAccepted, Queued
    from fairpost.model.conversation import Conversation, Message
    from fairpost.model.public_ids import PublicIds
    from fairpost.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Read, label and answer replies.")

Person = Annotated[str, typer.Argument(metavar="PERSON", help="The person's address, or the conversation ID.")]
Workspace = Annotated[str | None, typer.Option(help="Workspace. [default: FAIRPOST_WORKSPACE]")]


@app.command("list")
def list_(
    workspace: Annotated[str | None, typer.Option(help="Only this workspace.")] = None,
    label: Annotated[str | None, typer.Option(help="Only conversations with this label.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of conversations.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List conversations by their latest reply, newest first.

    \b
    Example: fairpost conversation list --label interested
    """
    from fairpost.store.conversations import listed

    async def work(store: "Store") -> Any:
        return await listed(store, workspace=workspace, label=label, most=limit), await store.public_ids()

    found, ids = with_store(work)
    if as_json:
        print_json([_facts(each, ids) for each in found])
    elif found:
        columns = ("person", "workspace", "last", "", "subject", "labels")
        rows = (
            (each.address, each.workspace, iso(each.last_at), each.last_kind, each.subject, ", ".join(each.labels))
            for each in found
        )
        print_table(columns, rows)
    else:
        typer.echo("No conversations.")


@app.command()
def show(person: Person, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show a person's conversation in chronological order.

    \b
    Example: fairpost conversation show ann@example.com
    """
    from fairpost.api.rendering import words_of
    from fairpost.observe.conversations import messages_of

    async def work(store: "Store") -> Any:
        conversation, ids = await _found(store, person, workspace), await store.public_ids()
        return conversation, await messages_of(store, conversation, rendered=words_of), ids

    conversation, messages, ids = with_store(work)
    if as_json:
        print_json({**_facts(conversation, ids), "messages": messages})
        return
    labels = f" [{', '.join(conversation.labels)}]" if conversation.labels else ""
    typer.echo(plain(f"{conversation.address} in {conversation.workspace}{labels}"))
    for each in messages:
        typer.echo(_told(each))


@app.command()
def answer(
    person: Person,
    text: Annotated[str | None, typer.Option(help="Plain text. Use --text, --html or both.")] = None,
    html: Annotated[str | None, typer.Option(help="HTML.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key. A key can be used for only one reply.")] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Reply to a person in the same thread, from the same account.

    \b
    Example: fairpost conversation answer ann@example.com --text "Tuesday at ten suits me."
    """
    from fairpost.actions import conversations as actions

    async def work(store: "Store") -> "tuple[Queued | NotAccepted, PublicIds]":
        named = await _named(store, person, workspace)
        request = actions.AnswerPerson(named=named, text=text, html=html, key=key)
        return await act_on(store, actions.answer, request), await store.public_ids()

    done, ids = with_store(work)
    if isinstance(done, actions.NotAccepted):
        raise FairpostError(f"--{done.field.replace('_', '-')} {done.message}. Nothing was changed.")
    if as_json:
        print_json({"id": done.id, "public_id": ids.email(done.id), "new": done.new})
    else:
        typer.echo(f"queued {done.id}" if done.new else f"already queued {done.id}. Nothing was changed")


@app.command()
def label(
    person: Person,
    add: Annotated[list[str] | None, typer.Argument(metavar="[LABEL]...", help="Labels to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Label to remove. Repeatable.")] = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Add or remove a conversation's labels.

    \b
    Example: fairpost conversation label ann@example.com interested --remove new
    """
    from fairpost.actions import conversations as actions

    async def work(store: "Store") -> "tuple[Conversation, PublicIds]":
        named = await _named(store, person, workspace)
        request = actions.LabelConversation(named=named, add=tuple(add or ()), remove=tuple(remove or ()))
        fields = {"labels": "LABEL"}
        return await act_on(store, actions.label, request, fields=fields), await store.public_ids()

    found, ids = with_store(work)
    if as_json:
        print_json(_facts(found, ids))
    else:
        typer.echo(plain(f"labels: {', '.join(found.labels) or 'none'}"))


async def _found(store: "Store", person: str, workspace: str | None) -> "Conversation":
    from fairpost.model.errors import Refusal
    from fairpost.model.ids import ConversationId
    from fairpost.model.public_ids import Kind
    from fairpost.store import conversations

    if "@" in person:
        home = workspace or read_settings().workspace
        found = await conversations.by_address(store, person, workspace=home)
    else:
        number = (await store.public_ids()).private(Kind.CONVERSATION, person)
        found = await conversations.by_id(store, ConversationId(number or 0), workspace=workspace)
    if found is None:
        raise Refusal("conversation.unknown", conversation=person)
    return found


async def _named(store: "Store", person: str, workspace: str | None) -> "Named":
    from fairpost.actions.conversations import Named
    from fairpost.model.public_ids import Kind

    found = await _found(store, person, workspace)
    public_id = (await store.public_ids()).public(Kind.CONVERSATION, found.id)
    return Named(id=found.id, workspace=found.workspace, public_id=public_id)


def _facts(found: "Conversation", ids: "PublicIds") -> dict[str, Any]:
    from fairpost.cli.output import jsonable
    from fairpost.model.public_ids import Kind

    return {**jsonable(found), "id": ids.public(Kind.CONVERSATION, found.id)}


def _told(each: "Message") -> str:
    head = f"{iso(each.at)}  {each.state or each.kind}  {each.from_ or each.account or ''}  {each.subject or ''}"
    body = "\n".join(f"    {line}" for line in (each.text or "").splitlines())
    return f"\n{plain(head)}\n{body and plain(body)}".rstrip()
