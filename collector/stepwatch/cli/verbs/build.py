"""`stepwatch build`: write dashboards and alert rules from the shared names."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepwatch.cli import artefacts
from stepwatch.cli.main import OK
from stepwatch.signals.errors import UsageError

EXAMPLE = "stepwatch build all --out provisioning --runbook-url https://wiki.example.org/runbooks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=[*artefacts.KINDS, "all"],
        help="what to write (default: all)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder to write to (default: the generated folders of the checkout)",
    )
    artefacts.add_link_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the artefacts and print each path.

    Raises:
        UsageError: there is no checkout here and no `--out`.
        ConfigurationError: a file cannot be written.
    """
    kinds = artefacts.KINDS if arguments.what == "all" else (arguments.what,)
    root = artefacts.checkout(Path.cwd())
    if arguments.out is None and root is None:
        raise UsageError("this is no checkout of stepwatch; say where to write with --out DIR")
    for artefact in artefacts.build(artefacts.links_of(arguments), kinds):
        path = _place(artefact, arguments.out, root)
        artefacts.write(path, artefact.text)
        print(path)
    return OK


def _place(artefact: artefacts.Artefact, out: Path | None, root: Path | None) -> Path:
    return out / artefact.name if out is not None else (root or Path()) / artefact.path
