"""`python -m tests.verdicts.device.compare` shows the verdicts that the host's clock alone gives.

Each run is evaluated on the devices' clock while it lasts, then again from its stored segments
without the devices' records.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.cli import text
from stepwatch.collector.state.evidence.step_window import Matrix, Window
from stepwatch.collector.step_clocks import DEVICE, HOST
from stepwatch.signals.arrays import Vector
from stepwatch.signals.clock import NANOSECONDS
from tests.verdicts.cases import Case, Draw
from tests.verdicts.device.cases import FAULTY, HEALTHY
from tests.verdicts.device.replay import Replayed, replay
from tests.verdicts.run import Ran, run, stands_alone, verdict
from tests.verdicts.scoring import Verdict
from tests.verdicts.site import Site

COMPARED = (
    "device-slow-clock",
    "device-slow-kernel",
    "device-launch-bound",
    "device-slow-link",
    "device-stuck-kernel",
    "device-absorbed-pauses",
)
SEEDS = (1, 3)
LONGER_SECONDS = 8.0
"""Seconds that a run lasts longer, so that the host's clock has time for its own verdict."""
SHOWN = ("forward", "backward", "collective", "other")
_HEADINGS = ["case", "clock", "named", *SHOWN]


class Compared(NamedTuple):
    """One run, with a replay on the host's clock and one on the devices' clock."""

    ran: Ran
    host: Replayed
    device: Replayed


def compare_clocks(case: Case, site: Site, scratch: Path) -> Compared:
    """Run a case for `LONGER_SECONDS` after its first verdict, then replay it twice."""
    ran = run(case, site, LONGER_SECONDS)
    host, device = (
        replay(
            site.folder / "store.db",
            case.plan.job,
            scratch / f"{case.plan.job}-{name}.db",
            round(ran.looked_at * NANOSECONDS),
            devices=name == DEVICE,
        )
        for name in (HOST, DEVICE)
    )
    return Compared(ran, host, device)


def rows(comparison: Compared) -> list[list[str]]:
    """Return two lines of the table: the host's clock, then the devices'."""
    case = comparison.ran.case
    draw = Draw(case.name, case.seed)
    on_host = [verdict(item) for item in comparison.host.incidents if stands_alone(item)]
    return [
        [
            f"{case.name}, rank {draw.rank}",
            "host",
            name_verdicts(on_host),
            *figures(comparison.host.window, draw),
        ],
        [
            "",
            "device",
            name_verdicts(comparison.ran.outcome.verdicts),
            *figures(comparison.device.window, draw),
        ],
    ]


def figures(window: Window, draw: Draw) -> list[str]:
    """Return each phase's median time since the fault, for the drawn rank and its peers, in ms."""
    since = window.steps >= draw.step
    if not since.any():
        return ["no step"] + [""] * (len(SHOWN) - 1)
    shown = []
    for name in SHOWN:
        plane = window.planes[name][since]
        peers = np.delete(plane, draw.rank, axis=1)
        shown.append(f"{milliseconds(plane[:, draw.rank])}/{milliseconds(peers)}")
    return shown


def milliseconds(seconds: Matrix | Vector) -> str:
    """Return the median of the finite values in milliseconds."""
    finite = seconds[~np.isnan(seconds)]
    return f"{1e3 * np.median(finite):.0f}" if finite.size else "-"


def name_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return the incidents as one line."""
    parts = [
        " ".join(filter(None, (entry.kind, _rank(entry), entry.phase, entry.cause)))
        for entry in sorted(verdicts, key=lambda entry: entry.opened_at)
    ]
    return "; ".join(parts) or "nothing"


def _rank(incident: Verdict) -> str:
    return f"rank {incident.rank}" if incident.rank >= 0 else ""


def main(words: Sequence[str]) -> int:
    """Print the table; return 1 if a run differs from its plan."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts.device.compare")
    makers = FAULTY | HEALTHY
    parser.add_argument("--only", action="append", choices=makers, metavar="CASE")
    parser.add_argument("--seed", type=int, action="append")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="stepwatch-compare-") as directory:
        folder = Path(directory)
        site, comparisons = Site(folder, folder / "rings"), list[Compared]()
        try:
            site.start()
            for name, seed in product(options.only or COMPARED, options.seed or SEEDS):
                case = Case(name, seed, *makers[name](Draw(name, seed)))
                comparisons.append(compare_clocks(case, site, folder))
        finally:
            site.close()
    print(
        text.table(
            _HEADINGS,
            [row for comparison in comparisons for row in rows(comparison)],
            "",
            left_columns=3,
        )
    )
    return 1 if any(comparison.ran.problem for comparison in comparisons) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
