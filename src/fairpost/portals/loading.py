"""All e-mails of all portals, loaded from the built-in folder and the operator's folder. The operator's folder takes
precedence.

load_portals reads everything once and reports all problems. `reworded` builds one e-mail with custom content, by the
same rules. docs/portal-templates.md explains the files.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from fairpost.model.errors import NotFound
from fairpost.portals.building import Builder
from fairpost.portals.folder import BUILT_IN, BrokenTemplates, PortalFiles, Problem, read_folders
from fairpost.portals.template import Frame, PortalTemplate, Words
from fairpost.templates.rendering import Rendered

OPERATORS_FOLDER = "templates"  # in Fairpost's home; the files in it take precedence over the built-in ones
PORTALS_MAX = 50


class Portals:
    """All loaded templates. Immutable and thread-safe; load again to see changes."""

    def __init__(
        self, templates: Sequence[PortalTemplate], warnings: Sequence[Problem], frames: Mapping[str, Frame]
    ) -> None:
        self._templates = {(template.portal.key, template.type): template for template in templates}
        self._frames = frames
        self.warnings = tuple(sorted(set(warnings)))

    def list(self) -> tuple[PortalTemplate, ...]:
        return tuple(self._templates[key] for key in sorted(self._templates))

    def get(self, portal: str, mail_type: str) -> PortalTemplate:
        template = self._templates.get((portal, mail_type))
        if template is None:
            known = sorted(each for name, each in self._templates if name == portal)
            those = f"{portal} has {', '.join(known)}" if known else f"portals are {', '.join(self._names())}"
            raise NotFound(f"There is no template {str(mail_type)[:64]!r} in portal {str(portal)[:64]!r}: {those}.")
        return template

    def render(self, portal: str, mail_type: str, fields: Mapping[str, object]) -> Rendered:
        """Renders an e-mail. Raises NotFound or Unrenderable."""
        return self.get(portal, mail_type).render(fields)

    def preview(self, portal: str, mail_type: str) -> Rendered:
        template = self.get(portal, mail_type)
        return template.render(template.sample)

    def reworded(
        self, portal: str, mail_type: str, words: Words, *, where: str
    ) -> tuple[PortalTemplate, Sequence[Problem]]:
        """Returns the e-mail with custom content, and any warnings.

        Fields, layout, urgency and expiry are still read from the files. Raises NotFound, and BrokenTemplates with
        positions in `words`.
        """
        base = self.get(portal, mail_type)
        problems: list[Problem] = []
        warnings: list[Problem] = []
        builder = Builder(portal, PortalFiles(), problems, warnings)
        template = builder.reworded(base, words, self._frames[portal], where)
        if template is None or problems:
            raise BrokenTemplates(problems, f"{portal}/{mail_type} is not valid, and nothing was changed:")
        return template, warnings

    def _names(self) -> Sequence[str]:
        return sorted({portal for portal, _ in self._templates})


def portals_at(home: Path, *, brand: str | None = None) -> Portals:
    """Loads the files. The operator's files in `home` take precedence over the built-in ones. Raises BrokenTemplates.

    `brand` has the same meaning as in `load_portals`.
    """
    folder = home / OPERATORS_FOLDER
    return load_portals(BUILT_IN, folder, brand=brand) if folder.is_dir() else built_in_portals(brand)


@cache
def built_in_portals(brand: str | None = None) -> Portals:
    """Returns the portals that are part of the package.

    These portals are read only once per process, because reading them takes a while.
    """
    return load_portals(BUILT_IN, brand=brand)


def load_portals(*folders: Path, brand: str | None = None) -> Portals:
    """Loads folders, as in `load_portals(BUILT_IN, own)`. Later folders take precedence.

    `brand` is the name used for portals that have only the built-in portal.toml. Raises BrokenTemplates with all
    problems.
    """
    problems: list[Problem] = []
    warnings: list[Problem] = []
    found = read_folders(folders, problems)
    if len(found) > PORTALS_MAX:
        raise BrokenTemplates(
            [*problems, Problem(str(folders[-1]), 0, 0, f"there are more than {PORTALS_MAX} portals")]
        )
    templates: list[PortalTemplate] = []
    frames: dict[str, Frame] = {}
    for key, files in sorted(found.items()):
        builder = Builder(key, files, problems, warnings, brand)
        frame = builder.frame(str(folders[-1]))
        templates += builder.templates(frame)
        frames |= {key: frame} if frame else {}
    if problems:
        raise BrokenTemplates(problems)
    return Portals(templates, warnings, frames)
