"""The product's own e-mails: a template for each portal (hub, org, …) and type (welcome, tfa, …), from folders of files.

load_portals looks at everything once: words into their layout, the layout's styles into the tags, all of it compiled. What is wrong
with any file is told then, and rendering only fills in. docs/portal-templates.md explains the files.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from fairpost.model.errors import NotFound
from fairpost.templates import markup, styles
from fairpost.templates.declared import (
    PORTAL_KEYS,
    SLOTS,
    Field,
    Meta,
    Portal,
    doubts_about,
    read_meta,
    read_portal,
    taken,
)
from fairpost.templates.folder import (
    OF_PORTAL,
    OF_TYPE,
    PROBLEMS_MAX,
    BrokenTemplates,
    PortalFiles,
    Problem,
    Source,
    read_folders,
)
from fairpost.templates.rendering import (
    OPENING,
    Compiled,
    MissingFields,
    Rendered,
    Template,
    TemplateError,
    Unrenderable,
    compile_template,
)

BUILT_IN = Path(__file__).parent / "builtin"
PORTALS_MAX = 50
SHOWN_BYTES_MAX = 102_400  # Gmail hides what is beyond
SLOT = {name: f"\ufdd0{name}\ufdd0" for name in SLOTS}  # in a layout that is filled in; no file has this character


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalTemplate:
    """`where`: the folder it was read from."""

    portal: Portal
    type: str
    where: str
    meta: Meta
    compiled: Compiled
    constants: Mapping[str, Any]  # what the portal adds to the fields

    @property
    def fields(self) -> Mapping[str, Field]:
        return self.meta.fields

    @property
    def is_urgent(self) -> bool:
        return self.meta.is_urgent

    @property
    def expires_after(self) -> timedelta | None:
        return self.meta.expires_after

    @property
    def sample(self) -> dict[str, str | int]:
        return {name: field.sample for name, field in self.meta.fields.items()}

    def render(self, fields: Mapping[str, object]) -> Rendered:
        """Raises Unrenderable: a field is missing, unknown, or does not fit its kind."""
        declared = self.meta.fields
        if unknown := fields.keys() - declared.keys():
            raise Unrenderable(
                f"{self.portal.key}/{self.type} has no field {', '.join(sorted(map(str, unknown)))}:"
                f" it has {', '.join(declared) or 'none'}"
            )
        values: dict[str, Any] = {name: taken(declared[name], value) for name, value in fields.items()}
        missing = [name for name, field in declared.items() if field.is_required and values.get(name) is None]
        if missing:
            raise MissingFields(tuple(missing))
        return self.compiled.render({**values, **self.constants})


class Portals:
    """All that was loaded. It does not change: load anew to see what was written since. Any number of threads may use it."""

    def __init__(self, templates: Sequence[PortalTemplate], warnings: Sequence[Problem]) -> None:
        self._templates = {(template.portal.key, template.type): template for template in templates}
        self.warnings = tuple(sorted(set(warnings)))

    def list(self) -> tuple[PortalTemplate, ...]:
        return tuple(self._templates[key] for key in sorted(self._templates))

    def get(self, portal: str, mail_type: str) -> PortalTemplate:
        template = self._templates.get((portal, mail_type))
        if template is None:
            known = sorted(each for name, each in self._templates if name == portal)
            those = f"{portal} has {', '.join(known)}" if known else f"portals are {', '.join(self._names())}"
            raise NotFound(f"There is no template {str(mail_type)[:64]!r} of portal {str(portal)[:64]!r}: {those}.")
        return template

    def render(self, portal: str, mail_type: str, fields: Mapping[str, object]) -> Rendered:
        """Raises NotFound and Unrenderable."""
        return self.get(portal, mail_type).render(fields)

    def preview(self, portal: str, mail_type: str) -> Rendered:
        template = self.get(portal, mail_type)
        return template.render(template.sample)

    def _names(self) -> Sequence[str]:
        return sorted({portal for portal, _ in self._templates})


def load_portals(*folders: Path) -> Portals:
    """`load_portals(BUILT_IN, own)`: later folders go before earlier ones. Raises BrokenTemplates, with all that is wrong."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    found = read_folders(folders, problems)
    if len(found) > PORTALS_MAX:
        raise BrokenTemplates(
            [*problems, Problem(str(folders[-1]), 0, 0, f"there are more than {PORTALS_MAX} portals")]
        )
    templates: list[PortalTemplate] = []
    for key, files in sorted(found.items()):
        templates += _Builder(key, files, problems, warnings).templates(str(folders[-1]))
    if problems:
        raise BrokenTemplates(problems)
    return Portals(templates, warnings)


# ── building ──────────────────────────────────────────────────────────────────────────────────────────────


class _Builder:
    """Of one portal. It goes on after a problem, with what does not depend on it, to find the others too."""

    def __init__(self, key: str, files: PortalFiles, problems: list[Problem], warnings: list[Problem]) -> None:
        self.key, self.files, self.problems, self.warnings = key, files, problems, warnings

    def templates(self, folder: str) -> list[PortalTemplate]:
        named = {Path(problem.file).parts[-2:] for problem in self.problems}
        for name in OF_PORTAL:
            if name not in self.files.shared and (self.key, name) not in named:
                path = str(Path(folder) / self.key / name)
                self.problems.append(Problem(path, 0, 0, f"it is not there: a portal has {', '.join(OF_PORTAL)}"))
        portal = self._portal()
        layouts = {part: self._layout(part, portal) for part in ("text", "html")}
        built = [self._template(name, files, portal, layouts) for name, files in sorted(self.files.types.items())]
        return [template for template in built if template is not None]

    def _portal(self) -> Portal | None:
        source = self.files.shared.get("portal.toml")
        portal = read_portal(self.key, source, self.problems) if source else None
        if portal and source:
            self.warnings += doubts_about(portal, source)
        return portal

    def _layout(self, part: str, portal: Portal | None) -> str | None:
        """Filled in with all that is the portal's: what is left are its slots."""
        source = self.files.shared.get(f"layout.{'html' if part == 'html' else 'txt'}")
        compiled = self._understood(source, part) if source else None
        if source is None or compiled is None:
            return None
        before = len(self.problems)
        self._require_known(source, compiled, set(SLOTS), "a layout has only portal, content, preheader and subject")
        if part == "html":
            self.problems += markup.problems_of(source, urls=None)
            self.problems += styles.problems_of(source)
        if portal is None or len(self.problems) > before:
            return None
        try:
            rendered = compiled.render({"portal": portal.values, **SLOT})
        except Unrenderable as error:
            self.problems.append(source.as_a_whole(f"with what portal.toml says, it cannot be filled in: {error}"))
            return None
        filled = f"{((rendered.html if part == 'html' else rendered.text) or '').strip()}\n"
        self.problems += (source.as_a_whole(message) for message in _layout_mistakes(filled, part))
        return filled if len(self.problems) == before else None

    def _template(
        self, name: str, files: dict[str, Source], portal: Portal | None, layouts: dict[str, str | None]
    ) -> PortalTemplate | None:
        if files.keys() < set(OF_TYPE):  # told already
            return None
        before = len(self.problems)
        meta = read_meta(files["meta.toml"], self.problems)
        sources = {"subject": files["subject.txt"], "text": files["text.txt"], "html": files["html.html"]}
        if meta:
            sources["preheader"] = _preheader(files["meta.toml"], meta)
            self._require_fields(files["meta.toml"], sources, meta)
        else:
            for part, source in sources.items():
                self._understood(source, part)
        if not files["subject.txt"].text.strip() or "\n" in files["subject.txt"].text.strip():
            self.problems.append(files["subject.txt"].problem(0, "a subject is one line"))
        plain, rich = layouts["text"], layouts["html"]
        if portal is None or meta is None or plain is None or rich is None or len(self.problems) > before:
            return None
        words = {"subject": sources["subject"].text.strip(), "preheader": meta.preheader}
        escaped = {name: _escaped(text) for name, text in words.items()}
        template = Template(
            subject=words["subject"],
            text=_in_layout(plain, {**words, "content": sources["text"].text.strip("\n")}),
            html=_in_layout(rich, {**escaped, "content": sources["html"].text.strip("\n")}),
        )
        return self._assembled(name, files, portal, meta, template)

    def _require_fields(self, declared: Source, sources: dict[str, Source], meta: Meta) -> None:
        """Each field that is used is declared, and the other way round."""
        used: set[str] = set()
        for part, source in sources.items():
            compiled = self._understood(source, part)
            if compiled is None:
                used |= meta.fields.keys()  # unknown, then: no warning
                continue
            used |= compiled.fields
            known = "meta.toml does not declare it: write [fields.{}] there, or one of its names here"
            self._require_known(source, compiled, set(meta.fields), known)
            for name in sorted(compiled.required & meta.fields.keys()):
                if not meta.fields[name].is_required:
                    message = f'{name} may be missing, says meta.toml: write {{{{ {name} or "something else" }}}}, or ask with if'
                    self.problems.append(source.problem(_place(source.text, name), message))
            if part == "html":
                self.problems += markup.problems_of(source, urls=_urls(meta))
        for name in sorted(meta.fields.keys() - used):
            self.warnings.append(
                declared.problem(max(declared.text.find(f"fields.{name}"), 0), f"nothing prints {name}")
            )

    def _require_known(self, source: Source, compiled: Compiled, known: set[str], rule: str) -> None:
        for path in islice(sorted(path for path in compiled.fields if not _is_known(path, known)), PROBLEMS_MAX):
            self.problems.append(source.problem(_place(source.text, path), f"{path} is not known: {rule.format(path)}"))

    def _understood(self, source: Source, part: str) -> Compiled | None:
        given = {"text" if part == "preheader" else part: source.text}
        try:
            return compile_template.__wrapped__(Template(**{"subject": "", **given}))
        except TemplateError as error:
            self.problems.append(Problem(source.file, error.line, error.column, error.message))
            return None

    def _assembled(
        self, name: str, files: dict[str, Source], portal: Portal, meta: Meta, template: Template
    ) -> PortalTemplate | None:
        where = files["html.html"]
        whole = Source(where.file, template.html or "")
        if wrong := markup.problems_of(whole, urls=_urls(meta)):
            self.problems += (where.as_a_whole(f"in the portal's layout: {problem.message}") for problem in wrong)
            return None
        try:
            compiled = compile_template.__wrapped__(
                Template(subject=template.subject, text=template.text, html=styles.inlined(whole.text))
            )
            keys = {path.split(".")[1] for path in compiled.fields if path.startswith("portal.")}
            values = {key: value for key, value in portal.values.items() if key in keys}
            built = PortalTemplate(
                portal=portal,
                type=name,
                where=str(Path(where.file).parent),
                meta=meta,
                compiled=compiled,
                constants={"portal": values} if keys else {},
            )
            self._try_out(built, where)
        except (TemplateError, Unrenderable) as error:
            self.problems.append(where.as_a_whole(f"in the portal's layout: {error}"))
            return None
        return built

    def _try_out(self, template: PortalTemplate, where: Source) -> None:
        """With all fields, and with as few as there may be."""
        template.render({name: field.sample for name, field in template.fields.items() if field.is_required})
        html_bytes = len((template.render(template.sample).html or "").encode())
        if html_bytes > SHOWN_BYTES_MAX:
            self.warnings.append(
                where.as_a_whole(
                    f"filled in, it has {html_bytes:,} bytes, and Gmail hides what is beyond {SHOWN_BYTES_MAX:,}"
                )
            )


def _is_known(path: str, fields: set[str]) -> bool:
    root, _, rest = path.partition(".")
    return rest.partition(".")[0] in PORTAL_KEYS if root == "portal" else path in fields


def _layout_mistakes(filled: str, part: str) -> Sequence[str]:
    """Of a layout with the portal's values in it."""
    mistakes = []
    if filled.count(SLOT["content"]) != 1:
        mistakes.append("write {{ content }} once, where the words of each e-mail go")
    if OPENING.search(filled) or re.search(r"\{\ufdd0", filled):
        mistakes.append("a brace before a value looks like a template's: put a space between")
    elif part == "html":
        found = markup.problems_of(Source("", filled), urls=frozenset())
        mistakes += [f"with what portal.toml says: {problem.message}" for problem in found]
        if any(SLOT["content"] in filled[each.start : each.end] for each in markup.elements(filled)):
            mistakes.append("{{ content }} cannot stand within a tag")
    return mistakes


def _in_layout(layout: str, words: Mapping[str, str]) -> str:
    for name, text in words.items():
        layout = layout.replace(SLOT[name], text)
    return layout


def _escaped(words: str) -> str:
    """Plain words as html. What stands in their braces stays: the engine escapes what is printed there."""
    pieces, at = [], 0
    for tag in markup.template_tags(words):
        pieces += [html.escape(words[at : tag.start]), tag.text]
        at = tag.end
    return "".join([*pieces, html.escape(words[at:])])


def _preheader(file: Source, meta: Meta) -> Source:
    """With nothing but space before it, so that its places are those of the file."""
    at = max(file.text.find(meta.preheader), 0)
    return Source(file.file, re.sub(r"[^\n]", " ", file.text[:at]) + meta.preheader)


def _urls(meta: Meta) -> frozenset[str]:
    return frozenset(name for name, field in meta.fields.items() if field.kind == "url") | {"portal.logo_url"}


def _place(source: str, path: str) -> int:
    """Of the first time that a field is named."""
    named = re.compile(rf"(?<![\w.]){re.escape(path)}(?!\w)")
    found = (named.search(source, tag.start, tag.end) for tag in markup.template_tags(source))
    return next((each.start() for each in found if each), 0)
