"""`python -m tests.verdicts.device.compare`: what the host's clock alone would have named.

Each run is evaluated as it goes, on the devices' clock, and once more from its stored segments
without what the devices reported.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.cli import text
from stepwatch.collector.state.trackers.step_window import Window
from tests.verdicts.cases import Case, Draw
from tests.verdicts.device.cases import FAULTY
from tests.verdicts.device.replay import Replayed, replay
from tests.verdicts.run import Ran, run, stands_alone, verdict
from tests.verdicts.scoring import Verdict
from tests.verdicts.site import Site

COMPARED = ("device-slow-clock", "device-slow-kernel", "device-launch-bound", "device-slow-link")
SHOWN = ("forward", "backward", "collective", "other")
_HEADINGS = ["case", "clock", *SHOWN, "named"]


class Compared(NamedTuple):
    """One run, and its replay on the host's clock and on the devices'."""

    ran: Ran
    host: Replayed
    device: Replayed


def compared(case: Case, site: Site, scratch: Path) -> Compared:
    """Run a case, then replay it twice."""
    ran = run(case, site)
    stored, job = site.folder / "store.db", case.plan.job
    host = replay(stored, job, scratch / f"{job}-host.db", devices=False)
    return Compared(ran, host, replay(stored, job, scratch / f"{job}-device.db", devices=True))


def rows(found: Compared) -> list[list[str]]:
    """Two lines of the table: the host's clock, then the devices'."""
    case = found.ran.case
    draw = Draw(case.name, case.seed)
    on_host = [verdict(item) for item in found.host.incidents if stands_alone(item)]
    return [
        [
            f"{case.name}, rank {draw.rank}",
            "host",
            *figures(found.host.window, draw),
            named(on_host),
        ],
        ["", "device", *figures(found.device.window, draw), named(found.ran.outcome.verdicts)],
    ]


def figures(window: Window, draw: Draw) -> list[str]:
    """Of each phase the median time of the drawn rank and of its peers since the fault, in ms."""
    since, shown = window.steps >= draw.step, []
    for name in SHOWN:
        medians = np.nanmedian(window.planes[name][since], axis=0)
        peers = np.nanmedian(np.delete(medians, draw.rank))
        shown.append(f"{1e3 * medians[draw.rank]:.0f}/{1e3 * peers:.0f}")
    return shown


def named(verdicts: Sequence[Verdict]) -> str:
    """The incidents in one line."""
    parts = [
        " ".join(filter(None, (one.kind, _rank(one), one.phase, one.cause)))
        for one in sorted(verdicts, key=lambda one: one.opened_at)
    ]
    return "; ".join(parts) or "nothing"


def _rank(one: Verdict) -> str:
    return f"rank {one.rank}" if one.rank >= 0 else ""


def main(words: Sequence[str]) -> int:
    """Print the table; returns 1 if a run was not what its plan describes."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts.device.compare")
    parser.add_argument("--only", action="append", choices=FAULTY, metavar="CASE")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="stepwatch-compare-") as made:
        folder = Path(made)
        site, done = Site(folder, folder / "rings"), list[Compared]()
        try:
            site.start()
            for name in asked.only or COMPARED:
                case = Case(name, asked.seed, *FAULTY[name](Draw(name, asked.seed)))
                done.append(compared(case, site, folder))
        finally:
            site.close()
    print(text.table(_HEADINGS, [row for found in done for row in rows(found)], "", left=2))
    return 1 if any(found.ran.problem for found in done) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
