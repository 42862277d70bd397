"""Output about templates: fields, errors with their position, and changes."""

import sys
from typing import TYPE_CHECKING, Any

import typer

from fairpost.cli.output import plain
from fairpost.model.errors import FairpostError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairpost.model.reason import Reason
    from fairpost.store.templates import StoredSequence, StoredTemplate
    from fairpost.templates.rendering import Compiled, Rendered, Template

PARTS = ("subject", "text", "html")
SAMPLE_ADDRESS = "ada@example.com"
SHOWN_BEFORE, SHOWN_AFTER = 60, 40  # number of characters to show before and after a mistake
SUBJECT_SHOWN = 60  # characters


# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────────────


def with_places(reason: "Reason", parts: "Mapping[str, str | None]") -> str:
    """Return each error with its source line."""
    from fairpost.reasons.rendering import command, mistake_in_words, mistakes, sentence

    lines = [f"{mistake_in_words(each)}\n{_pointed(parts[each['field']] or '', each)}" for each in mistakes(reason)]
    return "\n".join([sentence(reason), *lines, f"Nothing was changed. Next: {command(reason)}"])


def _pointed(source: str, mistake: dict[str, Any]) -> str:
    """Return the line, or the part of it around the mistake, with a caret below the mistake."""
    from rich.cells import cell_len

    line, at = source.split("\n")[mistake["line"] - 1], mistake["column"] - 1
    start, end = max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER
    before = ("…" if start else "") + _of_one_line(line[start:at])
    after = _of_one_line(line[at:end]) + ("…" if end < len(line) else "")
    return f"  {before}{after}\n  {' ' * cell_len(before)}^"


def _of_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


# ── fields ────────────────────────────────────────────────────────────────────────────────────────────────


def compiled_of(template: "Template") -> "Compiled":
    from fairpost.templates.rendering import compile_template

    return compile_template(template)


def fields_of(template: "Template") -> dict[str, list[str]]:
    """Return a template's fields. `nested` are lists and objects, which a CSV file cannot contain."""
    from fairpost.campaigns.launching import ALWAYS_KNOWN

    compiled = compiled_of(template)
    return {
        "required": sorted(compiled.required - ALWAYS_KNOWN),
        "optional": sorted(compiled.optional - ALWAYS_KNOWN),
        "nested": sorted(key for key, value in sample(compiled).items() if isinstance(value, list | dict)),
    }


def field_lines(template: "Template") -> list[str]:
    fields = fields_of(template)
    lines = [f"required fields: {', '.join(fields['required'])}"] if fields["required"] else []
    lines += [f"optional fields: {', '.join(fields['optional'])}"] if fields["optional"] else []
    lines += (
        [f"lists and objects, which a CSV file cannot contain: {', '.join(fields['nested'])}"]
        if fields["nested"]
        else []
    )
    return lines or ["no fields except the address"]


def sample(compiled: "Compiled") -> dict[str, Any]:
    from fairpost.templates.samples import sample_of

    return sample_of(compiled)


def roots(compiled: "Compiled") -> list[str]:
    return sorted({path.partition(".")[0] for path in compiled.fields})


def values_in_words(compiled: "Compiled", values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {values[key]}" for key in roots(compiled))


def rendered_for(compiled: "Compiled", values: dict[str, Any], name: str, prospect: str | None) -> "Rendered":
    from fairpost.templates.rendering import Unrenderable

    try:
        return compiled.render(values)
    except Unrenderable as error:
        whom = f"for {prospect}" if prospect is not None else "with these fields"
        raise FairpostError(f"Template {name} cannot be rendered {whom}: {error}") from error


# ── render ────────────────────────────────────────────────────────────────────────────────────────────────


def outcome(name: str, before: "StoredTemplate | None", after: "StoredTemplate", changed: list[str]) -> str:
    if not changed:
        return f"template {name} is unchanged"
    has = [part for part in PARTS if parts_of(after)[part] is not None]
    has += [name for name in ("headers", "reply_to") if getattr(after.header_fields, name)]
    if before is None:
        return f"created template {name}: {_listed(has)}"
    gone = [part for part in changed if part not in has]
    kept = [part for part in has if part not in changed]
    said = [f"{_listed([part for part in changed if part in has])} changed"] if set(changed) - set(gone) else []
    said += [f"{_listed(gone)} removed"] if gone else []
    said += [f"{_listed(kept)} unchanged"] if kept else []
    return f"changed template {name}: {', '.join(said)}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def user_in_words(sequence: "StoredSequence") -> str:
    campaigns = f" (campaigns {', '.join(sequence.campaigns)})" if sequence.campaigns else ""
    return f"sequence {sequence.name}{campaigns}"


def uses(sequence: "StoredSequence", name: str) -> bool:
    return any(step.template == name for step in sequence.steps)


def parts_of(template: "StoredTemplate | Template") -> dict[str, Any]:
    return {"subject": template.subject, "text": template.text, "html": template.html}


def template_of(stored: "StoredTemplate") -> "Template":
    from fairpost.templates.rendering import Template

    return Template(subject=stored.subject, text=stored.text, html=stored.html)


def bodies(template: "StoredTemplate") -> str:
    return ", ".join(part for part in ("text", "html") if parts_of(template)[part] is not None)


def short(subject: str) -> str:
    line = _of_one_line(subject)
    return line if len(line) <= SUBJECT_SHOWN else f"{line[: SUBJECT_SHOWN - 1]}…"


def echo_body(body: str) -> None:
    """Print the body, without control characters if the output is a terminal, and otherwise unchanged."""
    is_seen = sys.stdout.isatty()
    typer.echo("\t".join(map(plain, body.split("\t"))) if is_seen else body, nl=not body.endswith("\n"))
