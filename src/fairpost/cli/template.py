"""`fairpost template`: write, check, preview and remove templates."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act, actor, value_of
from fairpost.cli.files import STANDARD, read_text
from fairpost.cli.header_options import Headers, ReplyTo, header_fields
from fairpost.cli.names import Workspace, checked_name
from fairpost.cli.output import AsJson, iso, jsonable, plain, print_json, print_pairs, print_table
from fairpost.cli.session import with_store
from fairpost.cli.template_view import (
    PARTS,
    SAMPLE_ADDRESS,
    bodies,
    compiled_of,
    echo_body,
    field_lines,
    fields_of,
    outcome,
    parts_of,
    rendered_for,
    roots,
    sample,
    short,
    template_of,
    user_in_words,
    uses,
    values_in_words,
    with_places,
)
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from fairpost.actions.acting import Done, Refused
    from fairpost.actions.templates import TemplatePut
    from fairpost.store.store import Store
    from fairpost.store.templates import StoredSequence, StoredTemplate

app = typer.Typer(no_args_is_help=True, help="Write, check, preview and remove templates.")

Name = Annotated[str, typer.Argument(callback=checked_name, metavar="NAME", help="Template name, for example welcome.")]


TextFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with the plain text, or `-` for standard input.")
]
Html = Annotated[str | None, typer.Option(metavar="HTML", help="HTML, in addition to or instead of the plain text.")]
HtmlFile = Annotated[str | None, typer.Option(metavar="FILE", help="File with the HTML, or `-` for standard input.")]


@app.command("set")
def set_(
    name: Name,
    subject: Annotated[str | None, typer.Option(metavar="TEXT", help="Subject line.")] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Plain text.")] = None,
    text_file: TextFile = None,
    html: Html = None,
    html_file: HtmlFile = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="Remove the plain text and keep the HTML.")] = False,
    no_html: Annotated[bool, typer.Option("--no-html", help="Remove the HTML and keep the plain text.")] = False,
    reply_to: ReplyTo = None,
    header: Headers = None,
    workspace: Workspace = "",
    as_json: AsJson = False,
) -> None:
    """Create a template or change parts of one.

    A new template needs a subject and a body (text, HTML or both). Parts that you omit are not changed. A template with
    an error is not stored. Campaigns that have already been launched keep their content.

    \b
    Write the recipient's fields in braces:
      {{ company }}                                      a required field
      {{ first_name or "there" }}                        with a fallback for recipients without a first name
      {% if city %}How is life in {{ city }}?{% endif %} only for recipients with a city

    \b
    Example: fairpost template set welcome --subject 'Hello {{ first_name or "there" }}' --text-file welcome.txt
    """
    from fairpost.actions.templates import PutTemplate, put
    from fairpost.store.templates import sequences

    if text_file == html_file == STANDARD:
        raise typer.BadParameter("standard input can be used only once; use a file for the text or the HTML")
    headers = header_fields(reply_to, header)
    bodies_ = _body("text", text, text_file, no_text), _body("html", html, html_file, no_html)
    given = _given(subject, *bodies_, is_needed=not headers)

    asked = PutTemplate(workspace=workspace, name=name, parts=given, header_fields=headers)

    async def work(store: "Store") -> "tuple[TemplatePut, bool]":
        done = _put(await put(actor(), asked, store), given)
        users = [each for each in await sequences(store, workspace) if uses(each, name)]
        return done, any(each.is_launched for each in users)

    done, is_launched = with_store(work)
    before, after, changed = done.before, template_of(done.after), done.changed
    if as_json:
        print_json(
            {"name": name, "workspace": workspace, "is_new": before is None, "changed": changed, **fields_of(after)}
        )
        return
    typer.echo(outcome(name, before, done.after, changed))
    for line in field_lines(after):
        typer.echo(plain(line))
    if changed and is_launched:
        typer.echo("campaigns launched with it keep their content")
    if "\\n" in (text or ""):
        typer.echo('the text contains "\\n" as two characters; for line breaks, use --text-file')
    typer.echo(f"next: fairpost template preview {name}")


@app.command("list")
def list_(workspace: Workspace = "", as_json: AsJson = False) -> None:
    """List a workspace's templates.

    \b
    Example: fairpost template list
    """
    from fairpost.store.templates import templates

    found = with_store(lambda store: templates(store, workspace))
    if as_json:
        print_json(found)
    elif found:
        rows = ((t.name, short(t.subject), bodies(t), ", ".join(t.sequences), iso(t.changed_at)) for t in found)
        print_table(("template", "subject", "has", "used by", "changed"), rows)
    else:
        typer.echo("No templates. Create one: fairpost template set NAME --subject … --text …")


@app.command()
def show(name: Name, workspace: Workspace = "", as_json: AsJson = False) -> None:
    """Show a template's content and fields, and where it is used.

    \b
    Example: fairpost template show welcome
    """
    from fairpost.store.templates import sequences, template_named

    async def work(store: "Store") -> "tuple[StoredTemplate, list[StoredSequence]]":
        found = await template_named(store, workspace, name)
        return found, [each for each in await sequences(store, workspace) if uses(each, name)]

    found, users = with_store(work)
    if as_json:
        used_by = [{"sequence": each.name, "campaigns": each.campaigns} for each in users]
        print_json({**jsonable(found), **fields_of(template_of(found)), "used_by": used_by})
        return
    print_pairs(
        [
            ("template", found.name),
            ("changed", iso(found.changed_at)),
            *(("fields", line) for line in field_lines(template_of(found))),
            ("used by", "; ".join(map(user_in_words, users)) or "no sequence yet"),
            ("reply-to", found.header_fields.reply_to and str(found.header_fields.reply_to)),
            *((f"header {name}", value) for name, value in found.header_fields.headers.items()),
            ("subject", found.subject),
        ]
    )
    for part in ("text", "html"):
        if (body := parts_of(found)[part]) is not None:
            typer.echo(f"\n{part}:")
            echo_body(body)


@app.command()
def preview(
    name: Name,
    prospect: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Prospect for whom to render the template. [default: sample values]"),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Field value. Fields that you do not specify are empty. Repeatable."),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Print only the HTML, for example to save it to a file.")
    ] = False,
    workspace: Workspace = "",
    as_json: AsJson = False,
) -> None:
    """Show a template as a recipient would see it.

    Uses a prospect's fields, the fields that you specify, or sample values. Nothing is sent.

    \b
    Example: fairpost template preview welcome --prospect ann@example.com
    """
    if prospect is not None and field:
        raise typer.BadParameter("specify either --prospect or --field")
    own = _own_fields(field or [])

    async def work(store: "Store") -> "tuple[StoredTemplate, dict[str, Any] | None]":
        from fairpost.store.prospects import known_by
        from fairpost.store.templates import template_named

        found = await template_named(store, workspace, name)
        if prospect is None:
            return found, own or None
        known = await known_by(store, workspace, prospect)
        return found, {"email": known.address, **known.fields}

    found, fields = with_store(work)
    compiled = compiled_of(template_of(found))
    values = {"email": SAMPLE_ADDRESS, **(sample(compiled) if fields is None else fields)}
    rendered = rendered_for(compiled, values, name, prospect)
    if as_json:
        print_json({**jsonable(rendered), "fields": {key: values[key] for key in values if key in roots(compiled)}})
    elif html:
        if rendered.html is None:
            raise FairpostError(
                f"Template {name} has no HTML. To see the template's text, run: fairpost template preview {name}"
            )
        echo_body(rendered.html)
    else:
        if fields is None and roots(compiled):
            typer.echo(plain(f"with sample values: {values_in_words(compiled, values)}"))
        typer.echo(plain(f"subject: {rendered.subject}\n"))
        echo_body(rendered.text if rendered.text is not None else rendered.html or "")
        if rendered.text is not None and rendered.html is not None:
            typer.echo(f"\nIt also has HTML: fairpost template preview {name} --html > preview.html")


@app.command()
def remove(name: Name, workspace: Workspace = "") -> None:
    """Remove a template that no sequence uses.

    Launched campaigns keep their content.

    \b
    Example: fairpost template remove welcome
    """
    from fairpost.actions import templates

    act(templates.remove, templates.Named(workspace=workspace, name=name))
    typer.echo(f"removed template {name}")


# ── parse options ─────────────────────────────────────────────────────────────────────────────────────────

TAKEN_OUT = ""  # marks a part to remove, because given parts are never empty


def _given(subject: str | None, text: str | None, html: str | None, *, is_needed: bool) -> dict[str, str | None]:
    given = {part: value or None for part, value in zip(PARTS, (subject, text, html), strict=True) if value is not None}
    if not given and is_needed:
        options = "--subject, --text, --text-file, --html, --html-file, --reply-to and --header"
        raise typer.BadParameter(f"specify at least one of {options}")
    if subject is not None and not subject.strip():
        raise typer.BadParameter("the subject must not be empty", param_hint="--subject")
    return given


def _body(part: str, words: str | None, file: str | None, is_out: bool) -> str | None:
    """Return the content of a part, or None if it was not given."""
    if (words is not None) + (file is not None) + is_out > 1:
        raise typer.BadParameter(f"specify only one of --{part}, --{part}-file and --no-{part}")
    if is_out:
        return TAKEN_OUT
    body = words if file is None else read_text(file)
    if body is not None and not body.strip():
        where = f"--{part}" if file is None else "standard input" if file == STANDARD else file
        raise FairpostError(f"{where} is empty. Nothing was changed. To remove the {part}, use --no-{part}")
    return body


def _put(outcome: "Done[TemplatePut] | Refused", given: dict[str, str | None]) -> "TemplatePut":
    from fairpost.actions.acting import Refused

    if isinstance(outcome, Refused) and outcome.reason.code == "template.broken":
        raise FairpostError(with_places(outcome.reason, given))
    return value_of(outcome)


def _own_fields(given: list[str]) -> dict[str, Any]:
    """Parse fields. `order.total=5` sets a field within another field."""
    fields: dict[str, Any] = {}
    for each in given:
        path, is_pair, value = each.partition("=")
        *outer, last = path.strip().split(".")
        at = fields
        for step in outer:
            at = at.setdefault(step, {}) if isinstance(at, dict) else {}
        if not is_pair or not all((*outer, last)) or not isinstance(at, dict):
            raise typer.BadParameter(
                f"{each!r} is not a field. Use a format such as first_name=Ann", param_hint="--field"
            )
        at[last] = value
    return fields
