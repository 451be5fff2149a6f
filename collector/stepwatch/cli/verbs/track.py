"""`stepwatch track`: a job's pace, SLIs and incidents in its run in TensorBoard, MLflow or W&B."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from stepwatch.cli.source import COLLECTOR_HELP, add_access_arguments, ask_as_sent, component
from stepwatch.signals import places
from stepwatch.signals.arguments import positive_seconds
from stepwatch.signals.plain_text import plain_line

EXAMPLE = "stepwatch track llama-7b --to tensorboard:runs/llama-7b"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", help="the job")
    parser.add_argument(
        "--to",
        metavar="RUN",
        help="tensorboard:DIR, mlflow:RUN_ID (MLFLOW_TRACKING_URI) or wandb:ENTITY/PROJECT/RUN "
        "[the run that the trainer opened]",
    )
    parser.add_argument(
        "--every",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="time from one look at the job to the next [10]",
    )
    parser.add_argument("--once", action="store_true", help="write what is new and end")
    parser.add_argument("--collector", default=places.collector_url(), help=COLLECTOR_HELP)
    add_access_arguments(parser)
    parser.set_defaults(store=None)


def run(arguments: argparse.Namespace) -> int:
    """Write into the run until the job ends.

    Raises:
        UsageError: `--to` names no run, or without it, the job does not have one run.
        SourceError: the collector does not answer, with `--once`.
        TargetError: the tracker does not answer, with `--once` or at the start.
    """
    from stepwatch.cli.track.linked import linked_run
    from stepwatch.cli.track.loop import track
    from stepwatch.cli.track.opening import open_target

    job = component(arguments.job, "job")
    ask = partial(ask_as_sent, arguments)
    to = arguments.to
    if to is None:
        to = linked_run(ask(f"/v1/jobs/{job}")["links"])
        print(f"stepwatch: writing into {plain_line(to)}", file=sys.stderr)
    target = open_target(to)
    try:
        track(ask, job, target, arguments.every, once=arguments.once)
    finally:
        target.close()
    return 0
