"""`stepwatch checkpoints`: a job's checkpoints, and the work that a resume now would lose."""

from __future__ import annotations

import argparse
import json
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.jobs.checkpoints_text import checkpoints_text, is_bad
from stepwatch.cli.source import add_source_arguments, ask, component

EXAMPLE = "stepwatch checkpoints llama-7b"
OK, DAMAGED = 0, 1
MOST_JOBS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", nargs="?", help=f"the job; all, at most {MOST_JOBS}, by default")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print checkpoints, and return 1 if a job's newest decided one is damaged or failed."""
    if arguments.job is not None:
        names = [arguments.job]
    else:
        names = [job["job"] for job in ask(arguments, "/v1/jobs")["jobs"][:MOST_JOBS]]
    jobs: list[dict[str, Any]] = [
        ask(arguments, f"/v1/jobs/{component(name, 'job')}/checkpoints") for name in names
    ]
    if arguments.json:
        print(json.dumps(jobs if arguments.job is None else jobs[0], indent=1))
    else:
        width = text.columns() - 2
        print("\n\n".join(checkpoints_text(job, width) for job in jobs) or "no jobs")
    return DAMAGED if any(map(is_bad, jobs)) else OK
