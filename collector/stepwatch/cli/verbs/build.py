"""`stepwatch build`: write dashboards, alert rules and routes from the shared names and a site."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepwatch.cli import artefacts
from stepwatch.cli.main import OK
from stepwatch.signals.errors import UsageError

EXAMPLE = "stepwatch build all --site site.yaml --out provisioning"


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
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE",
        help="site file, YAML: classes that page, owners, receivers and routes of alerts",
    )
    artefacts.add_link_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the artefacts and print each path.

    Raises:
        UsageError: there is no checkout here and no `--out`; routes without a site file; a site
            file that is wrong, or whose files would be written into a checkout.
        ConfigurationError: a file cannot be written.
    """
    kinds = artefacts.KINDS if arguments.what == "all" else (arguments.what,)
    root = artefacts.checkout(Path.cwd())
    if arguments.out is None and root is None:
        raise UsageError("this is no checkout of stepwatch; say where to write with --out DIR")
    if arguments.site is None and arguments.what == artefacts.ROUTES:
        raise UsageError("routes are of a site; say who receives alerts with --site FILE")
    if arguments.site is not None and arguments.out is None:
        raise UsageError("a checkout holds no files of a site; say where to write with --out DIR")
    for artefact in artefacts.build(artefacts.links_of(arguments), kinds, arguments.site):
        path = _place(artefact, arguments.out, root)
        artefacts.write(path, artefact.text)
        print(path)
    return OK


def _place(artefact: artefacts.Artefact, out: Path | None, root: Path | None) -> Path:
    return out / artefact.name if out is not None else (root or Path()) / artefact.path
