"""Runs scenarios on real processes and compares their verdicts with those of the replay.

Each run adds a line to a file, so a later call continues after the last run.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepwatch.collector.quantities import json_value
from tests import matrices
from tests.verdicts.scenario import results, seeds
from tests.verdicts.scenario.plan import SLOWING
from tests.verdicts.scenario.progress import Progress
from tests.verdicts.scenario.reported.replay import replay
from tests.verdicts.scenario.scored.matching import Matched, brief, match
from tests.verdicts.scenario.truth import cost_of

from .comparison import differences, table
from .scenarios import plan_scenario, truths, way_named
from .site import RealSite
from .ways import NoMeansError, Way


def compare_run(seed: int, way: Way | None, site: RealSite) -> dict[str, Any]:
    """Run one scenario, replay it, and return whether the verdicts agree."""
    plan = plan_scenario(seed, way)
    scenario, wanted = plan.scenario, truths(plan)
    document: dict[str, Any] = {
        "seed": seed,
        "kind": plan.way.kind.value if scenario.faults else "",
        "way": plan.way.name,
        "faults": [str(fault) for fault in scenario.faults],
        "telemetry": str(scenario.telemetry),
    }
    try:
        ran = site.run(plan)
    except NoMeansError as error:
        return {**document, "skipped": str(error)}
    real, replayed = match(wanted, ran.incidents), match(wanted, replay(scenario).incidents)
    slowing = [fault for fault in scenario.faults if fault.kind in SLOWING]
    result: dict[str, Any] = json_value(
        {
            **document,
            "cost": ran.cost if slowing else None,
            "replayed_cost": cost_of(scenario, slowing[0]) if slowing else None,
            "real": _document(real),
            "replay": _document(replayed),
            "differences": differences(real, replayed),
        }
    )
    return result


def _document(matched: Matched) -> dict[str, Any]:
    return {
        "answers": [answer._asdict() for answer in matched.answers],
        "false": [brief(incident) for incident in matched.false],
    }


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verdicts --real",
        description=__doc__,
        epilog="example: python -m tests.verdicts --real 150 --to real.jsonl; a later call with "
        "the same words goes on, --real 0 prints the table of what is there",
    )
    parser.add_argument("--real", type=int, required=True, help="how many runs in all")
    parser.add_argument("--to", type=Path, default=Path("verdicts-real.jsonl"), metavar="FILE")
    parser.add_argument("--seed", type=int, action="append", help="only these")
    parser.add_argument("--way", type=way_named, metavar="KIND/WAY", help="only such faults")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Run the scenarios that the file lacks; return 0, because a table does not fail."""
    options = arguments(words)
    documents = results.read([options.to])
    missing = range(len(documents), options.real)
    chosen = options.seed or [seeds.report_seed() for _ in missing]
    progress = Progress(len(documents), len(documents) + len(chosen), "real runs")
    if chosen:
        try:
            for document in run_all(chosen, options.way):
                documents.append(document)
                results.append(options.to, document)
                print(line(document), flush=True)
                progress.more(1)
        except KeyboardInterrupt:
            print(matrices.INTERRUPTED, file=sys.stderr)
    print(f"\n{table(documents)}")
    return 0


def run_all(chosen: Sequence[int], way: Way | None) -> Iterator[dict[str, Any]]:
    """Run the scenarios one after the other."""
    code = results.code_version()
    with matrices.folders("real", None) as (folder, rings):
        site = RealSite(folder, rings)
        try:
            site.start()
            for seed in chosen:
                yield {**compare_run(seed, way, site), "code": code}
        finally:
            site.close()


def line(document: dict[str, Any]) -> str:
    """Return one run in words."""
    fault = f"{document['kind'] or 'healthy'} by {document['way']}"
    if "skipped" in document:
        return f"{document['seed']}  {fault}: skipped, {document['skipped']}"
    answers = [
        f"{answer['named'] or 'not found'} {_delay_text(answer['seconds'])}".strip()
        for answer in document["real"]["answers"]
    ]
    false = [f"FALSE {incident}" for incident in document["real"]["false"]]
    verdicts = "; ".join([*answers, *false]) or "quiet"
    return (
        f"{document['seed']}  {fault}: {verdicts}  {'; '.join(document['differences']) or 'agrees'}"
    )


def _delay_text(seconds: float | None) -> str:
    return "" if seconds is None or math.isnan(seconds) else f"after {seconds:.0f} s"
