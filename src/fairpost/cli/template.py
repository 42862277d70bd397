"""`fairpost template`: what e-mails say, checked before it is kept, and shown as a recipient would see it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.acting import act, actor, value_of
from fairpost.cli.files import STANDARD, read_text
from fairpost.cli.names import Workspace, checked_name, chosen
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

Name = Annotated[str, typer.Argument(callback=checked_name, metavar="NAME", help="The template's name, like welcome.")]


@app.command("set")
def set_(
    name: Name,
    subject: Annotated[str | None, typer.Option(metavar="TEXT", help="The subject line.")] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The plain text.")] = None,
    text_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The file with the plain text, or - for standard input.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="HTML", help="The HTML, beside the text or instead of it.")
    ] = None,
    html_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The file with the HTML, or - for standard input.")
    ] = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="Take the plain text out; the HTML stays.")] = False,
    no_html: Annotated[bool, typer.Option("--no-html", help="Take the HTML out; the plain text stays.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Write a template, or change a part of it.

    A new one needs a subject, and a text or HTML. What is not named stays as it is. It is checked first: with a mistake in it, nothing is changed.
    Campaigns that are launched keep the words that they were launched with.

    \b
    What differs from one recipient to the next stands in braces:
      {{ company }}                                      everybody must have a company
      {{ first_name or "there" }}                        who has no first name is called there
      {% if city %}How is life in {{ city }}?{% endif %} only for those with a city

    \b
    Example: fairpost template set welcome --subject 'Hello {{ first_name or "there" }}' --text-file welcome.txt
    """
    from fairpost.actions.templates import PutTemplate, put
    from fairpost.store.templates import sequences

    if text_file == html_file == STANDARD:
        raise typer.BadParameter("standard input can be read only once: give the text or the HTML as a file")
    given = _given(subject, _body("text", text, text_file, no_text), _body("html", html, html_file, no_html))
    where = chosen(workspace)

    async def work(store: "Store") -> "tuple[TemplatePut, bool]":
        done = _put(await put(actor(), PutTemplate(workspace=where, name=name, parts=given), store), given)
        users = [each for each in await sequences(store, where) if uses(each, name)]
        return done, any(each.is_launched for each in users)

    done, is_launched = with_store(work)
    before, after, changed = done.before, template_of(done.after), done.changed
    if as_json:
        print_json({"name": name, "workspace": where, "is_new": before is None, "changed": changed, **fields_of(after)})
        return
    typer.echo(outcome(name, before, done.after, changed))
    for line in field_lines(after):
        typer.echo(plain(line))
    if changed and is_launched:
        typer.echo("campaigns that were launched with it keep the words they had")
    if "\\n" in (text or ""):
        typer.echo('the text has "\\n" in it, letter by letter; line breaks come with --text-file')
    typer.echo(f"see it: fairpost template preview {name}")


@app.command("list")
def list_(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """List the templates of a workspace.

    \b
    Example: fairpost template list
    """
    from fairpost.store.templates import templates

    found = with_store(lambda store: templates(store, chosen(workspace)))
    if as_json:
        print_json(found)
    elif found:
        rows = ((t.name, short(t.subject), bodies(t), ", ".join(t.sequences), iso(t.changed_at)) for t in found)
        print_table(("template", "subject", "has", "used by", "changed"), rows)
    else:
        typer.echo("no templates; write one: fairpost template set NAME --subject … --text …")


@app.command()
def show(name: Name, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show a template: its words, its fields, and who uses it.

    \b
    Example: fairpost template show welcome
    """
    from fairpost.store.templates import sequences, template_named

    where = chosen(workspace)

    async def work(store: "Store") -> "tuple[StoredTemplate, list[StoredSequence]]":
        found = await template_named(store, where, name)
        return found, [each for each in await sequences(store, where) if uses(each, name)]

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
        str | None, typer.Option(metavar="ADDRESS", help="As this prospect would get it. [default: made-up values]")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With this field and no others; again for each of them."),
    ] = None,
    html: Annotated[bool, typer.Option("--html", help="Print the HTML alone, fit to go into a file.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Show a template as a recipient would get it.

    With the fields of a prospect, with those given, or with made-up values. Nothing is sent.

    \b
    Example: fairpost template preview welcome --prospect ann@example.com
    """
    if prospect is not None and field:
        raise typer.BadParameter("give --prospect or --field, not both")
    own, where = _own_fields(field or []), chosen(workspace)

    async def work(store: "Store") -> "tuple[StoredTemplate, dict[str, Any] | None]":
        from fairpost.store.prospects import known_by
        from fairpost.store.templates import template_named

        found = await template_named(store, where, name)
        if prospect is None:
            return found, own or None
        known = await known_by(store, where, prospect)
        return found, {"email": known.address, **known.fields}

    found, fields = with_store(work)
    compiled = compiled_of(template_of(found))
    values = {"email": SAMPLE_ADDRESS, **(sample(compiled) if fields is None else fields)}
    rendered = rendered_for(compiled, values, name, prospect)
    if as_json:
        print_json({**jsonable(rendered), "fields": {key: values[key] for key in values if key in roots(compiled)}})
    elif html:
        if rendered.html is None:
            raise FairpostError(f"Template {name} has no HTML. Its text: fairpost template preview {name}")
        echo_body(rendered.html)
    else:
        if fields is None and roots(compiled):
            typer.echo(plain(f"with made-up values: {values_in_words(compiled, values)}"))
        typer.echo(plain(f"subject: {rendered.subject}\n"))
        echo_body(rendered.text if rendered.text is not None else rendered.html or "")
        if rendered.text is not None and rendered.html is not None:
            typer.echo(f"\nit has HTML, too; see it: fairpost template preview {name} --html > preview.html")


@app.command()
def remove(name: Name, workspace: Workspace = None) -> None:
    """Remove a template that no sequence uses.

    Campaigns that are launched keep their words.

    \b
    Example: fairpost template remove welcome
    """
    from fairpost.actions import templates

    act(templates.remove, templates.Named(workspace=chosen(workspace), name=name))
    typer.echo(f"removed template {name}")


# ── what was given ────────────────────────────────────────────────────────────────────────────────────────

TAKEN_OUT = ""  # a part that is to be there no more: what is given is never empty


def _given(subject: str | None, text: str | None, html: str | None) -> dict[str, str | None]:
    given = {part: value or None for part, value in zip(PARTS, (subject, text, html), strict=True) if value is not None}
    if not given:
        raise typer.BadParameter("give at least one of --subject, --text, --text-file, --html and --html-file")
    if subject is not None and not subject.strip():
        raise typer.BadParameter("a subject must not be empty: nobody opens a mail without one", param_hint="--subject")
    return given


def _body(part: str, words: str | None, file: str | None, is_out: bool) -> str | None:
    """None: nothing was said of it."""
    if (words is not None) + (file is not None) + is_out > 1:
        raise typer.BadParameter(f"give one of --{part}, --{part}-file and --no-{part}")
    if is_out:
        return TAKEN_OUT
    body = words if file is None else read_text(file)
    if body is not None and not body.strip():
        where = f"--{part}" if file is None else "standard input" if file == STANDARD else file
        raise FairpostError(f"{where} is empty, and nothing was changed. To take the {part} out: --no-{part}")
    return body


def _put(outcome: "Done[TemplatePut] | Refused", given: dict[str, str | None]) -> "TemplatePut":
    from fairpost.actions.acting import Refused

    if isinstance(outcome, Refused) and outcome.reason.code == "template.broken":
        raise FairpostError(with_places(outcome.reason, given))
    return value_of(outcome)


def _own_fields(given: list[str]) -> dict[str, Any]:
    """`order.total=5` is a field within another one."""
    fields: dict[str, Any] = {}
    for each in given:
        path, is_pair, value = each.partition("=")
        *outer, last = path.strip().split(".")
        at = fields
        for step in outer:
            at = at.setdefault(step, {}) if isinstance(at, dict) else {}
        if not is_pair or not all((*outer, last)) or not isinstance(at, dict):
            raise typer.BadParameter(f"{each!r} is no field: write it like first_name=Ann", param_hint="--field")
        at[last] = value
    return fields
