"""`stepwatch check`: metrics, alerts, dashboards and runbooks fit each other and are current."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from stepwatch.cli import artefacts
from stepwatch.cli.main import OK, PROBLEM, VERBS
from stepwatch.runbooks.library import read
from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.signals.names import ALERT_OF, METRICS
from stepwatch.signals.phrases import file_problem

if TYPE_CHECKING:
    from stepwatch.cli import closure

EXAMPLE = "stepwatch check --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="checkout to check (default: the one around here)"
    )
    artefacts.add_link_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one line per problem.

    Raises:
        UsageError: there is no checkout to check.
        ConfigurationError: a file cannot be read.
    """
    from stepwatch.cli import closure

    tree = read_tree(_root(arguments.root))
    words = closure.Vocabulary(METRICS, ALERT_OF, VERBS)
    fresh = {
        artefact.path: artefact.text for artefact in artefacts.build(artefacts.links_of(arguments))
    }
    problems = closure.problems(tree, words, fresh)
    if arguments.json:
        rows = [{"where": problem.where, "what": problem.message} for problem in problems]
        print(json.dumps({"ok": not problems, "problems": rows}, indent=2))
    else:
        for problem in problems:
            print(problem)
        print(_verdict(tree, len(problems)))
    return PROBLEM if problems else OK


def _verdict(tree: closure.Tree, problems: int) -> str:
    files = len(tree.rules) + len(tree.dashboards) + len(tree.runbooks)
    return f"{files} files checked: {problems or 'no'} problem{'' if problems == 1 else 's'}"


def _root(folder: Path | None) -> Path:
    root = folder if folder is not None else artefacts.checkout(Path.cwd())
    if root is None or not (root / artefacts.RUNBOOK_PAGES).is_dir():
        raise UsageError("this is not a checkout of stepwatch; name one with --root DIR")
    return root


def read_tree(root: Path) -> closure.Tree:
    """Read a checkout's generated files and runbooks.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    from stepwatch.cli import closure

    pages = sorted((root / artefacts.RUNBOOK_PAGES).glob("*.md"))
    return closure.Tree(
        rules=_texts(root, artefacts.ALERT_RULES, "*.yaml"),
        dashboards=_texts(root, artefacts.DASHBOARDS, "*.json"),
        runbooks={str(path.relative_to(root)): read(path) for path in pages},
    )


def _texts(root: Path, kind: str, pattern: str) -> dict[str, str]:
    folder = root / artefacts.generated(kind)
    try:
        return {
            str(path.relative_to(root)): path.read_text(encoding="utf-8")
            for path in sorted(folder.glob(pattern))
        }
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {folder}: {file_problem(error)}") from error
