"""`python -m tests.bench [name ...]` measures and prints one table; without names, everything."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from stepwatch.cli import text

from . import at_rest, breakdown, codec, demo, detection, device, hooks, ingest, trainer
from .result import Result

BENCHMARKS: dict[str, Callable[[], Iterator[Result]]] = {
    "hooks": hooks.measure,
    "device": device.measure,
    "codec": codec.measure,
    "at-rest": at_rest.measure,
    "ingest": ingest.measure,
    "detection": detection.measure,
    "breakdown": breakdown.measure,
    "demo": demo.measure,
    "trainer": trainer.measure,
}


def machine() -> str:
    """Processor, cores, kernel and versions, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    versions = f"Python {platform.python_version()}, numpy {version('numpy')}"
    return (
        f"{len(models) or '?'} x {processor}, Linux {platform.release()}, {versions}, "
        f"torch {version('torch')}, {datetime.now(UTC):%Y-%m-%d}"
    )


def main(names: list[str]) -> int:
    """Measure and print; returns 2 for an unknown name, else 0: a table is no verdict."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    rows: list[list[str]] = []
    for name in names or BENCHMARKS:
        print(f"measuring {name}", file=sys.stderr)
        rows.extend([*result] for result in BENCHMARKS[name]())
    print(machine())
    print("shared and noisy: read the ratios\n")
    print(
        text.table(["what", "measured", "budget", "beside it, in the same run"], rows, "", left=4)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
