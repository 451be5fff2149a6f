"""Finds and loads the pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.signals.phrases import closest_hint, file_problem

from . import placeholders
from .page import PLAYBOOK_SECTIONS, SECTIONS, Page

SUFFIX = ".md"


class Family(NamedTuple):
    """A page family: its noun, folder, sections, and the command that lists it."""

    noun: str
    folder: str
    sections: tuple[str, ...]
    listed_by: str


RUNBOOKS = Family("runbook", "pages", SECTIONS, "stepwatch runbook")
PLAYBOOKS = Family("playbook", "playbooks", PLAYBOOK_SECTIONS, "stepwatch runbook --playbook")


def directory(family: Family = RUNBOOKS) -> Path:
    """Return the pages' folder: inside the installed package, or in the checkout.

    Raises:
        ConfigurationError: neither folder exists.
    """
    module_path = Path(__file__).resolve()
    for folder in (module_path.parent / family.folder, module_path.parents[2] / family.folder):
        if folder.is_dir():
            return folder
    raise ConfigurationError(f"the {family.noun} pages are missing; install stepwatch again")


def names(folder: Path | None = None, family: Family = RUNBOOKS) -> tuple[str, ...]:
    """Return all page names, sorted; a runbook is named after its alert."""
    return tuple(sorted(path.stem for path in (folder or directory(family)).glob(f"*{SUFFIX}")))


def load(name: str, folder: Path | None = None, family: Family = RUNBOOKS) -> Page:
    """Read a page: an alert's runbook, or a playbook.

    Raises:
        UsageError: there is no page with that name.
        ConfigurationError: the page cannot be read or used.
    """
    folder = folder or directory(family)
    page_names = names(folder, family)
    if name not in page_names:
        hint = closest_hint(name[:80], page_names, list_known=False)
        raise UsageError(
            f"no {family.noun} {name[:80]!r}; {f'{hint} ' if hint else ''}"
            f"`{family.listed_by}` lists all"
        )
    page = read(folder / f"{name}{SUFFIX}", family)
    for number, problem in page.problems():
        raise ConfigurationError(f"{page.where}:{number}: {problem}")
    return page


def read(path: Path, family: Family = RUNBOOKS) -> Page:
    """Read a page without validation.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    try:
        return Page(path.stem, str(path), path.read_text(encoding="utf-8"), family.sections)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read the {family.noun} {path}: {file_problem(error)}"
        ) from error


def render(
    name: str,
    values: Mapping[str, str],
    folder: Path | None = None,
    family: Family = RUNBOOKS,
) -> str:
    """Return a page's Markdown with `values` filled in; unknown ones stay visible as `<rank>`.

    Raises:
        UsageError: there is no such page, or a value belongs to no placeholder.
        ConfigurationError: the page cannot be read or used.
    """
    for key in values:
        if key not in placeholders.NAMES:
            allowed = ", ".join(placeholders.NAMES)
            raise UsageError(f"no placeholder {key!r} in runbooks; there are: {allowed}")
    return placeholders.fill(load(name, folder, family).markdown, values)
