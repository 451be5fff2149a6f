"""`python -m tests.bench [name ...]` measures and prints one table; without names, everything.

`python -m tests.bench peers --peer-ranks 256 --peer-steps 40` is a smaller comparison with peers.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from stepwatch.cli import text

from . import (
    age,
    agent,
    agent_life,
    breakdown,
    checkpoint,
    codec,
    demo,
    detection,
    device,
    fleet,
    history,
    hooks,
    ingest,
    objectives,
    one_job,
    page,
    peers,
    restart,
    rules,
    small_jobs,
    storage,
    streams,
    tabs,
    trainer,
    verbs,
)
from .result import Result

BENCHMARKS: dict[str, Callable[[], Iterator[Result]]] = {
    "hooks": hooks.measure,
    "device": device.measure,
    "codec": codec.measure,
    "at-rest": storage.measure,
    "agent": agent.measure,
    "agent-life": agent_life.measure,
    "ingest": ingest.measure,
    "one-job": one_job.measure,
    "restart": restart.measure,
    "age": age.measure,
    "slos": objectives.measure,
    "rules": rules.measure,
    "fleet": fleet.measure,
    "small-jobs": small_jobs.measure,
    "history": history.measure,
    "streams": streams.measure,
    "tabs": tabs.measure,
    "page": page.measure,
    "detection": detection.measure,
    "breakdown": breakdown.measure,
    "verify": checkpoint.measure,
    "verbs": verbs.measure,
    "demo": demo.measure,
    "trainer": trainer.measure,
    "peers": peers.measure,
}


def machine() -> str:
    """Return processor, cores, kernel and versions in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    versions = f"Python {platform.python_version()}, numpy {version('numpy')}"
    return (
        f"{len(models) or '?'} x {processor}, Linux {platform.release()}, {versions}, "
        f"torch {version('torch')}, {datetime.now(UTC):%Y-%m-%d}"
    )


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure the budgets and print one table."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(BENCHMARKS)} [all]")
    parser.add_argument("--peer-ranks", type=int, default=peers.RANKS, help=f"[{peers.RANKS}]")
    parser.add_argument("--peer-steps", type=int, default=peers.STEPS, help=f"[{peers.STEPS}]")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Measure and print; return 2 for an unknown name, else 0: a table is not a verdict."""
    arguments = _arguments(words)
    names = arguments.names
    chosen: dict[str, Callable[[], Iterator[Result]]] = {
        **BENCHMARKS,
        "peers": partial(peers.measure, arguments.peer_ranks, arguments.peer_steps),
    }
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    rows: list[list[str]] = []
    for name in names or BENCHMARKS:
        print(f"measuring {name}", file=sys.stderr)
        rows.extend([*result] for result in chosen[name]())
    print(machine())
    print("shared and noisy: read the ratios\n")
    print(
        text.table(
            ["what", "measured", "budget", "beside it, in the same run"], rows, "", left_columns=4
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
