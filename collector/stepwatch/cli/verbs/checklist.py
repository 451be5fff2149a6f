"""`stepwatch checklist`: items to review before and after, checked where a program can."""

from __future__ import annotations

import argparse
import json
import tomllib
from functools import partial
from importlib import resources
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.checklist.checks import ASK, CHECKS, FAIL, UNKNOWN, Outcome
from stepwatch.cli.source import SourceError, add_source_arguments, ask, component

EXAMPLE = "stepwatch checklist pre-production --job llama-7b"
LISTS = ("pre-production", "production-readiness", "incident", "weekly", "monthly")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("list", choices=LISTS, metavar="LIST", help=", ".join(LISTS))
    parser.add_argument("--job", default="", help="only this job, where an item is about jobs")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print each item with its state; exit 1 if one fails or is unknown."""
    job = component(arguments.job, "job") if arguments.job else ""
    rows = [
        {**item, **_outcome(arguments, item, job)._asdict()}
        for item in items()
        if arguments.list in item["lists"]
    ]
    if arguments.json:
        print(json.dumps({"list": arguments.list, "items": rows}, indent=1))
    else:
        print("\n".join(_shown(item) for item in rows))
    return int(any(item["state"] in (FAIL, UNKNOWN) for item in rows))


def items() -> list[dict[str, Any]]:
    """Return the items of all lists from `items.toml`."""
    place = resources.files("stepwatch.cli.checklist").joinpath("items.toml")
    rows: list[dict[str, Any]] = tomllib.loads(place.read_text(encoding="utf-8"))["item"]
    return rows


def _outcome(arguments: argparse.Namespace, item: dict[str, Any], job: str) -> Outcome:
    if "check" not in item:
        return Outcome(ASK, f"look: {item['look']}")
    try:
        return CHECKS[item["check"]](partial(ask, arguments), job)
    except SourceError as error:
        return Outcome(UNKNOWN, str(error))


def _shown(item: dict[str, Any]) -> str:
    lines = f"{item['what']}: {item['evidence']} (why: {item['why']})"
    return text.wrapped(f"{item['state']} {lines}", "", text.columns() - 2, hang=8)
