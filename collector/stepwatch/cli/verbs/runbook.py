"""`stepwatch runbook`: steps or decisions, with an incident's values in the commands."""

from __future__ import annotations

import argparse
import json

from stepwatch import runbooks
from stepwatch.cli.source import add_source_arguments, ask, component
from stepwatch.collector.incidents.states import runbook_values
from stepwatch.signals.errors import UsageError

EXAMPLE = "stepwatch runbook TrainingStraggler --incident 3f2a91c0d4be"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="an alert's name; none lists them")
    parser.add_argument(
        "--playbook",
        nargs="?",
        const="",
        metavar="NAME",
        help="the playbook of a decision instead; no name lists them",
    )
    parser.add_argument("--incident", help="fill in the values of this incident")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the page, or the list of pages.

    Raises:
        UsageError: both an alert and a playbook are requested, or there is no such page.
    """
    name, family = arguments.name, runbooks.RUNBOOKS
    if arguments.playbook is not None:
        if name is not None:
            raise UsageError("give an alert's name or --playbook NAME, not both")
        name, family = arguments.playbook or None, runbooks.PLAYBOOKS
    if name is None:
        names = runbooks.names(family=family)
        print(json.dumps(list(names)) if arguments.json else "\n".join(names))
        return 0
    page = runbooks.render(name, _values(arguments), family=family)
    print(json.dumps({"name": name, "text": page}) if arguments.json else page)
    return 0


def _values(arguments: argparse.Namespace) -> dict[str, str]:
    """Return values for the placeholders: the collector, and the requested incident's."""
    values = {"collector": arguments.collector}
    if arguments.incident:
        identity = component(arguments.incident, "incident")
        values |= runbook_values(ask(arguments, f"/v1/incidents/{identity}"))
    return values
