"""`stepwatch postmortem`: an incident as Markdown, to be completed by its responders."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from stepwatch.cli.response.postmortem import Material, document_of, postmortem
from stepwatch.cli.source import SourceError, add_source_arguments, ask, component
from stepwatch.signals.errors import ConfigurationError

EXAMPLE = "stepwatch postmortem 3f2a91c0d4be --out postmortem.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("incident", metavar="ID", help="the incident")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it there, not over a file")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the post-mortem, or write it to a new file."""
    path = f"/v1/incidents/{component(arguments.incident, 'incident')}"
    incident = ask(arguments, path)
    until = incident["resolved_at"] or time.time()
    span = {"from": f"{incident['began_at']:.3f}", "until": f"{until:.3f}"}
    silences = ask(arguments, "/v1/silences", **span)["silences"]
    material = Material(incident, _job(arguments, incident["job"]), silences)
    if arguments.json:
        text = json.dumps(document_of(material), indent=1) + "\n"
    else:
        text = postmortem(material, arguments.collector)
    if arguments.out is None:
        print(text, end="")
        return 0
    try:
        with arguments.out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {arguments.out}: {error.strerror}; pass another --out"
        ) from error
    print(f"wrote {arguments.out}")
    return 0


def _job(arguments: argparse.Namespace, name: str) -> dict[str, Any] | None:
    """Return the incident's job; None if no live state holds it."""
    try:
        job: dict[str, Any] = ask(arguments, f"/v1/jobs/{component(name, 'job')}")
    except SourceError:
        return None
    return job
