"""Builds the e-mails of a portal from its files, or one e-mail with custom content.

Inserts the content into the layout, inlines styles, and compiles the result. Errors are reported with their position.
Rendering then only inserts values.
"""

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from fairpost.portals import markup, styles
from fairpost.portals.declared import PORTAL_KEYS, SLOTS, Meta, Portal, doubts_about, read_meta, read_portal
from fairpost.portals.folder import BUILT_IN, OF_PORTAL, OF_TYPE, PROBLEMS_MAX, PortalFiles, Problem, Source
from fairpost.portals.layout import SLOT, escape_words, in_layout, layout_mistakes, placed
from fairpost.portals.template import Frame, PortalTemplate, Words
from fairpost.portals.values import LINE_RULE, is_line
from fairpost.templates.reader import TemplateError
from fairpost.templates.rendering import Compiled, Template, UnfitValue, Unrenderable, compile_template

SHOWN_BYTES_MAX = 102_400  # Gmail hides everything beyond this size
WORDS_BYTES_MAX = SHOWN_BYTES_MAX  # maximum size of each part, unless the operator wrote it


class _Rules(NamedTuple):
    """The wording of errors about undeclared fields and fields that may be missing."""

    unknown: str
    optional: str


OF_FILES = _Rules(
    unknown="it is not declared in meta.toml: add [fields.{}] there, or use a declared field here",
    optional="is optional in meta.toml",
)


class Builder:
    """Builds one portal. After a problem, continues with everything that does not depend on it, to find all problems."""

    def __init__(
        self,
        key: str,
        files: PortalFiles,
        problems: list[Problem],
        warnings: list[Problem],
        brand: str | None = None,
    ) -> None:
        self.key, self.files, self.problems, self.warnings = key, files, problems, warnings
        self.brand = brand

    def frame(self, folder: str) -> Frame | None:
        named = {Path(problem.file).parts[-2:] for problem in self.problems}
        for name in OF_PORTAL:
            if name not in self.files.shared and (self.key, name) not in named:
                path = str(Path(folder) / self.key / name)
                self.problems.append(Problem(path, 0, 0, f"the file is missing: a portal has {', '.join(OF_PORTAL)}"))
        portal = self._portal()
        text, html = self._layout("text", portal), self._layout("html", portal)
        if portal is None or text is None or html is None:
            return None
        return Frame(portal=portal, text=text, html=html)

    def templates(self, frame: Frame | None) -> list[PortalTemplate]:
        built = [self._template(name, files, frame) for name, files in sorted(self.files.types.items())]
        return [template for template in built if template is not None]

    def reworded(self, base: PortalTemplate, words: Words, frame: Frame, where: str) -> PortalTemplate | None:
        meta = base.meta if words.preheader is None else replace(base.meta, preheader=words.preheader.strip())
        given = {"subject": words.subject, "text": words.text, "html": words.html, "preheader": meta.preheader}
        sources = {part: _typed(part, text) for part, text in given.items()}
        self.problems += (mistake for source in sources.values() if (mistake := _unfit(source)))
        if self.problems:
            return None
        rules = _Rules(
            unknown=f"{base.portal.key}/{base.type} has {', '.join([*meta.fields, 'portal'])}",
            optional="may be missing",
        )
        declared = Source(f"{base.portal.key}/{base.type}", "")
        built = self._written(base.type, meta, sources, frame, declared=declared, rules=rules, where=where)
        return built and replace(built, words=replace(built.words, preheader=words.preheader and meta.preheader))

    def _portal(self) -> Portal | None:
        source = self.files.shared.get("portal.toml")
        portal = read_portal(self.key, source, self.problems) if source else None
        if portal and source:
            self.warnings += doubts_about(portal, source)
            if self.brand is not None and Path(source.file).is_relative_to(BUILT_IN):
                portal = portal.called(self.brand)
        return portal

    def _layout(self, part: str, portal: Portal | None) -> str | None:
        """Renders the layout with the portal's values. The slots for the e-mails' content stay open."""
        source = self.files.shared.get(f"layout.{'html' if part == 'html' else 'txt'}")
        compiled = self._understood(source, part) if source else None
        if source is None or compiled is None:
            return None
        before = len(self.problems)
        self._require_known(
            source, compiled, set(SLOTS), "a layout can use only portal, content, preheader and subject"
        )
        if part == "html":
            self.problems += markup.problems_of(source, urls=None)
            self.problems += styles.problems_of(source)
        if portal is None or len(self.problems) > before:
            return None
        try:
            rendered = compiled.render({"portal": portal.values, **SLOT})
        except Unrenderable as error:
            self.problems.append(source.as_a_whole(f"it cannot be rendered with the values in portal.toml: {error}"))
            return None
        filled = f"{((rendered.html if part == 'html' else rendered.text) or '').strip()}\n"
        self.problems += (source.as_a_whole(message) for message in layout_mistakes(filled, part))
        return filled if len(self.problems) == before else None

    def _template(self, name: str, files: dict[str, Source], frame: Frame | None) -> PortalTemplate | None:
        if files.keys() < set(OF_TYPE):  # already reported
            return None
        declared = files["meta.toml"]
        meta = read_meta(declared, self.problems)
        sources = {"subject": files["subject.txt"], "text": files["text.txt"], "html": files["html.html"]}
        if meta is None:
            for part, source in sources.items():
                self._understood(source, part)
            self._require_one_line(sources["subject"])
            return None
        sources["preheader"] = _preheader(declared, meta)
        where = str(Path(declared.file).parent)
        return self._written(name, meta, sources, frame, declared=declared, rules=OF_FILES, where=where)

    def _written(
        self,
        name: str,
        meta: Meta,
        sources: dict[str, Source],
        frame: Frame | None,
        *,
        declared: Source,
        rules: _Rules,
        where: str,
    ) -> PortalTemplate | None:
        """Builds a template from its declaration and its content."""
        before = len(self.problems)
        self._require_fields(declared, sources, meta, rules)
        self._require_one_line(sources["subject"])
        if frame is None or len(self.problems) > before:
            return None
        words = Words(
            subject=sources["subject"].text.strip(),
            text=sources["text"].text.strip("\n"),
            html=sources["html"].text.strip("\n"),
        )
        return self._assembled(name, sources, frame, meta, words, where)

    def _require_one_line(self, subject: Source) -> None:
        if not subject.text.strip() or "\n" in subject.text.strip():
            self.problems.append(subject.problem(0, "a subject must be one line"))

    def _require_fields(self, declared: Source, sources: dict[str, Source], meta: Meta, rules: _Rules) -> None:
        """Checks that each used field is declared, and warns about declared fields that are not used."""
        used: set[str] = set()
        for part, source in sources.items():
            compiled = self._understood(source, part)
            if compiled is None:
                # This part is invalid, so it is unknown which fields it uses. Do not warn about any unused fields.
                used |= meta.fields.keys()
                continue
            used |= compiled.fields
            self._require_known(source, compiled, set(meta.fields), rules.unknown)
            for name in sorted(compiled.required & meta.fields.keys()):
                if not meta.fields[name].is_required:
                    message = f'{name} {rules.optional}: write {{{{ {name} or "something else" }}}}, or use if'
                    self.problems.append(source.problem(_place(source.text, name), message))
            if part == "html":
                self.problems += markup.problems_of(source, urls=_urls(meta))
        for name in sorted(meta.fields.keys() - used):
            at = declared.text.find(f"fields.{name}")
            unused = f"no part of the e-mail prints {name}"
            self.warnings.append(declared.problem(at, unused) if at >= 0 else declared.as_a_whole(unused))

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
        self, name: str, sources: dict[str, Source], frame: Frame, meta: Meta, words: Words, where: str
    ) -> PortalTemplate | None:
        html = sources["html"]
        lines = {"subject": words.subject, "preheader": meta.preheader}
        escaped = {slot: escape_words(line) for slot, line in lines.items()}
        text = in_layout(frame.text, {**lines, "content": words.text})
        whole = Source(html.file, in_layout(frame.html, {**escaped, "content": words.html}))
        if wrong := markup.problems_of(whole, urls=_urls(meta)):
            before = in_layout(frame.html.partition(SLOT["content"])[0], escaped)
            self.problems += (placed(html, before, problem) for problem in wrong)
            return None
        try:
            compiled = compile_template.__wrapped__(
                Template(subject=words.subject, text=text, html=styles.inlined(whole.text))
            )
            keys = {path.split(".")[1] for path in compiled.fields if path.startswith("portal.")}
            values = {key: value for key, value in frame.portal.values.items() if key in keys}
            built = PortalTemplate(
                portal=frame.portal,
                type=name,
                where=where,
                meta=meta,
                words=words,
                compiled=compiled,
                constants={"portal": values} if keys else {},
            )
            self._try_out(built, html)
        except (TemplateError, Unrenderable) as error:
            unfit = self._unfit_values(sources, meta, frame.portal)
            self.problems += unfit or [html.as_a_whole(f"in the portal's layout: {error}")]
            return None
        return built

    def _unfit_values(self, sources: dict[str, Source], meta: Meta, portal: Portal) -> list[Problem]:
        """Renders each part of the content alone, because problems would have different positions inside the layout.
        Returns the problems.
        """
        found = []
        for part, source in sources.items():
            for values in (meta.sample, meta.fewest):
                try:
                    if compiled := self._understood(source, part):
                        compiled.render({**values, "portal": portal.values})
                except UnfitValue as error:
                    found.append(Problem(source.file, error.line, error.column, error.message))
                except Unrenderable as error:
                    found.append(source.as_a_whole(str(error).removeprefix(f"{part}: ")))
        return found

    def _try_out(self, template: PortalTemplate, where: Source) -> None:
        """Renders the template with all fields and with only the required ones, and warns if the e-mail is too long."""
        template.render(template.meta.fewest)
        html_bytes = len((template.render(template.sample).html or "").encode())
        if html_bytes > SHOWN_BYTES_MAX:
            self.warnings.append(
                where.as_a_whole(
                    f"the rendered HTML is {html_bytes:,} bytes long, but Gmail clips it after {SHOWN_BYTES_MAX:,} bytes"
                )
            )


def _typed(part: str, text: str) -> Source:
    return Source(part, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))


def _unfit(words: Source) -> Problem | None:
    """Returns the problems that reading a file would have found before parsing it as a template."""
    if (count := len(words.text.encode("utf-8", "surrogatepass"))) > WORDS_BYTES_MAX:
        return words.as_a_whole(f"it is {count:,} bytes long, but at most {WORDS_BYTES_MAX:,} bytes are allowed")
    if untyped := words.untyped():
        return untyped
    if words.file == "preheader" and not is_line(words.text):
        return words.problem(0, f"it must be {LINE_RULE}")
    return None


def _is_known(path: str, fields: set[str]) -> bool:
    root, _, rest = path.partition(".")
    return rest.partition(".")[0] in PORTAL_KEYS if root == "portal" else path in fields


def _preheader(file: Source, meta: Meta) -> Source:
    """Returns the preheader with everything before it replaced by spaces, so that positions match those in the file."""
    at = max(file.text.find(meta.preheader), 0)
    return Source(file.file, re.sub(r"[^\n]", " ", file.text[:at]) + meta.preheader)


def _urls(meta: Meta) -> frozenset[str]:
    return frozenset(name for name, field in meta.fields.items() if field.kind == "url") | {"portal.logo_url"}


def _place(source: str, path: str) -> int:
    """Returns the position where a field is first used."""
    named = re.compile(rf"(?<![\w.]){re.escape(path)}(?!\w)")
    found = (named.search(source, tag.start, tag.end) for tag in markup.template_tags(source))
    return next((each.start() for each in found if each), 0)
