"""`stepwatch build`: write dashboards, alert rules and routes from the shared names and a site."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepwatch.cli import artefacts
from stepwatch.cli.main import OK
from stepwatch.signals.access import read_token
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
    parser.add_argument(
        "--slo",
        type=Path,
        metavar="DIR",
        help="SLO documents that the site file names, as given to the collector",
    )
    parser.add_argument(
        "--push", metavar="URL", help="write dashboards to this Grafana instead of to files"
    )
    parser.add_argument("--token-file", metavar="FILE", help="file with Grafana's bearer token")
    parser.add_argument(
        "--folder", metavar="TITLE", help="Grafana's folder, made if missing (default: as it is)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --push: write nothing, print the difference"
    )
    artefacts.add_link_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the artefacts and print each path.

    Raises:
        UsageError: there is no checkout here and no `--out`; routes without a site file; a site
            file that is invalid, or whose files would be written into a checkout.
        ConfigurationError: a file cannot be written, or Grafana refuses.
    """
    if arguments.push is not None:
        return _push(arguments)
    if arguments.token_file or arguments.folder or arguments.dry_run:
        raise UsageError("--token-file, --folder and --dry-run go with --push URL")
    kinds = artefacts.KINDS if arguments.what == "all" else (arguments.what,)
    root = artefacts.checkout(Path.cwd())
    if arguments.out is None and root is None:
        raise UsageError("this is not a checkout of stepwatch; name a folder with --out DIR")
    if arguments.site is None and arguments.what == artefacts.ROUTES:
        raise UsageError("routes need a site file with the receivers of alerts; pass --site FILE")
    if arguments.site is not None and arguments.out is None:
        raise UsageError("a checkout holds no site's files; name a folder with --out DIR")
    links = artefacts.links_of(arguments)
    for artefact in artefacts.build(links, kinds, arguments.site, arguments.slo):
        path = _place(artefact, arguments.out, root)
        artefacts.write(path, artefact.text)
        print(path)
    return OK


def _push(arguments: argparse.Namespace) -> int:
    from stepwatch.cli.grafana import Grafana, push

    if arguments.what != artefacts.DASHBOARDS or arguments.out is not None:
        raise UsageError("only dashboards are pushed: stepwatch build dashboards --push URL")
    token = read_token(arguments.token_file)
    if token is None:
        raise UsageError("Grafana asks for a service account's token; pass --token-file FILE")
    built = artefacts.build(artefacts.links_of(arguments), [artefacts.DASHBOARDS])
    with Grafana(arguments.push, token) as server:
        texts = [artefact.text for artefact in built]
        for line in push(server, texts, arguments.folder, arguments.dry_run):
            print(line)
    return OK


def _place(artefact: artefacts.Artefact, out: Path | None, root: Path | None) -> Path:
    return out / artefact.name if out is not None else (root or Path()) / artefact.path
