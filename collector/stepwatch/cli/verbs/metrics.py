"""`stepwatch metrics`: the numbers that a job's trainer recorded, with their curves."""

from __future__ import annotations

import argparse
import json
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.metrics.metrics_text import full_name, metric_text, metrics_text
from stepwatch.cli.source import add_source_arguments, ask, component
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint

EXAMPLE = "stepwatch metrics llama-7b lr"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", help="the job")
    parser.add_argument(
        "name", nargs="?", help="draw this metric, as lr or validation/val_loss; all by default"
    )
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics of a job, or one metric's curve."""
    path = f"/v1/jobs/{component(arguments.job, 'job')}/metrics"
    job: dict[str, Any] = ask(arguments, path)
    width = text.columns() - 2
    metrics = {full_name(metric): metric for metric in job["metrics"]}
    name = arguments.name
    if name is not None and name not in metrics:
        raise UsageError(f"no metric {name!r}; {closest_hint(name, [*metrics])}")
    chosen = [*metrics.values()] if name is None else [metrics[name]]
    if arguments.json:
        print(json.dumps({**job, "metrics": chosen}, indent=1))
    elif name is None:
        print(metrics_text(job, width))
    else:
        print(metric_text(job, chosen[0], width))
    return 0
