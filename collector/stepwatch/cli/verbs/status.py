"""`stepwatch status`: all jobs, or one job in detail."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.fleet import (
    Choice,
    chosen,
    fleet_text,
    left_out_text,
)
from stepwatch.cli.jobs.status_text import job_text
from stepwatch.cli.source import add_source_arguments, ask, component, source_words
from stepwatch.collector.job_states import QUARANTINED, STALE

EXAMPLE = "stepwatch status llama-7b --collector http://collector:8480"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", nargs="?", help="show this job in detail")
    parser.add_argument("--all", action="store_true", help="also jobs that have ended")
    parser.add_argument("--match", metavar="PATTERN", help="only jobs of these names, as 'llama-*'")
    parser.add_argument("--state", help="only jobs in this state, as running or failed")
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print jobs; exit 1 if an incident is open, a job is quarantined, or its state is stale."""
    width = text.columns() - 2
    if arguments.job:
        job = ask(arguments, f"/v1/jobs/{component(arguments.job, 'job')}")
        source = source_words(arguments)
        shown = json.dumps(job, indent=1) if arguments.json else job_text(job, source, width)
        print(shown)
        return int(_is_problem(job))
    return _show_fleet(arguments, ask(arguments, "/v1/jobs")["jobs"], width)


def _show_fleet(arguments: argparse.Namespace, all_jobs: list[dict[str, Any]], width: int) -> int:
    now = time.time()
    choice = Choice(arguments.match, arguments.state, arguments.all)
    jobs, left_out = chosen(all_jobs, choice, now)
    if arguments.json:
        print(json.dumps(jobs, indent=1))
    elif not all_jobs:
        print("no job has reported yet")
    else:
        print(fleet_text(jobs, width, now) if jobs else "no job to show")
        if left_out:
            print(f"\n{left_out_text(left_out)}")
    return int(any(map(_is_problem, jobs)))


def _is_problem(job: dict[str, Any]) -> bool:
    """Return whether a job needs action; without evaluation its number of incidents is unknown."""
    return job["state"] in (QUARANTINED, STALE) or bool(job["open_incidents"])
