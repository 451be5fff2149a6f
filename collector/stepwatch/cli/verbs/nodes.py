"""`stepwatch nodes`: the health of all nodes, or one node with its history."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.node_text import fleet_text, node_text
from stepwatch.cli.source import add_source_arguments, ask, component

EXAMPLE = "stepwatch nodes --unhealthy --collector http://collector:8480"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("node", nargs="?", help="show this node with its history")
    parser.add_argument("--unhealthy", action="store_true", help="only nodes that are not healthy")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print; exit 1 if a node that is shown has failed."""
    width = text.columns() - 2
    if arguments.node:
        node = ask(arguments, f"/v1/nodes/{component(arguments.node, 'node')}")
        shown = node_text(node, width, time.time())
        print(json.dumps(node, indent=1) if arguments.json else shown)
        return int(node["health"] == "failed")
    fleet = _all(arguments)
    if arguments.json:
        print(json.dumps(fleet, indent=1))
    else:
        print(fleet_text(fleet, width, time.time(), only_unhealthy=arguments.unhealthy))
    return int(any(node["health"] == "failed" for node in fleet["nodes"]))


def _all(arguments: argparse.Namespace) -> dict[str, Any]:
    """All pages of the list as one document."""
    query = {"unhealthy": "1"} if arguments.unhealthy else {}
    fleet: dict[str, Any] = ask(arguments, "/v1/nodes", **query)
    while fleet["next"] is not None:
        page = ask(arguments, "/v1/nodes", **query, after=fleet["next"])
        fleet["nodes"] += page["nodes"]
        fleet["next"] = page["next"]
    return fleet
