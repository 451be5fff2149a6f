"""`stepwatch nodes`: the health of all nodes, or one node with its history."""

from __future__ import annotations

import argparse
import json
import time
from functools import partial

from stepwatch.cli import text
from stepwatch.cli.fleet import all_nodes
from stepwatch.cli.node_text import fleet_text, node_text
from stepwatch.cli.source import add_source_arguments, ask, component

EXAMPLE = "stepwatch nodes --unhealthy --collector http://collector:8480"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("node", nargs="?", help="show this node with its history")
    parser.add_argument("--unhealthy", action="store_true", help="only nodes that are not healthy")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print nodes; exit 1 if a shown node has failed."""
    width = text.columns() - 2
    if arguments.node:
        node = ask(arguments, f"/v1/nodes/{component(arguments.node, 'node')}")
        shown = node_text(node, width, time.time())
        print(json.dumps(node, indent=1) if arguments.json else shown)
        return int(node["health"] == "failed")
    query = {"unhealthy": "1"} if arguments.unhealthy else {}
    fleet = all_nodes(partial(ask, arguments), **query)
    if arguments.json:
        print(json.dumps(fleet, indent=1))
    else:
        print(fleet_text(fleet, width, time.time(), only_unhealthy=arguments.unhealthy))
    return int(any(node["health"] == "failed" for node in fleet["nodes"]))
