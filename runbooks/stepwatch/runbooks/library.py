"""Where the pages are, and how to get one."""

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
    """Pages of one sort: what one is called, their folder, their sections, what lists them."""

    noun: str
    folder: str
    sections: tuple[str, ...]
    listed_by: str


RUNBOOKS = Family("runbook", "pages", SECTIONS, "stepwatch runbook")
PLAYBOOKS = Family("playbook", "playbooks", PLAYBOOK_SECTIONS, "stepwatch runbook --playbook")


def directory(family: Family = RUNBOOKS) -> Path:
    """Folder of the pages: inside the installed package, or in the checkout.

    Raises:
        ConfigurationError: there is neither.
    """
    module_path = Path(__file__).resolve()
    for folder in (module_path.parent / family.folder, module_path.parents[2] / family.folder):
        if folder.is_dir():
            return folder
    raise ConfigurationError(f"the {family.noun} pages are missing; install stepwatch again")


def names(folder: Path | None = None, family: Family = RUNBOOKS) -> tuple[str, ...]:
    """Names of all pages, sorted; those of runbooks are names of alerts."""
    return tuple(sorted(path.stem for path in (folder or directory(family)).glob(f"*{SUFFIX}")))


def load(name: str, folder: Path | None = None, family: Family = RUNBOOKS) -> Page:
    """Read a page: the runbook of an alert, or a playbook.

    Raises:
        UsageError: there is no page of that name.
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
    """Read a page as it is, with all its faults.

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
    """Markdown of a page with `values` filled in; what is not known stays visible as `<rank>`.

    Raises:
        UsageError: there is no such page, or a value belongs to no placeholder.
        ConfigurationError: the page cannot be read or used.
    """
    for key in values:
        if key not in placeholders.NAMES:
            allowed = ", ".join(placeholders.NAMES)
            raise UsageError(f"no placeholder {key!r} in runbooks; there are: {allowed}")
    return placeholders.fill(load(name, folder, family).markdown, values)
