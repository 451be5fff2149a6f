"""`stepwatch diagnose`: a job's faults, their cost, and the first action."""

from __future__ import annotations

import argparse
import json

from stepwatch.cli import text
from stepwatch.cli.response.diagnosis import WELL, diagnosis, diagnosis_text
from stepwatch.cli.source import add_source_arguments, ask, component, source_words

EXAMPLE = "stepwatch diagnose llama-7b --collector http://collector:8480"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", help="its name")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis; exit 0 if the job is healthy or recovered, else 1.

    Exit code 1 covers an anomaly now or at the run's end, an unknown state, and an interrupted run.
    """
    job = ask(arguments, f"/v1/jobs/{component(arguments.job, 'job')}")
    document = diagnosis(job, arguments.collector)
    width = text.columns() - 2
    shown = diagnosis_text(document, source_words(arguments), width)
    print(json.dumps(document, indent=1) if arguments.json else shown)
    return int(document["verdict"] not in WELL)
