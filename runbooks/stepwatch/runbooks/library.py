"""Where the pages are, and how to get one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.signals.phrases import closest_hint

from . import placeholders
from .page import Page

SUFFIX = ".md"


def directory() -> Path:
    """Folder of the pages: inside the installed package, or in the checkout.

    Raises:
        ConfigurationError: there is neither.
    """
    here = Path(__file__).resolve()
    for folder in (here.parent / "pages", here.parents[2] / "pages"):
        if folder.is_dir():
            return folder
    raise ConfigurationError("the runbook pages are missing; install stepwatch again")


def names(folder: Path | None = None) -> tuple[str, ...]:
    """Names of all runbooks, which are names of alerts, sorted."""
    return tuple(sorted(path.stem for path in (folder or directory()).glob(f"*{SUFFIX}")))


def load(name: str, folder: Path | None = None) -> Page:
    """Read the runbook of an alert.

    Raises:
        UsageError: there is no runbook of that name.
        ConfigurationError: the page cannot be read or used.
    """
    folder = folder or directory()
    known = names(folder)
    if name not in known:
        hint = closest_hint(name[:80], known, list_known=False)
        raise UsageError(
            f"no runbook {name[:80]!r}; {f'{hint} ' if hint else ''}`stepwatch runbook` lists all"
        )
    page = read(folder / f"{name}{SUFFIX}")
    for number, problem in page.problems():
        raise ConfigurationError(f"{page.where}:{number}: {problem}")
    return page


def read(path: Path) -> Page:
    """Read a page as it is, with all its faults.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    try:
        return Page(path.stem, str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the runbook {path}: {error}") from error


def render(name: str, values: Mapping[str, str], folder: Path | None = None) -> str:
    """Markdown of a runbook with `values` filled in; what is not known stays visible as `<rank>`.

    Raises:
        UsageError: there is no such runbook, or a value belongs to no placeholder.
        ConfigurationError: the page cannot be read or used.
    """
    for key in values:
        if key not in placeholders.NAMES:
            known = ", ".join(placeholders.NAMES)
            raise UsageError(f"no placeholder {key!r} in runbooks; there are: {known}")
    return placeholders.fill(load(name, folder).markdown, values)
